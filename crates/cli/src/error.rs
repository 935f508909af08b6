//! Why the command fails, and its exit status.

use std::{ffi::OsString, io, path::Path};

use clap::{
    Command,
    error::{ContextKind, ErrorKind},
};
use virtualize::{Code, Error, ErrorClass};
use virtualize_remedy::{alternatives, similar};

use crate::messages;

/// Why the command exits with a status other than 0.
pub(crate) enum Failure {
    /// The arguments cannot be parsed, or ask for help.
    Parse(clap::Error),
    /// A file cannot be read or written.
    Library(Error),
    /// A batch or scan failed.
    #[cfg(feature = "full")]
    Archive(virtualize_archive::Error),
    /// The arguments cannot be carried out.
    Usage(Usage),
    /// The service does not respond.
    #[cfg(feature = "full")]
    NotReady(virtualize_server::ConfigError),
    /// A file of the command's own, such as a log, cannot be written.
    File {
        /// Path of the file, or a URL.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// The report, which is already printed, contains differences or problems.
    Found,
    /// Standard output cannot be written.
    Output(io::Error),
}

/// Reason why arguments cannot be carried out as given.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl Usage {
    pub(crate) fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }

    /// Error of a build that lacks a command or format.
    pub(crate) fn full_build(name: &str) -> Self {
        Self(format!(
            "{name}: not in this build, but in that of `make build` and `make install` (cargo feature `full`)"
        ))
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Parse(error)
    }
}

impl From<Usage> for Failure {
    fn from(usage: Usage) -> Self {
        Self::Usage(usage)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

#[cfg(feature = "full")]
impl From<virtualize_archive::Error> for Failure {
    fn from(error: virtualize_archive::Error) -> Self {
        match error {
            virtualize_archive::Error::File(error) => Self::Library(error),
            other => Self::Archive(other),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Prints the error, if any, and returns the exit status: 0 success, 1 failure, 2 wrong usage. A closed pipe (`| head`) is
/// not an error.
pub(crate) fn status(result: Result<(), Failure>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(Failure::Parse(error)) => {
            // `--help` and `--version` are errors, too, with status 0. A closed pipe is not an error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
        Err(Failure::Library(error)) => match error.class() {
            ErrorClass::BrokenPipe => 0,
            ErrorClass::Usage => report(&error, 2),
            _ => report(&error, 1),
        },
        #[cfg(feature = "full")]
        Err(Failure::Archive(error)) => {
            messages::line(&format!("error: {}", error.render(messages::FLAGS)));
            if error.class() == ErrorClass::Usage { 2 } else { 1 }
        }
        Err(Failure::Usage(Usage(reason))) => {
            messages::line(&format!("error: {reason} [{}]", Code::Usage));
            2
        }
        #[cfg(feature = "full")]
        Err(Failure::NotReady(error)) => {
            messages::line(&format!("error: {error} [{}]", Code::NotReady));
            1
        }
        Err(Failure::File { path, error }) => {
            messages::line(&format!("error: {path}: {error} [{}]", Code::OutputFailed));
            1
        }
        Err(Failure::Found) => 1,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Output(error)) => {
            messages::line(&format!("error: standard output: {error} [{}]", Code::OutputFailed));
            1
        }
    }
}

/// Prints an error and returns its exit status.
fn report(error: &Error, status: u8) -> u8 {
    messages::error(error);
    status
}

/// Refuses arguments that are not UTF-8, such as names of files in other encodings.
pub(crate) fn check_text(given: &[OsString]) -> Result<(), Usage> {
    let Some(argument) = given.iter().skip(1).find(|argument| argument.to_str().is_none()) else {
        return Ok(());
    };
    let bytes = argument.as_encoded_bytes();
    let chunks =
        bytes.utf8_chunks().map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii()));
    let argument: String = chunks.collect();
    Err(Usage(format!(
        "{argument}: the argument is not UTF-8, but urls in references are: rename the file, or make a symbolic link to it"
    )))
}

/// Refuses a first argument that is neither a command, an option, nor a file, and looks like a command.
pub(crate) fn check_command(command: &Command, given: &[OsString]) -> Result<(), Usage> {
    let Some(first) = given.get(1).and_then(|first| first.to_str()) else { return Ok(()) };
    let is_word = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_alphabetic());
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let commands: Vec<_> = commands.map(Command::get_name).chain(["help"]).collect();
    if cfg!(not(feature = "full")) && ["batch", "journal", "scan", "serve"].contains(&first) {
        return Err(Usage::full_build(first));
    }
    if !is_word || command.find_subcommand(first).is_some() || first == "help" || Path::new(first).exists() {
        return Ok(());
    }
    let is_alone = given.get(2).is_none_or(|next| next.to_string_lossy().starts_with('-'));
    if is_alone && similar(first, commands.iter().copied()).is_none() {
        // A file that does not exist.
        return Ok(());
    }
    let existing = alternatives("commands", first, commands);
    Err(Usage(format!("{first}: neither a file nor a command{existing}")))
}

/// Replaces the error for several files, which names the second one as a command.
pub(crate) fn explain(error: clap::Error) -> Failure {
    let is_of_commands = error.get(ContextKind::InvalidSubcommand).is_some();
    if error.kind() == ErrorKind::ArgumentConflict && is_of_commands {
        Usage::new("expected one FILE (use `virtualize batch` for several files)").into()
    } else {
        error.into()
    }
}
