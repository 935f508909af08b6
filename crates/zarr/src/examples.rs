//! Examples of every codec, which tests of several crates encode, parse, convert and decode.

use serde_json::Map;

use crate::{Array, ChunkGrid, ChunkManifest, Codec, CodecKind, DataType, Endian, FillValue, codecs::TABLE};

impl Codec {
    /// Returns examples of every codec of the table.
    pub fn examples() -> Vec<Self> {
        let released: Vec<Self> = TABLE.iter().flat_map(|definition| (definition.examples)()).collect();
        let own: Vec<Self> = released.iter().filter_map(Self::own).collect();
        released.into_iter().chain(own).collect()
    }

    /// Returns an array of 8 × 6 elements in chunks of 4 × 3, without references, whose chain is valid with this codec
    /// in it.
    pub fn example_array(&self) -> Array {
        let plain = if let Self::Own(plain) = self { plain } else { self };
        let data_type = match plain {
            Self::FloatPredictor { .. } | Self::CastValue { .. } | Self::ScaleOffset { .. } => {
                DataType::Float32
            }
            Self::ComplexIntegers { dtype: "<i2" | ">i2" } => DataType::Complex64,
            Self::ComplexIntegers { .. } => DataType::Complex128,
            Self::VlenUtf8 => DataType::String,
            Self::VlenBytes => DataType::VariableBytes,
            _ => DataType::UInt16,
        };
        let codec = self.clone();
        let is_big = matches!(plain, Self::ComplexIntegers { dtype: ">i2" | ">i4" });
        let bytes = Self::Bytes { endian: Some(if is_big { Endian::Big } else { Endian::Little }) };
        let codecs = match self.kind() {
            _ if self.makes_bytes() => vec![codec],
            CodecKind::BytesToBytes => vec![bytes, codec],
            _ if matches!(self, Self::ReversedBytes { .. }) => {
                vec![codec, Self::Image { name: "imagecodecs_lerc", configuration: Map::new() }]
            }
            _ => vec![codec, bytes],
        };
        Array {
            shape: vec![8, 6],
            fill_value: Some(FillValue::zero(&data_type)),
            data_type,
            chunk_grid: ChunkGrid::Regular(vec![4, 3]),
            codecs,
            dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
            attributes: Map::new(),
            chunks: ChunkManifest::default(),
        }
    }
}
