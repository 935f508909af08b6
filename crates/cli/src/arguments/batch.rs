//! Arguments of `batch`.

use clap::{Args, ValueHint};
use serde::Deserialize;
use virtualize::options::{Given, SourceOptions};
use virtualize_archive::{BatchOptions, Shard, ShardNumber, Target};

use super::{GENERAL, OUTPUT, Verbosity};
use crate::error::Usage;

/// Arguments of `batch`.
#[derive(Args)]
pub(crate) struct Batch {
    /// Output path or URL
    #[arg(display_order = 0, short, long, value_name = "OUT", required_unless_present_any = ["plan", "shard"], help_heading = OUTPUT, value_hint = ValueHint::AnyPath)]
    output: Option<String>,
    #[command(flatten)]
    pub(crate) options: Given<OptionsOfBatch>,
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
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

/// Options of `batch` that `--option` and `--config` accept.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OptionsOfBatch {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) batch: BatchOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) source: SourceOptions,
}

/// How several machines share a batch.
#[derive(Args)]
#[command(next_help_heading = "Shard options")]
pub(crate) struct Machines {
    /// Write the list of files to PLAN; with --shard or --parts, read the list from PLAN
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<String>,
    /// Read shard K of N of the files, write it to --part, and print a receipt
    #[arg(long, value_name = "K/N", requires = "part")]
    shard: Option<ShardNumber>,
    /// Path or URL of the part to write
    #[arg(long, value_name = "PART", requires = "shard")]
    part: Option<String>,
    /// Import parts instead of reading their files: a part, a folder or prefix, or a pattern; may be repeated
    #[arg(long, value_name = "PART", requires = "output", conflicts_with = "shard")]
    pub(crate) parts: Vec<String>,
}

impl Machines {
    /// Returns the shard to read, if one is given.
    pub(crate) fn shard(&self) -> Option<Shard> {
        let (Some(shard), Some(part)) = (self.shard, &self.part) else { return None };
        Some(Shard { plan: self.plan.clone(), number: shard.number, of: shard.of, part: part.clone() })
    }

    /// Returns the plan to write, if that is all there is to do.
    pub(crate) fn new_plan(&self) -> Option<&str> {
        self.plan.as_deref().filter(|_| self.shard.is_none() && self.parts.is_empty())
    }
}

impl Batch {
    /// Returns where the output is written; empty if this machine writes none.
    pub(crate) fn output(&self) -> &str {
        self.output.as_deref().unwrap_or_default()
    }

    /// Returns what is written.
    pub(crate) fn target(&self) -> Result<Target, Usage> {
        match (self.options.batch.target(self.output()), &self.output) {
            (Some(target), _) => Ok(target),
            (None, Some(output)) => Err(Usage::UnknownFormat { output: output.clone() }),
            (None, None) if self.machines.new_plan().is_some() => Ok(Target::default()),
            (None, None) => Err(Usage::NoFormat),
        }
    }
}
