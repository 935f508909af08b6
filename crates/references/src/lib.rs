#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! The formats are kerchunk's JSON of versions 0 and 1, with templates and generated references, the same JSON with the
//! keys of Zarr v3, and kerchunk's Parquet layout.
//!
//! Architecture invariants: no I/O, no `async`; documents are untrusted, so memory and work are bounded.

#[cfg(target_endian = "big")]
compile_error!(
    "virtualize-references needs a little-endian processor: elsewhere, the crate `parquet` reads other values"
);

mod document;
mod entry;
mod error;
mod fill;
mod hierarchy;
mod numbers;
mod parquet;
mod templates;
mod translate;

pub use document::{Entries, read_json};
pub use entry::{Entry, ReferenceSink};
pub use error::{PageFault, ParquetFault, ReferencesError, RowFault};
pub use fill::in_v3 as fill_in_v3;
pub use hierarchy::{ReferenceSet, WholeFile, from_json};
pub use parquet::ParquetReferences;
pub use translate::{PendingChunks, Translation, translate};

/// Checks for Parquet files that nobody vouches for: the `parquet` crate allocates whatever sizes they declare, and panics
/// on some damage.
pub mod untrusted_parquet {
    pub use crate::parquet::{caught, check_row_group};
}
