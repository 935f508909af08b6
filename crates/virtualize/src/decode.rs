//! Elements of single chunks.

use std::borrow::Cow;

use virtualize_codec::CodecFailure;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, chunk_indices};

/// Shape of the chunk at a position, of those at the edges of a regular grid as well that of the whole chunk.
pub(crate) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => Some(chunk.clone()),
        ChunkGrid::Rectilinear(edges) => {
            let at = chunk_indices(position, &array.chunk_grid.counts(&array.shape))?;
            edges.iter().zip(at).map(|(edges, at)| edges.get(usize::try_from(at).ok()?).copied()).collect()
        }
    }
}

/// How many elements a shape has.
pub(crate) fn count(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1, |all: u64, n| all.checked_mul(*n))
}

/// The elements of a chunk of fixed size, in stored order and byte order.
pub(crate) fn elements(array: &Array, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let count = count(shape).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| CodecFailure::Parameters {
        codec: "chunk",
        reason: format!("a shape of {shape:?} elements"),
    })?;
    virtualize_codec::decode_values(&array.data_type, &codecs(array, shape), bytes, count)
}

/// The codecs, with what only the array and its chunk's shape say of them.
fn codecs<'a>(array: &'a Array, shape: &[u64]) -> Cow<'a, [Codec]> {
    let needs = |codec: &Codec| {
        matches!(codec, Codec::Delta { .. } | Codec::FloatPredictor { .. } | Codec::PackBitsOfIntegers { .. })
    };
    if !array.codecs.iter().any(needs) {
        return Cow::Borrowed(&array.codecs);
    }
    let mut chain = array.codecs.clone();
    let (mut here, mut data_type): (Vec<u64>, &DataType) = (shape.to_vec(), &array.data_type);
    for (codec, said) in chain.iter_mut().zip(&array.codecs) {
        match codec {
            Codec::Transpose { order } => {
                here = order.iter().filter_map(|axis| here.get(*axis).copied()).collect();
            }
            Codec::Delta { dtype, shape, .. } | Codec::FloatPredictor { dtype, shape, .. } => {
                spell(dtype, data_type, array);
                shape.clone_from(&here);
            }
            Codec::PackBitsOfIntegers { dtype, .. } => spell(dtype, data_type, array),
            _ => {}
        }
        if let Codec::CastValue { data_type: to, .. } = said {
            data_type = to;
        }
    }
    Cow::Owned(chain)
}

/// The type as a NumPy string.
fn spell(dtype: &mut String, data_type: &DataType, array: &Array) {
    if let Ok(spelled) = data_type.to_v2(array.endian())
        && let Some(spelled) = spelled.as_str()
    {
        spelled.clone_into(dtype);
    }
}
