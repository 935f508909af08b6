//! Arguments of the commands that read references.

use clap::Args;
use virtualize::{ReadOptions, Sample};

use super::{Output, OutputFormat, Store};

/// Writes references in another format.
#[derive(Args)]
pub(crate) struct Translate {
    /// References: JSON (kerchunk versions 0 and 1, or Zarr v3 keys), a folder or prefix of `zarr3`, an Icechunk repository
    #[arg(value_name = "REFS")]
    pub(crate) references: String,
    /// What is written
    #[arg(short, long, value_enum, default_value = "kerchunk-json")]
    pub(crate) format: OutputFormat,
    /// Fail when anything is left out or lost
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Says what differs between two reference sets, or files.
#[derive(Args)]
pub(crate) struct Compare {
    /// References as for `convert`, or an HDF5, NetCDF-4 or TIFF file
    #[arg(value_name = "A")]
    pub(crate) first: String,
    /// The same
    #[arg(value_name = "B")]
    pub(crate) second: String,
    /// Chunks at equal offsets are equal, whatever file they lie in (so for two files)
    #[arg(long)]
    pub(crate) ignore_urls: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Checks references against their sources.
#[derive(Args)]
pub(crate) struct Validate {
    /// References as for `convert`
    #[arg(value_name = "REFS")]
    pub(crate) references: String,
    /// Decode so many chunks of each array from each source, evenly spread, and compare them with a direct read
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
    pub(crate) fn sample(&self) -> Sample {
        if self.full { Sample::Full } else { Sample::Chunks(self.sample) }
    }
}

/// How references are read.
#[derive(Args, Clone)]
pub(crate) struct Reading {
    /// Folder or prefix from which relative urls in the references start (default: that in which they lie)
    #[arg(long, value_name = "FOLDER")]
    relative_to: Option<String>,
    /// Branch, tag or snapshot of an Icechunk repository that is read
    #[cfg(feature = "icechunk")]
    #[arg(long = "version-of", default_value = "main", value_name = "NAME")]
    version: String,
    /// Say more on standard error; twice for debugging, three times for all (RUST_LOG goes before it)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    store: Store,
}

impl Reading {
    /// The library's options.
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
