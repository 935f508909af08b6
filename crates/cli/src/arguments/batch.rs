//! Arguments of `batch`.

use clap::{Args, ValueHint};
use virtualize::options::value::parse_count;
use virtualize_archive::{BatchOptions, DryRunOptions, Prices, Target};

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
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
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
