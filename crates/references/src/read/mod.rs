//! Reading: kerchunk's JSON of versions 0 and 1, with templates and generated references, the same JSON with the keys of
//! Zarr v3, and kerchunk's Parquet layout.
//!
//! Architecture invariants: no I/O, no `async`; documents are untrusted, so memory and work are bounded.

mod error;
mod fill;
mod hierarchy;
mod json;
mod numbers;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod parquet_rows;
mod templates;
mod translate;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

pub use error::ReferencesError;
pub use fill::in_v3 as fill_in_v3;
pub use hierarchy::{NativeStore, ReferenceSet, WholeFile, from_json};
#[cfg(feature = "parquet")]
pub use parquet::ParquetReferences;
pub use translate::{PendingChunks, Translation, translate};

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
