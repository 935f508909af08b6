//! Commands for many files: `batch`, `scan` and `journal`.

mod journal;
mod progress;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use tokio_util::sync::CancellationToken;
use virtualize::{OptionName, SideFile, check_is_json};
use virtualize_archive::{Along, NamePattern, Proposal, Scan as Found, Summary, scan_inputs};

pub(crate) use journal::{run as journal, without_secrets};

use crate::{
    arguments::{self, Batch, Scan},
    error::{Failure, Usage},
    messages::{self, FLAGS, quoted},
    terminal::json,
};
use progress::Progress;

/// Shorthands for one rule of `--var` or one source of `--coord`, with what precedes and follows the name.
const SHORTHANDS: [(&str, &str, &str); 7] = [
    ("--concat-var", "", "=vary"),
    ("--assume-equal", "", "=first"),
    ("--optional-var", "", "=optional"),
    ("--drop-var", "", "=drop"),
    ("--coord-from-attribute", "attribute:", ""),
    ("--coord-from-property", "property:", ""),
    ("--coord-from-name", "name:", ""),
];

/// Replaces shorthands: `--drop-var x` by `--var x=drop`, `--coord-from-name a{time:%Y}.nc` by
/// `--coord time=name:a{time:%Y}.nc`.
pub(crate) fn without_shorthands(given: &[OsString]) -> Vec<OsString> {
    let mut replaced = Vec::with_capacity(given.len());
    let mut given = given.iter();
    while let Some(argument) = given.next() {
        let text = argument.to_str().unwrap_or_default();
        let (option, value) =
            text.split_once('=').map_or((text, None), |(option, value)| (option, Some(value)));
        let Some((_, prefix, suffix)) = SHORTHANDS.iter().find(|(name, ..)| *name == option) else {
            replaced.push(argument.clone());
            continue;
        };
        let value = value.or_else(|| given.next()?.to_str()).unwrap_or_default();
        let rule = match (*prefix, value.split_once('=')) {
            ("", _) => format!("{value}{suffix}"),
            ("name:", _) => {
                let names = NamePattern::new(value).map(|pattern| pattern.names().join(","));
                format!("{}=name:{value}", names.unwrap_or_default())
            }
            (_, Some((dimension, name))) => format!("{dimension}={prefix}{name}"),
            (_, None) => value.to_owned(),
        };
        let option = if prefix.is_empty() { "--var" } else { "--coord" };
        replaced.extend([option.into(), rule.into()]);
    }
    replaced
}

/// Runs `virtualize batch INPUT…`.
pub(crate) async fn batch(arguments: &Batch) -> Result<(), Failure> {
    let target = arguments.target()?;
    let options = arguments::checked(&arguments.options.source, target.zarr_format())?;
    let mut batch = arguments.options.batch.batch(arguments.output(), target, options);
    if let Some(log) = arguments.json_log.as_deref()
        && (batch.journal_path() == Path::new(log) || Path::new(&arguments.output()) == Path::new(log))
    {
        return Err(Usage::new(format!("{log}: the log cannot be the output or the journal")).into());
    }
    batch.command.clone_from(&arguments.command);
    batch.cancel = stopped_by_signals();
    let progress = Arc::new(Progress::new(false, arguments.quiet, log(arguments.json_log.as_deref())?));
    let shown = Arc::clone(&progress);
    let result = Box::pin(batch.run(move |event| shown.tell(&event))).await;
    progress.finish();
    let summary = result?;
    if !arguments.quiet {
        report(&summary, arguments, &progress);
    }
    // Files that failed: errors, or warnings if the dataset was written without them.
    let severity = if arguments.options.batch.each { "error" } else { "warning" };
    for failure in &summary.failures {
        messages::line(&format!("{severity}: {failure}"));
    }
    if summary.failed > 0 && !arguments.quiet {
        messages::line("hint: to try them again, rerun the same command with --on-failure retry");
    }
    if let Some(python) = summary.python.as_deref().filter(|_| arguments.json_log.as_deref() != Some("-")) {
        writeln!(io::stdout().lock(), "{python}")?;
    }
    if summary.failed > 0 && arguments.options.batch.each { Err(Failure::Found) } else { Ok(()) }
}

/// Opens the log of events, as JSON lines.
fn log(place: Option<&str>) -> Result<Option<Box<dyn io::Write + Send>>, Failure> {
    match place {
        None => Ok(None),
        Some("-") => Ok(Some(Box::new(io::stdout()))),
        Some(path) => {
            check_is_json(Path::new(path)).map_err(virtualize::Error::from)?;
            match File::create(path) {
                Ok(file) => Ok(Some(Box::new(io::BufWriter::new(file)))),
                Err(error) => Err(Failure::File { path: path.to_owned(), error }),
            }
        }
    }
}

/// Prints the outcome and possible next steps.
fn report(summary: &Summary, arguments: &Batch, progress: &Progress) {
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

/// Returns a token that SIGINT and SIGTERM cancel; a second signal ends the process immediately.
fn stopped_by_signals() -> CancellationToken {
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

/// Runs `virtualize scan INPUT…`.
pub(crate) async fn scan(arguments: &Scan) -> Result<(), Failure> {
    let progress = Arc::new(Progress::new(true, arguments.quiet, log(arguments.json_log.as_deref())?));
    let listener = Arc::clone(&progress);
    let options = arguments.options(stopped_by_signals());
    let found = scan_inputs(arguments.inputs(), &options, move |event| listener.tell(&event)).await;
    progress.finish();
    let found = found?;
    if let Some(path) = &arguments.output {
        write(&found, path)?;
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        json(&found.to_json(), &mut out)?
    } else {
        found.table(&mut out, FLAGS)?;
        if let Some(proposal) = &found.proposal {
            let heading = proposal.heading();
            let heading = match found.failed.as_slice() {
                [] => heading,
                _ => heading.replace("all files", "all readable files"),
            };
            let command = batch_command(&arguments.command, &found, proposal);
            writeln!(out, "\n{heading}:\n  {command}")?;
        }
    }
    out.flush()?;
    for failed in &found.failed {
        messages::line(&format!("error: {}", failed.error));
    }
    let disagrees = arguments.fail_on_mismatch && found.sets.sets().len() > 1;
    if disagrees || !found.failed.is_empty() { Err(Failure::Found) } else { Ok(()) }
}

/// Returns the command that combines the files of a scan.
fn batch_command(scan: &[String], found: &Found, proposal: &Proposal) -> String {
    let mut words = vec!["virtualize".to_owned(), "batch".to_owned()];
    let mut given = scan.iter().skip(1).skip_while(|word| *word != "scan").skip(1);
    while let Some(word) = given.next() {
        match word.split('=').next().unwrap_or_default() {
            "--sample" | "--json-log" | "-o" | "--output" => {
                if !word.contains('=') {
                    given.next();
                }
            }
            "--json" | "-q" | "--quiet" | "--fail-on-mismatch" => {}
            _ => words.push(quoted(word)),
        }
    }
    if found.is_guessed {
        let dimensions = found.layout.along.iter().map(Along::name);
        words.extend(dimensions.filter_map(|name| (FLAGS.0)(OptionName::ConcatDim, Some(name))));
    }
    let options = proposal.options.iter();
    words.extend(options.filter_map(|(option, value)| (FLAGS.0)(*option, value.as_deref())));
    if !found.failed.is_empty() {
        words.extend((FLAGS.0)(OptionName::OnFailure, Some("skip")));
    }
    words.extend(["-o".to_owned(), "archive.parquet".to_owned()]);
    words.join(" ")
}

/// Writes the report to a file, whole or not at all.
fn write(found: &Found, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::File { path: path.display().to_string(), error };
    let mut file = io::BufWriter::new(SideFile::create(path).map_err(virtualize::Error::from)?);
    json(&found.to_json(), &mut file).map_err(failed)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(file.finish().map_err(virtualize::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorthands_are_rules() {
        let given = "batch --drop-var a --concat-var=b --optional-var c --assume-equal d --coord-from-attribute time=date \
                     --coord-from-name a_{time:%Y}.nc -o out.json";
        let given: Vec<OsString> = given.split_whitespace().map(Into::into).collect();
        let expected = "batch --var a=drop --var b=vary --var c=optional --var d=first --coord time=attribute:date \
                        --coord time=name:a_{time:%Y}.nc -o out.json";
        assert_eq!(without_shorthands(&given), expected.split_whitespace().collect::<Vec<_>>());
    }
}
