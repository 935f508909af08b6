//! Why the command fails, and its exit status.

use std::{ffi::OsString, io, path::Path};

use clap::{
    Command,
    error::{ContextKind, ErrorKind},
};
use virtualize::{Code, Error, ErrorClass};
use virtualize_remedy::{alternatives, similar};

use crate::messages::{self, FLAGS};

/// Why the command exits with a status other than 0.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments cannot be parsed, or ask for help.
    #[error(transparent)]
    Parse(#[from] clap::Error),
    /// A file cannot be read or written.
    #[error("{}", .0.render(FLAGS))]
    Library(#[from] Error),
    /// A batch or scan failed.
    #[cfg(feature = "full")]
    #[error("{}", .0.render(FLAGS))]
    Archive(virtualize_archive::Error),
    /// The arguments cannot be carried out.
    #[error("{0} [{code}]", code = Code::Usage)]
    Usage(#[from] Usage),
    /// The service does not respond.
    #[cfg(feature = "full")]
    #[error("{0} [{code}]", code = Code::NotReady)]
    NotReady(virtualize_server::ConfigError),
    /// A file of the command's own, such as a log, cannot be written.
    #[error("{path}: {error} [{code}]", code = Code::OutputFailed)]
    File {
        /// Path of the file, or a URL.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// The report, which is already printed, contains differences or problems.
    #[error("found differences or problems")]
    Found,
    /// Standard output cannot be written.
    #[error("standard output: {0} [{code}]", code = Code::OutputFailed)]
    Output(#[from] io::Error),
}

/// Reason why arguments cannot be carried out as given.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
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

#[cfg(feature = "full")]
impl From<virtualize_archive::Error> for Failure {
    fn from(error: virtualize_archive::Error) -> Self {
        match error {
            virtualize_archive::Error::File(error) => Self::Library(error),
            other => Self::Archive(other),
        }
    }
}

/// Prints the error, if any, and returns the exit status: 0 success, 1 failure, 2 wrong usage. A closed pipe (`| head`) is
/// not an error.
pub(crate) fn status(result: Result<(), Failure>) -> u8 {
    let Err(failure) = result else { return 0 };
    let class = match &failure {
        Failure::Parse(error) => {
            // `--help` and `--version` are errors, too, with status 0.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
        Failure::Found => return 1,
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return 0,
        Failure::Library(error) => error.class(),
        #[cfg(feature = "full")]
        Failure::Archive(error) => error.class(),
        Failure::Usage(_) => ErrorClass::Usage,
        _ => ErrorClass::File,
    };
    match &failure {
        Failure::Library(_) if class == ErrorClass::BrokenPipe => return 0,
        Failure::Library(error) => messages::error(error),
        failure => messages::line(&format!("error: {failure}")),
    }
    if class == ErrorClass::Usage { 2 } else { 1 }
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
