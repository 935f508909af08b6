#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! One model serves Zarr v2 and v3: data types, codecs and fill values have an encoding in each. Names are those of the
//! Zarr v3 specification.
//!
//! Architecture invariants: no I/O, no `async`, and no knowledge of the source formats.

pub mod cf;
pub mod manifest;
pub mod node;
pub mod readers;

mod arithmetic;
mod chunk_reader;
mod codecs;
mod data_type;
mod fill_value;
mod metadata;
mod read;
mod sharding;

pub use arithmetic::{Arithmetic, ArithmeticError};
pub use chunk_reader::{
    Chunk, ChunkReadError, ChunkReader, ChunkVisitor, Chunks, HierarchyChunks, SourceRef,
};
pub use codecs::{
    Codec, CodecError, CodecKind, FilterParameters, Implementation, Nbit, NbitType, OldJpeg, OldJpegStream,
    OutOfRange, Rounding, ScalarMap, ScaleOffset, StoredInteger, TiffScheme,
};
pub use data_type::{DataType, Endian, Field, TimeUnit};
pub use fill_value::{Conversion, FillValue, FillValueError, in_byte_order};
pub use manifest::{
    ChunkEntry, ChunkManifest, Lengths, Reference, References, ReferencesBuilder, SourceId, chunk_indices,
    chunk_position, greatest_common_divisor,
};
pub use metadata::MetadataError;
pub use node::{Array, ChunkGrid, Group, Hierarchy, Node, NodePath, Source, Version};
pub use read::{ArrayDocument, ReadError};
pub use sharding::Sharding;

/// Version of the Zarr format in which metadata is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZarrFormat {
    /// Zarr v2: `.zarray`, `.zattrs`, `.zgroup`; chunk keys `0.0`.
    V2,
    /// Zarr v3: `zarr.json`; chunk keys `c/0/0`.
    V3,
}

impl ZarrFormat {
    /// Returns "v2" or "v3".
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "v3",
        }
    }
}
