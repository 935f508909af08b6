//! Arguments of the commands that read references.

use clap::{Args, ValueHint};
use serde::Deserialize;
use virtualize::{
    ReadOptions, Sample,
    options::{ConnectionOptions, Given},
};

use super::{GENERAL, OUTPUT, Output, Target, Verbosity};

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct Translate {
    /// Path or URL of references: JSON, a kerchunk-parquet or zarr3 folder, or an Icechunk repository
    ///
    /// JSON is that of kerchunk, version 0 or 1, or has Zarr v3 keys.
    #[arg(value_name = "REFS", value_hint = ValueHint::AnyPath)]
    pub(crate) references: String,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) options: Given<TranslateOptions>,
    /// Print only errors
    #[arg(short, long, help_heading = GENERAL)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Options of `convert`.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TranslateOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) output: Output,
    /// Fail if anything is omitted or lost
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) strict: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Compare {
    /// Path or URL of references, or of an HDF5, NetCDF or TIFF file
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) first: String,
    /// What to compare A with
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) second: String,
    /// Treat chunks at equal offsets as equal, whichever file they are in (implied for two files)
    #[arg(long, help_heading = "Comparison options")]
    pub(crate) ignore_urls: bool,
    #[command(flatten)]
    pub(crate) options: Given<Reading>,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

/// Arguments of `validate`.
#[derive(Args)]
pub(crate) struct Validate {
    /// Path or URL of references: JSON, a kerchunk-parquet or zarr3 folder, or an Icechunk repository
    #[arg(value_name = "REFS", value_hint = ValueHint::AnyPath)]
    pub(crate) references: String,
    /// Number of chunks per array and source to decode and compare with a direct read
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Comparison options")]
    sample: u64,
    /// Decode all chunks
    #[arg(long, conflicts_with = "sample", help_heading = "Comparison options")]
    full: bool,
    #[command(flatten)]
    pub(crate) options: Given<Reading>,
    /// Print JSON
    #[arg(long, help_heading = GENERAL)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

impl Validate {
    /// Returns which chunks are decoded.
    pub(crate) fn sample(&self) -> Sample {
        if self.full { Sample::Full } else { Sample::Chunks(self.sample) }
    }
}

/// How references are read.
#[derive(Args, Clone, Default, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Reference options")]
pub(crate) struct Reading {
    /// Folder or prefix to resolve relative URLs against [default: that of the references]
    #[arg(long, value_name = "FOLDER")]
    relative_to: Option<String>,
    /// Branch, tag or snapshot of the Icechunk repository to read [default: main]
    #[arg(long, value_name = "NAME")]
    version_of: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    store: ConnectionOptions,
}

impl Reading {
    /// Returns the library's options.
    pub(crate) fn options(&self) -> ReadOptions {
        let defaults = ReadOptions::default();
        ReadOptions {
            store: self.store.options(),
            relative_to: self.relative_to.clone(),
            version: self.version_of.clone().unwrap_or(defaults.version),
        }
    }
}
