use std::io::{self, Seek, Write};

use virtualize::{Format, StoreOptions, VirtualStore, options::OutputFormat};

use crate::{
    arguments::{Output, Usage},
    exit::Failure,
};

/// Bytes of output to hold in memory before it spills to a temporary file.
const HELD: usize = 64 << 20;

/// Rejects output options that do not fit the format.
pub(crate) fn check(output: &Output, format: OutputFormat) -> Result<(), Usage> {
    match output.target.as_deref().filter(|target| *target != "-") {
        #[cfg(feature = "icechunk")]
        Some(_) if output.options.relative && format == OutputFormat::Icechunk => {
            Err(Usage::RelativeRepository)
        }
        Some(_) => Ok(()),
        None if references(format).is_none_or(Format::is_several_files) => Err(Usage::NoFolder),
        None if output.options.relative => Err(Usage::RelativeToNothing),
        None => Ok(()),
    }
}

fn references(format: OutputFormat) -> Option<Format> {
    match format {
        OutputFormat::References(format) => Some(format),
        #[cfg(feature = "icechunk")]
        OutputFormat::Icechunk => None,
    }
}

/// Writes references to the output, or to standard output.
pub(crate) async fn write(
    store: &VirtualStore,
    output: &Output,
    format: OutputFormat,
    options: &StoreOptions,
) -> Result<(), Failure> {
    let target = output.target.as_deref().filter(|target| *target != "-");
    match (format, target) {
        (OutputFormat::References(format), None) => print(store, output.options.format(format))?,
        (OutputFormat::References(format), Some(target)) => {
            let (format, overwrite) = (output.options.format(format), output.options.overwrite);
            virtualize::write_folder(store, format, target, overwrite, options).await?;
        }
        #[cfg(feature = "icechunk")]
        (OutputFormat::Icechunk, target) => {
            commit(store, target.unwrap_or_default(), output, options).await?;
        }
    }
    Ok(())
}

/// Commits to a repository, and prints Python code that opens it.
#[cfg(feature = "icechunk")]
async fn commit(
    store: &VirtualStore,
    target: &str,
    output: &Output,
    options: &StoreOptions,
) -> Result<(), Failure> {
    let commit = output.icechunk.options(store.name());
    let done = virtualize::commit(store, target, &commit, options).await?;
    crate::messages::line(&format!(
        "committed {} chunks to {}, snapshot {}",
        done.chunks, commit.branch, done.snapshot
    ));
    if let Some(note) = done.note() {
        crate::messages::line(&format!("note: {note}"));
    }
    let mut out = io::stdout().lock();
    Ok(writeln!(out, "{}", done.python)?)
}

/// Writes to standard output once the references are complete: a truncated output could pass for a whole one.
fn print(store: &VirtualStore, format: Format) -> Result<(), Failure> {
    let mut spool = tempfile::SpooledTempFile::new(HELD);
    virtualize::write_to(store, format, &mut spool)?;
    spool.rewind()?;
    let mut out = io::stdout().lock();
    io::copy(&mut spool, &mut out)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
