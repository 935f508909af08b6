use std::io::{self, Seek, Write};

use virtualize::{Format, StoreOptions, VirtualStore};

use crate::{
    arguments::{Output, OutputFormat},
    exit::Failure,
};

/// Bytes of output that are held in memory before a temporary file takes them.
const HELD: usize = 64 << 20;

/// Refuses arguments that need a place to write to.
pub(crate) fn check(output: &Output, format: OutputFormat) -> Result<(), Failure> {
    let reason = match output.target.as_deref() {
        #[cfg(feature = "icechunk")]
        Some(_) if output.relative && format == OutputFormat::Icechunk => {
            "Icechunk repositories hold absolute urls: --relative cannot be"
        }
        Some(target) if target != "-" => return Ok(()),
        _ if Format::from(format).is_several_files() => {
            "the format is several files: give a folder or prefix with --output"
        }
        _ if output.relative => "--relative needs a place: give it with --output",
        _ => return Ok(()),
    };
    Err(Failure::Usage(reason.to_owned()))
}

/// Writes references where the arguments say.
pub(crate) async fn write(
    store: &VirtualStore,
    output: &Output,
    format: OutputFormat,
    options: &StoreOptions,
) -> Result<(), Failure> {
    let Some(target) = output.target.as_deref().filter(|target| *target != "-") else {
        return print(store, output.format(format));
    };
    #[cfg(feature = "icechunk")]
    if format == OutputFormat::Icechunk {
        return commit(store, target, output, options).await;
    }
    let format = output.format(format);
    match format.is_several_files() {
        true => virtualize::write_folder(store, format, target, output.overwrite, options).await?,
        false => virtualize::write(store, format, target, options).await?,
    }
    Ok(())
}

/// Commits to a repository, and prints the lines that open it.
#[cfg(feature = "icechunk")]
async fn commit(
    store: &VirtualStore,
    target: &str,
    output: &Output,
    options: &StoreOptions,
) -> Result<(), Failure> {
    let commit = output.icechunk.options(store.name());
    let done = virtualize_archive::commit(store, target, &commit, options).await?;
    crate::messages::line(&format!(
        "committed {} chunks to {}, snapshot {}",
        done.chunks, commit.branch, done.snapshot
    ));
    let mut out = io::stdout().lock();
    Ok(writeln!(out, "{}", done.python)?)
}

/// Writes to standard output once all is known to be well: references cut off in the middle could pass for whole.
fn print(store: &VirtualStore, format: Format) -> Result<(), Failure> {
    let mut spool = tempfile::SpooledTempFile::new(HELD);
    virtualize::write_to(store, format, &mut spool)?;
    spool.rewind()?;
    let mut out = io::stdout().lock();
    io::copy(&mut spool, &mut out)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
