use virtualize_bytes::ReadError;

/// Error of reading a sidecar. The message is one line: line of the document, element, what was found and what was expected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The document contradicts the format.
    #[error("line {line}: {element}: {problem}")]
    Malformed {
        /// Line in the document, from 1.
        line: u64,
        /// Name of the element, and the variable to which it belongs.
        element: String,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The document leaves something open, or describes it in a way that is known to be wrong.
    #[error("line {line}: {element}: {problem}")]
    Incomplete {
        /// Line in the document, from 1.
        line: u64,
        /// Name of the element, and the variable to which it belongs.
        element: String,
        /// What is unknown.
        problem: String,
    },
    /// The document exceeds one of [`virtualize_bytes::Limits`].
    #[error("line {line}: {element}: {problem}")]
    Limit {
        /// Line in the document, from 1.
        line: u64,
        /// Name of the element, and the variable to which it belongs.
        element: String,
        /// The count or size found, and the limit.
        problem: String,
    },
    /// Fetching bytes failed, or the memory budget is exhausted.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A problem of an element whose place is added later.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    Malformed(String),
    Incomplete(String),
    Limit(String),
    Read(ReadError),
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl Problem {
    /// Returns an error of the format.
    pub(crate) fn malformed(problem: impl Into<String>) -> Self {
        Self::Malformed(problem.into())
    }

    /// Returns an error of content that only the data file tells.
    pub(crate) fn incomplete(problem: impl Into<String>) -> Self {
        Self::Incomplete(problem.into())
    }

    /// Adds the place.
    pub(crate) fn at(self, line: u64, element: String) -> Error {
        match self {
            Self::Malformed(problem) => Error::Malformed { line, element, problem },
            Self::Incomplete(problem) => Error::Incomplete { line, element, problem },
            Self::Limit(problem) => Error::Limit { line, element, problem },
            Self::Read(error) => Error::Read(error),
        }
    }
}
