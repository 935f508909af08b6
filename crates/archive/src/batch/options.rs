//! Options of a batch as users write them: flags of the command, members of a JSON object.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de::Error as _};
use virtualize::options::{IcechunkOptions, OutputFormat, WriteOptions, value};

use super::{Batch, BatchBuilder, Shard, Target};
use crate::{
    Layout, NamePattern, OnDuplicate, OnMismatch, PlanOptions,
    list::{Assets, Filter, Input},
};

/// Everything that a user chooses for a batch, but how files are reached and mapped, and where the output goes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Output options"))]
pub struct BatchOptions {
    /// Output format [default: by the extension of OUT]
    ///
    /// The extension is .json, .parquet, .parq, .zarr or .icechunk. The default with --each is kerchunk-json.
    #[cfg_attr(feature = "clap", arg(short, long, value_enum, display_order = 1))]
    pub format: Option<OutputFormat>,
    /// Write one output per file, below the folder OUT
    ///
    /// An output is named after its file. OUT is a folder or prefix.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with_all = ["concat_dim", "stack_dim"]))]
    pub each: bool,
    /// How references are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub write: WriteOptions,
    /// The files.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub files: FileOptions,
    /// How files become one dataset.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub combine: CombineOptions,
    /// How the run proceeds.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub run: RunOptions,
    /// What is committed where.
    #[cfg_attr(all(feature = "clap", feature = "icechunk"), command(flatten))]
    #[cfg_attr(all(feature = "clap", not(feature = "icechunk")), arg(skip))]
    #[serde(flatten)]
    pub icechunk: IcechunkOptions,
}

/// Which files to read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Input options"))]
pub struct FileOptions {
    /// Files, folders, prefixes that end in /, or patterns such as 'data/**/*.nc'
    #[cfg_attr(feature = "clap", arg(value_name = "INPUT", help_heading = None::<&'static str>, required_unless_present_any = ["lists", "stac"]))]
    #[serde(deserialize_with = "value::texts")]
    pub inputs: Vec<String>,
    /// Read paths or URLs from a file, one per line
    ///
    /// Lines may also be JSON objects with url, size, etag and modified. FILE may be - for standard input. May be repeated.
    #[cfg_attr(feature = "clap", arg(long = "list", value_name = "FILE"))]
    #[serde(deserialize_with = "value::texts", alias = "list")]
    pub lists: Vec<String>,
    /// STAC item, item collection, collection or catalog to read assets from; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOCATION"))]
    #[serde(deserialize_with = "value::texts")]
    pub stac: Vec<String>,
    /// Select STAC assets with this key; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY", requires = "stac"))]
    #[serde(deserialize_with = "value::texts")]
    pub asset: Vec<String>,
    /// Select STAC assets with this role; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "ROLE", requires = "stac"))]
    #[serde(deserialize_with = "value::texts")]
    pub asset_role: Vec<String>,
    /// Read STAC assets at their alternate location of this name, such as s3
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", requires = "stac"))]
    pub asset_alternate: Option<String>,
    /// Select files whose name matches PATTERN
    ///
    /// A PATTERN that contains a / is compared with the end of the path.
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATTERN"))]
    pub include: Option<String>,
    /// Select files of at least SIZE bytes
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = value::parse_size))]
    #[serde(deserialize_with = "value::size")]
    pub min_size: Option<u64>,
    /// Select files of at most SIZE bytes
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = value::parse_size))]
    #[serde(deserialize_with = "value::size")]
    pub max_size: Option<u64>,
    /// Select files modified at TIME or later: a date such as 2024-02-29, or an RFC 3339 time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::list::parse_time))]
    #[serde(deserialize_with = "time")]
    pub newer: Option<i64>,
    /// Select files modified before TIME
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::list::parse_time))]
    #[serde(deserialize_with = "time")]
    pub older: Option<i64>,
}

/// Deserializes a time from text.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    crate::list::parse_time(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// How files become one dataset. Arrays are given by name, by path, or as * for all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Combining options"))]
pub struct CombineOptions {
    /// The dimensions, and the arrays that are exceptions.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub layout: LayoutOptions,
    /// Take the coordinate along a new dimension from a global attribute of each file; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM=ATTRIBUTE", value_parser = value::parse_pair))]
    #[serde(deserialize_with = "value::pairs")]
    pub coord_from_attribute: Vec<(String, String)>,
    /// How to treat files that are not compatible
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "stop", value_name = "ACTION"))]
    pub on_mismatch: OnMismatch,
    /// How to treat files whose coordinates are equal or partly overlap
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "error", value_name = "ACTION"))]
    pub on_duplicate: OnDuplicate,
    /// Allow positions without a file in an arrangement of several dimensions; they read as the fill value
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_holes: bool,
    /// Allow parts without a file to read as a value that does not mean "missing", in arrays that declare no such value
    #[cfg_attr(feature = "clap", arg(long))]
    pub fill_without_sentinel: bool,
}

/// Along which dimensions files are combined.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Combining options"))]
pub struct LayoutOptions {
    /// Concatenate files along an existing dimension
    ///
    /// May be repeated.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM"))]
    #[serde(deserialize_with = "value::texts")]
    pub concat_dim: Vec<String>,
    /// Stack files along a new dimension
    ///
    /// May be repeated, the outermost dimension first.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM"))]
    #[serde(deserialize_with = "value::texts")]
    pub stack_dim: Vec<String>,
    /// Give this array the dimensions too, so that it may differ between files; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "ARRAY"))]
    #[serde(deserialize_with = "value::texts")]
    pub concat_var: Vec<String>,
    /// Take this array from the first file without comparing it with the others; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "ARRAY"))]
    #[serde(deserialize_with = "value::texts")]
    pub assume_equal: Vec<String>,
    /// Allow files without this array; it reads as the fill value there; may be repeated
    #[cfg_attr(feature = "clap", arg(long, alias = "optional", value_name = "ARRAY"))]
    #[serde(deserialize_with = "value::texts")]
    pub optional_var: Vec<String>,
    /// Take the coordinate along a dimension from a property of the STAC item; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM=PROPERTY", value_parser = value::parse_pair))]
    #[serde(deserialize_with = "value::pairs")]
    pub coord_from_property: Vec<(String, String)>,
    /// Take coordinates from file names, such as t2m_{time:%Y%m%d}_{member:d}.nc
    ///
    /// Fields are {name} (text), {name:d} (whole number), {name:f} (real number) and {name:%Y%m%d} (date); * matches any
    /// text. Alternatively a regular expression with named groups.
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATTERN"))]
    #[serde(deserialize_with = "value::from_text")]
    pub coord_from_name: Option<NamePattern>,
    /// Maximum bytes per file of an array to copy into the references if its chunks do not align with those of other
    /// files [default: 64K]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = value::parse_limit))]
    #[serde(deserialize_with = "value::size")]
    pub copy_limit: Option<u64>,
}

/// How a run proceeds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Run options"))]
pub struct RunOptions {
    /// Journal from which the same command resumes [default: OUT.journal; for URLs in the current folder]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATH"))]
    pub journal: Option<PathBuf>,
    /// Read shard K of N of the files into the journal, and write no output
    ///
    /// The journal may be a URL in a store.
    #[cfg_attr(feature = "clap", arg(long, value_name = "K/N", requires = "journal"))]
    #[serde(deserialize_with = "value::from_text")]
    pub shard: Option<Shard>,
    /// Import the journals of shards instead of reading their files: a path, URL or pattern; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "JOURNAL", conflicts_with = "shard"))]
    #[serde(deserialize_with = "value::texts")]
    pub merge: Vec<String>,
    /// Start over, ignoring the journal
    #[cfg_attr(feature = "clap", arg(long))]
    pub restart: bool,
    /// Read files again that failed in earlier runs
    #[cfg_attr(feature = "clap", arg(long))]
    pub retry_failed: bool,
    /// Write the output without failed files if there are at most N [default: 0]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)
    )]
    pub max_failures: u64,
    /// Write the output without files that failed
    #[cfg_attr(feature = "clap", arg(long))]
    pub skip_failed: bool,
    /// Add new files to those of earlier runs
    ///
    /// The files of earlier runs are those in the journal, whichever inputs they came from.
    #[cfg_attr(feature = "clap", arg(long))]
    pub append: bool,
    /// Drop files that no longer exist instead of failing
    #[cfg_attr(feature = "clap", arg(long))]
    pub drop_vanished: bool,
    /// With --append, read files again that were replaced since an earlier run, instead of failing
    #[cfg_attr(feature = "clap", arg(long))]
    pub reread_changed: bool,
    /// With --append, forget files of earlier runs that are in no output and not among the inputs
    #[cfg_attr(feature = "clap", arg(long))]
    pub drop_unwritten: bool,
    /// With --append, check for all files of earlier runs whether they have changed [default: the newest 1000]
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "no_recheck"))]
    pub recheck: bool,
    /// Do not check whether files of earlier runs have changed where the listing does not tell
    #[cfg_attr(feature = "clap", arg(long))]
    pub no_recheck: bool,
    /// Attempts per file when a store fails or the file changes [default: 3]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = value::parse_count))]
    #[serde(deserialize_with = "value::count")]
    pub attempts: Option<usize>,
}

impl BatchOptions {
    /// Returns what is written to `output`, a path or URL; `None` if neither the format nor the output's name tells.
    pub fn target(&self, output: &str) -> Option<Target> {
        let target = match self.format {
            #[cfg(feature = "icechunk")]
            Some(OutputFormat::Icechunk) => return Some(self.commit()),
            Some(OutputFormat::References(format)) => Target::References(format),
            None if self.each => Target::default(),
            None => Target::of_name(output)?,
        };
        Some(match target {
            Target::References(format) => Target::References(self.write.format(format)),
            #[cfg(feature = "icechunk")]
            Target::Icechunk(_) => self.commit(),
        })
    }

    #[cfg(feature = "icechunk")]
    fn commit(&self) -> Target {
        Target::Icechunk(self.icechunk.options("many files"))
    }

    /// Starts building the batch that writes `target` to `output`, with files mapped by `options`.
    pub fn builder(&self, output: &str, target: Target, options: virtualize::Options) -> BatchBuilder {
        let layout = self.combine.layout(options.map.chunk_grid == virtualize::ChunkGridChoice::Rectilinear);
        let builder = Batch::builder(output)
            .inputs(self.files.inputs())
            .filter(self.files.filter())
            .assets(self.files.assets())
            .target(target)
            .layout(layout)
            .plan(self.combine.plan())
            .overwrite(self.write.overwrite)
            .relocation(self.write.relocation(Some(output)))
            .options(options)
            .run_options(self.run.clone());
        if self.each { builder.each() } else { builder }
    }
}

impl FileOptions {
    /// Returns what names the files.
    pub fn inputs(&self) -> Vec<Input> {
        let files = self.inputs.iter().cloned().map(Input::Files);
        let lists = self.lists.iter().cloned().map(Input::List);
        files.chain(lists).chain(self.stac.iter().cloned().map(Input::Stac)).collect()
    }

    /// Returns which of the listed files are selected.
    pub fn filter(&self) -> Filter {
        Filter {
            name: self.include.clone(),
            min_size: self.min_size,
            max_size: self.max_size,
            since: self.newer,
            before: self.older,
        }
    }

    /// Returns which assets of STAC items are selected.
    pub fn assets(&self) -> Assets {
        Assets {
            keys: self.asset.clone(),
            roles: self.asset_role.clone(),
            alternate: self.asset_alternate.clone(),
            ..Assets::default()
        }
    }
}

impl CombineOptions {
    /// Returns how files become one dataset.
    pub fn layout(&self, rectilinear: bool) -> Layout {
        Layout {
            coordinate_attributes: self.coord_from_attribute.iter().cloned().collect(),
            ..self.layout.layout(rectilinear)
        }
    }

    /// Returns how files that do not fit are treated.
    pub fn plan(&self) -> PlanOptions {
        PlanOptions {
            on_mismatch: self.on_mismatch,
            on_duplicate: self.on_duplicate,
            allow_holes: self.allow_holes,
            fill_without_sentinel: self.fill_without_sentinel,
            ..PlanOptions::default()
        }
    }
}

impl LayoutOptions {
    /// Returns how files are arranged; with `rectilinear`, chunk sizes may vary along the dimensions.
    pub fn layout(&self, rectilinear: bool) -> Layout {
        let set = |names: &[String]| names.iter().cloned().collect();
        Layout {
            concat_vars: set(&self.concat_var),
            assume_equal: set(&self.assume_equal),
            optional: set(&self.optional_var),
            coordinate_properties: self.coord_from_property.iter().cloned().collect(),
            names: self.coord_from_name.clone(),
            rectilinear,
            inline_limit: self.copy_limit.unwrap_or(Layout::INLINE_LIMIT),
            ..Layout::of_dimensions(&self.stack_dim, &self.concat_dim)
        }
    }
}

impl RunOptions {
    /// Returns the number of attempts per file.
    pub fn attempts(&self) -> u32 {
        self.attempts.map_or(3, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX))
    }
}
