//! Builder of reference columns.

use std::collections::BTreeMap;

use crate::{Lengths, References, SourceId};

/// Collects the chunks of one array and one source, in any order of position, into columns.
#[derive(Clone, Debug, Default)]
pub struct ReferencesBuilder {
    positions: Vec<u64>,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    /// Positions and offsets of chunks of 4 GiB and more, by length.
    long: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl ReferencesBuilder {
    /// Adds the chunk at a row-major position.
    pub fn push(&mut self, position: u64, offset: u64, length: u64) {
        match u32::try_from(length) {
            Ok(length) => {
                self.positions.push(position);
                self.offsets.push(offset);
                self.lengths.push(length);
            }
            Err(_) => self.long.entry(length).or_default().push((position, offset)),
        }
    }

    /// Returns the columns: one for the chunks below 4 GiB, and one for each greater length.
    pub fn finish(self, source: SourceId) -> Vec<References> {
        let mut columns = Vec::new();
        if !self.positions.is_empty() {
            columns.push(short(source, self.positions, self.offsets, self.lengths));
        }
        for (length, mut chunks) in self.long {
            chunks.sort_unstable();
            let (positions, offsets) = chunks.into_iter().unzip();
            let lengths = Lengths::Uniform(length);
            columns.push(References { source, positions: Some(positions), offsets, lengths });
        }
        columns
    }
}

fn short(
    source: SourceId,
    mut positions: Vec<u64>,
    mut offsets: Vec<u64>,
    mut lengths: Vec<u32>,
) -> References {
    if !positions.is_sorted() {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(|at| positions.get(*at));
        positions = reordered(&order, &positions);
        offsets = reordered(&order, &offsets);
        lengths = reordered(&order, &lengths);
    }
    References { source, positions: Some(positions), offsets, lengths: Lengths::Each(lengths) }
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
            positions: Some(vec![1, 3, 5]),
            offsets: vec![10, 30, 50],
            lengths: Lengths::Each(vec![2, 1, 3]),
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
            positions: Some(positions.to_vec()),
            offsets: offsets.to_vec(),
            lengths: Lengths::Uniform(length),
        };
        let columns = builder.finish(SourceId(0));
        assert_eq!(columns.len(), 3);
        assert_eq!(columns[0].lengths, Lengths::Each(vec![u32::MAX]));
        assert_eq!(columns[1], long(&[0, 2, 7], &[5, 20, 70], LONG));
        assert_eq!(columns[2], long(&[1], &[10], LONG + 5));
    }

    #[test]
    fn nothing_makes_no_column() {
        assert_eq!(ReferencesBuilder::default().finish(SourceId(0)), []);
    }
}
