use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use virtualize::SideFile;
use virtualize_archive::{Scan, scan_inputs};

use crate::{
    archive::batch::{log, stopped_by_signals},
    archive::progress::Progress,
    arguments,
    error::Failure,
    messages::{self, FLAGS},
};

/// Runs `virtualize scan INPUT…`.
pub(crate) async fn run(arguments: &arguments::Scan) -> Result<(), Failure> {
    let progress = Arc::new(Progress::of_scan(arguments.quiet, log(arguments.json_log.as_deref())?));
    let told = Arc::clone(&progress);
    let options = arguments.options(stopped_by_signals());
    let found = scan_inputs(arguments.inputs(), &options, move |event| told.tell(&event)).await;
    progress.finish();
    let found = found?;
    if let Some(path) = &arguments.output {
        write(&found, path)?;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => json(&found, &mut out)?,
        false => found.table(&mut out, FLAGS)?,
    }
    out.flush()?;
    for failed in &found.failed {
        messages::line(&format!("error: {}", failed.error));
    }
    let disagrees = arguments.fail_on_mismatch && found.eras.eras().len() > 1;
    if disagrees || !found.failed.is_empty() { Err(Failure::Found) } else { Ok(()) }
}

/// Writes the report to a file, whole or not at all.
fn write(found: &Scan, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::File { path: path.display().to_string(), error };
    let mut file = io::BufWriter::new(SideFile::create(path).map_err(virtualize::Error::from)?);
    json(found, &mut file).map_err(failed)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(file.finish().map_err(virtualize::Error::from)?)
}

fn json(found: &Scan, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
    writeln!(out)
}
