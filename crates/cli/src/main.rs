//! The `virtualize` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(virtualize_cli::run(std::env::args_os()))
}
