//! The `virtualize` command: arguments become options, the library does the work, errors become exit status.

mod arguments;
mod convert;
mod exit;
mod inspect;
mod logging;
mod messages;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let input = match &arguments.command {
        Some(Command::Inspect(inspect)) => &inspect.input,
        None => &arguments.convert.input,
    };
    if let Some(problem) = input.conflict() {
        Arguments::command().error(ErrorKind::ArgumentConflict, problem).exit();
    }
    logging::start(input.verbose);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::of(Err(exit::Failure::Output(error))),
    };
    exit::of(runtime.block_on(async {
        match &arguments.command {
            Some(Command::Inspect(inspect)) => inspect::run(inspect).await,
            None => convert::run(&arguments.convert).await,
        }
    }))
}
