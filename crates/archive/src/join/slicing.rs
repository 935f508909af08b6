//! Splits stored chunks of uncompressed elements into slices along an axis.

use virtualize::zarr::{Chunk, chunk_indices, chunk_position};

use crate::compat::storage::{ChunkLayout, Storage};

/// Splits the chunks of a file into slices.
#[derive(Clone, Debug)]
pub(super) struct Slicing {
    axis: usize,
    /// Number of elements of a slice along the axis.
    step: u64,
    /// Number of elements of a stored chunk along the axis.
    chunk: u64,
    /// Number of elements of the array along the axis.
    extent: u64,
    /// Whether the last slice is shortened to the remaining elements; otherwise it is as long as the others.
    shortens: bool,
    /// Size in bytes of one element along the axis.
    row: u64,
    /// Size in bytes of a stored chunk.
    bytes: u64,
    /// Number of stored chunks along each axis.
    counts: Vec<u64>,
    /// Number of slices along each axis.
    sliced: Vec<u64>,
}

/// A slice of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    /// Position in the grid of slices.
    pub(super) position: u64,
    /// Offset in the chunk, in bytes.
    offset: u64,
    /// Length in bytes.
    length: u64,
}

impl Slicing {
    /// Returns how the chunks of files with a layout are sliced, if their storage requires it. `size` is that of an
    /// element, `counts` are the file's chunks along each axis.
    ///
    /// # Errors
    /// `Err(())` if a number overflows.
    pub(super) fn new(
        storage: &Storage,
        layout: &ChunkLayout,
        size: Option<u64>,
        counts: &[u64],
    ) -> Option<Option<Self>> {
        let (axis, step) = match storage {
            Storage::Sliced { axis, step } => (*axis, *step),
            Storage::Rectilinear => match ends_within(layout) {
                Some(cut) => cut,
                None => return Some(None),
            },
            Storage::Copied | Storage::Regular(_) => return Some(None),
        };
        let shape = layout.chunk.as_ref()?;
        let (chunk, extent) = (*shape.get(axis)?, *layout.shape.get(axis)?);
        let bytes = shape.iter().try_fold(size?, |product, n| product.checked_mul(*n))?;
        let (row, mut sliced) = (bytes.checked_div(chunk)?, counts.to_vec());
        *sliced.get_mut(axis)? = extent.div_ceil(step.max(1));
        let shortens = *storage == Storage::Rectilinear;
        let counts = counts.to_vec();
        Some(Some(Self { axis, step: step.max(1), chunk, extent, shortens, row, bytes, counts, sliced }))
    }

    /// Returns the number of slices along each axis.
    pub(super) fn sliced(&self) -> &[u64] {
        &self.sliced
    }

    /// Returns the slices of the chunk at a position; `None` if it is outside the grid.
    pub(super) fn of_chunk(&self, position: u64) -> Option<Vec<Slice>> {
        let index = chunk_indices(position, &self.counts)?;
        let first = index.get(self.axis)?.checked_mul(self.chunk)?;
        let rows = self.chunk.min(self.extent.checked_sub(first)?);
        let mut found = Vec::new();
        let mut row = 0;
        while row < rows {
            let mut at = index.clone();
            *at.get_mut(self.axis)? = (first + row) / self.step;
            let own = if self.shortens { self.step.min(rows - row) } else { self.step };
            found.push(Slice {
                position: chunk_position(at, &self.sliced)?,
                offset: row.checked_mul(self.row)?,
                length: own.checked_mul(self.row)?,
            });
            row += self.step;
        }
        Some(found)
    }

    /// Returns a slice of a chunk; `None` if the chunk has an unexpected length.
    pub(super) fn cut(&self, chunk: &Chunk, slice: Slice) -> Option<Chunk> {
        match chunk {
            Chunk::Inline(bytes) if bytes.len() as u64 == self.bytes => {
                let start = usize::try_from(slice.offset).ok()?;
                let end = start.checked_add(usize::try_from(slice.length).ok()?)?;
                (end <= bytes.len()).then(|| Chunk::Inline(bytes.slice(start..end)))
            }
            Chunk::Reference { source, offset, length } if *length == self.bytes => Some(Chunk::Reference {
                source: source.clone(),
                offset: offset.checked_add(slice.offset)?,
                length: slice.length,
            }),
            _ => None,
        }
    }
}

/// Returns the axis whose last chunk extends past the array, and the chunk's elements along it.
fn ends_within(layout: &ChunkLayout) -> Option<(usize, u64)> {
    let chunk = layout.chunk.as_ref()?;
    let axis = layout.shape.iter().zip(chunk).position(|(n, c)| *c > 0 && n % c != 0)?;
    Some((axis, *chunk.get(axis)?))
}
