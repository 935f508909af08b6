//! Why files cannot be combined.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use virtualize::{OptionName, Remedy};

/// Error of files that cannot be put together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CombineError {
    /// A file does not suit the layout.
    #[error("{url}: {problem}")]
    File {
        /// The file.
        url: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// Two files are incompatible.
    #[error("{left} and {right}: {problem}")]
    Files {
        /// The first file.
        left: String,
        /// The second file.
        right: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// An array of a file is incompatible with the files before it.
    #[error("{path} of {url}: {problem}")]
    Array {
        /// The file.
        url: String,
        /// Path of the array.
        path: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// Positions of the grid of files without a file.
    #[error("{count} positions have no file, the first at {first}")]
    Holes {
        /// Number of empty positions.
        count: u64,
        /// Coordinates of the first.
        first: String,
    },
    /// The files are of several groups, which are not merged.
    #[error("the files are of {} eras, which are not merged: {}", eras.len(), list(eras))]
    Eras {
        /// Number of files and first file of each group.
        eras: Vec<(u64, String)>,
    },
    /// A pattern, a dimension or a coordinate is unusable.
    #[error("{option}: {problem}")]
    Option {
        /// What it is, with its name.
        option: String,
        /// Why.
        problem: Box<Problem>,
    },
    /// No file is left.
    #[error("no file has data along the dimensions")]
    Nothing,
}

impl CombineError {
    pub(crate) fn file(url: impl Into<String>, problem: Problem) -> Self {
        Self::File { url: url.into(), problem: Box::new(problem) }
    }

    pub(crate) fn array(url: impl Into<String>, path: impl Into<String>, problem: Problem) -> Self {
        Self::Array { url: url.into(), path: path.into(), problem: Box::new(problem) }
    }

    pub(crate) fn option(option: impl Into<String>, problem: Problem) -> Self {
        Self::Option { option: option.into(), problem: Box::new(problem) }
    }

    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::File { problem, .. } | Self::Files { problem, .. } | Self::Option { problem, .. } => {
                problem.remedy(None)
            }
            Self::Array { path, problem, .. } => problem.remedy(Some(path)),
            Self::Holes { .. } => {
                Some(Remedy::turn_on(OptionName::AllowHoles, "let them read as the fill value"))
            }
            Self::Eras { .. } | Self::Nothing => None,
        }
    }
}

fn list(eras: &[(u64, String)]) -> String {
    let era = |(n, first): &(u64, String)| format!("{n} from {first}");
    let shown: Vec<_> = eras.iter().take(5).map(era).collect();
    let more = if eras.len() > shown.len() { ", …" } else { "" };
    shown.join("; ") + more
}

/// Something that users of the combined dataset should know.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Note {
    /// A file, a dimension, or the path of an array.
    pub subject: String,
    /// One line of text.
    pub text: String,
}

impl Note {
    pub(crate) fn new(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), text: text.into() }
    }
}

/// Why files cannot be put together, without the names of the files.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message explains its variant and the fields")]
pub enum Problem {
    // Names of files and coordinates.
    #[error("a brace is not closed")]
    UnclosedBrace,
    #[error("no part has a name")]
    NoNamedPart,
    #[error("{reason}")]
    Expression { reason: String },
    #[error("a date ends with %")]
    DateEnd,
    #[error("unknown date directive %{field}; supported: %Y %y %m %d %j %H %M %S")]
    DateField { field: char },
    #[error("unknown field type {format:?}; expected d, f, s or a date format such as %Y%m%d")]
    PartType { format: String },
    #[error("file name does not match {pattern}")]
    Pattern { pattern: String },
    #[error("cannot parse {text:?} as {part}")]
    PartValue { text: String, part: String },
    #[error("file name has two values of {part}")]
    TwoValues { part: String },
    #[error("file name has two dates of {part}")]
    TwoDates { part: String },
    #[error("{part}: not a valid calendar date")]
    NoSuchDate { part: String },
    #[error("{part} is not a dimension of the layout{existing}; {{}} and * are parts without a name")]
    UnknownPart { part: String, existing: String },
    #[error("no property {property}{existing}")]
    NoProperty { property: String, existing: String },
    #[error("no global attribute {attribute} that is a single value{existing}")]
    NoAttribute { attribute: String, existing: String },
    #[error("coordinate {name} is {value}, which is not a single value")]
    NotScalar { name: String, value: String },
    #[error("coordinate {name} is {now}, but {before} in earlier files")]
    CoordinateConflict { name: String, now: String, before: String },
    #[error("coordinate {name} is defined both by an array and by another source")]
    TwoCoordinates { name: String },
    #[error("the files already have an array or group of that name")]
    NameTaken,
    #[error("values of several kinds")]
    SeveralKinds,

    // Dimensions.
    #[error("no array has a dimension {name}{existing}")]
    NoDimension { name: String, existing: String },
    #[error("arrays already have a dimension {name}")]
    DimensionExists { name: String },
    #[error("dimension {name} occurs twice")]
    RepeatedDimension { name: String },
    #[error("varies along other dimensions than in earlier files")]
    Roles,
    #[error("{own} elements along axis {axis}, and {known} in other arrays of its group")]
    UnequalLengths { own: u64, axis: usize, known: u64 },
    #[error("files at the same position have different lengths: {left} and {right}")]
    UnequalSizes { left: u64, right: u64 },
    #[error("a part of the file is selected along {name}, but this group has its own coordinates along it")]
    OwnCoordinates { name: String },

    // The order of files.
    #[error("the values of {path} were not read")]
    ValuesNotRead { path: String },
    #[error("the values of {path}, which are of variable length, were not read")]
    VariableLengthNotRead { path: String },
    #[error("the second file has no coordinate {name}; cannot determine the file order")]
    NoCoordinate { name: String },
    #[error("neither file has a coordinate; cannot determine the file order")]
    NoOrder,
    #[error("{name} has units \"{units}\", which cannot be compared")]
    UnitsNotComparable { name: String, units: String },
    #[error("coordinates {name} of different kinds")]
    CoordinateKinds { name: String },
    #[error("{name} neither increases nor decreases throughout")]
    NotMonotone { name: String },
    #[error("{name} increases in one of them and decreases in the other")]
    Directions { name: String },
    #[error("{name} covers the same range ({ends}) in both files, with different values")]
    SameEnds { name: String, ends: String },
    #[error("duplicate coordinates")]
    SameCoordinates,
    #[error("{name} overlaps: {left} and {right}")]
    Overlap { name: String, left: String, right: String },
    #[error("{name} overlaps that of other files, and some of its values are missing")]
    OverlapWithMissing { name: String },
    #[error(
        "{name} overlaps, and coordinates of the one lie between those of the other, so that no contiguous selection \
         separates them"
    )]
    Interleaved { name: String },

    // Agreement of arrays.
    #[error("the references are in another Zarr format than those of earlier files")]
    ZarrFormat,
    #[error("{what} {now}, but {before} in earlier files")]
    Differs { what: String, now: String, before: String },
    #[error("values differ from those of {url}, although the array does not vary along the dimension")]
    Values { url: String },
    #[error("values were not compared with those of earlier files")]
    NotCompared,
    #[error("missing from {count} files, first {first}")]
    Lacking { count: usize, first: String },
    #[error("an array in one file and a group in another")]
    ArrayAndGroup,
    #[error("gaps cannot be distinguished from values, since {}", if *.complete { "the array has no value that means \"missing\"" } else { "missing chunks read as a value" })]
    NoMissingValue { complete: bool },

    // Chunks.
    #[error("values were not read")]
    NotRead,
    #[error("codecs or fill value of {url} are not those of {first}")]
    Codecs { url: String, first: String },
    #[error("chunks of {size} elements along {axis} in {url}, but {first} in earlier files")]
    ChunkSizes { axis: String, url: String, size: u64, first: u64, may_vary: bool },
    #[error(
        "{length} elements along {axis} in {url} are not a multiple of the chunk length {chunk}, and only the last file may end \
         within a chunk"
    )]
    PartialChunk { axis: String, url: String, length: u64, chunk: u64, copy_limit: u64 },
    #[error("the chunks cannot form one grid")]
    Grid,
    #[error("it has {length} elements along {name} where its file, of which a part is selected, has {of}")]
    SelectionLength { name: String, length: u64, of: u64 },
    #[error(
        "elements {start} to {last} along {name} are selected, since other files have the others, but no chunk of {chunk} \
         elements begins there"
    )]
    SelectionStart { name: String, start: u64, last: u64, chunk: String },
    #[error("the chunks are in a file that is not listed")]
    UnknownSource,
    #[error("chunk length does not match its shape")]
    ChunkLength,
    #[error("too many elements")]
    TooLarge,
    #[error("unknown effect of codec {codec} on an array with one more axis")]
    ForeignCodec { codec: String },

    // Copied values.
    #[error("{bytes} bytes of values to inline, more than the limit of {most}")]
    TooManyBytes { bytes: u64, most: u64 },
    #[error("the values do not have the expected shape")]
    ValueShape,
    #[error("{url} has missing values, but the files disagree on dtype or fill value")]
    MissingValues { url: String },
    #[error("no common dtype represents {types} exactly")]
    Types { types: String },

    // Times.
    #[error("units \"{units}\" cannot be converted to those of other files, \"{first}\"")]
    Units { units: String, first: String },
    #[error("time units differ and the values are packed ({attribute})")]
    PackedTimes { attribute: &'static str },
    #[error("{path} is packed ({attribute}); packed times cannot be converted")]
    PackedBounds { attribute: &'static str, path: String },
    #[error("bounds variable present in files that lack its time coordinate")]
    BoundsWithoutTime,
    #[error("a value of {url} cannot be converted exactly")]
    InexactTime { url: String },
    #[error("times in several units have no exact value in one unit")]
    NoCommonUnit,
    #[error("a time converted to {unit} is the value that means \"missing\"")]
    TimeIsMissing { unit: &'static str },
}

impl Problem {
    /// Returns what the user can do. `path` is the array, if the problem is that of one.
    pub fn remedy(&self, path: Option<&str>) -> Option<Remedy> {
        use OptionName as O;
        let var = |rule: &str, effect: &'static str| {
            Remedy::set(O::Var, format!("{}={rule}", path.unwrap_or("NAME")), effect)
        };
        const REWRITE: Cow<'static, str> = Cow::Borrowed("write the files again");
        Some(match self {
            Self::UnknownPart { part, .. } => {
                Remedy::set(O::ConcatDim, part.clone(), "join files along it, if they have that dimension")
                    .or(Remedy::set(O::StackDim, part.clone(), "add it as a new dimension"))
            }
            Self::NoDimension { name, .. } => {
                Remedy::set(O::StackDim, name.clone(), "add it as a new dimension")
            }
            Self::DimensionExists { name } => Remedy::set(O::ConcatDim, name.clone(), "join files along it"),
            Self::VariableLengthNotRead { .. } | Self::NoOrder => {
                Remedy::set(O::Coord, "DIM=name:PATTERN", "order files by their names")
            }
            Self::SameCoordinates | Self::Overlap { .. } => Remedy::set(
                O::OnDuplicate,
                "first",
                "take each coordinate from the file that was listed first",
            )
            .or(Remedy::set(O::OnDuplicate, "last", "take it from the one that was listed last")),
            Self::Values { .. } => var("vary", "let it vary along the dimension")
                .or(var("first", "keep the first file's values"))
                .or(var("drop", "leave it out")),
            Self::NotCompared => var("first", "keep the first file's values"),
            Self::Lacking { .. } => {
                var("optional", "fill the part of files that lack it").or(var("drop", "leave it out"))
            }
            Self::NoMissingValue { .. } => {
                Remedy::turn_on(O::FillWithoutSentinel, "let them read as the fill value")
            }
            Self::ChunkSizes { may_vary: true, .. } => {
                Remedy::set(O::ChunkGrid, "rectilinear", "let chunk sizes vary")
            }
            Self::PartialChunk { copy_limit, .. } => {
                Remedy::turn_on(O::CopyLimit, format!("copy arrays larger than {copy_limit} bytes per file"))
                    .or(var("drop", "leave it out"))
                    .or(Remedy::advice(REWRITE))
            }
            Self::SelectionStart { .. } => {
                Remedy::turn_on(O::CopyLimit, "copy larger arrays").or(var("drop", "leave it out"))
            }
            Self::ChunkSizes { .. } | Self::NoCommonUnit => Remedy::advice(REWRITE),
            _ => return None,
        })
    }
}
