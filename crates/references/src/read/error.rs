use std::fmt;

use virtualize_zarr::MetadataError;

/// Why a reference set could not be read or translated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferencesError {
    /// The text is not JSON, or not JSON of references.
    #[error("not a set of references: {0}")]
    Json(String),
    /// A key, file or node is damaged or not supported. The message names it.
    #[error("{0}")]
    Invalid(String),
    /// An array that the other Zarr format cannot express.
    #[error(transparent)]
    Untranslatable(#[from] MetadataError),
}

impl ReferencesError {
    /// Creates an error about a key of the document, a file or a node.
    pub(crate) fn at(key: &str, problem: impl fmt::Display) -> Self {
        Self::Invalid(format!("{key}: {problem}"))
    }
}
