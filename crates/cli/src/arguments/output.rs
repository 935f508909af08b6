//! Where references are written to, for all commands that write some.

use std::num::NonZeroU32;

use clap::Args;
use virtualize::{Format, MOST_RECORDS, Relocation, Rewrite};

#[cfg(feature = "icechunk")]
use super::Icechunk;
use super::{OutputFormat, rewrite};

/// Where references are written to, and how their urls.
#[derive(Args)]
pub(crate) struct Output {
    /// Path or url to write to; standard output when left out. A folder or prefix for formats of several files
    #[cfg_attr(feature = "icechunk", arg(required_if_eq("format", "icechunk")))]
    #[arg(short = 'o', long = "output", value_name = "OUT", id = "output")]
    pub(crate) target: Option<String>,
    /// Replace the folder or prefix that is there, and all in it (a single file is always replaced)
    #[arg(long, requires = "output")]
    pub(crate) overwrite: bool,
    /// Chunks of a Parquet file (kerchunk-parquet): more are fewer requests, and more to read for one chunk
    #[arg(long, value_name = "N", default_value_t = Format::RECORD_SIZE, value_parser = record_size)]
    record_size: NonZeroU32,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    pub(crate) icechunk: Icechunk,
    /// Write urls that start with FROM (a url, or a path for file://) as if they started with TO; may be repeated, the
    /// longest that fits is taken. Reading uses the original
    #[arg(long = "rewrite-url", value_name = "FROM=TO", value_parser = rewrite)]
    rewrites: Vec<Rewrite>,
    /// Write urls relative to the folder in which the output lies, for sources that lie there or below
    #[arg(long, requires = "output", conflicts_with = "rewrites")]
    pub(crate) relative: bool,
}

impl Output {
    /// The format with what is said of its files.
    pub(crate) fn format(&self, format: OutputFormat) -> Format {
        match Format::from(format) {
            Format::KerchunkParquet { .. } => Format::KerchunkParquet { record_size: self.record_size },
            other => other,
        }
    }

    /// How urls are written.
    pub(crate) fn relocation(&self) -> Relocation {
        match &self.target {
            Some(output) if self.relative => Relocation::RelativeTo(output.clone()),
            _ if self.rewrites.is_empty() => Relocation::Keep,
            _ => Relocation::Rewrite(self.rewrites.clone()),
        }
    }
}

pub(crate) fn record_size(text: &str) -> Result<NonZeroU32, String> {
    let found = text.parse().ok().filter(|size: &NonZeroU32| size.get() <= MOST_RECORDS);
    found.ok_or_else(|| format!("expected a number from 1 to {MOST_RECORDS}"))
}
