//! Chunks of one array, checked as they are read.

use std::ops::ControlFlow;

use virtualize_zarr::{Array, ChunkReader, ChunkRef};

use super::EmitError;

/// Chunks of one array.
pub(crate) struct ArrayChunks<'a> {
    reader: &'a mut dyn ChunkReader,
    path: &'a str,
    /// Number of chunks along each axis.
    pub(crate) counts: Vec<u64>,
    /// Number of chunks of the grid, at most 2⁶³.
    pub(crate) total: u64,
}

impl<'a> ArrayChunks<'a> {
    /// Selects the chunks of the array at `path`.
    pub(crate) fn new(reader: &'a mut dyn ChunkReader, path: &'a str, array: &Array) -> Self {
        let counts = array.chunk_grid.counts(&array.shape);
        Self { reader, path, total: grid_total(&counts), counts }
    }

    /// Passes each chunk with its position to a function, which returns whether to continue. Positions ascend and are inside
    /// the grid.
    pub(crate) fn visit(
        self,
        mut each: impl FnMut(u64, ChunkRef<'_>) -> Result<ControlFlow<()>, EmitError>,
    ) -> Result<(), EmitError> {
        let Self { reader, path, counts, total } = self;
        let (mut next, mut failed) = (0, None);
        let read = reader.visit(path, 0, &mut |position, chunk| {
            let done = match position {
                _ if position >= total => {
                    let problem = format!("chunk {position} is outside its grid of {counts:?} chunks");
                    Err(EmitError::array(path, problem))
                }
                _ if position < next => {
                    let problem = format!("chunk {position} is out of order, expected {next} or a later one");
                    Err(EmitError::array(path, problem))
                }
                _ => each(position, chunk),
            };
            next = position.saturating_add(1);
            done.unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        });
        match failed {
            Some(error) => Err(error),
            None => read.map_err(EmitError::Chunks),
        }
    }
}

/// Returns the number of chunks of a grid, at most 2⁶³.
pub(crate) fn grid_total(counts: &[u64]) -> u64 {
    let all = counts.iter().fold(1u128, |product, n| product.saturating_mul(u128::from(*n)));
    u64::try_from(all).unwrap_or(u64::MAX).min(1 << 63)
}
