//! Arguments of `batch`.

use clap::{Args, ValueHint};
use virtualize_archive::{BatchOptions, Target};

use super::{GENERAL, Mapping, OUTPUT, Usage};

/// Arguments of `batch`.
#[derive(Args)]
pub(crate) struct Batch {
    /// Output path or URL
    #[arg(display_order = 0, short, long, value_name = "OUT", required_unless_present = "shard", help_heading = OUTPUT, value_hint = ValueHint::AnyPath)]
    output: Option<String>,
    #[command(flatten)]
    pub(crate) options: BatchOptions,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
    /// Write events as JSON lines to a file, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = GENERAL, value_hint = ValueHint::FilePath)]
    pub(crate) json_log: Option<String>,
    /// All arguments without secrets, the name of the program first.
    #[arg(skip)]
    pub(crate) command: Vec<String>,
}

impl Batch {
    /// Returns where the output is written; empty if this machine writes none.
    pub(crate) fn output(&self) -> &str {
        self.output.as_deref().unwrap_or_default()
    }

    /// Returns what is written.
    pub(crate) fn target(&self) -> Result<Target, Usage> {
        match (self.options.target(self.output()), &self.output) {
            (Some(target), _) => Ok(target),
            (None, Some(output)) => Err(Usage::UnknownFormat { output: output.clone() }),
            (None, None) => Err(Usage::NoFormat),
        }
    }
}
