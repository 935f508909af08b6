use virtualize_bytes::{ReadError, ReadErrorKind};
use virtualize_map::Diagnostic;
use virtualize_remedy::{Notation, OptionName, Remedy};
use virtualize_store::StoreError;

use crate::array_error::ArrayError;

/// Says that a file is of no source format.
pub(crate) const NONE_OF_THEM: &str = "neither HDF5 nor TIFF";

/// Why a file was not made into references, or these were not written. One line that names the file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Bytes of the open file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Not a format that is read here.
    #[error("{name}: {NONE_OF_THEM}: {found}")]
    Format {
        /// The file.
        name: String,
        /// What it looks like.
        found: String,
    },
    /// The file's structure is damaged, or not known.
    #[error("{name}: {source}")]
    Hdf5 {
        /// The file.
        name: String,
        /// Structure, address, expected and found.
        source: virtualize_hdf5::Error,
    },
    /// The file's structure is damaged, or not known.
    #[error("{name}: {source}")]
    Tiff {
        /// The file.
        name: String,
        /// Structure, offset, expected and found.
        source: virtualize_tiff::Error,
    },
    /// Not a reference set, or one that cannot be read.
    #[error("{name}: {reason}")]
    References {
        /// Where it lies.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The mapping refuses the file.
    #[error("{}", refusal(name, diagnostics))]
    Refused {
        /// The file.
        name: String,
        /// Why: at least one.
        diagnostics: Vec<Diagnostic>,
    },
    /// There are warnings, and the user wants none.
    #[error("{name}: refused because of {} warning{} ", diagnostics.len(), if diagnostics.len() == 1 { "" } else { "s" })]
    Strict {
        /// The file.
        name: String,
        /// The warnings.
        diagnostics: Vec<Diagnostic>,
    },
    /// The output would replace the file that it refers to.
    #[error("{name}: the output would replace the file that it refers to")]
    OverInput {
        /// The file.
        name: String,
    },
    /// The references could not be committed.
    #[cfg(feature = "icechunk")]
    #[error("{name}: {source}")]
    Icechunk {
        /// The repository.
        name: String,
        /// Why.
        source: virtualize_icechunk::IcechunkError,
    },
    /// The values of an array could not be read.
    #[error("{name}: /{path}: {source}")]
    Values {
        /// The file or references.
        name: String,
        /// The array.
        path: String,
        /// Why.
        source: Box<ArrayError>,
    },
    /// The urls of sources cannot be written as they are to be.
    #[error("url of a source: {reason}")]
    Relocation {
        /// Which, and why.
        reason: String,
    },
    /// A relative url in references names two different files.
    #[error("url of a source: {url:?} exists both beside the references and in the working directory")]
    AmbiguousUrl {
        /// The relative url.
        url: String,
    },
    /// The references could not be put into words.
    #[error("{name}: {reason}")]
    Emit {
        /// Where they should go.
        name: String,
        /// Why.
        reason: String,
        /// Nobody reads the pipe that they go to.
        broken_pipe: bool,
    },
}

/// Classes of errors, from which exit status and the like follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// What was asked for makes no sense.
    Usage,
    /// There is no such file.
    NotFound,
    /// It may not be read, or not be written.
    Denied,
    /// It changed while it was read.
    Changed,
    /// The network, a disk or a store failed.
    Unavailable,
    /// The file is not what is read here, damaged, or cannot be mapped.
    File,
    /// The reader of the output is gone.
    BrokenPipe,
}

impl Error {
    /// Returns the error of reading an array's values.
    pub(crate) fn of_array(name: &str, path: &str, error: ArrayError) -> Self {
        match error {
            ArrayError::Store(error) => Self::Store(error),
            ArrayError::Read(error) => Self::Read(error),
            source => Self::Values { name: name.to_owned(), path: path.to_owned(), source: Box::new(source) },
        }
    }

    /// Its class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Store(StoreError::Option { .. } | StoreError::Occupied { .. })
            | Self::OverInput { .. }
            | Self::Relocation { .. }
            | Self::AmbiguousUrl { .. } => ErrorClass::Usage,
            #[cfg(feature = "icechunk")]
            Self::Icechunk { source: virtualize_icechunk::IcechunkError::Location { .. }, .. } => {
                ErrorClass::Usage
            }
            #[cfg(feature = "icechunk")]
            Self::Icechunk { .. } => ErrorClass::Unavailable,
            Self::Store(error) => of_kind(error.kind()),
            Self::Read(error) => of_kind(error.kind),
            Self::Hdf5 { source: virtualize_hdf5::Error::Read(error), .. }
            | Self::Tiff { source: virtualize_tiff::Error::Read(error), .. } => of_kind(error.kind),
            Self::Emit { broken_pipe: true, .. } => ErrorClass::BrokenPipe,
            Self::Emit { .. } => ErrorClass::Unavailable,
            _ => ErrorClass::File,
        }
    }

    /// What the user can do.
    pub fn remedy(&self) -> Option<Remedy> {
        let advice = match self {
            Self::Store(error) => return error.remedy(),
            Self::Read(error)
            | Self::Hdf5 { source: virtualize_hdf5::Error::Read(error), .. }
            | Self::Tiff { source: virtualize_tiff::Error::Read(error), .. } => {
                return error.remedy.as_deref().cloned();
            }
            #[cfg(feature = "icechunk")]
            Self::Icechunk { source, .. } => return source.remedy(),
            Self::AmbiguousUrl { .. } => {
                return Some(Remedy::turn_on(OptionName::RelativeTo, "choose one of them"));
            }
            Self::Format { found, .. } => match found.as_str() {
                "looks like NetCDF-3 classic" | "looks like NetCDF-3 with 64-bit offsets" => {
                    "convert it with `nccopy -k nc4`"
                }
                "looks like gzip" | "looks like bzip2" | "looks like xz" | "looks like Zstandard" => {
                    "decompress it first"
                }
                "looks like an HTML page" => {
                    "check the url: it may need a login, or lead to a page about the file"
                }
                "looks like Git LFS pointer" => "fetch it with `git lfs pull`",
                _ => "pass an HDF5, NetCDF-4, TIFF, GeoTIFF or COG file",
            },
            Self::Hdf5 { source: virtualize_hdf5::Error::Truncated { .. }, .. }
            | Self::Tiff { source: virtualize_tiff::Error::Truncated { .. }, .. } => {
                "compare its size with the original: the file may be incomplete"
            }
            Self::OverInput { .. } => "choose another output",
            _ => return None,
        };
        Some(Remedy::advice(advice))
    }

    /// Renders the error as one line, with its remedy in parentheses.
    pub fn render(&self, notation: Notation) -> String {
        match self.remedy().and_then(|remedy| remedy.render(notation)) {
            Some(remedy) => format!("{self} ({remedy})"),
            None => self.to_string(),
        }
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

/// The first reason, and how many more there are.
fn refusal(name: &str, diagnostics: &[Diagnostic]) -> String {
    let first =
        diagnostics.first().map_or_else(|| "nothing in it can be mapped".to_owned(), ToString::to_string);
    match diagnostics.len().saturating_sub(1) {
        0 => format!("{name}: {first}"),
        more => format!("{name}: {first}, and {more} more"),
    }
}
