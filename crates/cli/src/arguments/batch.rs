//! Arguments of `batch`.

use clap::Args;
use virtualize_archive::{BatchOptions, Target};

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
    pub(crate) options: BatchOptions,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

impl Batch {
    /// Returns what is written.
    pub(crate) fn target(&self) -> Result<Target, Usage> {
        self.options.target(&self.output).ok_or_else(|| Usage::UnknownFormat { output: self.output.clone() })
    }
}
