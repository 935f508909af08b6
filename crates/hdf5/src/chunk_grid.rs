//! The grid of a dataset's chunks, and the numbering of chunks in array indexes.

use crate::Error;

const STRUCTURE: &str = "chunked layout";

/// The grid of chunks that covers the extent of a dataset. Axes are ordered slowest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkGrid {
    /// Number of chunks along each axis.
    pub(crate) counts: Vec<u64>,
    /// Row-major stride along each axis, in chunks.
    pub(crate) strides: Vec<u64>,
    /// Number of chunks in the grid.
    pub(crate) total: u64,
    /// Size of an unfiltered chunk in bytes.
    pub(crate) chunk_bytes: u64,
}

impl ChunkGrid {
    /// Creates the grid of a dataset with this shape in elements.
    pub(crate) fn new(shape: &[u64], chunk_shape: &[u64], element_size: u32) -> Result<Self, Error> {
        if shape.len() != chunk_shape.len() || shape.is_empty() {
            let problem =
                format!("chunk rank {}, expected {} of the dataspace", chunk_shape.len(), shape.len());
            return Err(Error::malformed(STRUCTURE, 0, problem));
        }
        if element_size == 0 || chunk_shape.contains(&0) {
            let problem = format!(
                "chunk shape {chunk_shape:?} with elements of {element_size} bytes, expected 1 to 2^64 bytes"
            );
            return Err(Error::malformed(STRUCTURE, 0, problem));
        }
        let counts: Vec<_> =
            shape.iter().zip(chunk_shape).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
        let (strides, total) = strides(counts.iter().copied()).ok_or_else(|| too_many(&counts))?;
        let bytes =
            chunk_shape.iter().try_fold(u64::from(element_size), |bytes, axis| bytes.checked_mul(*axis));
        let chunk_bytes = bytes.ok_or_else(|| too_many(chunk_shape))?;
        Ok(Self { counts, strides, total, chunk_bytes })
    }

    /// Returns the row-major position of the chunk at `coordinates`, in chunks; `None` outside of the extent.
    pub(crate) fn position(&self, coordinates: impl Iterator<Item = u64>) -> Option<u64> {
        let mut position = 0_u64;
        for ((coordinate, count), stride) in coordinates.zip(&self.counts).zip(&self.strides) {
            if coordinate >= *count {
                return None;
            }
            position = position.wrapping_add(coordinate.wrapping_mul(*stride));
        }
        Some(position)
    }
}

/// Returns the row-major strides of a grid, slowest axis first, and its number of chunks; `None` over 64 bits.
fn strides(counts: impl DoubleEndedIterator<Item = u64>) -> Option<(Vec<u64>, u64)> {
    let mut total = 1_u64;
    let mut strides = Vec::new();
    for count in counts.rev() {
        strides.push(total);
        total = total.checked_mul(count)?;
    }
    strides.reverse();
    Some((strides, total))
}

fn too_many(shape: &[u64]) -> Error {
    Error::limit(STRUCTURE, 0, format!("shape {shape:?}, expected less than 2^64 elements"))
}

/// Numbering of chunks in fixed arrays, extensible arrays and implicit indexes: row-major over the *maximum* extent, so
/// that numbers remain valid when the extent changes. In an extensible array, the unlimited axis is the slowest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkNumbering {
    /// Whether numbers are equal to positions in the grid.
    identity: bool,
    /// Axes, slowest first in the numbering.
    axes: Vec<NumberedAxis>,
    /// End of the numbers within the extent, exclusive.
    pub(crate) end: u64,
    /// Number of chunks in the maximum extent; `None` if it is unlimited.
    pub(crate) most: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NumberedAxis {
    /// Stride along this axis in the numbering.
    step: u64,
    /// Number of chunks along this axis in the current extent.
    count: u64,
    /// Row-major stride along this axis in the grid.
    stride: u64,
}

impl ChunkNumbering {
    /// Creates the numbering for a finite maximum extent.
    pub(crate) fn bounded(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
    ) -> Result<Self, Error> {
        let order: Vec<_> = (0..grid.counts.len()).collect();
        if max_shape.contains(&None) {
            return Err(Error::malformed(
                STRUCTURE,
                0,
                "unlimited axis, expected a finite maximum shape for this chunk index",
            ));
        }
        Self::new(grid, max_shape, chunk_shape, &order)
    }

    /// Creates the numbering for a maximum extent with one unlimited axis.
    pub(crate) fn extensible(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
    ) -> Result<Self, Error> {
        let mut unlimited = (0..).zip(max_shape).filter(|(_, size)| size.is_none()).map(|(axis, _)| axis);
        let (Some(first), None) = (unlimited.next(), unlimited.next()) else {
            let problem =
                format!("maximum shape {max_shape:?}, expected one unlimited axis for an extensible array");
            return Err(Error::malformed(STRUCTURE, 0, problem));
        };
        let others = (0..grid.counts.len()).filter(|&axis| axis != first);
        let order: Vec<_> = std::iter::once(first).chain(others).collect();
        Self::new(grid, max_shape, chunk_shape, &order)
    }

    fn new(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
        order: &[usize],
    ) -> Result<Self, Error> {
        // No stride depends on the count along the slowest axis, so the current count can stand in for the unlimited
        // one.
        let most = |axis: usize| match (max_shape.get(axis)?, chunk_shape.get(axis)?) {
            // The sum exceeds 64 bits in the library, which then finds other chunks.
            (Some(size), chunk) => size.checked_add(chunk.checked_sub(1)?)?.checked_div(*chunk),
            (None, _) => grid.counts.get(axis).copied(),
        };
        let counts: Option<Vec<u64>> = order.iter().map(|&axis| most(axis)).collect();
        let steps = counts.as_deref().and_then(|counts| strides(counts.iter().copied()));
        let (Some(counts), Some((steps, total))) = (counts, steps) else {
            return Err(Error::limit(
                STRUCTURE,
                0,
                format!(
                    "maximum shape {max_shape:?} with chunk shape {chunk_shape:?}, expected less than 2^64 chunks"
                ),
            ));
        };
        let place = |(&axis, step): (&usize, u64)| {
            Some(NumberedAxis { step, count: *grid.counts.get(axis)?, stride: *grid.strides.get(axis)? })
        };
        let axes: Vec<_> = order.iter().zip(steps).filter_map(place).collect();
        if axes.len() != grid.counts.len() || axes.iter().zip(&counts).any(|(axis, most)| axis.count > *most)
        {
            let problem =
                format!("{:?} chunks, expected at most {counts:?} of the maximum shape", grid.counts);
            return Err(Error::malformed(STRUCTURE, 0, problem));
        }
        let identity = axes.iter().all(|axis| axis.step == axis.stride);
        let end = axes.first().map_or(0, |axis| axis.step.saturating_mul(axis.count));
        let most = (!max_shape.contains(&None)).then_some(total);
        Ok(Self { identity, axes, end, most })
    }

    /// Returns the row-major position of chunk `number`; `None` outside of the extent.
    pub(crate) fn position(&self, number: u64) -> Option<u64> {
        if number >= self.end {
            return None;
        }
        if self.identity {
            return Some(number);
        }
        let (mut rest, mut position) = (number, 0_u64);
        for axis in &self.axes {
            let coordinate = rest.checked_div(axis.step)?;
            rest = rest.checked_rem(axis.step)?;
            if coordinate >= axis.count {
                return None;
            }
            position = position.wrapping_add(coordinate.wrapping_mul(axis.stride));
        }
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_row_major() {
        let grid = ChunkGrid::new(&[5, 7], &[2, 3], 4).unwrap();
        assert_eq!((grid.counts.as_slice(), grid.total, grid.chunk_bytes), (&[3, 3][..], 9, 24));
        assert_eq!(grid.position([2, 1].into_iter()), Some(7));
        assert_eq!(grid.position([0, 3].into_iter()), None);
    }

    #[test]
    fn rejects_invalid_shapes() {
        assert!(ChunkGrid::new(&[5], &[0], 4).is_err());
        assert!(ChunkGrid::new(&[5], &[1], 0).is_err());
        assert!(ChunkGrid::new(&[5], &[1, 1], 1).is_err());
        assert!(ChunkGrid::new(&[], &[], 1).is_err());
        assert!(ChunkGrid::new(&[u64::MAX, u64::MAX], &[1, 1], 1).is_err());
    }

    #[test]
    fn numbers_are_row_major_over_the_maximum_extent() {
        let grid = ChunkGrid::new(&[4, 4], &[2, 2], 1).unwrap();
        let numbers = ChunkNumbering::bounded(&grid, &[Some(4), Some(10)], &[2, 2]).unwrap();
        let found: Vec<_> = (0..10).map(|number| numbers.position(number)).collect();
        let none = None;
        assert_eq!(found, [Some(0), Some(1), none, none, none, Some(2), Some(3), none, none, none]);
        assert_eq!(numbers.most, Some(10));
    }

    #[test]
    fn the_unlimited_axis_is_the_slowest() {
        let grid = ChunkGrid::new(&[2, 3, 2], &[1, 1, 1], 1).unwrap();
        let numbers = ChunkNumbering::extensible(&grid, &[Some(2), None, Some(2)], &[1, 1, 1]).unwrap();
        // Number = axis1 * 4 + axis0 * 2 + axis2; position = axis0 * 6 + axis1 * 2 + axis2.
        assert_eq!(numbers.position(4), Some(2));
        assert_eq!(numbers.position(11), Some(11));
        assert_eq!(numbers.position(6), Some(8));
        assert_eq!(numbers.position(12), None);
        assert!(ChunkNumbering::extensible(&grid, &[None, None, Some(2)], &[1, 1, 1]).is_err());
    }

    #[test]
    fn rejects_an_extent_over_the_maximum() {
        let grid = ChunkGrid::new(&[4], &[2], 1).unwrap();
        assert!(ChunkNumbering::bounded(&grid, &[Some(2)], &[2]).is_err());
    }

    #[test]
    fn rejects_a_maximum_that_the_library_cannot_round_up() {
        let grid = ChunkGrid::new(&[4, 5], &[3, 4], 1).unwrap();
        let numbered = |most| ChunkNumbering::extensible(&grid, &[None, Some(most)], &[3, 4]);
        assert!(numbered(u64::MAX - 3).is_ok() && numbered(u64::MAX - 2).is_err());
    }
}
