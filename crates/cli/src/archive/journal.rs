use std::{
    ffi::OsString,
    io::{self, Write},
};

use virtualize_archive::{Error, JournalState};

use crate::{
    arguments,
    error::Failure,
    messages::{printable, quoted},
    terminal::json,
};

/// The option that retries failed files.
const ON_FAILURE: &str = "--on-failure";
/// Stands for a value that is not recorded.
const SECRET: &str = "...";
/// The option whose values may be secrets.
const STORE_OPTION: &str = "--store-option";

/// Runs `virtualize journal FILE`.
pub(crate) fn run(arguments: &arguments::Journal) -> Result<(), Failure> {
    let state = JournalState::read(&arguments.path).map_err(Error::from)?;
    let next = Next::of(&state);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        let mut document = serde_json::json!(state);
        if let Some(document) = document.as_object_mut() {
            let next = serde_json::json!({ "why": next.why, "command": next.command });
            document.insert("next".to_owned(), next);
        }
        json(&document, &mut out)?;
    } else {
        text(&state, &next, &mut out)?;
    }
    Ok(out.flush()?)
}

/// What to do next.
struct Next {
    /// What there is to do; `None` if nothing is.
    why: Option<String>,
    /// The command, if the journal knows it.
    command: Option<String>,
}

impl Next {
    fn of(state: &JournalState) -> Self {
        let unfinished = state.outputs.iter().any(|output| output.unfinished);
        let (why, retries) = match state {
            JournalState { pending: 1.., .. } => (format!("read {}", files(state.pending)), false),
            JournalState { failed: 1.., .. } => (format!("retry {}", files(state.failed)), true),
            JournalState { unwritten: 1.., shard: None, .. } if unfinished || state.outputs.is_empty() => {
                ("write the output".to_owned(), false)
            }
            _ => return Self { why: None, command: None },
        };
        let command = state.command.as_ref().map(|arguments| repeated(arguments, retries));
        let why = match (&command, retries) {
            (None, true) => format!("{why}: the same command with {ON_FAILURE} retry"),
            (None, false) => format!("{why}: the same command"),
            _ => why,
        };
        Self { why: Some(why), command }
    }
}

/// Returns the command to run again, without the option that would discard the journal.
fn repeated(arguments: &[String], retries: bool) -> String {
    let mut kept = Vec::new();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--restart" => {}
            ON_FAILURE if retries => drop(arguments.next()),
            argument if retries && argument.starts_with("--on-failure=") => {}
            argument => kept.push(argument),
        }
    }
    if retries {
        kept.extend([ON_FAILURE, "retry"]);
    }
    kept.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn text(state: &JournalState, next: &Next, out: &mut impl Write) -> io::Result<()> {
    let JournalState { runs, files, read, failed, pending, unwritten, .. } = state;
    writeln!(out, "files: {files} listed, {read} read, {failed} failed, {pending} to read")?;
    writeln!(out, "runs: {runs}")?;
    for output in &state.outputs {
        let url = printable(&output.url);
        match (&output.written, output.unfinished) {
            (_, true) => writeln!(out, "output: {url}, a run was stopped while it was published")?,
            (Some(time), false) => writeln!(out, "output: {url}, written {time}")?,
            (None, false) => writeln!(out, "output: {url}, not written")?,
        }
    }
    if *unwritten > 0 {
        writeln!(out, "in no output: {}", self::files(*unwritten))?;
    }
    if let Some(shard) = &state.shard {
        writeln!(out, "shard: {shard}")?;
    }
    for failure in &state.failures {
        writeln!(out, "failed ({}): {}", failure.class, self::files(failure.files))?;
        for message in &failure.first {
            writeln!(out, "  {}", printable(message))?;
        }
    }
    for (name, value) in &state.options {
        writeln!(out, "option {name}: {}", printable(value))?;
    }
    match (&next.why, &next.command) {
        (Some(why), Some(command)) => {
            writeln!(out, "next: {why}")?;
            writeln!(out, "  {}", printable(command))
        }
        (Some(why), None) => writeln!(out, "next: {why}"),
        (None, _) => writeln!(out, "next: nothing"),
    }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// Returns the arguments with secrets replaced: values of options that may be secret, user names and passwords in URLs,
/// and signatures in queries.
pub(crate) fn without_secrets(arguments: &[OsString]) -> Vec<String> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut is_secret = false;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let value = argument.strip_prefix(STORE_OPTION);
        kept.push(match value {
            _ if is_secret => SECRET.to_owned(),
            Some(value) if value.starts_with('=') => format!("{STORE_OPTION}={SECRET}"),
            _ => without_password(&without_token(&argument)),
        });
        is_secret = !is_secret && value == Some("");
    }
    kept
}

/// Replaces the values of `--option bearer-token=VALUE` and `--option store=VALUE`.
fn without_token(argument: &str) -> String {
    let starts = ["bearer-token=", "bearer_token=", "store=", "stores="];
    let end = starts.iter().find_map(|name| argument.find(name).map(|at| at + name.len()));
    let kept = end.and_then(|end| argument.get(..end));
    kept.map_or_else(|| argument.to_owned(), |kept| format!("{kept}{SECRET}"))
}

fn without_password(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let host_ends = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_ends);
    let host = match host.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("{SECRET}@{host}"),
        _ => host.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, _)) if scheme.ends_with("http") || scheme.ends_with("https") => {
            format!("{path}?{SECRET}")
        }
        _ => path.to_owned(),
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_recorded() {
        let given = [
            "virtualize",
            "batch",
            "https://u:p@h/a.nc?X-Amz-Signature=s",
            "s3://b/a?.nc",
            "--option",
            "bearer-token=t",
            "--option=bearer_token=t",
            "--option=stores={}",
            "--store-option",
            "--aws_secret=s",
            "--store-option=k=s",
            "-o",
            "abfs://c@h/x",
            "--endpoint=http://u:p@h",
        ];
        let kept = without_secrets(&given.map(OsString::from));
        let expected = [
            "virtualize",
            "batch",
            "https://...@h/a.nc?...",
            "s3://b/a?.nc",
            "--option",
            "bearer-token=...",
            "--option=bearer_token=...",
            "--option=stores=...",
            "--store-option",
            "...",
            "--store-option=...",
            "-o",
            "abfs://c@h/x",
            "--endpoint=http://...@h",
        ];
        assert_eq!(kept, expected);
    }
}
