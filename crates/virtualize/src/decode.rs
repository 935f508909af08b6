//! Elements of single chunks.

use std::borrow::Cow;

use crate::values::stored_order;
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

/// Decoded elements in the order of the array's axes; those of text of variable length have no other.
pub(crate) fn in_order(array: &Array, shape: &[u64], values: Vec<u8>) -> Result<Vec<u8>, String> {
    let order = stored_order(&array.codecs, shape.len())?;
    let size = array.data_type.size().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let (Some(size), false) = (size, order.iter().copied().eq(0..shape.len())) else { return Ok(values) };
    let sizes: Vec<usize> = shape.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    // How far apart in the stored elements neighbours along each axis of the array are.
    let mut steps = vec![0; sizes.len()];
    let mut step = 1_usize;
    for axis in order.iter().rev() {
        if let (Some(at), Some(n)) = (steps.get_mut(*axis), sizes.get(*axis)) {
            *at = step;
            step = step.saturating_mul(*n);
        }
    }
    let mut out = Vec::with_capacity(values.len());
    for position in 0..values.len() / size {
        let mut rest = position;
        let mut from = 0_usize;
        for (n, step) in sizes.iter().zip(&steps).rev() {
            from += (rest % n) * step;
            rest /= n;
        }
        let element = values.get(from * size..(from + 1) * size);
        out.extend_from_slice(element.ok_or("its elements are fewer than its shape has")?);
    }
    Ok(out)
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
