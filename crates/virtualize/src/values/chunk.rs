//! Single chunks, decoded.

use bytes::Bytes;
use virtualize_zarr::{Array, ChunkGrid, ChunkManifest};

use super::{fixed_values, lay::Grid};
use crate::{Error, VirtualStore, decode};

/// How many bytes the elements of a chunk take; `None` for types of variable size, and outside the grid.
pub fn chunk_size(array: &Array, position: u64) -> Option<u64> {
    let counts = array.chunk_grid.counts(&array.shape);
    let shape = decode::chunk_shape(array, position)?;
    let is_inside = decode::count(&counts).is_none_or(|count| position < count);
    is_inside.then(|| decode::count(&shape)?.checked_mul(array.data_type.size()?)).flatten()
}

/// The elements of a chunk from its stored bytes: in row-major order and in little-endian byte order, those of the whole
/// chunk also where it sticks out of the array. `position` is row-major in the grid.
///
/// # Errors
/// [`Error::Values`]: there is no such array or chunk, the chunk has more than `most` bytes, is damaged, or has a type of
/// variable size or a codec that is not decoded here (of images).
pub fn decode_chunk(
    store: &VirtualStore,
    path: &str,
    position: u64,
    stored: &Bytes,
    most: u64,
) -> Result<Bytes, Error> {
    let failed = |reason| Error::Values { name: store.name().to_owned(), path: path.to_owned(), reason };
    let array = store.hierarchy.array(path).ok_or_else(|| failed("there is no such array".to_owned()))?;
    decoded(array, position, stored, most).map_err(failed)
}

fn decoded(array: &Array, position: u64, stored: &Bytes, most: u64) -> Result<Bytes, String> {
    if chunk_size(array, position).is_none() {
        return Err(format!("there is no chunk {position} of fixed size"));
    }
    let shape = decode::chunk_shape(array, position).unwrap_or_default();
    // The chunk is an array of its own, of one chunk.
    let alone = Array {
        chunk_grid: ChunkGrid::Regular(shape.clone()),
        shape,
        data_type: array.data_type.clone(),
        codecs: array.codecs.clone(),
        fill_value: array.fill_value.clone(),
        dimension_names: array.dimension_names.clone(),
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest::default(),
    };
    let grid = Grid::of(&alone, most)?;
    let elements = fixed_values(&alone, &grid, most, [(0, Some(stored))].into_iter());
    elements.map(Into::into).map_err(|reason| format!("chunk {position}: {reason}"))
}
