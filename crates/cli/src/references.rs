//! `virtualize FILE`, and the commands for existing references: `convert`, `validate` and `diff`.

use std::io::{self, Write};

use virtualize::{options::OutputFormat, read_references};

use crate::{
    arguments::{Compare, Convert, Translate, Validate},
    error::Failure,
    messages::{self, printable},
    output, reading,
};

/// Runs `virtualize FILE`.
pub(crate) async fn write(arguments: &Convert) -> Result<(), Failure> {
    let (format, options) = (arguments.format(), arguments.options()?);
    let (output, target) = (&arguments.options.output, &arguments.target);
    output::check(output, target, format)?;
    let opening = virtualize::open(arguments.input.file(), &options);
    let mut store = reading::shown(opening, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    if matches!(format, OutputFormat::References(_)) {
        store.compress_inlined();
    }
    store.relocate(&output.write.relocation(target.path()))?;
    output::write(&store, output, target, format, &options.store).await?;
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
    output::check(output, target, format)?;
    let converted = async {
        let store = read_references(&arguments.references, &options).await?;
        virtualize::convert(store, format.zarr_format(), arguments.options.strict, &options.store).await
    };
    let mut store = reading::shown(converted, &options.store, arguments.quiet).await?;
    if !arguments.quiet {
        messages::warnings(store.name(), store.warnings());
    }
    #[cfg(feature = "icechunk")]
    if format == OutputFormat::Icechunk {
        virtualize::record_sources(&mut store, &options.store).await?;
    }
    store.relocate(&output.write.relocation(target.path()))?;
    output::write(&store, output, target, format, &options.store).await?;
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
        serde_json::to_writer_pretty(&mut out, &report.to_json()).map_err(io::Error::from)?;
        writeln!(out)?;
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
