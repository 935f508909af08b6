/// Why a reference set could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReferencesError {
    /// Not JSON, or not JSON of references.
    #[error("not a set of references: {0}")]
    Json(String),
    /// A template that cannot be rendered.
    #[error("{key}: {reason}")]
    Template {
        /// The key, or the template's name.
        key: String,
        /// Why.
        reason: String,
    },
    /// A reference that says no bytes.
    #[error("{key}: expected text, [url] or [url, offset, length], found {found}")]
    Reference {
        /// The key.
        key: String,
        /// What there is, shortened.
        found: String,
    },
    /// Metadata that cannot be read.
    #[error("{key}: {reason}")]
    Metadata {
        /// The key of the document.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no metadata documents.
    #[error("it has neither .zgroup or .zarray nor zarr.json")]
    NoMetadata,
    /// More than is believed.
    #[error("{what}: more than {limit}")]
    Limit {
        /// What there is too much of.
        what: String,
        /// How much may be.
        limit: u64,
    },
}
