//! Small chunk grids as text: a character per chunk.

use virtualize::{
    describe::{Counts, counts},
    zarr::{Array, ChunkEntry, chunk_indices},
};

use super::tree::shape;

/// Number of rows of the largest map.
const ROWS: u64 = 32;

/// Returns the map of a grid that has more than one chunk and fits, else nothing. The last axis runs to the right; each
/// row starts with its index along the other axes.
pub(super) fn lines(array: &Array, columns: usize) -> Vec<String> {
    let Counts { grid, .. } = counts(array);
    let Some((along, outer)) = grid.split_last() else { return Vec::new() };
    let rows = outer.iter().fold(1_u64, |rows, each| rows.saturating_mul(*each));
    if rows == 0 || rows > ROWS || rows.saturating_mul(*along) < 2 {
        return Vec::new();
    }
    let labels: Vec<_> = (0..rows).map(|row| label(row, outer)).collect();
    let label_columns = labels.iter().map(String::len).max().unwrap_or(0);
    if *along > columns.saturating_sub(label_columns + 1) as u64 {
        return Vec::new();
    }
    let maps = labels.iter().zip(0..rows).map(|(label, row)| {
        let chunks: String = (0..*along).map(|at| symbol(array, row * along + at)).collect();
        if label.is_empty() { chunks } else { format!("{label:<label_columns$} {chunks}") }
    });
    maps.chain(["# in a file, i inline, . missing".to_owned()]).collect()
}

fn symbol(array: &Array, position: u64) -> char {
    match array.chunks.get(position) {
        Some(ChunkEntry::Reference(_)) => '#',
        Some(ChunkEntry::Inline(_)) => 'i',
        None => '.',
    }
}

/// Returns the indices of the chunk at a position, such as `(0, 2)`.
pub(super) fn label(position: u64, grid: &[u64]) -> String {
    let indices = chunk_indices(position, grid).unwrap_or_default();
    if indices.is_empty() { String::new() } else { shape(&indices, usize::MAX) }
}
