use std::borrow::Cow;

use virtualize::{OptionName, Remedy};

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
    #[error("%{field} is no field of a date: Y, y, m, d, j, H, M, S are")]
    DateField { field: char },
    #[error("{format} is no type: d, f, s or a date such as %Y%m%d are")]
    PartType { format: String },
    #[error("its name is not of the pattern {pattern}")]
    Pattern { pattern: String },
    #[error("{text} is no {part}")]
    PartValue { text: String, part: String },
    #[error("its name has two values of {part}")]
    TwoValues { part: String },
    #[error("its name has two dates of {part}")]
    TwoDates { part: String },
    #[error("its name has no date that exists, for {part}")]
    NoSuchDate { part: String },
    #[error("{part} is not a dimension of the layout{existing}; {{}} and * are parts without a name")]
    UnknownPart { part: String, existing: String },
    #[error("its STAC item has no property {property}{existing}")]
    NoProperty { property: String, existing: String },
    #[error("no global attribute {attribute} that is a single value{existing}")]
    NoAttribute { attribute: String, existing: String },
    #[error("coordinate {name} is {value}, which is not a single value")]
    NotScalar { name: String, value: String },
    #[error("coordinate {name} is {now}, and {before} before")]
    CoordinateConflict { name: String, now: String, before: String },
    #[error("there is an array {name}, and a coordinate {name} from elsewhere")]
    TwoCoordinates { name: String },
    #[error("the files have an array or group of that name")]
    NameTaken,
    #[error("its values are of several kinds")]
    SeveralKinds,

    // Dimensions.
    #[error("no array has a dimension {name}{existing}")]
    NoDimension { name: String, existing: String },
    #[error("arrays have a dimension {name} already")]
    DimensionExists { name: String },
    #[error("it has dimension {name} twice")]
    RepeatedDimension { name: String },
    #[error("it does not vary along the same dimensions as before")]
    Roles,
    #[error("{own} elements along axis {axis}, and {known} in other arrays of its group")]
    UnequalLengths { own: u64, axis: usize, known: u64 },
    #[error("{left} and {right} elements at the same place")]
    UnequalSizes { left: u64, right: u64 },
    #[error(
        "a part of the file is selected along {name}, and this group has coordinates of its own along it"
    )]
    OwnCoordinates { name: String },

    // The order of files.
    #[error("the values of {path} were not read")]
    ValuesNotRead { path: String },
    #[error("the values of {path}, which are of variable length, were not read")]
    VariableLengthNotRead { path: String },
    #[error("the second has no coordinate {name}")]
    NoCoordinate { name: String },
    #[error("neither has a coordinate, so that files cannot be ordered")]
    NoOrder,
    #[error("{name} has units \"{units}\", which cannot be compared")]
    UnitsNotComparable { name: String, units: String },
    #[error("coordinates {name} of different kinds")]
    CoordinateKinds { name: String },
    #[error("{name} neither increases nor decreases throughout")]
    NotMonotone { name: String },
    #[error("{name} increases in one of them and decreases in the other")]
    Directions { name: String },
    #[error("{name} has the same ends ({ends}) and other values between them")]
    SameEnds { name: String, ends: String },
    #[error("they have the same coordinates")]
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
    #[error("its references are of another Zarr format than those before")]
    ZarrFormat,
    #[error("{what} {now}, and {before} before")]
    Differs { what: String, now: String, before: String },
    #[error("its values are not those of {url}, though it does not vary along the dimension")]
    Values { url: String },
    #[error("its values were not compared with those before")]
    NotCompared,
    #[error("{count} files do not have it, the first {first}")]
    Lacking { count: usize, first: String },
    #[error("it is an array in one file and a group in another")]
    ArrayAndGroup,
    #[error("parts that no file has cannot be distinguished from values, since {}", if *.complete { "it has no value that means \"missing\"" } else { "its missing chunks read as a value" })]
    NoMissingValue { complete: bool },

    // Chunks.
    #[error("its values were not read")]
    NotRead,
    #[error("codecs or fill value of {url} are not those of {first}")]
    Codecs { url: String, first: String },
    #[error("chunks of {size} elements along {axis} in {url}, and of {first} before")]
    ChunkSizes { axis: String, url: String, size: u64, first: u64, may_vary: bool },
    #[error(
        "{length} elements along {axis} in {url} are no whole number of chunks, which have {chunk}, and only the last file \
         may end within a chunk"
    )]
    PartialChunk { axis: String, url: String, length: u64, chunk: u64, copy_limit: u64 },
    #[error("its chunks cannot form one grid")]
    Grid,
    #[error("it has {length} elements along {name} where its file, of which a part is selected, has {of}")]
    SelectionLength { name: String, length: u64, of: u64 },
    #[error(
        "elements {start} to {last} along {name} are taken, since other files have the others, and chunks of {chunk} \
         elements do not begin there"
    )]
    SelectionStart { name: String, start: u64, last: u64, chunk: String },
    #[error("its chunks are in a file that is not listed")]
    UnknownSource,
    #[error("a chunk is not as long as its elements are")]
    ChunkLength,
    #[error("it has more elements than can be counted")]
    TooLarge,
    #[error("the effect of codec {codec} on an array with one more axis is not known")]
    ForeignCodec { codec: String },

    // Copied values.
    #[error("{bytes} bytes of values are to be copied, and at most {most} may be")]
    TooManyBytes { bytes: u64, most: u64 },
    #[error("its values do not have the expected shape")]
    ValueShape,
    #[error("values of {url} are missing, and files differ in type or in what means so")]
    MissingValues { url: String },
    #[error("its values are of types {types}, and no type holds all exactly")]
    Types { types: String },

    // Times.
    #[error("units \"{units}\" cannot be converted to those of other files, \"{first}\"")]
    Units { units: String, first: String },
    #[error("files count in several units, and {attribute} scales or changes the stored numbers")]
    PackedTimes { attribute: &'static str },
    #[error("times that follow it are packed ({attribute} of {path})")]
    PackedBounds { attribute: &'static str, path: String },
    #[error("the time that it follows is not in all files that it is in")]
    BoundsWithoutTime,
    #[error("a value of {url} cannot be converted exactly")]
    InexactTime { url: String },
    #[error("times in several units have no exact value in one unit")]
    NoCommonUnit,
    #[error("a time converted to {unit} is the value that means \"missing\"")]
    TimeIsMissing { unit: &'static str },
}

impl Problem {
    /// Returns what the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        use OptionName as O;
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
                Remedy::turn_on(O::CoordFromName, "order files by their names")
            }
            Self::SameCoordinates | Self::Overlap { .. } => Remedy::set(
                O::OnDuplicate,
                "first",
                "take each coordinate from the file that was listed first",
            )
            .or(Remedy::set(O::OnDuplicate, "last", "take it from the one that was listed last")),
            Self::Values { .. } => Remedy::turn_on(O::ConcatVar, "let it vary along the dimension")
                .or(Remedy::turn_on(O::AssumeEqual, "keep the first file's values")),
            Self::NotCompared => Remedy::turn_on(O::AssumeEqual, "keep the first file's values"),
            Self::Lacking { .. } => Remedy::turn_on(O::OptionalVar, "fill the part of files that lack it"),
            Self::NoMissingValue { .. } => {
                Remedy::turn_on(O::FillWithoutSentinel, "let them read as the fill value")
            }
            Self::ChunkSizes { may_vary: true, .. } => {
                Remedy::set(O::ChunkGrid, "rectilinear", "let chunk sizes vary")
            }
            Self::PartialChunk { copy_limit, .. } => {
                Remedy::turn_on(O::CopyLimit, format!("copy arrays larger than {copy_limit} bytes per file"))
                    .or(Remedy::advice("leave the array out"))
                    .or(Remedy::advice(REWRITE))
            }
            Self::SelectionStart { .. } => {
                Remedy::turn_on(O::CopyLimit, "copy larger arrays").or(Remedy::advice("leave the array out"))
            }
            Self::ChunkSizes { .. } | Self::NoCommonUnit => Remedy::advice(REWRITE),
            _ => return None,
        })
    }
}
