use std::io::{self, Write};

use virtualize::{ValidationReport, read_references, validate};

use crate::{arguments::Validate, exit::Failure, messages, reading};

/// Runs `virtualize validate REFS`.
pub(crate) async fn run(arguments: &Validate) -> Result<(), Failure> {
    let options = arguments.reading.options();
    let references = read_references(&arguments.references, &options);
    let store = reading::shown(references, &options.store, false).await?;
    messages::warnings(store.name(), store.warnings());
    let validation = validate(&store, arguments.sample(), &options);
    let report = reading::shown(validation, &options.store, false).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => json(&report, &mut out)?,
        false => write!(out, "{report}")?,
    }
    out.flush()?;
    if report.is_valid() { Ok(()) } else { Err(Failure::Found) }
}

fn json(report: &ValidationReport, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &report.to_json())?;
    writeln!(out)
}
