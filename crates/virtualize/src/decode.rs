//! Decoding of the elements of single chunks.

use virtualize_codec::CodecFailure;
use virtualize_zarr::{Array, ChunkGrid, Codec, chunk_indices};

use crate::array_error::ArrayError;
use crate::copy_region::{Region, copy_region};

/// Returns the shape of the chunk at a position. At the edges of a regular grid, this is the shape of a whole chunk.
pub(crate) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => Some(chunk.clone()),
        ChunkGrid::Rectilinear(edges) => {
            let at = chunk_indices(position, &array.chunk_grid.counts(&array.shape))?;
            edges.iter().zip(at).map(|(edges, at)| edges.get(usize::try_from(at).ok()?).copied()).collect()
        }
    }
}

/// Returns the number of elements of a shape.
pub(crate) fn count(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1, |all: u64, n| all.checked_mul(*n))
}

/// Returns the order of axes of stored elements: axis `i` of them is axis `order[i]` of the array. Several `transpose`
/// codecs at the start of a chain count as one.
pub(crate) fn stored_order(codecs: &[Codec], rank: usize) -> Result<Vec<usize>, ArrayError> {
    let mut whole: Vec<usize> = (0..rank).collect();
    let mut is_first = true;
    for codec in codecs {
        match codec {
            Codec::Transpose { order } if is_first => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..rank) {
                    return Err(ArrayError::Order { order: order.clone(), rank });
                }
                whole = order.iter().filter_map(|axis| whole.get(*axis).copied()).collect();
            }
            Codec::Transpose { .. } => return Err(ArrayError::LateTranspose),
            arithmetic => is_first &= arithmetic.is_arithmetic(),
        }
    }
    Ok(whole)
}

/// Returns the elements of a chunk of fixed size, in stored order and byte order.
pub(crate) fn elements(array: &Array, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let count = count(shape).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| CodecFailure::Parameters {
        codec: "chunk",
        reason: format!("a shape of {shape:?} elements"),
    })?;
    virtualize_codec::decode_values(&array.data_type, &complete_codecs(array, shape), bytes, count)
}

/// Returns decoded elements in the order of the array's axes. Elements of variable length are returned unchanged.
pub(crate) fn in_order(array: &Array, shape: &[u64], values: Vec<u8>) -> Result<Vec<u8>, ArrayError> {
    let order = stored_order(&array.codecs, shape.len())?;
    let size = array.data_type.size().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    let (Some(size), false) = (size, order.iter().copied().eq(0..shape.len())) else { return Ok(values) };
    let start = vec![0; shape.len()];
    let (to, from) = (Region::new(shape, &start), Region::permuted(shape, &order, &start));
    let mut ordered = vec![0; values.len()];
    copy_region((&mut ordered, &to), (&values, &from), shape, size)
        .map_err(|_| ArrayError::TooFewElements)?;
    Ok(ordered)
}

/// Returns the codecs, completed by properties that follow from the array and the chunk's shape.
pub(crate) fn complete_codecs(array: &Array, shape: &[u64]) -> Vec<Codec> {
    let mut chain = array.codecs.clone();
    Codec::complete(&mut chain, &array.data_type, shape);
    chain
}
