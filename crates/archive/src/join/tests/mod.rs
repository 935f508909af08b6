//! Tests of several files of this module together.

mod memory;
mod model;
mod references;
mod scale;
mod tail;
mod times;

pub(super) use memory::MemoryMembers;
use serde_json::{Map, Value};
use smallvec::smallvec;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, ZarrFormat};

use crate::join::{chunks::Files, metadata::ArrayOptions};
use crate::plan::Block;

/// Returns an array of uncompressed elements; axes are name, size and chunk size.
fn array(data_type: DataType, axes: &[(&str, u64, u64)], attributes: Value) -> Array {
    let attributes = match attributes {
        Value::Object(attributes) => attributes,
        _ => Map::new(),
    };
    Array {
        shape: axes.iter().map(|axis| axis.1).collect(),
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(axes.iter().map(|axis| axis.2).collect()),
        codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }],
        dimension_names: axes.iter().map(|axis| Some(axis.0.to_owned())).collect(),
        attributes,
        chunks: ChunkManifest::default(),
    }
}

/// Returns the blocks of files along one dimension.
fn blocks(count: u32) -> Vec<Block> {
    (0..count).map(|n| Block { row: n.into(), at: smallvec![n], selection: None }).collect()
}

/// Names files by their rows.
fn files(blocks: &[Block]) -> Files<'_> {
    Files { blocks, url_of: &|row| row.to_string() }
}

/// Options of an array that may be missing, so that files are compared, or that may not.
fn options(is_optional: bool) -> ArrayOptions {
    ArrayOptions { format: ZarrFormat::V2, assume_equal: false, is_optional, is_near: false, is_axis: false }
}
