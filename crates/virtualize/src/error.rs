use std::{borrow::Cow, sync::Arc};

use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind};
use virtualize_codec::CodecFailure;
use virtualize_map::{Diagnostic, Severity};
use virtualize_remedy::{Code, Notation, OptionName, Remedy};
use virtualize_store::StoreError;

/// Description of a file whose format is not supported.
pub(crate) const NONE_OF_THEM: &str = "neither HDF5, NetCDF nor TIFF";

/// Error of reading, mapping or converting a file, or of writing references. One line that names the file.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// A structure of the file is damaged, not supported, or exceeds a limit.
    #[error("{name}: {reason}")]
    Structure {
        /// The file.
        name: String,
        /// [`Code::FileMalformed`], [`Code::FileTruncated`], [`Code::FileUnsupported`] or [`Code::FileLimit`].
        code: Code,
        /// Structure, address, expected and found.
        reason: String,
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
    #[cfg(feature = "full")]
    #[error("{name}: {source}")]
    Icechunk {
        /// The repository.
        name: String,
        /// Reason.
        source: virtualize_icechunk::IcechunkError,
    },
    /// The values of an array could not be read.
    #[error("{name}: /{}: {source}", path.trim_start_matches('/'))]
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
    Relocation(String),
    /// A relative url in references names two different files.
    #[error(
        "url of a source: {url:?} exists both in the folder of the references and in the working directory"
    )]
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

/// Returns a conversion from the error of a reader crate, whose texts lack the name of the file.
macro_rules! of_reader {
    ($function:ident, $reader:ident, $($variant:ident => $code:ident),*) => {
        pub(crate) fn $function(name: &str, error: $reader::Error) -> Self {
            let text = error.to_string();
            let has_name = text.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
            let code = match error {
                $reader::Error::Read(error) if has_name => return Self::Read(error),
                $reader::Error::Read(error) => {
                    return Self::Read(ReadError { message: format!("{name}: {text}").into(), ..error });
                }
                $($reader::Error::$variant { .. } => Code::$code,)*
                _ => Code::FileMalformed,
            };
            Self::Structure { name: name.to_owned(), code, reason: text }
        }
    };
}

impl Error {
    of_reader!(of_hdf5, virtualize_hdf5, Truncated => FileTruncated, Unsupported => FileUnsupported, Limit => FileLimit);
    of_reader!(of_netcdf3, virtualize_netcdf3, Truncated => FileTruncated, Limit => FileLimit);
    of_reader!(of_tiff, virtualize_tiff, Truncated => FileTruncated, Unsupported => FileUnsupported, Limit => FileLimit);

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
        self.classified().0
    }

    /// Returns the code of the error: that of the first diagnostic if the mapping refuses the file.
    pub fn code(&self) -> Code {
        self.classified().1
    }

    fn classified(&self) -> (ErrorClass, Code) {
        use ErrorClass::{BrokenPipe, Conflict, File, Unavailable, Usage};
        match self {
            Self::Store(error) => of_store(error),
            Self::Read(error) => of_kind(error.kind),
            Self::Format { .. } => (File, Code::Format),
            Self::Structure { code, .. } => (File, *code),
            Self::References { .. } => (File, Code::ReferencesInvalid),
            Self::Refused { diagnostics, .. } => {
                (File, diagnostics.first().map_or(Code::File, |first| first.code))
            }
            Self::Strict { .. } => (File, Code::Strict),
            #[cfg(feature = "full")]
            Self::Icechunk { source: virtualize_icechunk::IcechunkError::Location { .. }, .. } => {
                (Usage, Code::Icechunk)
            }
            #[cfg(feature = "full")]
            Self::Icechunk { .. } => (Unavailable, Code::Icechunk),
            Self::Values { .. } => (File, Code::ValuesUnreadable),
            Self::OverInput { .. } | Self::Relocation(_) => (Usage, Code::Usage),
            Self::AmbiguousUrl { .. } => (Conflict, Code::Usage),
            Self::Chunks { .. } => (Unavailable, Code::ChunksUnreadable),
            Self::Emit { broken_pipe: true, .. } => (BrokenPipe, Code::OutputFailed),
            Self::Emit { .. } => (Unavailable, Code::OutputFailed),
        }
    }

    /// Returns the action that is open to the user.
    pub fn remedy(&self) -> Option<Remedy> {
        let advice = match self {
            Self::Store(error) => return error.remedy(),
            Self::Refused { diagnostics, .. } => return diagnostics.first()?.remedy.clone(),
            Self::Read(error) => return error.remedy.as_deref().cloned(),
            #[cfg(feature = "full")]
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
            Self::Structure { code: Code::FileTruncated, .. } => {
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

fn of_store(error: &StoreError) -> (ErrorClass, Code) {
    let (class, code) = of_kind(error.kind());
    match error {
        StoreError::Occupied { .. } => (ErrorClass::Conflict, Code::OutputExists),
        StoreError::Option { .. } => (ErrorClass::Usage, Code::Usage),
        StoreError::NotAllowed { .. } => (class, Code::NotAllowed),
        StoreError::Region { .. } => (class, Code::SourceRegion),
        StoreError::NotAFile { .. } => (class, Code::NotAFile),
        StoreError::Locked { .. } => (class, Code::OutputLocked),
        StoreError::Location { .. } => (class, Code::Url),
        StoreError::NoRanges { .. } | StoreError::Unreadable { .. } => (class, Code::NoRanges),
        StoreError::Denied { .. } => (class, Code::SourceDenied),
        StoreError::NotFound { .. }
        | StoreError::Changed { .. }
        | StoreError::Page { .. }
        | StoreError::Unavailable { .. } => (class, code),
    }
}

fn of_kind(kind: ReadErrorKind) -> (ErrorClass, Code) {
    match kind {
        ReadErrorKind::NotFound => (ErrorClass::NotFound, Code::SourceNotFound),
        ReadErrorKind::Denied => (ErrorClass::Denied, Code::SourceDenied),
        ReadErrorKind::Changed => (ErrorClass::Changed, Code::SourceChanged),
        ReadErrorKind::Unavailable => (ErrorClass::Unavailable, Code::SourceUnavailable),
        ReadErrorKind::Invalid => (ErrorClass::File, Code::FileMalformed),
        ReadErrorKind::Limit => (ErrorClass::File, Code::FileLimit),
    }
}

/// Returns a warning about the node at a path without a leading slash.
pub(crate) fn warning(code: Code, path: &str, message: String) -> Diagnostic {
    Diagnostic { severity: Severity::Warning, code, path: format!("/{path}"), message, remedy: None }
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
#[non_exhaustive]
pub enum ArrayError {
    /// A file could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file changed since it was mapped.
    #[error("{name} has changed")]
    Changed {
        /// Name of the file.
        name: String,
    },
    /// A file ends before the end of a chunk.
    #[error("{0}")]
    Truncated(String),
    /// The read was interrupted.
    #[error("the read was interrupted")]
    Interrupted,
    /// A codec fails.
    #[error(transparent)]
    Codec(#[from] CodecFailure),
    /// The request does not fit the array, a limit is exceeded, or a chunk is damaged.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
}

impl ArrayError {
    pub(crate) const NO_ARRAY: Self = Self::Invalid(Cow::Borrowed("no such array"));
    pub(crate) const TOO_FEW_ELEMENTS: Self =
        Self::Invalid(Cow::Borrowed("its elements are fewer than its shape has"));
    pub(crate) const VARIABLE_SIZE: Self = Self::Invalid(Cow::Borrowed("its elements have no fixed size"));

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(text.into())
    }

    /// The grid has no chunk of fixed size at the position.
    pub(crate) fn no_chunk(position: u64) -> Self {
        Self::invalid(format!("there is no chunk {position} of fixed size"))
    }

    /// Elements of variable length exceed the limit.
    pub(crate) fn text_too_large(most: u64) -> Self {
        Self::invalid(format!("its elements have more than the {most} bytes that are read at once"))
    }

    /// The array or a chunk exceeds the limit; `what` is "it" or "a chunk".
    pub(crate) fn too_large(what: &str, bytes: u64, most: u64) -> Self {
        Self::invalid(format!("{what} has {bytes} bytes, and at most {most} are read at once"))
    }

    /// A file ends before the end of a chunk.
    pub(crate) fn truncated(range: ByteRange, name: &str) -> Self {
        Self::Truncated(format!("{range} of {name} cannot be read: it ends before"))
    }

    /// Returns the error of a read from a store.
    pub(crate) fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Changed { name, .. } => Self::Changed { name },
            error => Self::Store(error),
        }
    }

    /// Returns whether a file is missing, has changed, or ends too early.
    pub(crate) fn is_of_source(&self) -> bool {
        match self {
            Self::Changed { .. } | Self::Truncated(_) => true,
            Self::Store(error) => error.kind() == ReadErrorKind::NotFound,
            Self::Read(error) => matches!(error.kind, ReadErrorKind::NotFound | ReadErrorKind::Changed),
            _ => false,
        }
    }

    /// Adds the indices of a chunk to an error that is not one of the whole file.
    pub(crate) fn in_chunk(self, indices: &str) -> Self {
        match self {
            Self::Changed { .. } | Self::Store(_) | Self::Read(_) | Self::Interrupted => self,
            Self::Truncated(text) => Self::Truncated(format!("chunk {indices}: {text}")),
            error => Self::invalid(format!("chunk {indices}: {error}")),
        }
    }
}

/// Reason why a chunk could not be created or fetched.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A fault of the chunk itself: its array is omitted.
    Chunk(String),
    /// The file can no longer be read, so none of the results are reliable.
    Read(ReadError),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Chunk(reason)
    }
}

impl From<CodecFailure> for Failure {
    fn from(error: CodecFailure) -> Self {
        Self::Chunk(error.to_string())
    }
}

impl Failure {
    pub(crate) fn chunk(reason: &str) -> Self {
        Self::Chunk(reason.to_owned())
    }

    /// Returns the failure of a read from the file that is mapped.
    pub(crate) fn of_own_read(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Limit => Self::Chunk(error.to_string()),
            _ => Self::Read(error),
        }
    }

    /// Returns the failure of a read from another file. It affects only the arrays that need that file, unless the
    /// file changed.
    pub(crate) fn of_other_read(error: ReadError) -> Self {
        match error.kind {
            ReadErrorKind::Changed => Self::Read(error),
            _ => Self::Chunk(error.to_string()),
        }
    }
}
