use std::io::{self, Seek, Write};

use virtualize::{Format, VirtualStore};

use crate::{
    arguments::{Convert, OutputFormat},
    exit::Failure,
    messages,
};

/// Bytes of output that are held in memory before a temporary file takes them.
const HELD: usize = 64 << 20;

/// `virtualize FILE`.
pub(crate) async fn run(arguments: &Convert) -> Result<(), Failure> {
    let options = arguments.input.options();
    let format = arguments.format();
    usage(arguments.output.as_deref(), arguments.relative, arguments.input.format)?;
    let mut store = virtualize::open(arguments.input.file(), &options).await?;
    messages::warnings(store.name(), store.warnings());
    store.relocate(&arguments.relocation())?;
    match arguments.output.as_deref() {
        #[cfg(feature = "icechunk")]
        Some(target) if arguments.input.format == OutputFormat::Icechunk => {
            let commit = arguments.icechunk.options(store.name());
            self::commit(&store, target, &commit, &options.store).await?;
        }
        Some(target) if format.is_several_files() => {
            let overwrite = arguments.overwrite;
            virtualize::write_folder(&store, format, target, overwrite, &options.store).await?;
        }
        Some(target) if target != "-" => virtualize::write(&store, format, target, &options.store).await?,
        _ => print(&store, format)?,
    }
    if arguments.stats {
        messages::line(&format!("stats: {}: {}", store.name(), store.stats()));
    }
    Ok(())
}

/// Commits to a repository, and prints the lines that open it.
#[cfg(feature = "icechunk")]
pub(crate) async fn commit(
    store: &VirtualStore,
    target: &str,
    options: &virtualize::CommitOptions,
    store_options: &virtualize::StoreOptions,
) -> Result<(), Failure> {
    let done = virtualize::commit(store, target, options, store_options).await?;
    messages::line(&format!(
        "committed {} chunks to {}, snapshot {}",
        done.chunks, options.branch, done.snapshot
    ));
    let mut out = io::stdout().lock();
    Ok(writeln!(out, "{}", done.python)?)
}

/// Refuses arguments that need a place to write to.
pub(crate) fn usage(output: Option<&str>, relative: bool, format: OutputFormat) -> Result<(), Failure> {
    let reason = match output {
        #[cfg(feature = "icechunk")]
        Some(_) if relative && format == OutputFormat::Icechunk => {
            "Icechunk repositories hold absolute urls: --relative cannot be"
        }
        Some(target) if target != "-" => return Ok(()),
        _ if Format::from(format).is_several_files() => {
            "the format is several files: give a folder or prefix with --output"
        }
        _ if relative => "--relative needs a place: give it with --output",
        _ => return Ok(()),
    };
    Err(Failure::Usage(reason.to_owned()))
}

/// Writes to standard output once all is known to be well: references cut off in the middle could pass for whole.
pub(crate) fn print(store: &VirtualStore, format: Format) -> Result<(), Failure> {
    let mut spool = tempfile::SpooledTempFile::new(HELD);
    virtualize::write_to(store, format, &mut spool)?;
    spool.rewind()?;
    let mut out = io::stdout().lock();
    io::copy(&mut spool, &mut out)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
