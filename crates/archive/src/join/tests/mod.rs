//! Tests of several files of this module together.

mod references;
mod times;

use serde_json::{Map, Value};
use virtualize::ArrayValues;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, ZarrFormat};

use super::accumulate::Read;

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

/// Returns the properties of an array without a digest.
fn read(values: Option<ArrayValues>) -> Read {
    Read {
        values,
        digest: None,
        format: ZarrFormat::V2,
        are_times: false,
        assume_equal: false,
        is_optional: false,
    }
}
