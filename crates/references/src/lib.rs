//! Reads reference sets back into a virtual Zarr hierarchy: kerchunk's JSON of versions 0 and 1, with templates and
//! generated references, the same JSON with the keys of Zarr v3, and kerchunk's Parquet layout.
//!
//! Architecture invariants: no I/O and no waiting; a document is not trusted, so that what it may ask for is bounded.

mod document;
mod error;
mod fill;
mod hierarchy;
mod numbers;
mod parquet;
mod templates;
mod translate;

pub use document::{Entries, Entry, ReferenceSink, read_json};
pub use error::{PageFault, ParquetFault, ReferencesError, RowFault};
pub use fill::in_v3 as fill_in_v3;
pub use hierarchy::{ReferenceSet, WholeFile, from_json};
pub use parquet::ParquetReferences;
pub use translate::{PendingChunks, Translation, translate};
