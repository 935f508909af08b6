use virtualize_bytes::{ByteRange, ReadError};

/// Why a structure could not be read. One line that names structure, place, what was expected and what was found.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {offset:#x}: {problem}")]
    Malformed {
        /// Name of the structure as in the specification; tags with their number.
        structure: String,
        /// Where it lies, in bytes from the start of the file.
        offset: u64,
        /// What was expected and what was found.
        problem: String,
    },
    /// The file ends before the structure does.
    #[error("{structure} at {offset:#x}: {range} needed, but the file ends at {size:#x}")]
    Truncated {
        /// Name of the structure.
        structure: String,
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
        /// Name of the structure.
        structure: String,
        /// Where it lies.
        offset: u64,
        /// What it is.
        problem: String,
    },
    /// The file asks for more than [`virtualize_bytes::Limits`] allows.
    #[error("{structure} at {offset:#x}: {problem}")]
    Limit {
        /// Name of the structure.
        structure: String,
        /// Where it lies.
        offset: u64,
        /// Which limit, and what the file wants.
        problem: String,
    },
    /// The first four bytes are not those of a TIFF.
    #[error("no TIFF signature (`II` or `MM`, then 42 or 43) at 0x0")]
    NotTiff,
    /// The bytes could not be fetched.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// The file contradicts the specification.
    pub(crate) fn malformed(structure: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { structure: structure.into(), offset, problem: problem.into() }
    }

    /// A valid structure that this reader does not know.
    pub(crate) fn unsupported(structure: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Unsupported { structure: structure.into(), offset, problem: problem.into() }
    }

    /// The file asks for more than the limits allow.
    pub(crate) fn limit(structure: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure: structure.into(), offset, problem: problem.into() }
    }

    /// The file, which has `size` bytes, ends before `range` does.
    pub(crate) fn truncated(structure: impl Into<String>, offset: u64, range: ByteRange, size: u64) -> Self {
        Self::Truncated { structure: structure.into(), offset, range, size }
    }
}
