use virtualize_bytes::{ByteRange, NeedBytes, ReadError};

/// Why a structure could not be read. One line that names structure, address, what was expected and what was found.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {address:#x}: {problem}")]
    Malformed {
        /// Name of the structure as in the specification.
        structure: &'static str,
        /// Where it lies, in bytes from the start of the file.
        address: u64,
        /// What was expected and what was found.
        problem: String,
    },
    /// The file ends before the structure does.
    #[error("{structure} at {address:#x}: the file ends before it does ({range} needed)")]
    Truncated {
        /// Name of the structure.
        structure: &'static str,
        /// Where it lies.
        address: u64,
        /// The bytes that are missing, at least in part.
        range: ByteRange,
    },
    /// A valid structure that this reader does not know.
    #[error("{structure} at {address:#x}: {problem}")]
    Unsupported {
        /// Name of the structure.
        structure: &'static str,
        /// Where it lies.
        address: u64,
        /// What it is.
        problem: String,
    },
    /// The file asks for more than [`virtualize_bytes::Limits`] allows.
    #[error("{structure} at {address:#x}: {problem}")]
    Limit {
        /// Name of the structure.
        structure: &'static str,
        /// Where it lies.
        address: u64,
        /// Which limit, and what the file wants.
        problem: String,
    },
    /// Neither offset 0 nor any power of two from 512 holds the signature.
    #[error("no HDF5 signature at offset 0, 512, 1024, …")]
    NotHdf5,
    /// The bytes could not be fetched.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// The file contradicts the specification.
    pub(crate) fn malformed(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { structure, address, problem: problem.into() }
    }

    /// A valid structure that this reader does not know.
    pub(crate) fn unsupported(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Unsupported { structure, address, problem: problem.into() }
    }

    /// The file asks for more than the limits allow.
    pub(crate) fn limit(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure, address, problem: problem.into() }
    }

    /// The same error, with the name of the thing that it concerns.
    #[must_use]
    pub(crate) fn within(mut self, what: &str) -> Self {
        match &mut self {
            Self::Malformed { problem, .. }
            | Self::Unsupported { problem, .. }
            | Self::Limit { problem, .. } => {
                *problem = format!("{problem} ({what})");
            }
            Self::Truncated { .. } | Self::NotHdf5 | Self::Read(_) => {}
        }
        self
    }

    /// Turns a cursor's lack of bytes into an error that names the structure.
    pub(crate) fn truncated(structure: &'static str, address: u64) -> impl Fn(NeedBytes) -> Self {
        move |need| Self::Truncated { structure, address, range: need.range }
    }
}
