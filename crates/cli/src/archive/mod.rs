//! Commands for many files: `batch`, `scan` and `journal`.

mod batch;
mod dry_run;
mod journal;
mod metrics;
mod progress;
mod scan;
mod tally;

use std::ffi::OsString;

pub(crate) use batch::run as batch;
pub(crate) use journal::run as journal;
pub(crate) use scan::run as scan;

use crate::arguments::{Arguments, Command};

/// Adds the command line as given, without secrets, for the journal of a batch to record.
pub(crate) fn with_command_line(mut arguments: Arguments, given: &[OsString]) -> Arguments {
    if let Some(Command::Batch(batch)) = &mut arguments.command {
        batch.command = journal::without_secrets(given);
    }
    arguments
}
