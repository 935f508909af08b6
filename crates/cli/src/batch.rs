use std::{fs::File, io, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use virtualize_archive::{Batch, Summary};

use crate::{arguments, exit::Failure, messages, progress::Progress};

/// `virtualize batch INPUT…`.
pub(crate) async fn run(arguments: &arguments::Batch) -> Result<(), Failure> {
    let batch = batch(arguments)?;
    let progress = Arc::new(Progress::new(arguments.run.quiet, log(arguments.run.json_log.as_deref())?));
    let told = Arc::clone(&progress);
    let result = batch.run(move |event| told.tell(&event)).await;
    progress.finish();
    let summary = result?;
    if !arguments.run.quiet {
        say(&summary, arguments);
    }
    if let Some(python) = summary.python.as_deref().filter(|_| arguments.run.json_log.as_deref() != Some("-"))
    {
        use io::Write;
        writeln!(io::stdout().lock(), "{python}")?;
    }
    if summary.failed > 0 && arguments.each { Err(Failure::Found) } else { Ok(()) }
}

/// What is to be done.
fn batch(arguments: &arguments::Batch) -> Result<Batch, Failure> {
    let target = arguments.target().map_err(Failure::Usage)?;
    let format = target.zarr_format();
    if let Some(problem) = arguments.mapping.conflict(format) {
        return Err(Failure::Usage(problem.to_owned()));
    }
    let run = &arguments.run;
    let options = arguments.mapping.options(format);
    let mut builder = Batch::builder(&arguments.output)
        .inputs(arguments.files.inputs())
        .filter(arguments.files.filter())
        .assets(arguments.files.assets())
        .target(target)
        .layout(arguments.layout())
        .plan(arguments.plan())
        .overwrite(arguments.overwrite)
        .relocation(arguments.relocation())
        .files_at_once(options.store.concurrency)
        .options(options)
        .attempts(u32::try_from(run.attempts).unwrap_or(u32::MAX), Duration::from_secs(1))
        .retry_failed(run.retry_failed)
        .max_failures(run.max_failures)
        .skip_failed(run.skip_failed)
        .append(run.append)
        .drop_vanished(run.drop_vanished)
        .drop_unwritten(run.drop_unwritten)
        .reread_changed(run.reread_changed)
        .recheck(!run.no_recheck)
        .restart(run.restart)
        .cancel(stopped_by_signals());
    if arguments.each {
        builder = builder.each();
    }
    if let Some(journal) = &run.journal {
        builder = builder.journal(journal);
    }
    Ok(builder.build())
}

/// Where what happens is written as lines of JSON.
pub(crate) fn log(place: Option<&str>) -> Result<Option<Box<dyn io::Write + Send>>, Failure> {
    match place {
        None => Ok(None),
        Some("-") => Ok(Some(Box::new(io::stdout()))),
        Some(path) => match File::create(path) {
            Ok(file) => Ok(Some(Box::new(io::BufWriter::new(file)))),
            Err(error) => Err(Failure::Usage(format!("{path}: {error}"))),
        },
    }
}

/// What came of it, and what may be done next.
fn say(summary: &Summary, arguments: &arguments::Batch) {
    let Summary { files, read, known, failed, seconds, requests, bytes, .. } = summary;
    messages::line(&format!(
        "{files} files: {read} read in {seconds:.1} s ({requests} requests, {bytes} bytes), {known} known before, {failed} failed"
    ));
    for note in &summary.notes {
        messages::line(&format!("note: {note}"));
    }
    for failure in &summary.failures {
        messages::line(&format!("failed: {failure}"));
    }
    if *failed > 0 {
        messages::line("try them again: the same command with --retry-failed");
    }
    if let Some(output) = &summary.output {
        let what = if arguments.each { "references of each file are in" } else { "written:" };
        messages::line(&format!("{what} {output}; journal: {}", summary.journal));
    }
}

/// Cancelled by Ctrl-C or a request to end; the second one ends at once.
pub(crate) fn stopped_by_signals() -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        loop {
            signal().await;
            if cancelled.is_cancelled() {
                std::process::exit(130);
            }
            messages::line("stopping; once more to end at once");
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
