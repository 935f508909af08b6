//! Arguments of `batch`.

use clap::Args;
use virtualize::options::value::parse_count;
use virtualize_archive::{BatchOptions, DryRunOptions, Prices, Target};

use super::{Mapping, Usage};

/// Arguments of `batch`.
#[derive(Args)]
pub(crate) struct Batch {
    /// Path or URL to write to
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: String,
    /// Write events as JSON lines to a file, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_log: Option<String>,
    /// Print requests, retries, bytes and files per second to standard error
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write Prometheus metrics of the run to a file, or push them to the URL of a group of a Pushgateway
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) metrics: Option<String>,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) options: BatchOptions,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// Arguments of a dry run.
#[derive(Args)]
#[command(next_help_heading = "Dry run")]
pub(crate) struct DryRun {
    /// Write nothing: list the inputs, read a sample of the files, and report what the run would do and take
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
    /// Returns what is written.
    pub(crate) fn target(&self) -> Result<Target, Usage> {
        self.options.target(&self.output).ok_or_else(|| Usage::UnknownFormat { output: self.output.clone() })
    }
}
