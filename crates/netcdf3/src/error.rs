use virtualize_bytes::{ByteRange, ReadError};

/// Error of reading a structure. The message is one line: structure, offset, what was found and what was expected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {offset:#x}: {problem}")]
    Malformed {
        /// Name of the structure as in the specification.
        structure: &'static str,
        /// Offset of the structure from the start of the file.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file ends within the header.
    #[error("{structure} at {offset:#x}: {range} needed, beyond the end of the file at {size:#x}")]
    Truncated {
        /// Name of the structure.
        structure: &'static str,
        /// Offset of the structure.
        offset: u64,
        /// The missing range, of which a part may exist.
        range: ByteRange,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The file exceeds one of [`virtualize_bytes::Limits`].
    #[error("{structure} at {offset:#x}: {problem}")]
    Limit {
        /// Name of the structure.
        structure: &'static str,
        /// Offset of the structure.
        offset: u64,
        /// The count or size found, and the limit.
        problem: String,
    },
    /// The file does not start with a NetCDF classic signature.
    #[error("magic at 0x0: no NetCDF classic signature, expected `CDF`, then 1, 2 or 5")]
    NotNetcdf3,
    /// Fetching bytes failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// Creates an error for a file that contradicts the specification.
    pub(crate) fn malformed(structure: &'static str, offset: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { structure, offset, problem: problem.into() }
    }

    /// Creates an error for an exceeded limit.
    pub(crate) fn limit(structure: &'static str, offset: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure, offset, problem: problem.into() }
    }
}
