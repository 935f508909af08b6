//! Why the command fails, and its exit status.

use std::io;

use virtualize::{Code, Error, ErrorClass};

use crate::messages;

/// Why the command exits with a status other than 0.
pub(crate) enum Failure {
    /// The arguments cannot be parsed, or ask for help.
    Parse(clap::Error),
    /// A file cannot be read or written.
    Library(Error),
    /// A batch or scan failed.
    #[cfg(feature = "archive")]
    Archive(virtualize_archive::Error),
    /// The arguments cannot be carried out.
    Usage(Usage),
    /// The service does not respond.
    #[cfg(feature = "serve")]
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

/// Arguments that cannot be carried out as given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Usage {
    #[error("{name}: neither a file nor a command{existing}")]
    NoCommand { name: String, existing: String },
    #[error(
        "{argument}: the argument is not UTF-8, but urls in references are: rename the file, or make a symbolic link to it"
    )]
    NotUtf8 { argument: String },
    #[error("expected one FILE (use `virtualize batch` for several files)")]
    SeveralFiles,
    #[error("--unpack needs a Zarr v3 output, such as --format zarr3-json: Zarr v2 has no such codecs")]
    UnpackToV2,
    #[cfg(feature = "archive")]
    #[error("{output}: {}: give --format", virtualize_archive::Target::unknown_extension(output))]
    UnknownFormat { output: String },
    #[cfg(feature = "archive")]
    #[error(
        "--shard needs --output or --format, as for the run that imports the part: they decide the Zarr version"
    )]
    NoFormat,
    #[cfg(feature = "icechunk")]
    #[error("--relative does not apply to Icechunk repositories, which store absolute URLs")]
    RelativeRepository,
    #[error("the format consists of several files: give a folder or prefix with --output")]
    NoFolder,
    #[error("--relative needs an output to be relative to: give --output")]
    RelativeToNothing,
    #[error("no code \"{code}\"{existing}")]
    UnknownCode { code: String, existing: String },
    #[error("{file}: {reason}")]
    Array { file: String, reason: String },
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Service(#[from] virtualize_server::ConfigError),
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

#[cfg(feature = "archive")]
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
        #[cfg(feature = "archive")]
        Err(Failure::Archive(error)) => {
            messages::line(&format!("error: {}", error.render(messages::FLAGS)));
            if error.class() == ErrorClass::Usage { 2 } else { 1 }
        }
        Err(Failure::Usage(reason)) => {
            messages::line(&format!("error: {reason} [{}]", Code::Usage));
            2
        }
        #[cfg(feature = "serve")]
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
