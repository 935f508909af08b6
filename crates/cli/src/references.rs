//! `virtualize FILE`, and the commands for existing references: `convert`, `validate` and `diff`.

use std::io::{self, Seek, Write};

use virtualize::{Format, StoreOptions, VirtualStore, options::OutputFormat, read_references};

use crate::{
    arguments::{Compare, Convert, Output, Target, Translate, Validate},
    error::{Failure, Usage},
    messages::{self, printable},
    reading,
    terminal::json,
};

/// Runs `virtualize FILE`.
pub(crate) async fn write(arguments: &Convert) -> Result<(), Failure> {
    let (format, options) = (arguments.format(), arguments.options()?);
    let (output, target) = (&arguments.options.output, &arguments.target);
    check(output, target, format)?;
    let opening = virtualize::open(arguments.input.file(), &options);
    let mut store = reading::shown(opening, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    if matches!(format, OutputFormat::References(_)) {
        store.compress_inlined();
    }
    store.relocate(&output.write.relocation(target.path()))?;
    write_output(&store, output, target, format, &options.store).await?;
    if !arguments.quiet {
        messages::reader_setup(&store);
    }
    if arguments.stats {
        messages::line(&format!("stats: {}: {}", store.name(), store.stats()));
    }
    Ok(())
}

/// Runs `virtualize convert REFS`.
pub(crate) async fn convert(arguments: &Translate) -> Result<(), Failure> {
    let (output, target) = (&arguments.options.output, &arguments.target);
    let (options, format) = (arguments.options.reading.options(), output.format(target));
    check(output, target, format)?;
    let converted = async {
        let store = read_references(&arguments.references, &options).await?;
        virtualize::convert(store, format.zarr_format(), arguments.options.strict, &options.store).await
    };
    let mut store = reading::shown(converted, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    if format == OutputFormat::Icechunk {
        virtualize::record_sources(&mut store, &options.store).await?;
    }
    store.relocate(&output.write.relocation(target.path()))?;
    write_output(&store, output, target, format, &options.store).await?;
    if !arguments.quiet {
        messages::reader_setup(&store);
    }
    Ok(())
}

/// Runs `virtualize validate REFS`.
pub(crate) async fn validate(arguments: &Validate) -> Result<(), Failure> {
    let options = arguments.options.options();
    let references = read_references(&arguments.references, &options);
    let store = reading::shown(references, &options.store, false).await?;
    messages::warnings(store.name(), store.warnings());
    let validation = virtualize::validate(&store, arguments.sample(), &options);
    let report = reading::shown(validation, &options.store, false).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        json(&report.to_json(), &mut out)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    if report.is_valid() { Ok(()) } else { Err(Failure::Found) }
}

/// Runs `virtualize diff A B`, which compares two reference sets or files.
pub(crate) async fn diff(arguments: &Compare) -> Result<(), Failure> {
    let options = arguments.options.options();
    let (first, second) = (&arguments.first, &arguments.second);
    let comparison = virtualize::compare(first, second, !arguments.ignore_urls, &options);
    let found = reading::shown(comparison, &options.store, false).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for node in &found.nodes {
        writeln!(out, "{}", printable(&node.to_string()))?;
    }
    out.flush()?;
    if found.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

/// Bytes of output to hold in memory before it spills to a temporary file.
const HELD: usize = 64 << 20;

/// Rejects output options that do not fit the format.
fn check(output: &Output, target: &Target, format: OutputFormat) -> Result<(), Usage> {
    if cfg!(not(feature = "full")) && ["icechunk", "kerchunk-parquet"].contains(&format.name()) {
        return Err(Usage::full_build(format.name()));
    }
    output.icechunk.check(format == OutputFormat::Icechunk).map_err(Usage::new)?;
    match target.path() {
        Some(_) if output.write.relative && format == OutputFormat::Icechunk => {
            Err(Usage::new("--relative does not apply to Icechunk repositories, which store absolute URLs"))
        }
        Some(_) => Ok(()),
        None if !matches!(format, OutputFormat::References(format) if !format.is_several_files()) => {
            Err(Usage::new("the format consists of several files: give a folder or prefix with --output"))
        }
        None if output.write.relative => {
            Err(Usage::new("--relative needs an output to be relative to: give --output"))
        }
        None => Ok(()),
    }
}

/// Writes references to the output, or to standard output.
async fn write_output(
    store: &VirtualStore,
    output: &Output,
    target: &Target,
    format: OutputFormat,
    options: &StoreOptions,
) -> Result<(), Failure> {
    match (format, target.path()) {
        (OutputFormat::References(format), None) => print(store, output.write.format(format))?,
        (OutputFormat::References(format), Some(target)) => {
            let (format, overwrite) = (output.write.format(format), output.write.overwrite);
            virtualize::write_folder(store, format, target, overwrite, options).await?;
        }
        #[cfg(feature = "full")]
        (OutputFormat::Icechunk, target) => {
            commit(store, target.unwrap_or_default(), output, options).await?;
        }
        #[cfg(not(feature = "full"))]
        (OutputFormat::Icechunk, _) => return Err(Usage::full_build(format.name()).into()),
    }
    Ok(())
}

/// Commits to a repository, and prints Python code that opens it.
#[cfg(feature = "full")]
async fn commit(
    store: &VirtualStore,
    target: &str,
    output: &Output,
    options: &StoreOptions,
) -> Result<(), Failure> {
    let commit = output.icechunk.options(store.name());
    let done = virtualize::commit(store, target, &commit, options).await?;
    messages::line(&format!(
        "committed {} chunks to {}, snapshot {}",
        done.chunks, commit.branch, done.snapshot
    ));
    if let Some(note) = done.note() {
        messages::line(&format!("note: {note}"));
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
