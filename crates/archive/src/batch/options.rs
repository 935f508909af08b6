//! Options of a batch as users write them: flags of the command, members of a JSON object; and those that rows of the journal
//! depend on.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};
use virtualize::{
    Format, InlineOptions, Limits, MapOptions, Options, Relocation,
    options::{
        IcechunkOptions, OutputFormat, WriteOptions,
        value::{self, InvalidValue},
    },
    zarr::ZarrFormat,
};
use virtualize_remedy::similar;

use super::{Batch, Shard};
use crate::{
    Along, ArrayRule, Layout, NamePattern, PlanOptions,
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
    pub layout: LayoutOptions,
    /// How files that disagree are treated.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub plan: PlanOptions,
    /// How the run proceeds.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub run: RunOptions,
    /// What is committed where.
    #[cfg_attr(feature = "clap", command(flatten))]
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
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "KEY"))]
    #[serde(deserialize_with = "value::texts")]
    pub asset: Vec<String>,
    /// Select STAC assets with this role; may be repeated
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "ROLE"))]
    #[serde(deserialize_with = "value::texts")]
    pub asset_role: Vec<String>,
    /// Read STAC assets at their alternate location of this name, such as s3
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "NAME"))]
    pub asset_alternate: Option<String>,
    /// Select files whose name matches PATTERN
    ///
    /// A PATTERN that contains a / is compared with the end of the path.
    #[cfg_attr(feature = "clap", arg(long, value_name = "PATTERN"))]
    pub include: Option<String>,
}

/// Along which dimensions files are combined.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Combining options"))]
pub struct LayoutOptions {
    /// Concatenate files along an existing dimension; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM"))]
    #[serde(deserialize_with = "value::texts")]
    pub concat_dim: Vec<String>,
    /// Stack files along a new dimension; may be repeated, the outermost dimension first
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM"))]
    #[serde(deserialize_with = "value::texts")]
    pub stack_dim: Vec<String>,
    /// Take the coordinates along a dimension from elsewhere; may be repeated
    ///
    /// SOURCE is attribute:NAME (an attribute, or PATH/NAME for that of a group or array), property:NAME (a property of the
    /// STAC item or of the list), or name:PATTERN (the file name). Text that is a time becomes one; NAME@day rounds it down to
    /// the day. In a PATTERN such as t2m_{time:%Y%m%d}_{member:d}.nc, fields are {name} (text),
    /// {name:d} (whole number), {name:f} (real number) and {name:%Y%m%d} (date); * matches any text. Alternatively it is a
    /// regular expression with named groups. DIM names all dimensions of the pattern, separated by commas.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIM=SOURCE", value_parser = parse_coord))]
    #[serde(deserialize_with = "coords")]
    pub coord: Vec<(String, CoordSource)>,
    /// Treat an array differently from the others; may be repeated
    ///
    /// NAME is a name, a path, or * for all arrays. vary: give it the dimensions, so that it may differ between files.
    /// first: take it from the first file without comparing it with the others. optional: allow files without it, where it is
    /// missing; optional:VALUE makes VALUE its fill value, if it has none that means "missing". drop: omit it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME=vary|first|optional|drop", value_parser = parse_var))]
    #[serde(deserialize_with = "vars")]
    pub var: Vec<(String, ArrayRule)>,
    /// Inline arrays of up to SIZE per file if their chunks cannot be aligned [default: 64K]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "SIZE", value_parser = value::parse_limit))]
    #[serde(deserialize_with = "value::size")]
    pub copy_limit: Option<u64>,
}

/// Source of the coordinates along a dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CoordSource {
    /// An attribute of each file.
    Attribute(String),
    /// A property of the STAC item, or of the line of a list.
    Property(String),
    /// The name of each file.
    Name(NamePattern),
}

impl FromStr for CoordSource {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text.split_once(':') {
            Some(("attribute", name)) if !name.is_empty() => Ok(Self::Attribute(name.to_owned())),
            Some(("property", name)) if !name.is_empty() => Ok(Self::Property(name.to_owned())),
            Some(("name", pattern)) => {
                let pattern = NamePattern::new(pattern);
                pattern.map(Self::Name).map_err(|error| InvalidValue::expected(format!("a pattern: {error}")))
            }
            _ => Err(InvalidValue::expected("DIM=attribute:NAME, DIM=property:NAME or DIM=name:PATTERN")),
        }
    }
}

/// Parses `DIM=SOURCE`.
///
/// # Errors
/// Any other text, and dimensions that are not the fields of the pattern.
fn parse_coord(text: &str) -> Result<(String, CoordSource), InvalidValue> {
    let (dimensions, source) = value::parse_pair(text)?;
    let source = source.parse()?;
    if let CoordSource::Name(pattern) = &source {
        let mut given: Vec<_> = dimensions.split(',').map(str::to_owned).collect();
        given.sort();
        if given != pattern.names() {
            let names = pattern.names().join(",");
            return Err(InvalidValue::expected(format!(
                "the names of the pattern's fields: {names}=name:{pattern}"
            )));
        }
    }
    Ok((dimensions, source))
}

/// Parses `NAME=RULE`.
///
/// # Errors
/// Any other text.
fn parse_var(text: &str) -> Result<(String, ArrayRule), InvalidValue> {
    let (name, rule) = value::parse_pair(text)?;
    Ok((name, rule.parse()?))
}

fn coords<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, CoordSource)>, D::Error> {
    let pairs = value::pairs(from)?;
    pairs.iter().map(|(key, text)| parse_coord(&format!("{key}={text}")).map_err(D::Error::custom)).collect()
}

fn vars<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, ArrayRule)>, D::Error> {
    let pairs = value::pairs(from)?;
    pairs.iter().map(|(name, rule)| parse_var(&format!("{name}={rule}")).map_err(D::Error::custom)).collect()
}

/// How files of earlier runs are treated that were changed or deleted since. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnChange {
    /// Fail, and name the files
    #[default]
    Stop,
    /// Read changed files again; fail if files were deleted
    Update,
    /// Read changed files again, and drop deleted ones and, with --append, those that were never written
    Drop,
}

/// How files that cannot be read are treated. As JSON, the word in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum OnFailure {
    /// Read all other files, then fail without an output; the next run retries files whose store was unavailable
    #[default]
    Stop,
    /// Write the output without these files
    Skip,
    /// Retry all files that failed in earlier runs, then stop if any fails
    Retry,
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
    /// Add new files to those of earlier runs
    ///
    /// The files of earlier runs are those in the journal, whichever inputs they came from.
    #[cfg_attr(feature = "clap", arg(long))]
    pub append: bool,
    /// Read new files and report what would be written, without writing anything
    #[cfg_attr(feature = "clap", arg(long))]
    pub dry_run: bool,
    /// How to treat files of earlier runs that were changed or deleted since
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "stop", value_name = "ACTION"))]
    pub on_change: OnChange,
    /// How to treat files that cannot be read
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value = "stop", value_name = "ACTION"))]
    pub on_failure: OnFailure,
    /// Maximum number of files that may fail without preventing the output [default: 0]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N", default_value_t = 0))]
    pub max_failures: u64,
    /// Attempts per file when a store fails or the file changes [default: 3]
    #[cfg_attr(feature = "clap", arg(long, hide = true, value_name = "N", value_parser = value::parse_count))]
    #[serde(deserialize_with = "value::count")]
    pub attempts: Option<usize>,
}

impl BatchOptions {
    /// Returns what is written to `output`, a path or URL; `None` if neither the format nor the output's name tells.
    pub fn target(&self, output: &str) -> Option<Target> {
        let target = match self.format {
            Some(OutputFormat::Icechunk) => return Some(self.commit()),
            Some(OutputFormat::References(format)) => Target::References(format),
            None if self.each => Target::default(),
            None => Target::of_name(output)?,
        };
        Some(match target {
            Target::References(format) => Target::References(self.write.format(format)),
            Target::Icechunk(_) => self.commit(),
        })
    }

    fn commit(&self) -> Target {
        Target::Icechunk(self.icechunk.options("many files"))
    }

    /// Returns the batch that writes `target` to `output`, with files mapped by `options`.
    pub fn batch(&self, output: &str, target: Target, options: virtualize::Options) -> Batch {
        let rectilinear = options.map.chunk_grid == virtualize::ChunkGridChoice::Rectilinear;
        let files = options.store.concurrency;
        Batch {
            inputs: self.files.inputs(),
            filter: self.files.filter(),
            assets: self.files.assets(),
            each: self.each,
            layout: self.layout.layout(rectilinear),
            plan: self.plan.clone(),
            overwrite: self.write.overwrite,
            relocation: self.write.relocation(Some(output)),
            run: self.run.clone(),
            files,
            ..Batch::new(output, target, options)
        }
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
        Filter { name: self.include.clone() }
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

impl LayoutOptions {
    /// Returns how files are arranged; with `rectilinear`, chunk sizes may vary along the dimensions.
    pub fn layout(&self, rectilinear: bool) -> Layout {
        let mut layout = Layout {
            rectilinear,
            inline_limit: self.copy_limit.unwrap_or(Layout::INLINE_LIMIT),
            ..Layout::of_dimensions(&self.stack_dim, &self.concat_dim)
        };
        self.var.iter().for_each(|(name, rule)| layout.treat(name, rule));
        for (dimension, source) in &self.coord {
            match source.clone() {
                CoordSource::Attribute(name) => {
                    drop(layout.coordinate_attributes.insert(dimension.clone(), name))
                }
                CoordSource::Property(name) => {
                    drop(layout.coordinate_properties.insert(dimension.clone(), name))
                }
                CoordSource::Name(pattern) => layout.names.push(pattern),
            }
        }
        layout
    }
}

impl RunOptions {
    /// Returns the number of attempts per file.
    pub fn attempts(&self) -> u32 {
        self.attempts.map_or(3, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX))
    }
}

/// Extensions of outputs that select a target.
const EXTENSIONS: [&str; 5] = ["json", "parquet", "parq", "zarr", "icechunk"];

/// Output of a batch.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum Target {
    /// References.
    References(Format),
    /// A commit to an Icechunk repository.
    Icechunk(virtualize::CommitOptions),
}

impl Default for Target {
    fn default() -> Self {
        Self::References(Format::KERCHUNK_JSON)
    }
}

impl Target {
    /// Returns the target for the extension of an output: `.json`, `.parquet`, `.parq`, `.zarr`, `.icechunk`.
    pub fn of_name(output: &str) -> Option<Self> {
        Some(match OutputFormat::of_name(output)? {
            OutputFormat::References(format) => Self::References(format),
            OutputFormat::Icechunk => Self::Icechunk(virtualize::CommitOptions::default()),
        })
    }

    /// Describes why the extension of `output` selects no target.
    pub fn unknown_extension(output: &str) -> String {
        let (stem, extension) = output.trim_end_matches('/').rsplit_once('.').unwrap_or((output, ""));
        let meant = similar(extension, EXTENSIONS).map(|meant| format!("did you mean \"{stem}.{meant}\"? "));
        let [others @ .., last] = EXTENSIONS;
        let meant = meant.unwrap_or_default();
        format!("the extension selects no format ({meant}.{} and .{last} do)", others.join(", ."))
    }

    /// Returns the Zarr format to map files to.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::References(format) => format.zarr_format(),
            Self::Icechunk(_) => ZarrFormat::V3,
        }
    }

    /// Returns the extension of outputs.
    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::References(format) => format.suffix(),
            Self::Icechunk(_) => ".icechunk",
        }
    }
}

// Options that rows of the journal depend on, by name: a run with other options must not use those rows. Values are JSON, so
// that they mean the same in every build of one version.

/// Returns fields of a struct as JSON, by name. The pattern names every field: a new option does not compile before it is
/// decided whether rows depend on it.
macro_rules! fields {
    ($of:expr => $struct:ident { $($field:ident),* $(,)? } except $($other:ident),*) => {{
        let $struct { $($field,)* $($other: _),* } = $of;
        [$((stringify!($field), json!($field))),*]
    }};
}

/// Returns the options of opening and mapping that affect the record of a file, unlike those of access.
pub(super) fn of_options(options: &Options) -> BTreeMap<String, String> {
    let readers: Vec<String> = options.readable_by.iter().map(ToString::to_string).collect();
    let zarr_format = if options.map.format == ZarrFormat::V2 { 2 } else { 3 };
    // A sidecar yields the references of the file itself; declared bands are among its properties.
    let opening = fields!(options => Options { sidecars, ome_zarr, strict, hdf5_reader } except
        store, map, limits, inline, readable_by, gate, notation, dmrpp, declared_bands, version, rewrite_url);
    // The codecs follow from `readable-by`.
    let mapping = fields!(&options.map => MapOptions {
        complex_integers, inline_limit, constant_chunk_limit, ifds, chunk_grid, stack_pages, split_contiguous, unpack,
        missing_value_convention, spatial_conventions, ragged, follow_external
    } except format, own_codecs, source_attributes);
    let inline = fields!(&options.inline => InlineOptions { below, coordinates, total } except);
    let limits = fields!(&options.limits => Limits {
        objects, depth, chunks, structure_bytes, metadata_bytes, attributes
    } except);
    let others = [("readable_by", json!(readers)), ("zarr_format", json!(zarr_format))];
    let mut all = named(opening.into_iter().chain(mapping).chain(others));
    for (group, options) in [("inline", inline.to_vec()), ("limits", limits.to_vec())] {
        all.extend(named(options).into_iter().map(|(name, value)| (format!("{group}-{name}"), value)));
    }
    all
}

/// Returns the options of combining that affect the record of a file.
pub(super) fn of_layout(layout: &Layout) -> BTreeMap<String, String> {
    let dimension = |along: &Along| match along {
        Along::Concat(name) => json!({ "concat-dim": name }),
        Along::Stack(name) => json!({ "stack-dim": name }),
    };
    let rules = fields!(layout => Layout {
        concat_vars, assume_equal, optional, fills, dropped, coordinate_attributes, coordinate_properties,
        rectilinear
    } except along, names, inline_limit);
    let names = layout.names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let dimensions = layout.along.iter().map(dimension).collect();
    let others =
        [("dimensions", dimensions), ("names", json!(names)), ("copy_limit", json!(layout.inline_limit))];
    named(rules.into_iter().chain(others))
}

/// Returns the dimensions in the options of a layout, as [`of_layout`] wrote them.
pub(super) fn dimensions_of(options: &BTreeMap<String, String>) -> Option<Vec<Along>> {
    let dimensions: Vec<BTreeMap<String, String>> = serde_json::from_str(options.get("dimensions")?).ok()?;
    let along = dimensions.iter().flatten().map(|(kind, name)| match kind.as_str() {
        "stack-dim" => Along::Stack(name.clone()),
        _ => Along::Concat(name.clone()),
    });
    Some(along.collect()).filter(|along: &Vec<_>| !along.is_empty())
}

/// Returns the options of single outputs that affect the record of a file.
pub(super) fn of_each(output: &str, target: &Target, relocation: &Relocation) -> BTreeMap<String, String> {
    let (format, record_size) = match target {
        Target::References(format) => (format.name(), Some(format.record_size())),
        Target::Icechunk(_) => ("icechunk", None),
    };
    named([
        ("output", json!(output.trim_end_matches('/'))),
        ("format", json!(format)),
        ("record_size", json!(record_size)),
        ("urls", json!(relocation)),
    ])
}

/// Returns the texts of values, by name.
fn named(options: impl IntoIterator<Item = (&'static str, Value)>) -> BTreeMap<String, String> {
    options.into_iter().map(|(name, value)| (name.replace('_', "-"), value.to_string())).collect()
}
