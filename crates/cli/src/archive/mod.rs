//! Commands for many files: `batch`, `scan` and `journal`.

mod batch;
mod journal;
mod progress;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use virtualize::SideFile;
use virtualize_archive::{Scan as Found, scan_inputs};

pub(crate) use batch::run as batch;
pub(crate) use journal::run as journal;

use crate::{
    arguments::{Arguments, Command, Scan},
    exit::Failure,
    messages::{self, FLAGS},
};
use batch::{log, stopped_by_signals};
use progress::Progress;

/// Adds the command line as given, without secrets, for the journal of a batch to record.
pub(crate) fn with_command_line(mut arguments: Arguments, given: &[OsString]) -> Arguments {
    if let Some(Command::Batch(batch)) = &mut arguments.command {
        batch.command = journal::without_secrets(given);
    }
    arguments
}

/// Runs `virtualize scan INPUT…`.
pub(crate) async fn scan(arguments: &Scan) -> Result<(), Failure> {
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
    if arguments.json {
        json(&found, &mut out)?
    } else {
        found.table(&mut out, FLAGS)?
    }
    out.flush()?;
    for failed in &found.failed {
        messages::line(&format!("error: {}", failed.error));
    }
    let disagrees = arguments.fail_on_mismatch && found.eras.eras().len() > 1;
    if disagrees || !found.failed.is_empty() { Err(Failure::Found) } else { Ok(()) }
}

/// Writes the report to a file, whole or not at all.
fn write(found: &Found, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::File { path: path.display().to_string(), error };
    let mut file = io::BufWriter::new(SideFile::create(path).map_err(virtualize::Error::from)?);
    json(found, &mut file).map_err(failed)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(file.finish().map_err(virtualize::Error::from)?)
}

fn json(found: &Found, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
    writeln!(out)
}
