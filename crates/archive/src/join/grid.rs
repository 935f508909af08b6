//! The chunk grid of a combined array.

use virtualize::zarr::ChunkGrid;

use super::accumulate::Growing;
use crate::compat::{
    geometry::{Axis, Geometry},
    storage::Storage,
};

/// Returns the chunk grid of a combined array; `None` if its values are copied, or if a number overflows.
pub(super) fn grid(storage: &Storage, growing: &Growing, geometry: &Geometry) -> Option<ChunkGrid> {
    let first = growing.pieces.values().next()?.chunk.as_ref();
    let edges = |axis: &Axis| -> Option<Vec<u64>> {
        let Some(own) = axis.own else { return Some(vec![1; usize::try_from(axis.total).ok()?]) };
        let Some(dimension) = axis.dimension else {
            return Some(edges_of(axis.total, *first?.get(own)?));
        };
        let chunks = chunk_sizes(growing, axis, own, dimension);
        Some(axis.sizes.iter().zip(chunks).flat_map(|(size, chunk)| edges_of(*size, chunk)).collect())
    };
    match storage {
        Storage::Copied => None,
        Storage::Rectilinear => {
            geometry.axes.iter().map(edges).collect::<Option<_>>().map(ChunkGrid::Rectilinear)
        }
        Storage::Regular(chunk) => chunk_shape(geometry, chunk).map(ChunkGrid::Regular),
        Storage::Sliced { axis, step } => {
            let mut chunk = first?.clone();
            *chunk.get_mut(*axis)? = *step;
            chunk_shape(geometry, &chunk).map(ChunkGrid::Regular)
        }
    }
}

/// Returns, for each place along an axis, the index of its first chunk in the combined grid.
pub(super) fn first_chunks(storage: &Storage, growing: &Growing, axis: &Axis) -> Option<Vec<u64>> {
    let Some(own) = axis.own else { return Some(axis.starts.clone()) };
    let Some(dimension) = axis.dimension else { return Some(vec![0]) };
    let size = match storage {
        Storage::Copied => return None,
        Storage::Regular(chunk) => *chunk.get(own)?,
        Storage::Sliced { axis, step } if *axis == own => *step,
        Storage::Sliced { .. } => {
            growing.pieces.values().next()?.chunk.as_ref().and_then(|chunk| chunk.get(own)).copied()?
        }
        Storage::Rectilinear => return Some(rectilinear_starts(growing, axis, own, dimension)),
    };
    Some(axis.starts.iter().map(|start| start / size.max(1)).collect())
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
fn chunk_sizes(growing: &Growing, axis: &Axis, own: usize, dimension: usize) -> Vec<u64> {
    let mut chunks = axis.sizes.clone();
    for (at, piece) in &growing.pieces {
        let chunk = piece.chunk.as_ref().and_then(|chunk| chunk.get(own));
        if let (Some(slot), Some(chunk)) = (at.get(dimension).and_then(|n| chunks.get_mut(*n)), chunk) {
            *slot = *chunk;
        }
    }
    chunks
}

/// Returns the index of the first chunk at each place along an axis with varying chunk sizes.
fn rectilinear_starts(growing: &Growing, axis: &Axis, own: usize, dimension: usize) -> Vec<u64> {
    let mut next = 0;
    let chunks = chunk_sizes(growing, axis, own, dimension);
    let counts = axis.sizes.iter().zip(chunks).map(|(size, chunk)| size.div_ceil(chunk.max(1)));
    let starts = counts.map(|count| {
        let start = next;
        next += count;
        start
    });
    starts.collect()
}
