//! Reading: kerchunk's JSON of versions 0 and 1, with templates and generated references, the same JSON with the keys of
//! Zarr v3, and kerchunk's Parquet layout.
//!
//! Architecture invariants: no I/O, no `async`; documents are untrusted, so memory and work are bounded.

mod hierarchy;
mod json;
mod numbers;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_rows;
mod templates;
mod translate;

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde_json::Value;
use virtualize_zarr::MetadataError;

pub use hierarchy::{NativeStore, ReferenceSet, WholeFile, from_json};
#[cfg(feature = "parquet")]
pub use parquet::ParquetReferences;
pub use translate::{PendingChunks, Translation, fill_in_v3, translate};

/// Parses a metadata document, in which numbers may be NaN and Infinity, as Python writes them.
///
/// # Errors
/// The text is not JSON.
pub fn parse_document(text: &[u8]) -> Result<Value, String> {
    numbers::parse(text).map_err(|error| error.to_string())
}

/// Bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place<'a> {
    /// The url in the document, with templates rendered.
    pub(crate) url: Cow<'a, str>,
    /// Offset and length in bytes; `None` for the whole file.
    pub(crate) part: Option<(u64, u64)>,
}

/// The value of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry<'a> {
    /// Bytes in the document itself.
    Inline(Bytes),
    /// Bytes in a file.
    Place(Place<'a>),
}

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
