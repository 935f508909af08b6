//! The chunk grid of a combined array.

use virtualize::zarr::ChunkGrid;

use super::accumulate::Growing;
use crate::{
    compat::{
        geometry::{Axis, Geometry},
        storage::Storage,
    },
    error::Problem,
};

/// Returns the chunk grid of a combined array.
///
/// # Errors
/// [`Problem::Grid`] if files at the same place have chunks of different sizes, [`Problem::TooLarge`] if a number overflows.
pub(super) fn grid(
    storage: &Storage,
    growing: &Growing<'_>,
    geometry: &Geometry,
) -> Result<ChunkGrid, Problem> {
    let chunk = match storage {
        Storage::Copied => None,
        Storage::Rectilinear => {
            let edges = geometry.axes.iter().map(|axis| edges(growing, axis));
            return edges.collect::<Result<_, _>>().map(ChunkGrid::Rectilinear);
        }
        Storage::Regular(chunk) => chunk_shape(geometry, chunk),
        Storage::Sliced { axis, step } => first_chunk(growing).and_then(|first| {
            let mut chunk = first.to_vec();
            *chunk.get_mut(*axis)? = *step;
            chunk_shape(geometry, &chunk)
        }),
    };
    chunk.map(ChunkGrid::Regular).ok_or(Problem::TooLarge)
}

/// Returns the sizes of the chunks along an axis of a grid whose chunk sizes vary.
fn edges(growing: &Growing<'_>, axis: &Axis) -> Result<Vec<u64>, Problem> {
    let Some(own) = axis.own else {
        return Ok(vec![1; usize::try_from(axis.total).map_err(|_| Problem::TooLarge)?]);
    };
    let Some(dimension) = axis.dimension else {
        let size = first_chunk(growing).and_then(|first| first.get(own)).ok_or(Problem::TooLarge)?;
        return Ok(edges_of(axis.total, *size));
    };
    let chunks = chunk_sizes(growing, axis, own, dimension)?;
    Ok(axis.sizes.iter().zip(chunks).flat_map(|(size, chunk)| edges_of(*size, chunk)).collect())
}

/// Returns, for each place along an axis, the index of its first chunk in the combined grid.
pub(super) fn first_chunks(storage: &Storage, growing: &Growing<'_>, axis: &Axis) -> Option<Vec<u64>> {
    let Some(own) = axis.own else { return Some(axis.starts.clone()) };
    let Some(dimension) = axis.dimension else { return Some(vec![0]) };
    let size = match storage {
        Storage::Copied => return None,
        Storage::Regular(chunk) => *chunk.get(own)?,
        Storage::Sliced { axis, step } if *axis == own => *step,
        Storage::Sliced { .. } => *first_chunk(growing)?.get(own)?,
        Storage::Rectilinear => return rectilinear_starts(growing, axis, own, dimension),
    };
    Some(axis.starts.iter().map(|start| start / size.max(1)).collect())
}

/// Returns the chunk shape of the first part.
fn first_chunk<'a>(growing: &'a Growing<'_>) -> Option<&'a [u64]> {
    growing.pieces.form(growing.pieces.first()?)?.layout.chunk.as_deref()
}

/// Returns a chunk shape of the files with one element along each new axis.
fn chunk_shape(geometry: &Geometry, chunk: &[u64]) -> Option<Vec<u64>> {
    geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| chunk.get(own).copied())).collect()
}

/// Returns the sizes of chunks of `chunk` elements that cover `total` elements.
fn edges_of(total: u64, chunk: u64) -> Vec<u64> {
    let chunk = chunk.max(1);
    (0..total.div_ceil(chunk)).map(|n| chunk.min(total - n * chunk)).collect()
}

/// Returns the chunk size at each place along an axis; the whole place if no file is there.
fn chunk_sizes(
    growing: &Growing<'_>,
    axis: &Axis,
    own: usize,
    dimension: usize,
) -> Result<Vec<u64>, Problem> {
    let mut chunks = vec![None; axis.sizes.len()];
    for n in growing.pieces.iter() {
        let place = growing.place_of(n).get(dimension).and_then(|place| usize::try_from(*place).ok());
        let chunk = growing.pieces.form(n).and_then(|form| form.layout.chunk_along(own));
        if let (Some(slot), Some(chunk)) = (place.and_then(|place| chunks.get_mut(place)), chunk)
            && *slot.get_or_insert(chunk) != chunk
        {
            return Err(Problem::Grid);
        }
    }
    Ok(axis.sizes.iter().zip(chunks).map(|(size, chunk)| chunk.unwrap_or(*size)).collect())
}

/// Returns the index of the first chunk at each place along an axis with varying chunk sizes.
fn rectilinear_starts(growing: &Growing<'_>, axis: &Axis, own: usize, dimension: usize) -> Option<Vec<u64>> {
    let mut next = 0;
    let chunks = chunk_sizes(growing, axis, own, dimension).ok()?;
    let counts = axis.sizes.iter().zip(chunks).map(|(size, chunk)| size.div_ceil(chunk.max(1)));
    let starts = counts.map(|count| {
        let start = next;
        next += count;
        start
    });
    Some(starts.collect())
}
