//! Metadata documents of arrays and groups in both formats.

use serde_json::{Map, Value, json};

use crate::{
    Arithmetic, ArithmeticError, Array, ChunkGrid, Codec, CodecError, Endian, FillValue, FillValueError,
    Group, ZarrFormat, codecs,
};

/// Name of the attribute that tells xarray the axes' names of a Zarr v2 array.
pub(crate) const ARRAY_DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// An array that a Zarr format cannot express.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetadataError {
    /// A codec, data type or chain has no encoding.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The fill value is not a scalar of the array's type.
    #[error(transparent)]
    FillValue(#[from] FillValueError),
    /// The codecs cannot compute with the array's type or fill value.
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
}

impl Array {
    /// Returns `.zarray`.
    ///
    /// # Errors
    /// Arrays that Zarr v2 cannot express: some codecs, transpositions other than the reversal of all axes, rectilinear
    /// grids.
    pub fn to_zarray(&self) -> Result<Value, MetadataError> {
        let ChunkGrid::Regular(chunks) = &self.chunk_grid else {
            return Err(CodecError::new("a chunk grid of varying sizes", ZarrFormat::V2).into());
        };
        let (filters, compressor) = codecs::to_v2(&self.codecs)?;
        let fill_value = match &self.fill_value {
            Some(value) => value.to_json(&self.data_type, ZarrFormat::V2)?,
            None => Value::Null,
        };
        Ok(json!({
            "chunks": chunks.iter().map(|n| (*n).max(1)).collect::<Vec<_>>(),
            "compressor": compressor,
            "dimension_separator": ".",
            "dtype": self.data_type.to_v2(self.endian())?,
            "fill_value": fill_value,
            "filters": filters,
            "order": codecs::order_v2(&self.codecs)?,
            "shape": self.shape,
            "zarr_format": 2,
        }))
    }

    /// Returns `.zattrs`: the attributes, and the axes' names for xarray ([`Array::axis_names`]). `name` is that of the
    /// array.
    pub fn to_zattrs(&self, name: &str) -> Value {
        let mut attributes = self.attributes.clone();
        attributes.insert(ARRAY_DIMENSIONS.to_owned(), self.axis_names(name).into());
        Value::Object(attributes)
    }

    /// Returns `zarr.json`. `name` is that of the array ([`Array::axis_names`]).
    ///
    /// # Errors
    /// Arrays that Zarr v3, or zarr-python with imagecodecs, cannot express: some codecs and orders of codecs,
    /// structures of both byte orders, and what [`Arithmetic`] rejects.
    pub fn to_zarr_json(&self, name: &str) -> Result<Value, MetadataError> {
        self.to_zarr_json_with(name, &self.attributes)
    }

    /// Returns `zarr.json` with other attributes.
    pub(crate) fn to_zarr_json_with(
        &self,
        name: &str,
        attributes: &Map<String, Value>,
    ) -> Result<Value, MetadataError> {
        let zero = || FillValue::zero(&self.data_type);
        let fill_value = self.fill_value.clone().unwrap_or_else(zero);
        Arithmetic::new(&self.data_type, &self.codecs)?.check(&fill_value)?;
        Ok(json!({
            "attributes": attributes,
            "chunk_grid": self.chunk_grid.to_v3(),
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": codecs::to_v3(&self.codecs, &self.data_type)?,
            "data_type": self.data_type.to_v3()?,
            "dimension_names": self.axis_names(name),
            "fill_value": fill_value.to_json(&self.data_type, ZarrFormat::V3)?,
            "node_type": "array",
            "shape": self.shape,
            "storage_transformers": [],
            "zarr_format": 3,
        }))
    }

    /// Returns the byte order of stored numbers ([`Codec::endian_of`]).
    pub fn endian(&self) -> Endian {
        Codec::endian_of(&self.codecs)
    }

    /// Returns the names of the axes for metadata. Those without a name are called `NAME_dim_0` and so on, after the
    /// array: xarray cannot open groups with unnamed axes.
    pub fn axis_names(&self, array: &str) -> Vec<String> {
        let name = |axis: usize| match self.dimension_names.get(axis) {
            Some(Some(name)) => name.clone(),
            _ => format!("{array}_dim_{axis}"),
        };
        (0..self.shape.len()).map(name).collect()
    }
}

impl Group {
    /// Returns `.zattrs`.
    pub fn to_zattrs(&self) -> Value {
        Value::Object(self.attributes.clone())
    }

    /// Returns `zarr.json`.
    pub fn to_zarr_json(&self) -> Value {
        json!({"attributes": self.attributes, "node_type": "group", "zarr_format": 3})
    }
}

impl ChunkGrid {
    fn to_v3(&self) -> Value {
        match self {
            Self::Regular(chunk) => {
                let chunk: Vec<_> = chunk.iter().map(|n| (*n).max(1)).collect();
                json!({"name": "regular", "configuration": {"chunk_shape": chunk}})
            }
            Self::Rectilinear(sizes) => {
                let edges: Vec<Value> = sizes.iter().map(|sizes| edges(sizes)).collect();
                json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": edges}})
            }
        }
    }
}

/// Encodes edge lengths along an axis as the extension `rectilinear` does: `[length, times]` for repeated ones.
fn edges(sizes: &[u64]) -> Value {
    let run = |run: &[u64]| match run {
        [size] => json!(size),
        sizes => json!([sizes.first(), sizes.len()]),
    };
    sizes.chunk_by(|a, b| a == b).map(run).collect()
}
