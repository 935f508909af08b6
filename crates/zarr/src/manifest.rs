//! Location of the chunks of an array, in columns instead of an object per chunk: ten million chunks take 80 to 200 MB.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BinaryHeap, binary_heap::PeekMut},
    sync::Arc,
};

use bytes::Bytes;

/// Index into [`crate::Hierarchy::sources`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SourceId(pub u32);

impl SourceId {
    /// Returns the id as an index.
    pub fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Location of an encoded chunk in a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The file.
    pub source: SourceId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub length: u64,
}

/// Stored lengths of chunks in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lengths {
    /// One length for all chunks.
    Uniform(u64),
    /// A length per chunk.
    Each(Arc<Vec<u32>>),
}

/// Chunks of one source, as columns in ascending order of position. The columns may be shared with the model of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct References {
    /// The file that contains them.
    pub source: SourceId,
    /// Row-major position of each chunk in the grid, ascending. `None` stands for 0, 1, 2, ….
    pub positions: Option<Arc<Vec<u64>>>,
    /// Offset of the first byte of each chunk.
    pub offsets: Arc<Vec<u64>>,
    /// Length of each chunk.
    pub lengths: Lengths,
}

/// Chunks of one array by their row-major position in its grid. A position without an entry is a missing chunk, which
/// reads as the fill value. An inline chunk takes precedence over a reference at the same position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChunkManifest {
    /// Referenced chunks, one entry per source. Positions of different entries do not overlap.
    pub references: Vec<References>,
    /// Encoded inline chunks. Constant chunks share one buffer.
    pub inline: BTreeMap<u64, Bytes>,
}

/// One chunk of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkEntry<'a> {
    /// A chunk in a file.
    Reference(Reference),
    /// A chunk in the manifest.
    Inline(&'a Bytes),
}

impl References {
    /// Returns the number of chunks.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are no chunks.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns position and location of the `index`-th chunk.
    pub fn get(&self, index: usize) -> Option<(u64, Reference)> {
        let position = match &self.positions {
            Some(positions) => *positions.get(index)?,
            None => index as u64,
        };
        let length = match &self.lengths {
            Lengths::Uniform(length) => *length,
            Lengths::Each(lengths) => u64::from(*lengths.get(index)?),
        };
        Some((position, Reference { source: self.source, offset: *self.offsets.get(index)?, length }))
    }

    /// Iterates over all chunks in ascending order of position.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Reference)> + '_ {
        self.iter_from(0)
    }

    /// Iterates over the chunks from a position on.
    fn iter_from(&self, start: u64) -> impl Iterator<Item = (u64, Reference)> + '_ {
        let first = match &self.positions {
            Some(positions) => positions.partition_point(|position| *position < start),
            None => usize::try_from(start).unwrap_or(usize::MAX),
        };
        (first..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns the chunk at a position.
    pub fn find(&self, position: u64) -> Option<Reference> {
        let index = match &self.positions {
            Some(positions) => positions.binary_search(&position).ok()?,
            None => usize::try_from(position).ok()?,
        };
        self.get(index).map(|(_, reference)| reference)
    }
}

impl ChunkManifest {
    /// Creates a manifest of the chunks of one file.
    pub fn of(references: References) -> Self {
        let references = if references.is_empty() { Vec::new() } else { vec![references] };
        Self { references, inline: BTreeMap::new() }
    }

    /// Returns the number of positions that have a chunk. A chunk that is both inline and referenced counts once.
    pub fn len(&self) -> u64 {
        let shadowed = self.inline.keys().filter(|position| self.reference(**position).is_some()).count();
        let all = self.references.iter().map(References::len).sum::<usize>() + self.inline.len();
        (all - shadowed) as u64
    }

    /// Whether every chunk is missing.
    pub fn is_empty(&self) -> bool {
        self.references.iter().all(References::is_empty) && self.inline.is_empty()
    }

    /// Returns the chunk at a position.
    pub fn get(&self, position: u64) -> Option<ChunkEntry<'_>> {
        match self.inline.get(&position) {
            Some(bytes) => Some(ChunkEntry::Inline(bytes)),
            None => self.reference(position).map(ChunkEntry::Reference),
        }
    }

    /// Iterates over all chunks in ascending order of position.
    pub fn iter(&self) -> impl Iterator<Item = (u64, ChunkEntry<'_>)> + '_ {
        self.iter_from(0)
    }

    /// Iterates over the chunks from a position on, in ascending order of position.
    pub fn iter_from(&self, start: u64) -> impl Iterator<Item = (u64, ChunkEntry<'_>)> + '_ {
        let mut columns: Vec<_> =
            self.references.iter().map(|references| references.iter_from(start)).collect();
        let mut heads: BinaryHeap<_> = columns.iter_mut().enumerate().filter_map(head).collect();
        let mut inline = self.inline.range(start..).peekable();
        std::iter::from_fn(move || {
            let ahead = heads.peek().map(|Head { position: Reverse((at, _)), .. }| *at);
            if let Some(here) = inline.next_if(|(here, _)| ahead.is_none_or(|ahead| **here <= ahead)) {
                if ahead == Some(*here.0) {
                    advance(&mut heads, &mut columns);
                }
                return Some((*here.0, ChunkEntry::Inline(here.1)));
            }
            let Head { position: Reverse((at, _)), reference } = advance(&mut heads, &mut columns)?;
            Some((at, ChunkEntry::Reference(reference)))
        })
    }

    fn reference(&self, position: u64) -> Option<Reference> {
        self.references.iter().find_map(|column| column.find(position))
    }
}

/// The next chunk of a column. There may be as many columns as files, so a heap finds the next chunk of all.
#[derive(PartialEq, Eq)]
struct Head {
    /// Position, and index of the column.
    position: Reverse<(u64, usize)>,
    reference: Reference,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position.cmp(&other.position)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn head((n, column): (usize, &mut impl Iterator<Item = (u64, Reference)>)) -> Option<Head> {
    column.next().map(|(position, reference)| Head { position: Reverse((position, n)), reference })
}

/// Removes the first head, and inserts the next chunk of its column.
#[inline]
fn advance(
    heads: &mut BinaryHeap<Head>,
    columns: &mut [impl Iterator<Item = (u64, Reference)>],
) -> Option<Head> {
    let mut first = heads.peek_mut()?;
    let Reverse((_, n)) = first.position;
    match columns.get_mut(n).and_then(|column| head((n, column))) {
        Some(next) => Some(std::mem::replace(&mut *first, next)),
        None => Some(PeekMut::pop(first)),
    }
}

// Builder of reference columns.

/// Collects the chunks of one array and one source, in any order of position, into columns. Positions that count from 0
/// and equal lengths take no memory.
#[derive(Clone, Debug, Default)]
pub struct ReferencesBuilder {
    /// `None` while chunk *n* has position *n*.
    positions: Option<Vec<u64>>,
    offsets: Vec<u64>,
    /// Length of the first chunk.
    first: u32,
    /// `None` while all chunks are as long as the first.
    lengths: Option<Vec<u32>>,
    /// Positions and offsets of chunks of 4 GiB and more, by length.
    long: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl ReferencesBuilder {
    /// Adds the chunk at a row-major position.
    pub fn push(&mut self, position: u64, offset: u64, length: u64) {
        let Ok(short) = u32::try_from(length) else {
            self.long.entry(length).or_default().push((position, offset));
            return;
        };
        let count = self.offsets.len();
        match &mut self.positions {
            Some(positions) => positions.push(position),
            None if position == count as u64 => {}
            None => self.positions = Some((0..count as u64).chain([position]).collect()),
        }
        match &mut self.lengths {
            Some(lengths) => lengths.push(short),
            None if count == 0 => self.first = short,
            None if short == self.first => {}
            None => {
                let mut lengths = vec![self.first; count];
                lengths.push(short);
                self.lengths = Some(lengths);
            }
        }
        self.offsets.push(offset);
    }

    /// Returns the columns: one for the chunks below 4 GiB, and one for each greater length.
    pub fn finish(mut self, source: SourceId) -> Vec<References> {
        self.sort();
        let mut columns = Vec::new();
        if !self.offsets.is_empty() {
            let lengths =
                self.lengths.map_or(Lengths::Uniform(self.first.into()), |each| Lengths::Each(each.into()));
            let (positions, offsets) = (self.positions.map(Arc::new), self.offsets.into());
            columns.push(References { source, positions, offsets, lengths });
        }
        for (length, mut chunks) in self.long {
            chunks.sort_unstable();
            let (positions, offsets): (Vec<_>, Vec<_>) = chunks.into_iter().unzip();
            let lengths = Lengths::Uniform(length);
            let (positions, offsets) = (Some(positions.into()), offsets.into());
            columns.push(References { source, positions, offsets, lengths });
        }
        columns
    }

    fn sort(&mut self) {
        let Some(positions) = self.positions.as_mut().filter(|positions| !positions.is_sorted()) else {
            return;
        };
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(|at| positions.get(*at));
        *positions = reordered(&order, positions);
        self.offsets = reordered(&order, &self.offsets);
        self.lengths = self.lengths.take().map(|lengths| reordered(&order, &lengths));
    }
}

fn reordered<T: Copy>(order: &[usize], values: &[T]) -> Vec<T> {
    order.iter().filter_map(|at| values.get(*at).copied()).collect()
}

// Conversion between indices of chunks in the grid and their row-major position.

/// Returns the indices of the chunk at a row-major position, slowest axis first, in a grid of `counts` chunks along
/// each axis. `None` outside the grid.
pub fn chunk_indices(position: u64, counts: &[u64]) -> Option<Vec<u64>> {
    let mut rest = position;
    let mut indices = vec![0; counts.len()];
    for (index, count) in indices.iter_mut().zip(counts).rev() {
        *index = rest.checked_rem(*count)?;
        rest = rest.checked_div(*count)?;
    }
    (rest == 0).then_some(indices)
}

/// Returns the row-major position of the chunk with these indices, slowest axis first. `None` outside the grid.
pub fn chunk_position(indices: impl IntoIterator<Item = u64>, counts: &[u64]) -> Option<u64> {
    let mut counts = counts.iter();
    let mut position = 0_u64;
    for index in indices {
        let count = *counts.next()?;
        position = position.checked_mul(count)?.checked_add(index).filter(|_| index < count)?;
    }
    counts.next().is_none().then_some(position)
}

/// Returns the greatest common divisor; the other number if one is 0.
pub fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(source: u32, positions: Option<Vec<u64>>, offsets: &[u64]) -> References {
        References {
            source: SourceId(source),
            positions: positions.map(Arc::new),
            offsets: offsets.to_vec().into(),
            lengths: Lengths::Uniform(4),
        }
    }

    #[test]
    fn chunks_of_several_sources_come_in_order_and_inline_goes_first() {
        let mut manifest = ChunkManifest::of(column(0, Some(vec![0, 3, 7]), &[10, 13, 17]));
        manifest.references.push(column(1, Some(vec![1, 9]), &[21, 29]));
        manifest.inline = [(3, Bytes::from_static(b"here")), (4, Bytes::from_static(b"too"))].into();
        let seen: Vec<_> =
            manifest.iter().map(|(at, entry)| (at, matches!(entry, ChunkEntry::Inline(_)))).collect();
        assert_eq!(seen, [(0, false), (1, false), (3, true), (4, true), (7, false), (9, false)]);
        assert_eq!(manifest.len(), 6);
        assert_eq!(
            manifest.get(9),
            Some(ChunkEntry::Reference(Reference { source: SourceId(1), offset: 29, length: 4 }))
        );
        assert_eq!(manifest.get(8), None);
    }

    #[test]
    fn a_column_without_positions_counts_from_zero() {
        let manifest = ChunkManifest::of(column(0, None, &[5, 6]));
        assert_eq!(manifest.iter().map(|(at, _)| at).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(manifest.get(2), None);
    }

    #[test]
    fn chunks_come_in_order_of_position() {
        let mut builder = ReferencesBuilder::default();
        for (position, offset, length) in [(5, 50, 3), (1, 10, 2), (3, 30, 1)] {
            builder.push(position, offset, length);
        }
        let expected = References {
            source: SourceId(4),
            positions: Some(vec![1, 3, 5].into()),
            offsets: vec![10, 30, 50].into(),
            lengths: Lengths::Each(vec![2, 1, 3].into()),
        };
        assert_eq!(builder.finish(SourceId(4)), [expected]);
    }

    #[test]
    fn long_chunks_have_columns_by_length() {
        const LONG: u64 = 1 << 32;
        let mut builder = ReferencesBuilder::default();
        for (position, offset, length) in
            [(2, 20, LONG), (0, 0, LONG - 1), (1, 10, LONG + 5), (7, 70, LONG), (0, 5, LONG)]
        {
            builder.push(position, offset, length);
        }
        let long = |positions: &[u64], offsets: &[u64], length| References {
            source: SourceId(0),
            positions: Some(positions.to_vec().into()),
            offsets: offsets.to_vec().into(),
            lengths: Lengths::Uniform(length),
        };
        let columns = builder.finish(SourceId(0));
        assert_eq!(columns.len(), 3);
        assert_eq!(columns[0].lengths, Lengths::Uniform(u32::MAX.into()));
        assert_eq!(columns[1], long(&[0, 2, 7], &[5, 20, 70], LONG));
        assert_eq!(columns[2], long(&[1], &[10], LONG + 5));
    }

    #[test]
    fn regular_columns_take_no_memory() {
        let columns = |chunks: &[(u64, u64, u64)]| {
            let mut builder = ReferencesBuilder::default();
            chunks.iter().for_each(|(position, offset, length)| builder.push(*position, *offset, *length));
            let References { positions, lengths, .. } = builder.finish(SourceId(0)).remove(0);
            (positions, lengths)
        };
        assert_eq!(columns(&[(0, 5, 8), (1, 9, 8)]), (None, Lengths::Uniform(8)));
        assert_eq!(columns(&[(0, 5, 8), (2, 9, 8)]), (Some(vec![0, 2].into()), Lengths::Uniform(8)));
        assert_eq!(columns(&[(0, 5, 8), (1, 9, 8), (2, 7, 3)]), (None, Lengths::Each(vec![8, 8, 3].into())));
    }

    #[test]
    fn nothing_makes_no_column() {
        assert_eq!(ReferencesBuilder::default().finish(SourceId(0)), []);
    }

    #[test]
    fn positions_are_row_major() {
        for (position, indices) in [(0, [0, 0, 0]), (3, [0, 0, 3]), (4, [0, 1, 0]), (23, [1, 2, 3])] {
            assert_eq!(chunk_indices(position, &[2, 3, 4]).as_deref(), Some(&indices[..]));
            assert_eq!(chunk_position(indices, &[2, 3, 4]), Some(position));
        }
    }

    #[test]
    fn positions_and_indices_are_inverse() {
        for position in 0..24 {
            let indices = chunk_indices(position, &[2, 3, 4]).unwrap();
            assert_eq!(chunk_position(indices, &[2, 3, 4]), Some(position));
        }
    }

    #[test]
    fn outside_the_grid_is_nothing() {
        assert_eq!(chunk_indices(24, &[2, 3, 4]), None);
        assert_eq!(chunk_indices(0, &[2, 0]), None);
        assert_eq!(chunk_position([0, 3], &[2, 3]), None);
        assert_eq!(chunk_position([1], &[2, 3]), None);
        assert_eq!(chunk_position([1, 1, 0], &[2, 3]), None);
        assert_eq!(chunk_position([u64::MAX - 1, 5], &[u64::MAX, 6]), None);
    }

    #[test]
    fn a_scalar_has_one_chunk() {
        assert_eq!(chunk_indices(0, &[]), Some(Vec::new()));
        assert_eq!(chunk_indices(1, &[]), None);
        assert_eq!(chunk_position([], &[]), Some(0));
    }

    #[test]
    fn common_divisors() {
        for (left, right, greatest) in [(12, 18, 6), (18, 12, 6), (9, 15, 3), (7, 5, 1), (0, 4, 4), (4, 0, 4)]
        {
            assert_eq!(greatest_common_divisor(left, right), greatest);
        }
    }
}
