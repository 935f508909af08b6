use std::fmt;

use virtualize_bytes::{ByteRange, ReadError};

use crate::spec::tag;

/// Why a structure could not be read. One line that names structure, place, what was expected and what was found.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {offset:#x}: {problem}")]
    Malformed {
        /// The structure.
        structure: Structure,
        /// Where it lies, in bytes from the start of the file.
        offset: u64,
        /// What was expected and what was found.
        problem: String,
    },
    /// The file ends before the structure does.
    #[error("{structure} at {offset:#x}: {range} needed, but the file ends at {size:#x}")]
    Truncated {
        /// The structure.
        structure: Structure,
        /// Where it lies.
        offset: u64,
        /// The bytes that are missing, at least in part.
        range: ByteRange,
        /// Size of the file in bytes.
        size: u64,
    },
    /// A valid structure that this reader does not know.
    #[error("{structure} at {offset:#x}: {problem}")]
    Unsupported {
        /// The structure.
        structure: Structure,
        /// Where it lies.
        offset: u64,
        /// What it is.
        problem: String,
    },
    /// The file asks for more than [`virtualize_bytes::Limits`] allows.
    #[error("{structure} at {offset:#x}: {problem}")]
    Limit {
        /// The structure.
        structure: Structure,
        /// Where it lies.
        offset: u64,
        /// Which limit, and what the file wants.
        problem: String,
    },
    /// A table of strips or tiles that has fewer entries than there are pieces. The others count as missing, as libtiff
    /// and its relatives have it.
    #[error("{structure} at {offset:#x}: {stored} values, expected {pieces}; the others count as missing")]
    ShortTable {
        /// The tag.
        structure: Structure,
        /// Where its directory lies.
        offset: u64,
        /// Entries that it has.
        stored: usize,
        /// Strips or tiles that the image has.
        pieces: usize,
    },
    /// The first four bytes are not those of a TIFF.
    #[error("no TIFF signature (`II` or `MM`, then 42 or 43) at 0x0")]
    NotTiff,
    /// The bytes could not be fetched.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What an error speaks of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Structure {
    /// The value of a tag.
    Tag(u16),
    /// Any other structure, by its name in the specification.
    Named(String),
}

impl fmt::Display for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => formatter.write_str(&tag::name(*tag)),
            Self::Named(name) => formatter.write_str(name),
        }
    }
}

impl From<&str> for Structure {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl Error {
    /// The tag that could not be read, where the error is about one.
    pub fn tag(&self) -> Option<u16> {
        match self {
            Self::Malformed { structure: Structure::Tag(tag), .. }
            | Self::Truncated { structure: Structure::Tag(tag), .. }
            | Self::Unsupported { structure: Structure::Tag(tag), .. }
            | Self::Limit { structure: Structure::Tag(tag), .. }
            | Self::ShortTable { structure: Structure::Tag(tag), .. } => Some(*tag),
            _ => None,
        }
    }

    /// The file contradicts the specification.
    pub(crate) fn malformed(
        structure: impl Into<Structure>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Malformed { structure: structure.into(), offset, problem: problem.into() }
    }

    /// A valid structure that this reader does not know.
    pub(crate) fn unsupported(
        structure: impl Into<Structure>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Unsupported { structure: structure.into(), offset, problem: problem.into() }
    }

    /// The file asks for more than the limits allow.
    pub(crate) fn limit(structure: impl Into<Structure>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure: structure.into(), offset, problem: problem.into() }
    }

    /// The file, which has `size` bytes, ends before `range` does.
    pub(crate) fn truncated(
        structure: impl Into<Structure>,
        offset: u64,
        range: ByteRange,
        size: u64,
    ) -> Self {
        Self::Truncated { structure: structure.into(), offset, range, size }
    }
}
