//! Arguments of `batch`.

use clap::{Args, ValueHint};
use serde::Deserialize;
use virtualize::options::{Given, SourceOptions, value::parse_count};
use virtualize_archive::{BatchOptions, DryRunOptions, Prices, Shard, ShardNumber, Target};

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
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
    /// Print requests, retries, bytes and files per second to standard error
    #[arg(long, help_heading = GENERAL)]
    pub(crate) stats: bool,
    /// Write events as JSON lines to a file, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = GENERAL, value_hint = ValueHint::FilePath)]
    pub(crate) json_log: Option<String>,
    /// Write Prometheus metrics to a file, or push them to a group of a Pushgateway
    #[arg(long, value_name = "FILE|URL", help_heading = GENERAL)]
    pub(crate) metrics: Option<String>,
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

/// Arguments of a dry run.
#[derive(Args)]
#[command(next_help_heading = "Dry run options")]
pub(crate) struct DryRun {
    /// Write nothing; report what the run would do and cost
    ///
    /// Lists the inputs, and reads a sample of the files.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Number of files to read
    #[arg(long, value_name = "N", default_value = "20", value_parser = parse_count, requires = "dry_run")]
    sample: usize,
    /// Dollars per 1,000 requests that read, and per 1,000 that list [default: 0.0004,0.005, as of S3 Standard]
    #[arg(long, value_name = "GET,LIST", value_parser = parse_prices, requires = "dry_run")]
    request_price: Option<Prices>,
    /// Print the report as JSON
    #[arg(long, requires = "dry_run")]
    pub(crate) json: bool,
}

impl DryRun {
    /// Returns the library's options.
    pub(crate) fn options(&self) -> DryRunOptions {
        let prices = self.request_price.unwrap_or_default();
        DryRunOptions { sample: self.sample as u64, prices }
    }
}

/// Parses two prices.
fn parse_prices(text: &str) -> Result<Prices, String> {
    let price =
        |text: &str| text.trim().parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    let prices =
        text.split_once(',').and_then(|(get, list)| Some(Prices { get: price(get)?, list: price(list)? }));
    prices.ok_or_else(|| "expected two numbers, such as 0.0004,0.005".to_owned())
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
