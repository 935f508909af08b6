use std::fmt;

use virtualize_bytes::{ByteRange, ReadError};

use crate::spec::tag;

/// Error of reading a structure. The message is one line: structure, offset, what was found and what was expected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {offset:#x}: {problem}")]
    Malformed {
        /// The structure.
        structure: Structure,
        /// Offset of the structure from the start of the file.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file ends before the structure does.
    #[error("{structure} at {offset:#x}: {range} needed, beyond the end of the file at {size:#x}")]
    Truncated {
        /// The structure.
        structure: Structure,
        /// Offset of the structure.
        offset: u64,
        /// The missing range, of which a part may exist.
        range: ByteRange,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The structure is valid, but this reader does not support it.
    #[error("{structure} at {offset:#x}: {problem}")]
    Unsupported {
        /// The structure.
        structure: Structure,
        /// Offset of the structure.
        offset: u64,
        /// The unsupported feature.
        problem: String,
    },
    /// The file exceeds one of [`virtualize_bytes::Limits`].
    #[error("{structure} at {offset:#x}: {problem}")]
    Limit {
        /// The structure.
        structure: Structure,
        /// Offset of the structure.
        offset: u64,
        /// The count or size found, and the limit.
        problem: String,
    },
    /// A table of strips or tiles with fewer entries than the image has strips or tiles. The reader treats the others
    /// as missing, as libtiff does.
    #[error(
        "{structure} at {offset:#x}: {stored} values, expected {pieces}; the others are treated as missing"
    )]
    ShortTable {
        /// The tag.
        structure: Structure,
        /// Offset of the directory.
        offset: u64,
        /// Number of entries in the table.
        stored: usize,
        /// Number of strips or tiles of the image.
        pieces: usize,
    },
    /// The file does not start with a TIFF signature.
    #[error("header at 0x0: no TIFF signature, expected `II` or `MM`, then 42 or 43")]
    NotTiff,
    /// Fetching bytes failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The structure that an error refers to.
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
    /// Returns the tag that could not be read, if the error refers to one.
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

    /// Creates an error for a file that contradicts the specification.
    pub(crate) fn malformed(
        structure: impl Into<Structure>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Malformed { structure: structure.into(), offset, problem: problem.into() }
    }

    /// Creates an error for a valid but unsupported structure.
    pub(crate) fn unsupported(
        structure: impl Into<Structure>,
        offset: u64,
        problem: impl Into<String>,
    ) -> Self {
        Self::Unsupported { structure: structure.into(), offset, problem: problem.into() }
    }

    /// Creates an error for an exceeded limit.
    pub(crate) fn limit(structure: impl Into<Structure>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure: structure.into(), offset, problem: problem.into() }
    }

    /// Creates an error for a range beyond the end of the file, which has `size` bytes.
    pub(crate) fn truncated(
        structure: impl Into<Structure>,
        offset: u64,
        range: ByteRange,
        size: u64,
    ) -> Self {
        Self::Truncated { structure: structure.into(), offset, range, size }
    }
}
