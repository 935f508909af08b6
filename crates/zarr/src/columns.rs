//! Builder of reference columns.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Lengths, References, SourceId};

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
        match u32::try_from(length) {
            Ok(length) => {
                self.push_position(position);
                self.push_length(length);
                self.offsets.push(offset);
            }
            Err(_) => self.long.entry(length).or_default().push((position, offset)),
        }
    }

    fn push_position(&mut self, position: u64) {
        let count = self.offsets.len() as u64;
        match &mut self.positions {
            Some(positions) => positions.push(position),
            None if position == count => {}
            None => self.positions = Some((0..count).chain([position]).collect()),
        }
    }

    fn push_length(&mut self, length: u32) {
        let count = self.offsets.len();
        match &mut self.lengths {
            Some(lengths) => lengths.push(length),
            None if count == 0 => self.first = length,
            None if length == self.first => {}
            None => {
                let mut lengths = vec![self.first; count];
                lengths.push(length);
                self.lengths = Some(lengths);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
