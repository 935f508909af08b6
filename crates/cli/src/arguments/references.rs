//! Arguments of the commands that read references.

use clap::Args;
use virtualize::{
    ReadOptions, Sample,
    options::{ConnectionOptions, OutputFormat},
};

use super::{Output, Verbosity};

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct Translate {
    /// References: JSON (kerchunk version 0 or 1, or Zarr v3 keys), a kerchunk-parquet or zarr3 folder or prefix, or an
    /// Icechunk repository
    #[arg(value_name = "REFS")]
    pub(crate) references: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
    /// Fail if anything is omitted or lost
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Compare {
    /// References as for `convert`, or an HDF5, NetCDF-4 or TIFF file
    #[arg(value_name = "A")]
    pub(crate) first: String,
    /// What to compare A with
    #[arg(value_name = "B")]
    pub(crate) second: String,
    /// Treat chunks at equal offsets as equal, whichever file they are in (implied for two files)
    #[arg(long)]
    pub(crate) ignore_urls: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `validate`.
#[derive(Args)]
pub(crate) struct Validate {
    /// References, as for `convert`
    #[arg(value_name = "REFS")]
    pub(crate) references: String,
    /// Chunks to decode per array and source, evenly spread, and compare with a direct read
    #[arg(long, value_name = "N", default_value_t = 4)]
    sample: u64,
    /// Decode all chunks
    #[arg(long, conflicts_with = "sample")]
    full: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl Validate {
    /// Returns which chunks are decoded.
    pub(crate) fn sample(&self) -> Sample {
        if self.full { Sample::Full } else { Sample::Chunks(self.sample) }
    }
}

/// How references are read.
#[derive(Args, Clone)]
#[command(next_help_heading = "Reading references")]
pub(crate) struct Reading {
    /// Folder or prefix to resolve relative URLs against [default: that of the references]
    #[arg(long, value_name = "FOLDER")]
    relative_to: Option<String>,
    /// Branch, tag or snapshot of the Icechunk repository to read
    #[cfg(feature = "icechunk")]
    #[arg(long = "version-of", default_value = "main", value_name = "NAME")]
    version: String,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    store: ConnectionOptions,
}

impl Reading {
    pub(crate) fn verbose(&self) -> u8 {
        self.verbosity.verbose
    }

    /// Returns the library's options.
    #[cfg_attr(
        feature = "icechunk",
        allow(clippy::needless_update, reason = "without Icechunk no version is given")
    )]
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            store: self.store.options(),
            relative_to: self.relative_to.clone(),
            #[cfg(feature = "icechunk")]
            version: self.version.clone(),
            ..ReadOptions::default()
        }
    }
}
