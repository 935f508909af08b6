use std::io::{self, Write};
use std::sync::Arc;

use virtualize_archive::{Scan, scan_inputs};

use crate::{
    archive::batch::{log, stopped_by_signals},
    archive::progress::Progress,
    arguments,
    exit::Failure,
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
        let failed = |error: io::Error| Failure::File { path: path.display().to_string(), error };
        let mut file = io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        json(&found, &mut file).and_then(|()| file.flush()).map_err(failed)?;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => json(&found, &mut out)?,
        false => found.table(&mut out, FLAGS)?,
    }
    out.flush()?;
    for failed in &found.failed {
        messages::line(&format!("failed: {}", failed.error));
    }
    let disagrees = arguments.fail_on_mismatch && found.eras.eras().len() > 1;
    if disagrees || !found.failed.is_empty() { Err(Failure::Found) } else { Ok(()) }
}

fn json(found: &Scan, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
    writeln!(out)
}
