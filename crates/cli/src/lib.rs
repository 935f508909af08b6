//! The `virtualize` command: arguments become options, the library does the work, errors become exit status.
//!
//! It is a library so that other programs, such as the Python package, can contain the command.

mod arguments;
mod batch;
mod convert;
mod diff;
mod dry_run;
mod exit;
mod inspect;
mod journal;
mod logging;
mod messages;
mod metrics;
mod output;
mod progress;
mod scan;
#[cfg(feature = "serve")]
mod serve;
mod tally;
mod translate;
mod validate;

use std::ffi::OsString;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};
use exit::Failure;
pub use inspect::text as describe;

/// Runs the command with its arguments, the name of the program first, and returns the exit status: 0 success, 1
/// failure, 2 wrong usage.
///
/// `batch`, `scan` and `serve` install handlers for SIGINT and SIGTERM, and end the process at the second signal. Other
/// commands leave signals as they are: a caller that handles SIGINT, as Python does, must restore the default first, or
/// Ctrl-C has no effect until this function returns.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    match parse(arguments.into_iter().collect()) {
        Ok(arguments) => exit::of(execute(&arguments)),
        Err(error) => {
            // `--help` and `--version` are errors, too, with status 0. A closed pipe is not an error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    }
}

/// Parses the arguments, and checks that they can be combined.
fn parse(given: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut arguments = Arguments::try_parse_from(&given)?;
    if let Some(Command::Batch(batch)) = &mut arguments.command {
        batch.command = journal::without_secrets(&given);
    }
    let input = match &arguments.command {
        Some(Command::Inspect(inspect)) => Some(&inspect.input),
        Some(_) => None,
        None => Some(&arguments.convert.input),
    };
    match input.map(|input| input.check()) {
        Some(Err(problem)) => Err(Arguments::command().error(ErrorKind::ArgumentConflict, problem)),
        _ => Ok(arguments),
    }
}

/// Starts the log and a runtime, and runs the chosen command.
fn execute(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(verbose) = verbose(arguments) {
        logging::start(verbose);
    }
    // One file is read on one thread, many files on all threads.
    let mut builder = match &arguments.command {
        Some(Command::Batch(_) | Command::Scan(_)) => tokio::runtime::Builder::new_multi_thread(),
        #[cfg(feature = "serve")]
        Some(Command::Serve(_)) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    builder.enable_all().build()?.block_on(async {
        match &arguments.command {
            Some(Command::Inspect(inspect)) => inspect::run(inspect).await,
            Some(Command::Batch(batch)) => batch::run(batch).await,
            Some(Command::Scan(scan)) => scan::run(scan).await,
            Some(Command::Journal(arguments)) => journal::run(arguments),
            Some(Command::Convert(convert)) => translate::run(convert).await,
            Some(Command::Validate(arguments)) => validate::run(arguments).await,
            Some(Command::Diff(compare)) => diff::run(compare).await,
            #[cfg(feature = "serve")]
            Some(Command::Serve(settings)) => serve::run(settings).await,
            None => convert::run(&arguments.convert).await,
        }
    })
}

/// Returns the number of `-v`. Returns `None` for the service, which starts its own log.
fn verbose(arguments: &Arguments) -> Option<u8> {
    Some(match &arguments.command {
        Some(Command::Inspect(inspect)) => inspect.input.mapping.verbose(),
        Some(Command::Batch(batch)) => batch.mapping.verbose(),
        Some(Command::Scan(scan)) => scan.mapping.verbose(),
        Some(Command::Journal(_)) => 0,
        Some(Command::Convert(convert)) => convert.reading.verbose(),
        Some(Command::Validate(validate)) => validate.reading.verbose(),
        Some(Command::Diff(compare)) => compare.reading.verbose(),
        #[cfg(feature = "serve")]
        Some(Command::Serve(_)) => return None,
        None => arguments.convert.input.mapping.verbose(),
    })
}
