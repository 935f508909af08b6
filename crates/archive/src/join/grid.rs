//! The grid of a combined array.

use virtualize::zarr::ChunkGrid;

use super::accumulate::{Growing, Piece};
use crate::compat::{
    geometry::{Axis, Geometry},
    storage::{Laid, Parts, Storing, is_plain},
};

impl Laid for Piece {
    fn url(&self) -> &str {
        &self.url
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn chunk(&self) -> Option<&[u64]> {
        self.chunk.as_deref()
    }

    fn fits(&self) -> bool {
        self.fits
    }

    fn is_read(&self) -> bool {
        self.values.is_some()
    }
}

impl Growing {
    /// Its parts, as far as their storage goes.
    pub(super) fn parts(&self) -> Parts<'_, Piece> {
        let is_plain = is_plain(&self.first);
        Parts { url: &self.url, always: self.always, is_plain, pieces: &self.pieces }
    }
}

/// The chunk grid of the whole.
pub(super) fn grid(storing: &Storing, growing: &Growing, geometry: &Geometry) -> Option<ChunkGrid> {
    let first = growing.pieces.values().next()?.chunk.as_ref();
    let edges = |axis: &Axis| -> Option<Vec<u64>> {
        let Some(own) = axis.own else { return Some(vec![1; usize::try_from(axis.total).ok()?]) };
        let Some(dimension) = axis.dimension else {
            return Some(pieces_of(axis.total, *first?.get(own)?));
        };
        let chunks = chunk_sizes(growing, axis, own, dimension);
        Some(axis.sizes.iter().zip(chunks).flat_map(|(size, chunk)| pieces_of(*size, chunk)).collect())
    };
    match storing {
        Storing::Copied => None,
        Storing::Varying => {
            geometry.axes.iter().map(edges).collect::<Option<_>>().map(ChunkGrid::Rectilinear)
        }
        Storing::Regular(chunk) => chunk_shape(geometry, chunk).map(ChunkGrid::Regular),
        Storing::Cut { axis, step } => {
            let mut chunk = first?.clone();
            *chunk.get_mut(*axis)? = *step;
            chunk_shape(geometry, &chunk).map(ChunkGrid::Regular)
        }
    }
}

fn chunk_shape(geometry: &Geometry, chunk: &[u64]) -> Option<Vec<u64>> {
    geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| chunk.get(own).copied())).collect()
}

fn pieces_of(total: u64, chunk: u64) -> Vec<u64> {
    let chunk = chunk.max(1);
    (0..total.div_ceil(chunk)).map(|n| chunk.min(total - n * chunk)).collect()
}

/// Elements of a chunk at each place along an axis; the whole place where no file has any.
fn chunk_sizes(growing: &Growing, axis: &Axis, own: usize, dimension: usize) -> Vec<u64> {
    let mut chunks = axis.sizes.clone();
    for (key, piece) in &growing.pieces {
        let chunk = piece.chunk.as_ref().and_then(|chunk| chunk.get(own));
        if let (Some(slot), Some(chunk)) = (key.get(dimension).and_then(|n| chunks.get_mut(*n)), chunk) {
            *slot = *chunk;
        }
    }
    chunks
}

/// First chunk of each place along an axis in the grid of the whole.
pub(super) fn first_chunks(storing: &Storing, growing: &Growing, axis: &Axis) -> Option<Vec<u64>> {
    let Some(own) = axis.own else { return Some(axis.starts.clone()) };
    let Some(dimension) = axis.dimension else { return Some(vec![0]) };
    let size = match storing {
        Storing::Copied => return None,
        Storing::Regular(chunk) => *chunk.get(own)?,
        Storing::Cut { axis, step } if *axis == own => *step,
        Storing::Cut { .. } => {
            growing.pieces.values().next()?.chunk.as_ref().and_then(|c| c.get(own)).copied()?
        }
        Storing::Varying => return Some(varying_starts(growing, axis, own, dimension)),
    };
    Some(axis.starts.iter().map(|start| start / size.max(1)).collect())
}

fn varying_starts(growing: &Growing, axis: &Axis, own: usize, dimension: usize) -> Vec<u64> {
    let mut start = 0;
    let chunks = chunk_sizes(growing, axis, own, dimension);
    let counts = axis.sizes.iter().zip(chunks).map(|(size, chunk)| size.div_ceil(chunk.max(1)));
    let first = |count| {
        let own = start;
        start += count;
        own
    };
    counts.map(first).collect()
}

impl Piece {
    /// Numbers of chunks in the file.
    pub(super) fn counts(&self) -> Vec<u64> {
        let chunk = self.chunk.as_deref().unwrap_or(&self.shape);
        self.shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect()
    }
}
