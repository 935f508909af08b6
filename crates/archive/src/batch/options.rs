//! Options of a batch as users write them: flags of the command, members of a JSON object; and those that rows of the journal
//! depend on.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};
use virtualize::{
    InlineOptions, Limits, MapOptions, Options, Relocation,
    options::{
        IcechunkOptions, OutputFormat, WriteOptions,
        value::{self, InvalidValue},
    },
    zarr::ZarrFormat,
};

use super::{Batch, Shard, Target};
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

// Options that rows of the journal depend on, by name: a run with other options must not use those rows. Values are JSON, so
// that they mean the same in every build of one version.

/// Returns the options of opening and mapping that affect the record of a file, unlike those of access.
///
/// The patterns name every field: a new option does not compile before it is decided whether rows depend on it.
pub(super) fn of_options(options: &Options) -> BTreeMap<String, String> {
    // A sidecar yields the references of the file itself.
    let Options {
        store: _,
        map,
        limits,
        inline,
        strict,
        readable_by,
        hdf5_reader,
        gate: _,
        notation: _,
        dmrpp: _,
        sidecars,
        // They are among the properties of the file.
        declared_bands: _,
        version: _,
        rewrite: _,
    } = options;
    let readers: Vec<String> = readable_by.iter().map(ToString::to_string).collect();
    let InlineOptions { below, coordinates, total } = inline;
    let mut all = of_mapping(map);
    all.extend(named([
        ("sidecars", json!(sidecars)),
        ("strict", json!(strict)),
        ("readable-by", json!(readers)),
        ("hdf5-reader", json!(hdf5_reader)),
        ("inline-below", json!(below)),
        ("inline-coordinates", json!(coordinates)),
        ("inline-total", json!(total)),
        ("limits", of_limits(limits)),
    ]));
    all
}

fn of_mapping(map: &MapOptions) -> BTreeMap<String, String> {
    let MapOptions {
        format,
        complex_integers,
        inline_limit,
        constant_chunk_limit,
        ifds,
        chunk_grid,
        stack,
        split_contiguous,
        unpack,
        missing_value_convention,
        ragged,
        follow_external,
        // Follows from `readable-by`.
        own_codecs: _,
        source_attributes: _,
    } = map;
    let zarr_format = match format {
        ZarrFormat::V2 => 2,
        ZarrFormat::V3 => 3,
    };
    named([
        ("zarr-format", json!(zarr_format)),
        ("complex-integers", json!(complex_integers)),
        ("inline-limit", json!(inline_limit)),
        ("constant-chunk-limit", json!(constant_chunk_limit)),
        ("ifd", json!(ifds)),
        ("chunk-grid", json!(chunk_grid)),
        ("stack", json!(stack)),
        ("split-contiguous", json!(split_contiguous)),
        ("unpack", json!(unpack)),
        ("missing-value-convention", json!(missing_value_convention)),
        ("ragged", json!(ragged)),
        ("follow-external", json!(follow_external)),
    ])
}

fn of_limits(limits: &Limits) -> Value {
    let Limits { objects, depth, chunks, structure_bytes, metadata_bytes, attributes } = limits;
    json!({
        "objects": objects,
        "depth": depth,
        "chunks": chunks,
        "structure-bytes": structure_bytes,
        "metadata-bytes": metadata_bytes,
        "attributes": attributes,
    })
}

/// Returns the options of combining that affect the record of a file.
pub(super) fn of_layout(layout: &Layout) -> BTreeMap<String, String> {
    let Layout {
        along,
        concat_vars,
        assume_equal,
        optional,
        fills,
        dropped,
        coordinate_attributes,
        coordinate_properties,
        names,
        rectilinear,
        inline_limit,
    } = layout;
    let dimension = |along: &Along| match along {
        Along::Concat(name) => json!({ "concat-dim": name }),
        Along::Stack(name) => json!({ "stack-dim": name }),
    };
    named([
        ("dimensions", along.iter().map(dimension).collect()),
        (
            "var",
            json!({
                "vary": concat_vars,
                "first": assume_equal,
                "optional": optional,
                "fill": fills,
                "drop": dropped,
            }),
        ),
        (
            "coord",
            json!({
                "attribute": coordinate_attributes,
                "property": coordinate_properties,
                "name": names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        ),
        ("rectilinear", json!(rectilinear)),
        ("copy-limit", json!(inline_limit)),
    ])
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
        ("record-size", json!(record_size)),
        ("urls", json!(relocation)),
    ])
}

/// Returns the texts of values, by name.
fn named<const N: usize>(options: [(&str, Value); N]) -> BTreeMap<String, String> {
    options.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and values are in journals and parts: a change makes them belong to another run.
    #[test]
    fn defaults_are_written_as_json() {
        let all = of_options(&Options::default());
        let text = serde_json::to_string(&all).unwrap_or_default().replace("\\\"", "'");
        let expected = "{\"chunk-grid\":\"'regular'\",\"complex-integers\":\"'complex'\",\"constant-chunk-limit\":\"10000\",\"follow-external\":\"false\",\
            \"hdf5-reader\":\"'native'\",\"ifd\":\"[]\",\"inline-below\":\"0\",\"inline-coordinates\":\"false\",\
            \"inline-limit\":\"16777216\",\"inline-total\":\"268435456\",\
            \"limits\":\"{'attributes':1000000,'chunks':200000000,'depth':64,'metadata-bytes':17179869184,\
            'objects':1000000,'structure-bytes':1073741824}\",\"missing-value-convention\":\"false\",\
            \"ragged\":\"false\",\"readable-by\":\"[]\",\"sidecars\":\"false\",\"split-contiguous\":\"null\",\"stack\":\"false\",\"strict\":\"false\",\
            \"unpack\":\"false\",\"zarr-format\":\"2\"}";
        assert_eq!(text, expected);
        let layout = Layout::along(vec![Along::Concat("time".to_owned()), Along::Stack("member".to_owned())]);
        let expected = r#"[{"concat-dim":"time"},{"stack-dim":"member"}]"#;
        assert_eq!(of_layout(&layout).get("dimensions").map(String::as_str), Some(expected));
    }
}
