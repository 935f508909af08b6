//! Placement of chunks in an array.

use virtualize_zarr::{Array, ChunkGrid, chunk_indices};

use crate::array_error::ArrayError;
use crate::copy_region::{Region, copy_region};
use crate::decode::{self, stored_order};

/// Placement of an array's chunks, in elements.
pub(super) struct Grid {
    /// Size of the array along each axis.
    shape: Vec<u64>,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// First element of each chunk along each axis.
    starts: Starts,
    /// Axis `i` of stored elements is axis `order[i]` of the array.
    order: Vec<usize>,
}

enum Starts {
    /// Distance between consecutive chunks along each axis.
    Even(Vec<u64>),
    Each(Vec<Vec<u64>>),
}

impl Grid {
    /// Returns the grid of an array of at most `most` bytes.
    pub(super) fn of(array: &Array, most: u64) -> Result<Self, ArrayError> {
        let (shape, rank) = (array.shape.clone(), array.shape.len());
        let grid = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.len(),
            ChunkGrid::Rectilinear(edges) => edges.len(),
        };
        if grid != rank {
            return Err(ArrayError::GridRank { rank, grid });
        }
        within(array, &shape, most, "it")?;
        let starts = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => Starts::Even(chunk.clone()),
            ChunkGrid::Rectilinear(edges) => Starts::Each(edges.iter().map(|sizes| starts(sizes)).collect()),
        };
        let counts = array.chunk_grid.counts(&shape);
        Ok(Self { counts, starts, order: stored_order(&array.codecs, rank)?, shape })
    }

    /// Returns the elements of an array that is filled with one element.
    pub(super) fn filled(&self, element: &[u8]) -> Result<Vec<u8>, ArrayError> {
        let count = decode::count(&self.shape).and_then(|count| usize::try_from(count).ok());
        let too_large = || ArrayError::TooLarge { what: "it", bytes: u64::MAX, most: usize::MAX as u64 };
        Ok(element.repeat(count.ok_or_else(too_large)?))
    }

    /// Returns the shape of the chunk at a position.
    pub(super) fn chunk(&self, array: &Array, position: u64, most: u64) -> Result<Vec<u64>, ArrayError> {
        let outside = || ArrayError::OutsideGrid { position, counts: self.counts.clone() };
        if decode::count(&self.counts).is_some_and(|count| position >= count) {
            return Err(outside());
        }
        let shape = decode::chunk_shape(array, position).ok_or_else(outside)?;
        within(array, &shape, most, "a chunk")?;
        Ok(shape)
    }

    /// Adds the indices of a chunk to an error.
    pub(super) fn wrong(&self, position: u64, error: ArrayError) -> ArrayError {
        let at: Vec<String> =
            chunk_indices(position, &self.counts).unwrap_or_default().iter().map(u64::to_string).collect();
        error.in_chunk(if at.is_empty() { "0".to_owned() } else { at.join(".") })
    }

    /// Copies the elements of a chunk, in stored order, to their positions in the array. Elements outside the array
    /// are ignored.
    pub(super) fn place(
        &self,
        whole: &mut [u8],
        position: u64,
        shape: &[u64],
        elements: &[u8],
    ) -> Result<(), ArrayError> {
        let size = decode::count(shape).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        if size == 0 || whole.is_empty() {
            return Ok(());
        }
        let start = self.start(position);
        let extent: Vec<u64> = (self.shape.iter().zip(&start).zip(shape))
            .map(|((size, start), chunk)| size.saturating_sub(*start).min(*chunk))
            .collect();
        let from = Region::permuted(shape, &self.order, &vec![0; shape.len()]);
        let to = Region::new(&self.shape, &start);
        copy_region((whole, &to), (elements, &from), &extent, elements.len() / size)
            .map_err(|_| self.wrong(position, ArrayError::TooFewElements))
    }

    fn start(&self, position: u64) -> Vec<u64> {
        let at = chunk_indices(position, &self.counts).unwrap_or_default();
        match &self.starts {
            Starts::Even(chunk) => at.iter().zip(chunk).map(|(at, size)| at.saturating_mul(*size)).collect(),
            Starts::Each(starts) => {
                let start = |(at, starts): (&u64, &Vec<u64>)| {
                    usize::try_from(*at).ok().and_then(|at| starts.get(at)).copied().unwrap_or(u64::MAX)
                };
                at.iter().zip(starts).map(start).collect()
            }
        }
    }
}

fn starts(sizes: &[u64]) -> Vec<u64> {
    let sum = |sum: &mut u64, size: &u64| {
        let start = *sum;
        *sum = sum.saturating_add(*size);
        Some(start)
    };
    sizes.iter().scan(0, sum).collect()
}

/// Checks that an array or chunk does not exceed the limit in bytes.
fn within(array: &Array, shape: &[u64], most: u64, what: &'static str) -> Result<(), ArrayError> {
    // Elements of variable length are replaced by 8-byte numbers first.
    let size = array.data_type.size().unwrap_or(8).max(1);
    let bytes = decode::count(shape).and_then(|count| count.checked_mul(size));
    match bytes {
        Some(bytes) if bytes <= most => Ok(()),
        Some(bytes) => Err(ArrayError::TooLarge { what, bytes, most }),
        None => {
            let (shape, data_type) = (shape.to_vec(), array.data_type.clone());
            Err(ArrayError::TooManyElements { what, shape, data_type })
        }
    }
}
