//! Runs `virtualize batch`.

use std::{fs::File, io, sync::Arc};

use tokio_util::sync::CancellationToken;
use virtualize_archive::{Batch, Summary};

use crate::{archive::progress::Progress, arguments, error::Failure, messages};

/// Runs `virtualize batch INPUT…`.
pub(crate) async fn run(arguments: &arguments::Batch) -> Result<(), Failure> {
    let batch = batch(arguments)?;
    let progress = Arc::new(Progress::new(arguments.quiet, log(arguments.json_log.as_deref())?));
    let shown = Arc::clone(&progress);
    let result = Box::pin(batch.run(move |event| shown.tell(&event))).await;
    progress.finish();
    let summary = result?;
    if !arguments.quiet {
        report(&summary, arguments, &progress);
    }
    report_failures(&summary, arguments);
    if let Some(python) = summary.python.as_deref().filter(|_| arguments.json_log.as_deref() != Some("-")) {
        use io::Write;
        writeln!(io::stdout().lock(), "{python}")?;
    }
    if summary.failed > 0 && arguments.options.batch.each { Err(Failure::Found) } else { Ok(()) }
}

/// Builds the batch that the arguments describe; signals cancel it.
fn batch(arguments: &arguments::Batch) -> Result<Batch, Failure> {
    let target = arguments.target()?;
    let format = target.zarr_format();
    let options = arguments::checked(&arguments.options.source, format)?;
    let mut batch = arguments.options.batch.batch(arguments.output(), target, options);
    batch.command.clone_from(&arguments.command);
    batch.cancel = stopped_by_signals();
    Ok(batch)
}

/// Opens the log of events, as JSON lines.
pub(super) fn log(place: Option<&str>) -> Result<Option<Box<dyn io::Write + Send>>, Failure> {
    match place {
        None => Ok(None),
        Some("-") => Ok(Some(Box::new(io::stdout()))),
        Some(path) => match File::create(path) {
            Ok(file) => Ok(Some(Box::new(io::BufWriter::new(file)))),
            Err(error) => Err(Failure::File { path: path.to_owned(), error }),
        },
    }
}

/// Prints the outcome and possible next steps.
fn report(summary: &Summary, arguments: &arguments::Batch, progress: &Progress) {
    let Summary { files, read, imported, known, failed, seconds, requests, bytes, .. } = summary;
    let imported = if *imported > 0 { format!("{imported} imported, ") } else { String::new() };
    messages::line(&format!(
        "{files} files: {read} read in {seconds:.1} s ({requests} requests, {bytes} bytes), {imported}{known} known before, {failed} failed"
    ));
    for note in summary.notes.iter().filter(|note| !progress.has_note(note)) {
        messages::line(&format!("note: {note}"));
    }
    if let Some(output) = &summary.output {
        let what = if arguments.options.batch.each { "per-file references are in" } else { "written:" };
        messages::line(&format!("{what} {output}; journal: {}", summary.journal));
    }
    if arguments.options.batch.run.dry_run {
        messages::line("dry run: nothing was written");
    }
    if let Some(shard) = arguments.options.batch.run.shard {
        messages::line(&format!("shard {shard} is complete: {}", summary.journal));
    }
}

/// Prints the files that failed: errors, or warnings if the dataset was written without them.
fn report_failures(summary: &Summary, arguments: &arguments::Batch) {
    let severity = if arguments.options.batch.each { "error" } else { "warning" };
    for failure in &summary.failures {
        messages::line(&format!("{severity}: {failure}"));
    }
    if summary.failed > 0 && !arguments.quiet {
        messages::line("hint: to try them again, rerun the same command with --on-failure retry");
    }
}

/// Returns a token that SIGINT and SIGTERM cancel; a second signal ends the process immediately.
pub(super) fn stopped_by_signals() -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        loop {
            signal().await;
            if cancelled.is_cancelled() {
                std::process::exit(130);
            }
            messages::line("stopping; repeat to exit immediately");
            cancelled.cancel();
        }
    });
    token
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    let Ok(mut interrupt) = signal(SignalKind::interrupt()) else { return std::future::pending().await };
    let (one, other) = (Box::pin(terminate.recv()), Box::pin(interrupt.recv()));
    futures::future::select(one, other).await;
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
