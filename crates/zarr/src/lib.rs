//! A virtual Zarr hierarchy in the words of the Zarr v3 specification: groups, arrays, data types, codecs, fill values,
//! and chunk manifests that say where each chunk's bytes lie.
//!
//! Architecture invariants: no I/O, no `async`, and no knowledge of the formats the bytes come from. One model serves
//! Zarr v2 and v3: data types, codecs and fill values know their spelling in both.

pub mod cf;
pub mod manifest;
pub mod node;
pub mod readers;

mod arithmetic;
mod cast_value;
mod client_codecs;
mod codec;
mod columns;
mod data_type;
mod fill_value;
mod metadata;
mod position;
mod read;
mod spell_codec;
mod spell_data_type;
mod tiff_scheme;

pub use arithmetic::{Arithmetic, ArithmeticError};
pub use cast_value::{OutOfRange, Rounding, ScalarMap};
pub use codec::{Codec, CodecError, ForeignKind};
pub use columns::ReferencesBuilder;
pub use data_type::{DataType, Endian, Field};
pub use fill_value::{Conversion, FillValue, FillValueError, in_byte_order};
pub use manifest::{ChunkEntry, ChunkManifest, Lengths, Reference, References, SourceId};
pub use metadata::MetadataError;
pub use node::{Array, ChunkGrid, Group, Hierarchy, Node, NodePath, Source};
pub use position::{chunk_indices, chunk_position, greatest_common_divisor};
pub use read::{ArrayDocument, ReadError};
pub use tiff_scheme::TiffScheme;

/// Which of the two Zarr formats metadata is spelled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZarrFormat {
    /// Zarr v2: `.zarray`, `.zattrs`, `.zgroup`; chunk keys `0.0`.
    V2,
    /// Zarr v3: `zarr.json`; chunk keys `c/0/0`.
    V3,
}
