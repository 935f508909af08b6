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

use virtualize::{OptionName, SideFile};
use virtualize_archive::{Along, NamePattern, Proposal, Scan as Found, scan_inputs};

pub(crate) use batch::run as batch;
pub(crate) use journal::run as journal;

use crate::{
    arguments::{Arguments, Command, Scan},
    error::Failure,
    messages::{self, FLAGS, quoted},
};
use batch::{log, stopped_by_signals};
use progress::Progress;

/// Adds the command line as given, without secrets, for the journal of a batch to record.
pub(crate) fn with_command_line(mut arguments: Arguments, given: &[OsString]) -> Arguments {
    match &mut arguments.command {
        Some(Command::Batch(batch)) => batch.command = journal::without_secrets(given),
        Some(Command::Scan(scan)) => scan.command = journal::without_secrets(given),
        _ => {}
    }
    arguments
}

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

/// Runs `virtualize scan INPUT…`.
pub(crate) async fn scan(arguments: &Scan) -> Result<(), Failure> {
    let progress = Arc::new(Progress::of_scan(arguments.quiet, log(arguments.json_log.as_deref())?));
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
        json(&found, &mut out)?
    } else {
        found.table(&mut out, FLAGS)?;
        if let Some(proposal) = &found.proposal {
            let heading = proposal.heading();
            writeln!(
                out,
                "\n{}:\n  {}",
                if found.failed.is_empty() {
                    heading
                } else {
                    heading.replace("all files", "all readable files")
                },
                batch_command(&arguments.command, &found, proposal)
            )?;
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
    json(found, &mut file).map_err(failed)?;
    let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(file.finish().map_err(virtualize::Error::from)?)
}

fn json(found: &Found, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &found.to_json())?;
    writeln!(out)
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
