//! Reader compatibility: which released readers decode an array, and what they need.
//!
//! The rules were found by reading arrays with the readers themselves: zarr-python 3.4.2 (numcodecs 0.17.1, imagecodecs
//! 2026.10.10; for `virtualize` with this project's Python package), zarrs 0.23.14, zarrita.js 0.7.5 and GDAL 3.12.2. The interop test `test_readers.py` reads all fixtures
//! with each of them and compares the outcome with these rules.
//!
//! "Decodes" means equal values: a reader that shows wrong values without an error does not decode.

mod chain;
mod client;
mod rewrite;
mod rules;
mod setup;

use serde_json::Value;

use crate::{Array, DataType, Lengths, ZarrFormat};

pub use crate::reader::{Need, Reader};
use chain::Document;
pub use client::{Client, ClientError};
pub use rewrite::{in_stored_order, plain_codecs, untransposed};
pub use setup::ReaderSetup;

/// Whether a reader decodes an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compatibility {
    /// It does.
    Yes,
    /// It does with these packages and settings.
    Needs(Vec<Need>),
    /// It does not, for this reason: a codec, the data type, the chunk grid, the fill value, ….
    No(String),
}

/// Why a reader does not decode an array.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
enum Obstacle {
    /// A codec by its name, perhaps with the circumstances.
    #[error("{0}")]
    Codec(String),
    #[error("data type {0}")]
    DataType(DataType),
    #[error("fill value {0}")]
    FillValue(Value),
    #[error("fill value null of {0}")]
    NullFillValue(DataType),
    #[error("chunk grid rectilinear")]
    RectilinearGrid,
    #[error("no dimensions")]
    NoDimensions,
    #[error("no elements")]
    NoElements,
    #[error("fletcher32 over an odd number of bytes")]
    OddChecksum,
    #[error("a name with characters that urls escape")]
    EscapedName,
}

/// Facts about the chunks of an array on which readers depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkFacts {
    /// Some chunk is missing, so that readers show the fill value.
    pub shows_fill_value: bool,
    /// Some chunk is stored in an odd number of bytes.
    pub has_odd_length: bool,
}

impl ChunkFacts {
    /// Returns the facts about an array that has all its chunks.
    pub fn of(array: &Array) -> Self {
        let counts = array.chunk_grid.counts(&array.shape);
        let positions = counts.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        let is_odd = |length: u64| length % 2 == 1;
        let mut columns = array.chunks.references.iter();
        let has_odd_reference = columns.any(|column| match &column.lengths {
            Lengths::Uniform(length) => is_odd(*length),
            Lengths::Each(lengths) => lengths.iter().any(|length| is_odd((*length).into())),
        });
        let mut inline = array.chunks.inline.values();
        Self {
            shows_fill_value: positions.is_none_or(|positions| array.chunks.len() < positions),
            has_odd_length: has_odd_reference || inline.any(|bytes| is_odd(bytes.len() as u64)),
        }
    }
}

/// Returns the compatibility of an array with each reader, if it is written at `path` in a format. Of its chunks only
/// the facts count.
pub fn compatibility(
    path: &str,
    array: &Array,
    chunks: ChunkFacts,
    format: ZarrFormat,
) -> Vec<(Reader, Compatibility)> {
    let found = match Document::new(array, chunks, format) {
        Ok(document) => Reader::ALL.map(|reader| rules::check(reader, path, array, &document)),
        Err(error) => Reader::ALL.map(|_| Compatibility::No(error.to_string())),
    };
    Reader::ALL.into_iter().zip(found).collect()
}
