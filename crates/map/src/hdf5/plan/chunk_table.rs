//! Chunk tables: the columns of a chunk index, checked against the grid of chunks.

use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{ChunkSizes, ChunkTable};

use crate::{Error, Result};

/// Returns the row-major position and the stored range of each allocated chunk.
pub(super) fn entries(table: &ChunkTable) -> impl Iterator<Item = (u64, ByteRange)> + '_ {
    table.addresses.iter().enumerate().filter_map(|(n, address)| {
        let position =
            table.positions.as_ref().map_or(Some(n as u64), |positions| positions.get(n).copied())?;
        Some((position, ByteRange::new(*address, size_of(table, n)?)))
    })
}

fn size_of(table: &ChunkTable, n: usize) -> Option<u64> {
    match &table.sizes {
        ChunkSizes::Uniform(size) => Some(*size),
        ChunkSizes::Each(sizes) => sizes.get(n).map(|size| u64::from(*size)),
    }
}

/// Returns the end of the chunk that is stored last, in bytes from the start of the file; 0 without chunks.
pub(super) fn furthest_end(table: &ChunkTable) -> u64 {
    entries(table).map(|(_, range)| range.end()).max().unwrap_or(0)
}

/// A table that contradicts itself or the dataset.
pub(super) fn malformed(problem: String) -> Error {
    Error::malformed("chunk table", problem)
}

/// Refuses tables with chunks outside of the grid, of 0 bytes, or with columns of different lengths. `grid` is the number of
/// chunks along each axis.
pub(super) fn check_table(table: &ChunkTable, grid: &[u64]) -> Result<()> {
    let count = grid
        .iter()
        .try_fold(1u64, |product, n| product.checked_mul(*n))
        .ok_or(Error::Overflow("the chunk grid"))?;
    let allocated = table.addresses.len() as u64;
    let in_grid = match &table.positions {
        Some(positions) => {
            positions.len() == table.addresses.len() && positions.last().is_none_or(|last| *last < count)
        }
        None => allocated <= count,
    };
    let sized = match &table.sizes {
        ChunkSizes::Uniform(size) => *size > 0,
        ChunkSizes::Each(sizes) => sizes.len() == table.addresses.len() && !sizes.contains(&0),
    };
    match (in_grid, sized) {
        (false, _) => Err(malformed(format!("{allocated} chunks in a grid of {grid:?}"))),
        (_, false) => Err(malformed("a chunk of 0 bytes".to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::tests::chunked;

    #[test]
    fn tables_that_contradict_themselves_or_the_grid_are_refused() {
        let check = |positions: Option<Vec<u64>>, sizes: &[u32], grid: &[u64]| {
            check_table(&chunked(&[2], grid, positions, sizes).chunks, grid)
                .map_err(|error| error.to_string())
        };
        let sound = [
            (None, &[8, 8][..], [2]),
            (Some(vec![0, 1]), &[8, 8], [2]),
            (Some(vec![3]), &[1], [4]),
            (None, &[], [0]),
        ];
        for (positions, sizes, grid) in sound {
            assert_eq!(check(positions, sizes, &grid), Ok(()));
        }
        let outside = [
            (None, &[8, 8, 8][..], [2]),
            (Some(vec![0, 2]), &[8, 8], [2]),
            (Some(vec![0]), &[8, 8], [2]),
            (Some(vec![0, 1, 2]), &[8, 8], [9]),
        ];
        for (positions, sizes, grid) in outside {
            assert!(check(positions, sizes, &grid).unwrap_err().contains("chunks in a grid"), "{sizes:?}");
        }
        assert!(check(None, &[8, 0], &[2]).unwrap_err().contains("0 bytes"));
        assert!(check(None, &[8], &[u64::MAX, 2]).is_err(), "more chunks than 64 bits count");
        let mut uniform = chunked(&[2], &[2], None, &[8, 8]).chunks;
        for (sizes, is_sound) in [
            (ChunkSizes::Uniform(8), true),
            (ChunkSizes::Uniform(0), false),
            (ChunkSizes::Each(vec![8].into()), false),
            (ChunkSizes::Each(vec![8, 8].into()), true),
        ] {
            uniform.sizes = sizes;
            assert_eq!(check_table(&uniform, &[2]).is_ok(), is_sound, "{:?}", uniform.sizes);
        }
    }
}
