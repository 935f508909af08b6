//! Arguments of `batch`.

use std::{num::NonZeroU32, path::PathBuf};

use clap::Args;
use virtualize::{Format, Relocation, Rewrite};
use virtualize_archive::{
    Layout, Target,
    combine::{NamePattern, OnDuplicate, OnMismatch, PlanOptions},
};

#[cfg(feature = "icechunk")]
use super::Icechunk;
use super::{Files, Mapping, OutputFormat, at_least_one, byte_limit, key_value, record_size, rewrite};

/// Makes references of many files.
#[derive(Args)]
pub(crate) struct Batch {
    #[command(flatten)]
    pub(crate) files: Files,
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
    together: Together,
    #[command(flatten)]
    pub(crate) run: Run,
    #[cfg(feature = "icechunk")]
    #[command(flatten)]
    icechunk: Icechunk,
    #[command(flatten)]
    pub(crate) mapping: Mapping,
}

/// How files become one dataset. Names of arrays are names, paths, or * for all.
#[derive(Args)]
#[command(next_help_heading = "One dataset of many files")]
struct Together {
    /// Put the files together along this dimension, which they have; may be repeated
    #[arg(long = "concat-dim", value_name = "DIMENSION", conflicts_with = "each")]
    concat_dims: Vec<String>,
    /// Put the files together along this new dimension; may be repeated, outermost first
    #[arg(long = "stack-dim", value_name = "DIMENSION", conflicts_with = "each")]
    stack_dims: Vec<String>,
    /// Take the coordinate along a new dimension from a global attribute of the files; may be repeated
    #[arg(long = "coord-from-attribute", value_name = "DIMENSION=ATTRIBUTE", value_parser = key_value)]
    coordinate_attributes: Vec<(String, String)>,
    /// Take the coordinate along a dimension from a property of the catalogue's item; may be repeated
    #[arg(long = "coord-from-property", value_name = "DIMENSION=PROPERTY", value_parser = key_value)]
    coordinate_properties: Vec<(String, String)>,
    /// Take coordinates from the files' names, such as t2m_{time:%Y%m%d}_{member:d}.nc: parts {name}, {name:d} (whole
    /// number), {name:f} (real number), {name:%Y%m%d} (date), * for any text; or a regular expression with named groups
    #[arg(long = "coord-from-name", value_name = "PATTERN")]
    names: Option<NamePattern>,
    /// What to do with files that disagree
    #[arg(long, value_enum, default_value = "stop", value_name = "WHAT")]
    on_mismatch: OnMismatch,
    /// What to do with files that have the same coordinates, or overlap in part
    #[arg(long, value_enum, default_value = "error", value_name = "WHAT")]
    on_duplicate: OnDuplicate,
    /// Give this array the dimensions too: it may differ from file to file; may be repeated
    #[arg(long = "concat-var", value_name = "ARRAY")]
    concat_vars: Vec<String>,
    /// Take this array from the first file, whatever the others have; may be repeated
    #[arg(long, value_name = "ARRAY")]
    assume_equal: Vec<String>,
    /// This array may be in some of the files only: the others' part reads as the fill value; may be repeated
    #[arg(long = "optional-var", value_name = "ARRAY")]
    optional: Vec<String>,
    /// Places of an arrangement of several dimensions may have no file: they read as the fill value
    #[arg(long)]
    allow_holes: bool,
    /// Parts that no file has may read as a value that does not mean "missing", where an array has none that does
    #[arg(long)]
    fill_without_sentinel: bool,
    /// Most bytes a file of an array that is copied into the references where its chunks do not fit its neighbours'
    #[arg(long, value_name = "SIZE", value_parser = byte_limit, default_value = "64K")]
    copy_limit: u64,
}

impl Together {
    fn layout(&self, rectilinear: bool) -> Layout {
        let set = |names: &[String]| names.iter().cloned().collect();
        Layout {
            concat_vars: set(&self.concat_vars),
            assume_equal: set(&self.assume_equal),
            optional: set(&self.optional),
            coordinate_attributes: self.coordinate_attributes.iter().cloned().collect(),
            coordinate_properties: self.coordinate_properties.iter().cloned().collect(),
            names: self.names.clone(),
            rectilinear,
            inline_limit: self.copy_limit,
            ..Layout::of_dimensions(&self.stack_dims, &self.concat_dims)
        }
    }

    fn plan(&self) -> PlanOptions {
        PlanOptions {
            on_mismatch: self.on_mismatch,
            on_duplicate: self.on_duplicate,
            allow_holes: self.allow_holes,
            fill_without_sentinel: self.fill_without_sentinel,
            ..PlanOptions::default()
        }
    }
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
    /// Read files of earlier runs again that were replaced since, instead of an error (--append)
    #[arg(long)]
    pub(crate) reread_changed: bool,
    /// Forget files that earlier runs added but no output holds, unless they are named again (--append)
    #[arg(long)]
    pub(crate) drop_unwritten: bool,
    /// Do not check whether files of earlier runs have changed where the listing does not tell
    #[arg(long)]
    pub(crate) no_recheck: bool,
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

    /// How files become one dataset.
    pub(crate) fn layout(&self) -> Layout {
        self.together.layout(self.mapping.is_rectilinear())
    }

    /// What is done with files that do not fit.
    pub(crate) fn plan(&self) -> PlanOptions {
        self.together.plan()
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
