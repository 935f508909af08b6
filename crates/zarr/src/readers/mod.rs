//! Which released readers decode an array, and what they need. Every rule here was found by reading arrays with the
//! readers themselves: zarr-python 3.4.2 (numcodecs 0.17.1, imagecodecs 2026.10.10), zarrs 0.23.14, zarrita.js 0.7.5 and
//! GDAL 3.12.2. The interop test `test_readers.py` reads all fixtures with each and compares with what is said here.
//!
//! "Decodes" means: equal values. A reader that shows wrong values without an error does not decode.

mod chain;
mod client;
mod rewrite;
mod rules;

use std::fmt;

use serde_json::Value;

use crate::{Array, DataType, Lengths, ZarrFormat};

pub(crate) use chain::CodecUse;
use chain::Document;
pub use client::{Client, ClientError};
pub use rewrite::{in_stored_order, plain_codecs, untransposed};

/// A released reader of Zarr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reader {
    /// zarr-python, over fsspec's reference filesystem.
    ZarrPython,
    /// The Rust crate zarrs, with its codecs for blosc, bz2, fletcher32, gzip, transpose, zlib and zstd.
    Zarrs,
    /// zarrita.js, over its reference store.
    Zarrita,
    /// GDAL's Zarr driver, as raster: numbers of one dimension and more.
    Gdal,
}

/// What a reader needs beside itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// numcodecs' codecs for Zarr v3 (zarr-python brings them along).
    Numcodecs,
    /// imagecodecs, with its codecs registered.
    Imagecodecs,
    /// The package `cast-value-rs`.
    CastValueRs,
    /// zarr-python's setting `array.rectilinear_chunks`.
    RectilinearChunks,
    /// A JavaScript engine with `Float16Array`.
    Float16Array,
}

/// Whether a reader decodes an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It does.
    Yes,
    /// It does with these.
    Needs(Vec<Need>),
    /// It does not, because of this: a codec, the type, the grid, the fill value …
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

impl Reader {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ZarrPython, Self::Zarrs, Self::Zarrita, Self::Gdal];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZarrPython => "zarr-python",
            Self::Zarrs => "zarrs",
            Self::Zarrita => "zarrita",
            Self::Gdal => "gdal",
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Numcodecs, Self::Imagecodecs, Self::CastValueRs, Self::RectilinearChunks, Self::Float16Array];

    /// Name of the package or setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Numcodecs => "numcodecs",
            Self::Imagecodecs => "imagecodecs",
            Self::CastValueRs => "cast-value-rs",
            Self::RectilinearChunks => "array.rectilinear_chunks",
            Self::Float16Array => "Float16Array",
        }
    }
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

/// Returns whether each reader decodes an array at a path of references in a format.
pub fn readable_by(path: &str, array: &Array, format: ZarrFormat) -> Vec<(Reader, Verdict)> {
    let verdicts = match Document::new(array, ChunkFacts::of(array), format) {
        Ok(document) => Reader::ALL.map(|reader| rules::verdict(reader, path, array, &document)),
        Err(error) => Reader::ALL.map(|_| Verdict::No(error.to_string())),
    };
    Reader::ALL.into_iter().zip(verdicts).collect()
}

/// Returns whether one reader decodes an array, of whose chunks only the facts count; see [`readable_by`].
pub fn verdict(reader: Reader, path: &str, array: &Array, chunks: ChunkFacts, format: ZarrFormat) -> Verdict {
    match Document::new(array, chunks, format) {
        Ok(document) => rules::verdict(reader, path, array, &document),
        Err(error) => Verdict::No(error.to_string()),
    }
}
