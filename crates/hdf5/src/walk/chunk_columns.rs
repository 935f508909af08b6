//! Builds a [`ChunkTable`] column by column, in whatever order the chunks come.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Error,
    model::{ChunkSizes, ChunkTable},
    spec::{chunk_element::ChunkElement, chunk_grid::ChunkGrid},
};

const STRUCTURE: &str = "chunk index";

/// How many chunks may still be listed, all datasets of a call together.
pub(crate) struct ChunkBudget {
    left: AtomicU64,
    limit: u64,
}

impl ChunkBudget {
    pub(crate) fn new(limit: u64) -> Self {
        Self { left: AtomicU64::new(limit), limit }
    }

    /// Takes `count` chunks from the budget of the index at `address`.
    pub(crate) fn take(&self, count: u64, address: u64) -> Result<(), Error> {
        let less = |left: u64| left.checked_sub(count);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::limit(STRUCTURE, address, format!("more than {} chunks", self.limit))),
        }
    }
}

/// The columns of a table while it is being filled.
#[derive(Debug)]
pub(crate) struct ChunkColumns {
    grid: ChunkGrid,
    filtered: bool,
    /// Where the index lies, for errors.
    address: u64,
    /// `None` as long as chunk *n* has position *n*.
    positions: Option<Vec<u64>>,
    addresses: Vec<u64>,
    sizes: Vec<u32>,
    filter_masks: BTreeMap<u64, u32>,
    /// Positions came in ascending order, without repetition.
    ascending: bool,
    last: Option<u64>,
}

impl ChunkColumns {
    pub(crate) fn new(grid: ChunkGrid, filtered: bool, address: u64) -> Self {
        Self {
            grid,
            filtered,
            address,
            positions: None,
            addresses: Vec::new(),
            sizes: Vec::new(),
            filter_masks: BTreeMap::new(),
            ascending: true,
            last: None,
        }
    }

    pub(crate) fn grid(&self) -> &ChunkGrid {
        &self.grid
    }

    /// Makes room for `count` chunks that are known to be in the file, as far as the grid has places for them.
    pub(crate) fn reserve(&mut self, count: u64) {
        let places = self.grid.total.saturating_sub(self.addresses.len() as u64);
        let count = usize::try_from(count.min(places)).unwrap_or(0);
        // A file has fewer chunks than bytes, but a caller's count may be a lie: the vectors grow beyond this anyway.
        let count = count.min(1 << 24);
        self.addresses.reserve(count);
        if self.filtered {
            self.sizes.reserve(count);
        }
    }

    /// Adds a chunk. `size` is `None` where the index does not store it.
    pub(crate) fn push(&mut self, position: u64, chunk: ChunkElement) -> Result<(), Error> {
        match chunk.size {
            Some(size) if self.filtered => self.push_size(position, size)?,
            Some(size) if size != self.grid.chunk_bytes => return Err(self.wrong_size(position, size)),
            _ => {}
        }
        self.push_position(position);
        self.addresses.push(chunk.address);
        if chunk.filter_mask != 0 && self.filtered {
            self.filter_masks.insert(position, chunk.filter_mask);
        }
        Ok(())
    }

    #[inline]
    fn push_size(&mut self, position: u64, size: u64) -> Result<(), Error> {
        let Ok(size) = u32::try_from(size) else {
            let problem =
                format!("chunk {position} has {size} bytes; filtered chunks over 4 GiB are not supported");
            return Err(Error::unsupported(STRUCTURE, self.address, problem));
        };
        self.sizes.push(size);
        Ok(())
    }

    #[inline]
    fn push_position(&mut self, position: u64) {
        self.ascending &= self.last.is_none_or(|last| last < position);
        self.last = Some(position);
        match &mut self.positions {
            Some(positions) => positions.push(position),
            None if position == self.addresses.len() as u64 => {}
            None => {
                let mut positions: Vec<_> = (0..self.addresses.len() as u64).collect();
                positions.push(position);
                self.positions = Some(positions);
            }
        }
    }

    fn wrong_size(&self, position: u64, size: u64) -> Error {
        let problem =
            format!("unfiltered chunk {position} has {size} bytes, expected {}", self.grid.chunk_bytes);
        Error::malformed(STRUCTURE, self.address, problem)
    }

    /// The table, in order of position.
    pub(crate) fn finish(mut self) -> Result<ChunkTable, Error> {
        if !self.ascending {
            self.sort()?;
        }
        let positions = self.positions.filter(|positions| {
            positions.len() as u64 != self.grid.total || positions.first().is_some_and(|first| *first != 0)
        });
        let complete = self.addresses.len() as u64 == self.grid.total;
        // Chunks 0 to n, the rest missing: their positions are spelled out.
        let positions = match positions {
            None if !complete => Some((0..self.addresses.len() as u64).collect()),
            positions => positions,
        };
        let sizes = match self.filtered {
            true => ChunkSizes::Each(self.sizes),
            false => ChunkSizes::Uniform(self.grid.chunk_bytes),
        };
        let (addresses, filter_masks) = (self.addresses, self.filter_masks);
        Ok(ChunkTable { grid: self.grid.counts, positions, addresses, sizes, filter_masks })
    }

    fn sort(&mut self) -> Result<(), Error> {
        let Some(positions) = self.positions.take() else { return Ok(()) };
        let mut order: Vec<(u64, usize)> = positions.into_iter().zip(0..).collect();
        // Stable sorting makes use of the runs that are already in order.
        order.sort_by_key(|(position, _)| *position);
        if let Some(twice) = order.windows(2).find_map(|pair| match pair {
            [(first, _), (second, _)] if first == second => Some(*first),
            _ => None,
        }) {
            return Err(Error::malformed(STRUCTURE, self.address, format!("chunk {twice} is listed twice")));
        }
        self.addresses = permuted(&self.addresses, &order);
        if self.filtered {
            self.sizes = permuted(&self.sizes, &order);
        }
        self.positions = Some(order.into_iter().map(|(position, _)| position).collect());
        Ok(())
    }
}

fn permuted<T: Copy>(column: &[T], order: &[(u64, usize)]) -> Vec<T> {
    order.iter().filter_map(|(_, from)| column.get(*from).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(filtered: bool) -> ChunkColumns {
        ChunkColumns::new(ChunkGrid::new(&[4], &[1], 8).unwrap(), filtered, 0x40)
    }

    fn chunk(address: u64, size: Option<u64>, filter_mask: u32) -> ChunkElement {
        ChunkElement { address, size, filter_mask }
    }

    #[test]
    fn a_complete_table_needs_no_positions() {
        let mut columns = columns(false);
        for position in [2, 0, 1, 3] {
            columns.push(position, chunk(position * 10, None, 0)).unwrap();
        }
        let table = columns.finish().unwrap();
        assert_eq!((table.positions, table.addresses), (None, vec![0, 10, 20, 30]));
        assert_eq!(table.sizes, ChunkSizes::Uniform(8));
    }

    #[test]
    fn gaps_are_spelled_out() {
        for present in [vec![0, 1], vec![1, 2, 3], vec![3, 0], vec![]] {
            let mut columns = columns(true);
            for position in &present {
                columns.push(*position, chunk(*position, Some(7), 1)).unwrap();
            }
            let table = columns.finish().unwrap();
            let mut sorted = present.clone();
            sorted.sort();
            assert_eq!((table.positions.as_ref(), &table.addresses), (Some(&sorted), &sorted));
            assert_eq!(table.filter_masks.len(), present.len());
            assert_eq!(table.sizes, ChunkSizes::Each(vec![7; present.len()]));
        }
    }

    #[test]
    fn odd_chunks_are_refused() {
        let twice = |mut columns: ChunkColumns| {
            columns.push(1, chunk(0, None, 0)).unwrap();
            columns.push(1, chunk(0, None, 0)).unwrap();
            columns.finish()
        };
        assert!(twice(columns(false)).unwrap_err().to_string().contains("chunk 1 is listed twice"));
        let large = columns(true).push(0, chunk(0, Some(1 << 32), 0)).unwrap_err();
        assert!(large.to_string().contains("over 4 GiB"));
        assert!(columns(false).push(0, chunk(0, Some(9), 0)).is_err());
    }

    #[test]
    fn the_budget_is_shared() {
        let budget = ChunkBudget::new(10);
        assert!(budget.take(6, 0).is_ok());
        assert!(budget.take(6, 0).is_err());
        assert!(budget.take(4, 0).is_ok());
    }
}
