//! Decoding of single chunks.

use bytes::Bytes;
use virtualize_zarr::Array;

use super::elements::Elements;
use super::run::Scratch;
use crate::array_error::ArrayError;
use crate::decode;
use crate::error::Error;
use crate::store::VirtualStore;

/// Returns the size of a decoded chunk in bytes; `None` for types of variable size and for positions outside the grid.
pub fn chunk_size(array: &Array, position: u64) -> Option<u64> {
    let counts = array.chunk_grid.counts(&array.shape);
    let shape = decode::chunk_shape(array, position)?;
    let is_inside = decode::count(&counts).is_none_or(|count| position < count);
    is_inside.then(|| decode::count(&shape)?.checked_mul(array.data_type.size()?)).flatten()
}

/// Decodes a chunk from its stored bytes. Returns its elements in row-major order and little-endian byte order,
/// including those outside the array. `position` is row-major in the grid.
///
/// # Errors
/// [`Error::Values`] if there is no such array or chunk, or the chunk has more than `most` bytes, is damaged, or has a
/// type of variable size or a codec without a decoder here (of images).
pub fn decode_chunk(
    store: &VirtualStore,
    path: &str,
    position: u64,
    stored: &Bytes,
    most: u64,
) -> Result<Bytes, Error> {
    let array = store.hierarchy.array(path).ok_or(ArrayError::NoArray);
    let decoded = array.and_then(|array| decoded(array, position, stored, most));
    decoded.map_err(|error| Error::of_array(store.name(), path, error))
}

fn decoded(array: &Array, position: u64, stored: &Bytes, most: u64) -> Result<Bytes, ArrayError> {
    let outside = || ArrayError::NoChunk(position);
    chunk_size(array, position).ok_or_else(outside)?;
    let shape = decode::chunk_shape(array, position).ok_or_else(outside)?;
    let elements = Elements::new(array, most, None)?;
    let decoded = elements.row_major(&shape, stored, &mut Scratch::default());
    decoded.map(Into::into).map_err(|error| error.in_chunk(position.to_string()))
}
