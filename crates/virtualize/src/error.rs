use std::sync::Arc;

use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind};
use virtualize_codec::CodecFailure;
use virtualize_map::Diagnostic;
use virtualize_remedy::{Code, Notation, OptionName, Remedy};
use virtualize_store::StoreError;
use virtualize_zarr::DataType;

use crate::selection::SelectionError;

/// Description of a file whose format is not supported.
pub(crate) const NONE_OF_THEM: &str = "neither HDF5, NetCDF nor TIFF";

/// Error of reading, mapping or converting a file, or of writing references. One line that names the file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Bytes of the open file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file is of no supported format.
    #[error("{name}: {NONE_OF_THEM}: {found}")]
    Format {
        /// The file.
        name: String,
        /// Description of the file's content, as a clause.
        found: String,
    },
    /// A structure of an HDF5 file is damaged or not supported.
    #[error("{}", named(name, source))]
    Hdf5 {
        /// The file.
        name: String,
        /// Structure, address, expected and found.
        source: virtualize_hdf5::Error,
    },
    /// A structure of a NetCDF classic file is damaged.
    #[error("{}", named(name, source))]
    Netcdf3 {
        /// The file.
        name: String,
        /// Structure, offset, expected and found.
        source: virtualize_netcdf3::Error,
    },
    /// A structure of a TIFF file is damaged or not supported.
    #[error("{}", named(name, source))]
    Tiff {
        /// The file.
        name: String,
        /// Structure, offset, expected and found.
        source: virtualize_tiff::Error,
    },
    /// A reference set is damaged or not supported.
    #[error("{name}: {reason}")]
    References {
        /// Path or url of the reference set.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The mapping refuses the file.
    #[error("{}", refusal(name, diagnostics, ToString::to_string))]
    Refused {
        /// The file.
        name: String,
        /// Reasons, at least one.
        diagnostics: Vec<Diagnostic>,
    },
    /// The mapping raised warnings, and `strict` is set.
    #[error("{name}: refused because of {} warning{}", diagnostics.len(), if diagnostics.len() == 1 { "" } else { "s" })]
    Strict {
        /// The file.
        name: String,
        /// The warnings.
        diagnostics: Vec<Diagnostic>,
    },
    /// The output would replace a file that it refers to.
    #[error("{name}: the output would replace the file that it refers to")]
    OverInput {
        /// The file.
        name: String,
    },
    /// Committing the references to Icechunk failed.
    #[cfg(feature = "icechunk")]
    #[error("{name}: {source}")]
    Icechunk {
        /// The repository.
        name: String,
        /// Reason.
        source: virtualize_icechunk::IcechunkError,
    },
    /// The values of an array could not be read.
    #[error("{name}: /{path}: {source}")]
    Values {
        /// The file or references.
        name: String,
        /// The array.
        path: String,
        /// Reason.
        source: Box<ArrayError>,
    },
    /// The urls of sources cannot be changed as requested.
    #[error("url of a source: {0}")]
    Relocation(#[from] RelocationError),
    /// A relative url in references names two different files.
    #[error("url of a source: {url:?} exists both beside the references and in the working directory")]
    AmbiguousUrl {
        /// The relative url.
        url: String,
    },
    /// The chunks to write could not be read.
    #[error("{source}")]
    Chunks {
        /// The error of the reader of the chunks.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The output format cannot express the references, or they could not be written.
    #[error("{name}: {reason}")]
    Emit {
        /// The output.
        name: String,
        /// Reason.
        reason: String,
        /// The reader of the output pipe has exited.
        broken_pipe: bool,
    },
}

/// Reason why the urls of sources could not be changed. Urls are given without their queries, which may contain
/// signatures.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RelocationError {
    /// A rule does not connect two places.
    #[error("{from:?} to {to:?}: expected a url or path, and a url or absolute path")]
    Rule {
        /// The prefix to replace.
        from: String,
        /// Its replacement.
        to: String,
    },
    /// A relative path could not be made absolute.
    #[error("{path}: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Reason.
        reason: String,
    },
    /// A text is not a rule.
    #[error("{text:?}: expected FROM=TO, where TO is a url or an absolute path")]
    Syntax {
        /// The text.
        text: String,
    },
    /// Two sources would become indistinguishable.
    #[error("two sources would have one url")]
    SameUrl,
    /// Names cannot be appended to a url with a query.
    #[error("{url} cannot be rewritten: {to} has a query")]
    QueryInRule {
        /// The source.
        url: String,
        /// The replacement.
        to: String,
    },
    /// The query of a source has no equivalent outside HTTP.
    #[error("{url} cannot be rewritten: its url has a query")]
    Query {
        /// The source.
        url: String,
    },
    /// The escapes of a url do not decode to text.
    #[error("{url} cannot be rewritten: its url is not UTF-8")]
    NotUtf8 {
        /// The source.
        url: String,
    },
    /// A rule matches no source.
    #[error("{from} is a prefix of no source; the first is {first}")]
    UnusedRule {
        /// The prefix of the rule.
        from: String,
        /// The first source, or "none".
        first: String,
    },
    /// A source has no relative url.
    #[error("{url} lies outside {folder}, the folder of the output")]
    OutsideFolder {
        /// The source.
        url: String,
        /// Folder of the output.
        folder: String,
    },
}

/// Class of an error, which determines exit status and HTTP status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// The request is invalid or contradicts itself, whatever is stored anywhere.
    Usage,
    /// The request is valid, but not with what is stored already: the output is not empty, or an earlier run had other
    /// options.
    Conflict,
    /// The file does not exist.
    NotFound,
    /// Access is not permitted.
    Denied,
    /// The file changed while it was read.
    Changed,
    /// The network, a disk or a store failed.
    Unavailable,
    /// The file is damaged, of another format, or cannot be mapped.
    File,
    /// The reader of the output has exited.
    BrokenPipe,
}

impl Error {
    /// Returns the error of a chunk that could not be read.
    pub(crate) fn of_chunks(error: virtualize_zarr::ChunkReadError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => Self::Chunks { source: error.into() },
        }
    }

    /// Returns the error of reading an array's values.
    pub(crate) fn of_array(name: &str, path: &str, error: ArrayError) -> Self {
        match error {
            ArrayError::Store(error) => Self::Store(error),
            ArrayError::Read(error) => Self::Read(error),
            ArrayError::Changed { name } => {
                let message = format!("{name}: the file has changed since it was opened");
                Self::Read(ReadError::new(ReadErrorKind::Changed, message))
            }
            source => Self::Values { name: name.to_owned(), path: path.to_owned(), source: Box::new(source) },
        }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Store(StoreError::Occupied { .. }) | Self::AmbiguousUrl { .. } => ErrorClass::Conflict,
            Self::Store(StoreError::Option { .. }) | Self::OverInput { .. } | Self::Relocation(_) => {
                ErrorClass::Usage
            }
            #[cfg(feature = "icechunk")]
            Self::Icechunk { source: virtualize_icechunk::IcechunkError::Location { .. }, .. } => {
                ErrorClass::Usage
            }
            #[cfg(feature = "icechunk")]
            Self::Icechunk { .. } => ErrorClass::Unavailable,
            Self::Store(error) => of_kind(error.kind()),
            Self::Read(error) => of_kind(error.kind),
            Self::Hdf5 { source: virtualize_hdf5::Error::Read(error), .. }
            | Self::Netcdf3 { source: virtualize_netcdf3::Error::Read(error), .. }
            | Self::Tiff { source: virtualize_tiff::Error::Read(error), .. } => of_kind(error.kind),
            Self::Emit { broken_pipe: true, .. } => ErrorClass::BrokenPipe,
            Self::Emit { .. } | Self::Chunks { .. } => ErrorClass::Unavailable,
            _ => ErrorClass::File,
        }
    }

    /// Returns the code of the error: that of the first diagnostic if the mapping refuses the file.
    pub fn code(&self) -> Code {
        use virtualize_hdf5::Error as H;
        use virtualize_netcdf3::Error as N;
        use virtualize_tiff::Error as T;
        match self {
            Self::Store(error) => of_store(error),
            Self::Read(error)
            | Self::Hdf5 { source: H::Read(error), .. }
            | Self::Netcdf3 { source: N::Read(error), .. }
            | Self::Tiff { source: T::Read(error), .. } => of_read(error.kind),
            Self::Format { .. } => Code::Format,
            Self::Hdf5 { source: H::Truncated { .. }, .. }
            | Self::Netcdf3 { source: N::Truncated { .. }, .. }
            | Self::Tiff { source: T::Truncated { .. }, .. } => Code::FileTruncated,
            Self::Hdf5 { source: H::Unsupported { .. }, .. }
            | Self::Tiff { source: T::Unsupported { .. }, .. } => Code::FileUnsupported,
            Self::Hdf5 { source: H::Limit { .. }, .. }
            | Self::Netcdf3 { source: N::Limit { .. }, .. }
            | Self::Tiff { source: T::Limit { .. }, .. } => Code::FileLimit,
            Self::Hdf5 { .. } | Self::Netcdf3 { .. } | Self::Tiff { .. } => Code::FileMalformed,
            Self::References { .. } => Code::ReferencesInvalid,
            Self::Refused { diagnostics, .. } => diagnostics.first().map_or(Code::File, |first| first.code),
            Self::Strict { .. } => Code::Strict,
            #[cfg(feature = "icechunk")]
            Self::Icechunk { .. } => Code::Icechunk,
            Self::Values { .. } => Code::ValuesUnreadable,
            Self::OverInput { .. } | Self::Relocation(_) | Self::AmbiguousUrl { .. } => Code::Usage,
            Self::Chunks { .. } => Code::ChunksUnreadable,
            Self::Emit { .. } => Code::OutputFailed,
        }
    }

    /// Returns the action that is open to the user.
    pub fn remedy(&self) -> Option<Remedy> {
        let advice = match self {
            Self::Store(error) => return error.remedy(),
            Self::Refused { diagnostics, .. } => return diagnostics.first()?.remedy.clone(),
            Self::Read(error)
            | Self::Hdf5 { source: virtualize_hdf5::Error::Read(error), .. }
            | Self::Netcdf3 { source: virtualize_netcdf3::Error::Read(error), .. }
            | Self::Tiff { source: virtualize_tiff::Error::Read(error), .. } => {
                return error.remedy.as_deref().cloned();
            }
            #[cfg(feature = "icechunk")]
            Self::Icechunk { source, .. } => return source.remedy(),
            Self::AmbiguousUrl { .. } => {
                return Some(Remedy::turn_on(OptionName::RelativeTo, "choose one of them"));
            }
            Self::Format { found, .. } => match found.as_str() {
                "looks like gzip" | "looks like bzip2" | "looks like xz" | "looks like Zstandard" => {
                    "decompress it first"
                }
                "looks like an HTML page" => {
                    "check the url: it may need a login, or lead to a page about the file"
                }
                "looks like Zarr metadata" => {
                    "open references with a Zarr reader, or rewrite them with `virtualize convert`"
                }
                "looks like Git LFS pointer" => "fetch it with `git lfs pull`",
                _ => "pass an HDF5, NetCDF, TIFF, GeoTIFF or COG file",
            },
            Self::Hdf5 { source: virtualize_hdf5::Error::Truncated { .. }, .. }
            | Self::Netcdf3 { source: virtualize_netcdf3::Error::Truncated { .. }, .. }
            | Self::Tiff { source: virtualize_tiff::Error::Truncated { .. }, .. } => {
                "compare its size with the original: the file may be incomplete"
            }
            Self::References { reason, .. } if reason.starts_with("not a set of references") => {
                "pass references; `virtualize FILE` maps an HDF5, NetCDF or TIFF file"
            }
            Self::OverInput { .. } => "choose another output",
            _ => return None,
        };
        Some(Remedy::advice(advice))
    }

    /// Renders the error as one line, with its remedy in parentheses and its code in brackets.
    pub fn render(&self, notation: Notation) -> String {
        match self {
            Self::Refused { name, diagnostics } if !diagnostics.is_empty() => {
                refusal(name, diagnostics, |first| first.render(notation))
            }
            _ => notation.line(self, self.remedy().as_ref(), self.code()),
        }
    }
}

fn of_store(error: &StoreError) -> Code {
    match error {
        StoreError::NotAllowed { .. } => Code::NotAllowed,
        StoreError::Region { .. } => Code::SourceRegion,
        StoreError::NotAFile { .. } => Code::NotAFile,
        StoreError::Occupied { .. } => Code::OutputExists,
        StoreError::Locked { .. } => Code::OutputLocked,
        StoreError::Location { .. } => Code::Url,
        StoreError::Option { .. } => Code::Usage,
        StoreError::NoRanges { .. } | StoreError::Unreadable { .. } => Code::NoRanges,
        StoreError::Denied { .. } => Code::SourceDenied,
        StoreError::NotFound { .. }
        | StoreError::Changed { .. }
        | StoreError::Page { .. }
        | StoreError::Unavailable { .. } => of_read(error.kind()),
    }
}

fn of_read(kind: ReadErrorKind) -> Code {
    match kind {
        ReadErrorKind::NotFound => Code::SourceNotFound,
        ReadErrorKind::Denied => Code::SourceDenied,
        ReadErrorKind::Changed => Code::SourceChanged,
        ReadErrorKind::Unavailable => Code::SourceUnavailable,
        ReadErrorKind::Invalid => Code::FileMalformed,
        ReadErrorKind::Limit => Code::FileLimit,
    }
}

fn of_kind(kind: ReadErrorKind) -> ErrorClass {
    match kind {
        ReadErrorKind::NotFound => ErrorClass::NotFound,
        ReadErrorKind::Denied => ErrorClass::Denied,
        ReadErrorKind::Changed => ErrorClass::Changed,
        ReadErrorKind::Unavailable => ErrorClass::Unavailable,
        ReadErrorKind::Invalid | ReadErrorKind::Limit => ErrorClass::File,
    }
}

/// Returns the text of an error of a file, whose name errors of stores already have.
fn named(name: &str, error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    if text.starts_with(&format!("{name}: ")) { text } else { format!("{name}: {text}") }
}

/// Returns the first reason as `show` writes it, and the number of further ones.
fn refusal(name: &str, diagnostics: &[Diagnostic], show: impl Fn(&Diagnostic) -> String) -> String {
    let first = diagnostics.first().map_or_else(|| "nothing in it can be mapped".to_owned(), show);
    match diagnostics.len().saturating_sub(1) {
        0 => format!("{name}: {first}"),
        more => format!("{name}: {first}, and {more} more"),
    }
}

/// Reason why the values of an array could not be read. A message of one line that names neither file nor array.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ArrayError {
    /// The hierarchy has no array at the path.
    #[error("there is no such array")]
    NoArray,
    /// The grid has no chunk of fixed size at the position.
    #[error("there is no chunk {0} of fixed size")]
    NoChunk(u64),
    /// The grid has no chunk with these indices.
    #[error("there is no chunk {indices:?} in a grid of {counts:?} chunks")]
    NoChunkAt {
        /// Indices in the grid.
        indices: Vec<u64>,
        /// Number of chunks along each axis.
        counts: Vec<u64>,
    },
    /// A selection does not fit the array.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The function for chunks without a decoder here failed.
    #[error("{0}")]
    ForeignDecoder(String),
    /// The array does not describe the image of a chunk.
    #[error("{0}")]
    Image(String),
    /// A chunk has a position outside the grid.
    #[error("position {position} lies outside a grid of {counts:?} chunks")]
    OutsideGrid {
        /// Row-major position.
        position: u64,
        /// Number of chunks along each axis.
        counts: Vec<u64>,
    },
    /// The array and its chunk grid differ in their number of axes.
    #[error("{rank} axes, and a chunk grid of {grid}")]
    GridRank {
        /// Number of axes of the array.
        rank: usize,
        /// Number of axes of the grid.
        grid: usize,
    },
    /// The array or a chunk exceeds the limit.
    #[error("{what} has {bytes} bytes, and at most {most} are read at once")]
    TooLarge {
        /// "it" or "a chunk".
        what: &'static str,
        /// Decoded size in bytes.
        bytes: u64,
        /// Limit in bytes.
        most: u64,
    },
    /// The number of elements overflows.
    #[error("{what} has {shape:?} elements of {data_type}, too many")]
    TooManyElements {
        /// "it" or "a chunk".
        what: &'static str,
        /// Number of elements along each axis.
        shape: Vec<u64>,
        /// Type of an element.
        data_type: DataType,
    },
    /// The stored chunks exceed the limit.
    #[error("its chunks are stored in more than {0} bytes, which is all that is read at once")]
    StoredTooLarge(u64),
    /// Elements of variable length exceed the limit.
    #[error("its elements have more than the {0} bytes that are read at once")]
    TextTooLarge(u64),
    /// A `transpose` does not fit the array.
    #[error("transpose: {order:?} is no order of {rank} axes")]
    Order {
        /// The order of the codec.
        order: Vec<usize>,
        /// Number of axes of the array.
        rank: usize,
    },
    /// A `transpose` follows a codec other than `transpose`.
    #[error("transpose behind another codec")]
    LateTranspose,
    /// A chunk is damaged.
    #[error("chunk {indices}: {source}")]
    Chunk {
        /// Indices of the chunk, as in a chunk key.
        indices: String,
        /// Reason.
        source: Box<Self>,
    },
    /// A codec fails.
    #[error(transparent)]
    Codec(#[from] CodecFailure),
    /// `vlen-utf8` or `vlen-bytes` is damaged.
    #[error("text of variable length at byte {at}: {found}, expected {expected}")]
    VariableLayout {
        /// Offset in the decoded chunk, in bytes.
        at: usize,
        /// The value found there.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The fill value is not an element of the array's type.
    #[error("its fill value is no element of its type")]
    FillValue,
    /// Elements of this type have no byte order, or no whole number of elements was decoded.
    #[error("its byte order cannot be changed")]
    ByteOrder,
    /// A chunk has fewer elements than its shape.
    #[error("its elements are fewer than its shape has")]
    TooFewElements,
    /// Elements of the type have a fixed size.
    #[error("its elements have a fixed size")]
    FixedSize,
    /// Elements of the type have no fixed size.
    #[error("its elements have no fixed size")]
    VariableSize,
    /// The chunks have to be re-encoded, and are too large to inline.
    #[error("more than {0} bytes would have to be inlined")]
    InlineLimit(u64),
    /// A chunk refers to a source that the hierarchy does not list.
    #[error("there is no source {0}")]
    NoSource(u32),
    /// A file changed since it was mapped.
    #[error("{name} has changed")]
    Changed {
        /// Name of the file.
        name: String,
    },
    /// A file ends before the end of a chunk.
    #[error("{range} of {name} cannot be read: it ends before")]
    Truncated {
        /// Length of the chunk in bytes.
        range: ByteRange,
        /// Name of the file.
        name: String,
    },
    /// A file could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ArrayError {
    /// Adds the indices of a chunk to an error.
    pub(crate) fn in_chunk(self, indices: String) -> Self {
        Self::Chunk { indices, source: Box::new(self) }
    }
}
