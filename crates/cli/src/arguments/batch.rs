//! Arguments of `batch`.

use std::{num::NonZeroU32, path::PathBuf};

use clap::Args;
use virtualize::{Format, Relocation, Rewrite};
use virtualize_archive::Target;

#[cfg(feature = "icechunk")]
use super::Icechunk;
use super::{Mapping, OutputFormat, at_least_one, record_size, rewrite};

/// Makes references of many files.
#[derive(Args)]
pub(crate) struct Batch {
    /// Files, folders, prefixes, or patterns such as 's3://bucket/era5/**/*.nc'
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
    /// Path or url to write to
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: String,
    /// What is written; left out, the output's name says it (.json, .parquet, .parq, .zarr, .icechunk)
    #[arg(short, long, value_enum)]
    format: Option<OutputFormat>,
    /// One output a file, below the folder or prefix OUT, named like the file
    #[arg(long)]
    pub(crate) each: bool,
    /// Replace a folder or prefix that is there (a single file is always replaced)
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Chunks of a Parquet file (kerchunk-parquet)
    #[arg(long, value_name = "N", default_value_t = Format::RECORD_SIZE, value_parser = record_size)]
    record_size: NonZeroU32,
    /// Write urls that start with FROM as if they started with TO; may be repeated
    #[arg(long = "rewrite-url", value_name = "FROM=TO", value_parser = rewrite)]
    rewrites: Vec<Rewrite>,
    /// Write urls relative to the folder in which the output lies, for sources that lie there or below
    #[arg(long, conflicts_with = "rewrites")]
    relative: bool,
    #[command(flatten)]
    pub(crate) run: Run,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    icechunk: Icechunk,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// How a run goes, and what is told of it.
#[derive(Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct Run {
    /// The journal, from which the same command goes on (default: OUT.journal, for urls in the current folder)
    #[arg(long, value_name = "PATH")]
    pub(crate) journal: Option<PathBuf>,
    /// Begin anew, whatever the journal has
    #[arg(long)]
    pub(crate) restart: bool,
    /// Try files that failed before once more
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Write the output without files that failed, as long as they are at most N
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_failures: u64,
    /// Write the output without files that failed, however many
    #[arg(long)]
    pub(crate) skip_failed: bool,
    /// Add these files to those that the journal has, whatever inputs these came from
    #[arg(long)]
    pub(crate) append: bool,
    /// Leave out files that are no longer there, instead of an error
    #[arg(long)]
    pub(crate) drop_vanished: bool,
    /// How often a file is tried where a store fails, or the file changes
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    pub(crate) attempts: usize,
    /// Write what happens as lines of JSON to a file, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    pub(crate) json_log: Option<String>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Batch {
    /// What is written.
    pub(crate) fn target(&self) -> Result<Target, String> {
        let target = match self.format {
            #[cfg(feature = "icechunk")]
            Some(OutputFormat::Icechunk) => Some(Target::Icechunk(virtualize::CommitOptions::default())),
            Some(format) => Some(Target::References(format.into())),
            None if self.each => Some(Target::References(Format::KerchunkJson)),
            None => Target::of_name(&self.output),
        };
        match target {
            Some(Target::References(Format::KerchunkParquet { .. })) => {
                Ok(Target::References(Format::KerchunkParquet { record_size: self.record_size }))
            }
            #[cfg(feature = "icechunk")]
            Some(Target::Icechunk(_)) => Ok(Target::Icechunk(self.icechunk.options("many files"))),
            Some(target) => Ok(target),
            None => Err(format!(
                "{}: the name does not say what is to be written (.json, .parquet, .parq, .zarr, .icechunk): give --format",
                self.output
            )),
        }
    }

    /// How urls are written.
    pub(crate) fn relocation(&self) -> Relocation {
        match self.relative {
            true => Relocation::RelativeTo(self.output.clone()),
            false if self.rewrites.is_empty() => Relocation::Keep,
            false => Relocation::Rewrite(self.rewrites.clone()),
        }
    }
}
