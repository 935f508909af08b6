//! The `virtualize` command: arguments become options, the library does the work, errors become exit status.

mod arguments;
mod batch;
mod convert;
mod diff;
mod exit;
mod inspect;
mod logging;
mod messages;
mod output;
mod progress;
mod scan;
#[cfg(feature = "serve")]
mod serve;
mod translate;
mod validate;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (input, verbose) = match &arguments.command {
        Some(Command::Inspect(inspect)) => (Some(&inspect.input), inspect.input.mapping.verbose()),
        Some(Command::Batch(batch)) => (None, batch.mapping.verbose()),
        Some(Command::Scan(scan)) => (None, scan.mapping.verbose()),
        Some(Command::Convert(convert)) => (None, convert.reading.verbose()),
        Some(Command::Validate(validate)) => (None, validate.reading.verbose()),
        Some(Command::Diff(compare)) => (None, compare.reading.verbose()),
        // The service starts its own log.
        #[cfg(feature = "serve")]
        Some(Command::Serve(_)) => (None, 0),
        None => (Some(&arguments.convert.input), arguments.convert.input.mapping.verbose()),
    };
    if let Some(Err(problem)) = input.map(|input| input.check()) {
        Arguments::command().error(ErrorKind::ArgumentConflict, problem).exit();
    }
    if !is_service(&arguments) {
        logging::start(verbose);
    }
    // One file is read on one thread, many files on all threads.
    let mut builder = match &arguments.command {
        Some(Command::Batch(_) | Command::Scan(_)) => tokio::runtime::Builder::new_multi_thread(),
        _ if is_service(&arguments) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::of(Err(exit::Failure::Output(error))),
    };
    exit::of(runtime.block_on(async {
        match &arguments.command {
            Some(Command::Inspect(inspect)) => inspect::run(inspect).await,
            Some(Command::Batch(batch)) => batch::run(batch).await,
            Some(Command::Scan(scan)) => scan::run(scan).await,
            Some(Command::Convert(convert)) => translate::run(convert).await,
            Some(Command::Validate(arguments)) => validate::run(arguments).await,
            Some(Command::Diff(compare)) => diff::run(compare).await,
            #[cfg(feature = "serve")]
            Some(Command::Serve(settings)) => serve::run(settings).await,
            None => convert::run(&arguments.convert).await,
        }
    }))
}

/// Returns whether the command runs until it is stopped.
fn is_service(arguments: &Arguments) -> bool {
    #[cfg(feature = "serve")]
    return matches!(arguments.command, Some(Command::Serve(_)));
    #[cfg(not(feature = "serve"))]
    {
        let _ = arguments;
        false
    }
}
