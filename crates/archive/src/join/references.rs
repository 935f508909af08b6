//! Places the chunks of each file in the combined grid.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize::zarr::{
    ChunkManifest, References, ReferencesBuilder, SourceId, chunk_indices, chunk_position,
};

use super::{
    accumulate::{Growing, Piece},
    grid::first_chunks,
};
use crate::compat::{geometry::Geometry, storage::Storage};

/// Joins the chunks of all parts, and removes them from the parts. Returns `None` if a number overflows, or if a chunk
/// to be sliced has an unexpected length.
pub(super) fn join(
    growing: &mut Growing,
    geometry: &Geometry,
    storage: &Storage,
    counts: &[u64],
) -> Option<ChunkManifest> {
    let firsts = geometry.axes.iter().map(|axis| first_chunks(storage, growing, axis));
    let firsts: Vec<Vec<u64>> = firsts.collect::<Option<_>>()?;
    let mut whole = ChunkManifest::default();
    let size = growing.first.data_type.size();
    for (key, piece) in &mut growing.pieces {
        let at = geometry.axes.iter().zip(&firsts).map(|(axis, firsts)| firsts.get(axis.place(key)).copied());
        let at: Vec<u64> = at.collect::<Option<_>>()?;
        let chunks = slices(piece, storage, size)?;
        let place = Placing { own: geometry.axes.iter().map(|axis| axis.own).collect(), at, counts };
        for references in chunks.references {
            whole.references.push(place.references(references, &chunks.counts)?);
        }
        for (position, bytes) in chunks.inline {
            whole.inline.insert(place.position(position, &chunks.counts)?, bytes);
        }
    }
    whole.references = one_a_source(whole.references);
    Some(whole)
}

/// Mapping of a part's chunks to the combined grid.
struct Placing<'a> {
    /// For each axis of the combined array, the corresponding axis of the file's array.
    own: Vec<Option<usize>>,
    /// Index of the part's first chunk in the combined grid.
    at: Vec<u64>,
    /// Number of chunks along each axis of the combined grid.
    counts: &'a [u64],
}

impl Placing<'_> {
    /// Returns the position in the combined grid of a chunk of the part.
    fn position(&self, position: u64, counts: &[u64]) -> Option<u64> {
        let local = chunk_indices(position, counts)?;
        let one = |(own, at): (&Option<usize>, &u64)| match own {
            Some(own) => local.get(*own)?.checked_add(*at),
            None => Some(*at),
        };
        let index: Vec<u64> = self.own.iter().zip(&self.at).map(one).collect::<Option<_>>()?;
        chunk_position(index, self.counts)
    }

    /// Moves a column of references to the combined grid.
    fn references(&self, references: References, counts: &[u64]) -> Option<References> {
        let place = |position| self.position(position, counts);
        let positions = match &references.positions {
            Some(positions) => positions.iter().map(|position| place(*position)).collect::<Option<_>>()?,
            None => (0..references.len() as u64).map(place).collect::<Option<_>>()?,
        };
        Some(References { positions: Some(positions), ..references })
    }
}

/// Chunks of a part, with the shape of the grid that their positions refer to.
struct Chunks {
    references: Vec<References>,
    inline: BTreeMap<u64, Bytes>,
    counts: Vec<u64>,
}

/// Takes the chunks out of a part, sliced where the storage requires it.
fn slices(piece: &mut Piece, storage: &Storage, size: Option<u64>) -> Option<Chunks> {
    let counts = piece.counts();
    let chunks = std::mem::take(&mut piece.chunks);
    let cut = match storage {
        Storage::Sliced { axis, step } => Some((*axis, *step)),
        Storage::Rectilinear => ends_within(piece),
        Storage::Copied | Storage::Regular(_) => None,
    };
    match cut {
        Some((axis, step)) => {
            let shortens = *storage == Storage::Rectilinear;
            Slicing { shortens, ..Slicing::of(piece, axis, step, size?, counts)? }.cut(chunks)
        }
        None => Some(Chunks { references: chunks.references, inline: chunks.inline, counts }),
    }
}

/// Returns the axis whose last chunk extends past the array, and the chunk's elements along it.
fn ends_within(piece: &Piece) -> Option<(usize, u64)> {
    let chunk = piece.chunk.as_ref()?;
    let axis = piece.shape.iter().zip(chunk).position(|(n, c)| *c > 0 && n % c != 0)?;
    Some((axis, *chunk.get(axis)?))
}

/// Splits stored chunks of uncompressed elements into slices along an axis.
struct Slicing {
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
    counts: Vec<u64>,
    /// Number of slices along each axis.
    sliced: Vec<u64>,
}

impl Slicing {
    fn of(piece: &Piece, axis: usize, step: u64, size: u64, counts: Vec<u64>) -> Option<Self> {
        let shape = piece.chunk.as_ref()?;
        let (chunk, extent) = (*shape.get(axis)?, *piece.shape.get(axis)?);
        let bytes = shape.iter().try_fold(size, |product, n| product.checked_mul(*n))?;
        let mut sliced = counts.clone();
        *sliced.get_mut(axis)? = extent.div_ceil(step.max(1));
        Some(Self {
            axis,
            step,
            chunk,
            extent,
            shortens: false,
            row: bytes.checked_div(chunk)?,
            counts,
            sliced,
        })
    }

    /// Returns position, offset and length of each slice of the chunk at a position.
    fn of_chunk(&self, position: u64) -> Option<Vec<(u64, u64, u64)>> {
        let index = chunk_indices(position, &self.counts)?;
        let first = index.get(self.axis)?.checked_mul(self.chunk)?;
        let rows = self.chunk.min(self.extent.checked_sub(first)?);
        let mut found = Vec::new();
        let mut row = 0;
        while row < rows {
            let mut at = index.clone();
            *at.get_mut(self.axis)? = (first + row) / self.step;
            let own = if self.shortens { self.step.min(rows - row) } else { self.step };
            found.push((chunk_position(at, &self.sliced)?, row * self.row, own * self.row));
            row += self.step;
        }
        Some(found)
    }

    /// Slices all chunks; `None` if a chunk has an unexpected length.
    fn cut(self, chunks: ChunkManifest) -> Option<Chunks> {
        let bytes = self.row.checked_mul(self.chunk)?;
        let mut references = Vec::with_capacity(chunks.references.len());
        for column in &chunks.references {
            let mut found = ReferencesBuilder::default();
            for (position, reference) in column.iter() {
                if reference.length != bytes {
                    return None;
                }
                for (at, from, length) in self.of_chunk(position)? {
                    found.push(at, reference.offset.checked_add(from)?, length);
                }
            }
            references.extend(found.finish(column.source));
        }
        let mut inline = BTreeMap::new();
        for (position, chunk) in chunks.inline {
            if chunk.len() as u64 != bytes {
                return None;
            }
            for (at, from, len) in self.of_chunk(position)? {
                let (from, end) = (usize::try_from(from).ok()?, usize::try_from(from + len).ok()?);
                inline.insert(at, chunk.slice(from..end));
            }
        }
        Some(Chunks { references, inline, counts: self.sliced })
    }
}

/// Merges the columns of parts that refer to the same source.
fn one_a_source(columns: Vec<References>) -> Vec<References> {
    let mut of_source: BTreeMap<SourceId, Vec<References>> = BTreeMap::new();
    for column in columns.into_iter().filter(|column| !column.is_empty()) {
        of_source.entry(column.source).or_default().push(column);
    }
    let joined = of_source.into_iter().map(|(source, columns)| match columns.len() {
        1 => columns,
        _ => {
            let mut joined = ReferencesBuilder::default();
            for (position, reference) in columns.iter().flat_map(References::iter) {
                joined.push(position, reference.offset, reference.length);
            }
            joined.finish(source)
        }
    });
    joined.flatten().collect()
}
