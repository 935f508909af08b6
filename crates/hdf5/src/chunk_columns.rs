//! Builds a [`ChunkTable`] column by column from chunks in any order.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Error,
    chunk_element::ChunkElement,
    chunk_grid::ChunkGrid,
    io::Io,
    model::{ChunkSizes, ChunkTable},
};

const STRUCTURE: &str = "chunk index";

/// Memory in bytes for a chunk: position, address and size.
const CHUNK_BYTES: u64 = 20;

/// Position of an empty slot.
const NOWHERE: u64 = u64::MAX;

/// Number of chunks that may still be listed, over all datasets of a call.
pub(crate) struct ChunkBudget<'a> {
    io: &'a Io<'a>,
    left: AtomicU64,
    limit: u64,
}

impl<'a> ChunkBudget<'a> {
    pub(crate) fn new(io: &'a Io<'a>) -> Self {
        let limit = io.limits().chunks;
        Self { io, left: AtomicU64::new(limit), limit }
    }

    /// Charges `count` chunks of the index at `address`.
    pub(crate) fn take(&self, count: u64, address: u64) -> Result<(), Error> {
        let less = |left: u64| left.checked_sub(count);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => self.io.hold("chunk tables", count.saturating_mul(CHUNK_BYTES)),
            Err(_) => Err(Error::limit(STRUCTURE, address, format!("more than {} chunks", self.limit))),
        }
    }
}

/// Columns of a chunk table in progress.
#[derive(Debug)]
pub(crate) struct ChunkColumns {
    grid: ChunkGrid,
    filtered: bool,
    /// Address of the index, for errors.
    address: u64,
    /// `None` while chunk *n* has position *n*.
    positions: Option<Vec<u64>>,
    addresses: Vec<u64>,
    sizes: Vec<u32>,
    filter_masks: BTreeMap<u64, u32>,
    /// Whether positions are strictly ascending so far.
    ascending: bool,
    /// Whether chunks are placed in the order of the index, see [`ChunkColumns::place`].
    has_places: bool,
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
            has_places: false,
            last: None,
        }
    }

    pub(crate) fn grid(&self) -> &ChunkGrid {
        &self.grid
    }

    /// Reserves memory for `count` chunks, at most for all chunks of the grid.
    pub(crate) fn reserve(&mut self, count: u64) {
        let places = self.grid.total.saturating_sub(self.addresses.len() as u64);
        let count = usize::try_from(count.min(places)).unwrap_or(0);
        // A count from a file can be wrong. The vectors grow if it is too small.
        let count = count.min(1 << 24);
        self.addresses.reserve(count);
        if self.filtered {
            self.sizes.reserve(count);
        }
    }

    /// Creates empty slots for chunks in any order, see [`ChunkColumns::place`].
    pub(crate) fn make_places(&mut self, count: usize) {
        self.has_places = true;
        self.positions = Some(vec![0; count]);
        self.addresses = vec![0; count];
        self.sizes = vec![0; if self.filtered { count } else { 0 }];
    }

    /// Fills a slot with a chunk, or leaves it empty.
    pub(crate) fn place(&mut self, place: usize, chunk: Option<(u64, ChunkElement)>) -> Result<(), Error> {
        let (position, chunk) = chunk.unwrap_or((NOWHERE, ChunkElement::default()));
        if let (Some(size), Some(slot)) = (chunk.size, self.sizes.get_mut(place)) {
            let Ok(size) = u32::try_from(size) else { return Err(self.too_large(position, size)) };
            *slot = size;
        }
        let positions = self.positions.as_mut().and_then(|positions| positions.get_mut(place));
        let (Some(slot), Some(address)) = (positions, self.addresses.get_mut(place)) else {
            return Err(Error::malformed(STRUCTURE, self.address, "more chunks than the index counts"));
        };
        (*slot, *address) = (position, chunk.address);
        if chunk.filter_mask != 0 && self.filtered {
            self.filter_masks.insert(position, chunk.filter_mask);
        }
        Ok(())
    }

    /// Adds a chunk. `size` is `None` if the index does not store it.
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
        let Ok(size) = u32::try_from(size) else { return Err(self.too_large(position, size)) };
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

    fn too_large(&self, position: u64, size: u64) -> Error {
        let problem =
            format!("chunk {position} has {size} bytes; filtered chunks over 4 GiB are not supported");
        Error::unsupported(STRUCTURE, self.address, problem)
    }

    fn wrong_size(&self, position: u64, size: u64) -> Error {
        let problem =
            format!("unfiltered chunk {position} has {size} bytes, expected {}", self.grid.chunk_bytes);
        Error::malformed(STRUCTURE, self.address, problem)
    }

    /// Returns the table, ordered by position.
    pub(crate) fn finish(mut self) -> Result<ChunkTable, Error> {
        self.drop_empty_places()?;
        if !self.ascending {
            self.sort()?;
        }
        let count = self.addresses.len() as u64;
        let positions = match self.positions {
            _ if count == self.grid.total => None,
            None => Some((0..count).collect::<Vec<_>>().into()),
            Some(positions) => Some(positions.into()),
        };
        let sizes = match self.filtered {
            true => ChunkSizes::Each(self.sizes.into()),
            false => ChunkSizes::Uniform(self.grid.chunk_bytes),
        };
        let (addresses, filter_masks) = (self.addresses.into(), self.filter_masks);
        Ok(ChunkTable { grid: self.grid.counts, positions, addresses, sizes, filter_masks })
    }

    /// Removes empty slots, see [`ChunkColumns::place`]. The library finds the chunks by their positions, which must
    /// ascend.
    fn drop_empty_places(&mut self) -> Result<(), Error> {
        let Some(positions) = self.positions.as_mut().filter(|_| self.has_places) else { return Ok(()) };
        self.ascending &= positions.is_sorted_by(|first, second| first < second);
        if positions.last().is_some_and(|last| *last != NOWHERE) && self.ascending {
            return Ok(());
        }
        retain_present(&mut self.addresses, positions);
        retain_present(&mut self.sizes, positions);
        positions.retain(|position| *position != NOWHERE);
        self.filter_masks.remove(&NOWHERE);
        self.ascending = positions.is_sorted_by(|first, second| first < second);
        match self.ascending {
            true => Ok(()),
            false => Err(Error::malformed(
                STRUCTURE,
                self.address,
                "records that are not in the order of their chunks",
            )),
        }
    }

    fn sort(&mut self) -> Result<(), Error> {
        let Some(positions) = self.positions.take() else { return Ok(()) };
        if u32::try_from(positions.len()).is_err() {
            return Err(Error::limit(
                STRUCTURE,
                self.address,
                format!("{} chunks out of order", positions.len()),
            ));
        }
        let order = match self.grid.total / 2 <= positions.len() as u64 {
            true => scattered(&positions, self.grid.total),
            false => sorted(&positions),
        };
        let order = order.map_err(|position| {
            Error::malformed(STRUCTURE, self.address, format!("chunk {position} is listed twice"))
        })?;
        self.addresses = permuted(&self.addresses, &order);
        if self.filtered {
            self.sizes = permuted(&self.sizes, &order);
        }
        self.positions = Some(permuted(&positions, &order));
        Ok(())
    }
}

/// Removes the entries of a column that have no position.
fn retain_present<T>(column: &mut Vec<T>, positions: &[u64]) {
    let mut positions = positions.iter();
    column.retain(|_| positions.next().is_some_and(|position| *position != NOWHERE));
}

/// Returns the indices of positions in ascending order. Fails with a duplicate position. For sparse positions.
fn sorted(positions: &[u64]) -> Result<Vec<u32>, u64> {
    let position = |index: &u32| usize::try_from(*index).ok().and_then(|index| positions.get(index));
    let mut order: Vec<u32> = (0..).zip(positions).map(|(index, _)| index).collect();
    // A stable sort makes use of runs that are already in order.
    order.sort_by_key(position);
    match order.array_windows().find(|[first, second]| position(first) == position(second)) {
        Some([twice, _]) => Err(position(twice).copied().unwrap_or(0)),
        None => Ok(order),
    }
}

/// Like [`sorted`], for positions that fill most of a grid of `total` chunks: one pass over the positions, one over the
/// grid.
fn scattered(positions: &[u64], total: u64) -> Result<Vec<u32>, u64> {
    let mut order = vec![NONE; usize::try_from(total).unwrap_or(0)];
    for (index, position) in (0..).zip(positions) {
        match usize::try_from(*position).ok().and_then(|position| order.get_mut(position)) {
            Some(place) if *place == NONE => *place = index,
            _ => return Err(*position),
        }
    }
    order.retain(|index| *index != NONE);
    Ok(order)
}

/// Index of no chunk.
const NONE: u32 = u32::MAX;

fn permuted<T: Copy>(column: &[T], order: &[u32]) -> Vec<T> {
    let value = |index: &u32| column.get(usize::try_from(*index).ok()?).copied();
    order.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use virtualize_bytes::{Limits, MemorySource};

    use super::*;

    fn columns(filtered: bool) -> ChunkColumns {
        ChunkColumns::new(ChunkGrid::new(&[4], &[1], 8).unwrap(), filtered, 0x40)
    }

    fn chunk(address: u64, size: Option<u64>, filter_mask: u32) -> ChunkElement {
        ChunkElement { address, size, filter_mask }
    }

    #[test]
    fn complete_tables_have_no_positions() {
        let mut columns = columns(false);
        for position in [2, 0, 1, 3] {
            columns.push(position, chunk(position * 10, None, 0)).unwrap();
        }
        let table = columns.finish().unwrap();
        assert_eq!((table.positions, table.addresses), (None, vec![0, 10, 20, 30].into()));
        assert_eq!(table.sizes, ChunkSizes::Uniform(8));
    }

    #[test]
    fn sparse_tables_have_positions() {
        for present in [vec![0, 1], vec![1, 2, 3], vec![3, 0], vec![]] {
            let mut columns = columns(true);
            for position in &present {
                columns.push(*position, chunk(*position, Some(7), 1)).unwrap();
            }
            let table = columns.finish().unwrap();
            let mut sorted = present.clone();
            sorted.sort();
            let sorted = Arc::new(sorted);
            assert_eq!((table.positions.as_ref(), &table.addresses), (Some(&sorted), &sorted));
            assert_eq!(table.filter_masks.len(), present.len());
            assert_eq!(table.sizes, ChunkSizes::Each(vec![7; present.len()].into()));
        }
    }

    #[test]
    fn both_sorts_agree() {
        let positions = [7, 2, 0, 5];
        assert_eq!(sorted(&positions), Ok(vec![2, 1, 3, 0]));
        assert_eq!(scattered(&positions, 8), sorted(&positions));
        assert_eq!((sorted(&[1, 3, 1]), scattered(&[1, 3, 1], 4)), (Err(1), Err(1)));
    }

    #[test]
    fn slots_are_filled_in_any_order() {
        let mut columns = columns(true);
        columns.make_places(4);
        columns.place(3, Some((3, chunk(30, Some(7), 5)))).unwrap();
        columns.place(0, None).unwrap();
        columns.place(2, Some((2, chunk(20, Some(5), 0)))).unwrap();
        columns.place(1, Some((1, chunk(10, Some(6), 0)))).unwrap();
        assert!(columns.place(4, None).is_err());
        let table = columns.finish().unwrap();
        assert_eq!((table.positions, table.addresses), (Some(vec![1, 2, 3].into()), vec![10, 20, 30].into()));
        assert_eq!(table.sizes, ChunkSizes::Each(vec![6, 5, 7].into()));
        assert_eq!(table.filter_masks, BTreeMap::from([(3, 5)]));
    }

    /// libhdf5 2.0 does not find all chunks of such an index, and shows the fill value.
    #[test]
    fn rejects_records_out_of_order() {
        let mut columns = columns(false);
        columns.make_places(2);
        columns.place(0, Some((2, chunk(20, None, 0)))).unwrap();
        columns.place(1, Some((1, chunk(10, None, 0)))).unwrap();
        let error = columns.finish().unwrap_err().to_string();
        assert!(error.contains("not in the order of their chunks"), "{error}");
    }

    #[test]
    fn rejects_invalid_chunks() {
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
        let source = MemorySource(bytes::Bytes::new());
        let io = Io::new(&source, Limits { chunks: 10, ..Limits::default() });
        let budget = ChunkBudget::new(&io);
        assert!(budget.take(6, 0).is_ok());
        assert!(budget.take(6, 0).is_err());
        assert!(budget.take(4, 0).is_ok());
    }
}
