//! Reads chunk tables. All chunk indexes of a call are walked together, one batch of ranges per level.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use futures::join;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    btree1::read_btree1,
    btree2::{Btree2Header, Btree2Sink, walk_trees},
    cursor::Format,
    extensible_array::read_extensible_arrays,
    fixed_array::read_fixed_arrays,
    io::{Io, read_whole},
    model::{ChunkSizes, ChunkTable},
};

/// Reads the chunk table of each dataset, in the order of the requests.
pub(crate) async fn read_chunk_tables(
    io: &Io<'_>,
    format: Format,
    requests: Vec<ChunkRequest>,
) -> Vec<Result<ChunkTable, Error>> {
    let budget = ChunkBudget::new(io);
    let mut tables: Vec<_> = requests.iter().map(|_| None).collect();
    let (mut btree1, mut fixed, mut extensible, mut btree2) = (vec![], vec![], vec![], vec![]);
    for (place, request) in requests.iter().enumerate() {
        let jobs = match request.index {
            ChunkIndex::FixedArray { .. } => &mut fixed,
            ChunkIndex::ExtensibleArray { .. } => &mut extensible,
            ChunkIndex::BTree2 { .. } => &mut btree2,
            _ => &mut btree1,
        };
        match begin(io, request, place, &budget) {
            Ok(Begun::Index(job)) => jobs.push(*job),
            Ok(Begun::Done(table)) => set(&mut tables, place, Ok(table)),
            Err(error) => set(&mut tables, place, Err(error)),
        }
    }
    let (a, b, c, d) = join!(
        read_btree1(io, format, btree1),
        read_fixed_arrays(io, format, fixed),
        read_extensible_arrays(io, format, extensible),
        read_btree2(io, format, btree2),
    );
    for (job, result) in a.into_iter().chain(b).chain(c).chain(d) {
        set(&mut tables, job.place, result.and_then(|()| job.columns.finish()));
    }
    let missing = || Err(Error::malformed("chunk index", 0, "not read"));
    tables.into_iter().map(|table| table.unwrap_or_else(missing)).collect()
}

fn set(tables: &mut [Option<Result<ChunkTable, Error>>], place: usize, table: Result<ChunkTable, Error>) {
    if let Some(slot) = tables.get_mut(place) {
        *slot = Some(table);
    }
}

/// A request whose index has to be read, or a complete table.
enum Begun<'a> {
    Index(Box<Job<'a>>),
    Done(ChunkTable),
}

fn begin<'a>(
    io: &Io<'_>,
    request: &'a ChunkRequest,
    place: usize,
    budget: &'a ChunkBudget<'a>,
) -> Result<Begun<'a>, Error> {
    let grid = ChunkGrid::new(&request.shape, &request.chunk_shape, request.element_size)?;
    if request.max_shape.len() != request.shape.len() {
        let problem =
            format!("maximum shape {:?}, expected the rank of {:?}", request.max_shape, request.shape);
        return Err(Error::malformed("dataspace", 0, problem));
    }
    let address = request.index.address();
    let columns = ChunkColumns::new(grid, request.filtered, address.unwrap_or(0));
    let Some(address) = address.filter(|_| columns.grid().total > 0) else {
        return columns.finish().map(Begun::Done);
    };
    let mut job = Job { request, address, columns, budget, place };
    match request.index {
        ChunkIndex::Single { size, filter_mask, .. } => list_single(&mut job, size, filter_mask)?,
        ChunkIndex::Implicit { .. } => list_implicit(io, &mut job)?,
        _ => return Ok(Begun::Index(Box::new(job))),
    }
    job.columns.finish().map(Begun::Done)
}

fn list_single(job: &mut Job<'_>, size: u64, filter_mask: u32) -> Result<(), Error> {
    if job.columns.grid().total != 1 {
        let problem = format!("single chunk index of {} chunks", job.columns.grid().total);
        return Err(Error::malformed("chunked layout", job.address, problem));
    }
    job.budget.take(1, job.address)?;
    let size = job.request.filtered.then_some(size);
    job.columns.push(0, ChunkElement { address: job.address, size, filter_mask })
}

fn list_implicit(io: &Io<'_>, job: &mut Job<'_>) -> Result<(), Error> {
    let numbering = job.numbering(false)?;
    let bytes = job.columns.grid().chunk_bytes;
    let end = numbering.end.saturating_mul(bytes).saturating_add(job.address);
    if job.request.filtered || end > io.size() {
        let problem = format!(
            "chunks up to {end:#x}, filtered: {}; expected unfiltered chunks within the file",
            job.request.filtered
        );
        return Err(Error::malformed("implicit chunk index", job.address, problem));
    }
    job.budget.take(numbering.end, job.address)?;
    job.columns.reserve(numbering.end);
    for number in 0..numbering.end {
        let address = job.address.saturating_add(number.saturating_mul(bytes));
        if let Some(position) = numbering.position(number) {
            job.columns.push(position, ChunkElement { address, size: None, filter_mask: 0 })?;
        }
    }
    Ok(())
}

// Requests for chunk tables, and the state of each while it is read.

/// Type and address of a chunk index. The address is undefined for a dataset without chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkIndex {
    /// Version 1 B-tree.
    BTree1 { address: Option<u64> },
    /// A single chunk. Size and filter mask apply to filtered chunks only.
    Single { address: Option<u64>, size: u64, filter_mask: u32 },
    /// Implicit: consecutive chunks.
    Implicit { address: Option<u64> },
    /// Fixed array.
    FixedArray { address: Option<u64> },
    /// Extensible array.
    ExtensibleArray { address: Option<u64> },
    /// Version 2 B-tree.
    BTree2 { address: Option<u64> },
}

impl ChunkIndex {
    /// Returns the address of the index; `None` for a dataset without chunks.
    pub(super) fn address(self) -> Option<u64> {
        match self {
            Self::BTree1 { address }
            | Self::Single { address, .. }
            | Self::Implicit { address }
            | Self::FixedArray { address }
            | Self::ExtensibleArray { address }
            | Self::BTree2 { address } => address,
        }
    }
}

/// A dataset whose chunks are requested. Shapes are in elements, slowest axis first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRequest {
    pub(crate) index: ChunkIndex,
    /// Current shape.
    pub(crate) shape: Vec<u64>,
    /// Maximum shape, `None` for unlimited axes.
    pub(crate) max_shape: Vec<Option<u64>>,
    /// Chunk shape, without the trailing element size of old layout messages.
    pub(crate) chunk_shape: Vec<u64>,
    /// Size of an element in bytes.
    pub(crate) element_size: u32,
    /// Version of the layout message.
    pub(crate) version: u8,
    /// Whether the dataset has filters.
    pub(crate) filtered: bool,
}

impl ChunkRequest {
    /// Returns the bytes of a stored size in indexes of versions 4 and 5; 0 without filters.
    pub(super) fn size_width(&self, format: Format) -> usize {
        if !self.filtered {
            return 0;
        }
        if self.version > 4 {
            return format.length_size.into();
        }
        let bytes =
            self.chunk_shape.iter().fold(u64::from(self.element_size), |bytes, n| bytes.saturating_mul(*n));
        // One byte more than the size of a chunk needs.
        usize::try_from(bytes.checked_ilog2().unwrap_or(0) / 8)
            .map_or(8, |width| width.saturating_add(2).min(8))
    }
}

/// A chunk index in progress.
pub(super) struct Job<'a> {
    pub(super) request: &'a ChunkRequest,
    pub(super) address: u64,
    pub(super) columns: ChunkColumns,
    pub(super) budget: &'a ChunkBudget<'a>,
    /// Index of the request.
    pub(super) place: usize,
}

impl Job<'_> {
    pub(super) fn numbering(&self, extensible: bool) -> Result<ChunkNumbering, Error> {
        let new = if extensible { ChunkNumbering::extensible } else { ChunkNumbering::bounded };
        new(self.columns.grid(), &self.request.max_shape, &self.request.chunk_shape)
    }

    /// Adds the chunks of consecutive array elements to the table. `first` is the index of the first element.
    pub(super) fn list(
        &mut self,
        first: u64,
        content: &[u8],
        elements: ElementFormat,
        numbering: &ChunkNumbering,
    ) -> Result<(), Error> {
        let entries = content.chunks_exact(elements.size().max(1));
        self.budget.take(entries.len() as u64, self.address)?;
        self.columns.reserve(entries.len() as u64);
        for (number, entry) in (first..).zip(entries) {
            let Some(chunk) = elements.parse(entry) else { continue };
            if let Some(position) = numbering.position(number) {
                self.columns.push(position, chunk)?;
            }
        }
        Ok(())
    }
}

// Builds a [`ChunkTable`] column by column from chunks in any order.

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
            Some(size) if self.filtered => {
                let Ok(size) = u32::try_from(size) else { return Err(self.too_large(position, size)) };
                self.sizes.push(size);
            }
            Some(size) if size != self.grid.chunk_bytes => {
                let expected = self.grid.chunk_bytes;
                let problem = format!("unfiltered chunk {position} has {size} bytes, expected {expected}");
                return Err(Error::malformed(STRUCTURE, self.address, problem));
            }
            _ => {}
        }
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
        };
        self.addresses.push(chunk.address);
        if chunk.filter_mask != 0 && self.filtered {
            self.filter_masks.insert(position, chunk.filter_mask);
        }
        Ok(())
    }

    fn too_large(&self, position: u64, size: u64) -> Error {
        let problem =
            format!("chunk {position} has {size} bytes; filtered chunks over 4 GiB are not supported");
        Error::unsupported(STRUCTURE, self.address, problem)
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
        let sizes = if self.filtered {
            ChunkSizes::Each(self.sizes.into())
        } else {
            ChunkSizes::Uniform(self.grid.chunk_bytes)
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
        if self.ascending {
            Ok(())
        } else {
            Err(Error::malformed(
                STRUCTURE,
                self.address,
                "records that are not in the order of their chunks",
            ))
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
        let order = if self.grid.total / 2 <= positions.len() as u64 {
            scattered(&positions, self.grid.total)
        } else {
            sorted(&positions)
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

// Elements of fixed and extensible arrays: the address of a chunk and, for a filtered chunk, its size and filter mask
// (specification VII.B and VII.C).

/// Sizes of the fields of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ElementFormat {
    base: u64,
    offset_size: usize,
    /// Size in bytes of the chunk size field; 0 for unfiltered chunks.
    size_width: usize,
}

/// Location of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkElement {
    pub(crate) address: u64,
    /// Stored size in bytes; `None` for an unfiltered chunk.
    pub(crate) size: Option<u64>,
    pub(crate) filter_mask: u32,
}

impl ElementFormat {
    /// Checks that elements have the size that the library expects: with a chunk size field of `size_width` bytes, 0 for
    /// unfiltered chunks, and `extra` bytes after the fields (the coordinates in B-tree records).
    pub(crate) fn new(
        format: Format,
        size_width: usize,
        element_size: usize,
        extra: usize,
        structure: &'static str,
        address: u64,
    ) -> Result<Self, Error> {
        let offset_size = usize::from(format.offset_size);
        let elements = Self { base: format.base, offset_size, size_width };
        let expected = elements.size().saturating_add(extra);
        if element_size == expected {
            Ok(elements)
        } else {
            let problem = format!("elements of {element_size} bytes, expected {expected}");
            Err(Error::malformed(structure, address, problem))
        }
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(self) -> usize {
        let filter = if self.size_width == 0 { 0 } else { self.size_width.saturating_add(4) };
        self.offset_size.saturating_add(filter)
    }

    /// Parses the element at the start of `bytes`. Returns `None` for an unallocated chunk.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<ChunkElement> {
        let (address, rest) = bytes.split_at_checked(self.offset_size)?;
        if address.iter().all(|byte| *byte == 0xff) {
            return None;
        }
        let address = uint(address).saturating_add(self.base);
        if self.size_width == 0 {
            return Some(ChunkElement { address, size: None, filter_mask: 0 });
        }
        let (size, rest) = rest.split_at_checked(self.size_width)?;
        let filter_mask = u32::from_le_bytes(*rest.first_chunk()?);
        Some(ChunkElement { address, size: Some(uint(size)), filter_mask })
    }
}

/// Returns a little-endian number of at most 8 bytes.
pub(crate) fn uint(bytes: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(bytes) {
        Ok(array) => u64::from_le_bytes(array),
        Err(_) => bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}

// The grid of a dataset's chunks, and the numbering of chunks in array indexes.

const LAYOUT: &str = "chunked layout";

/// The grid of chunks that covers the extent of a dataset. Axes are ordered slowest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkGrid {
    /// Number of chunks along each axis.
    pub(crate) counts: Vec<u64>,
    /// Row-major stride along each axis, in chunks.
    pub(crate) strides: Vec<u64>,
    /// Number of chunks in the grid.
    pub(crate) total: u64,
    /// Size of an unfiltered chunk in bytes.
    pub(crate) chunk_bytes: u64,
}

impl ChunkGrid {
    /// Creates the grid of a dataset with this shape in elements.
    pub(crate) fn new(shape: &[u64], chunk_shape: &[u64], element_size: u32) -> Result<Self, Error> {
        if shape.len() != chunk_shape.len() || shape.is_empty() {
            let problem =
                format!("chunk rank {}, expected {} of the dataspace", chunk_shape.len(), shape.len());
            return Err(Error::malformed(LAYOUT, 0, problem));
        }
        if element_size == 0 || chunk_shape.contains(&0) {
            let problem = format!(
                "chunk shape {chunk_shape:?} with elements of {element_size} bytes, expected 1 to 2^64 bytes"
            );
            return Err(Error::malformed(LAYOUT, 0, problem));
        }
        let counts: Vec<_> =
            shape.iter().zip(chunk_shape).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
        let (strides, total) = strides(counts.iter().copied()).ok_or_else(|| too_many(&counts))?;
        let bytes =
            chunk_shape.iter().try_fold(u64::from(element_size), |bytes, axis| bytes.checked_mul(*axis));
        let chunk_bytes = bytes.ok_or_else(|| too_many(chunk_shape))?;
        Ok(Self { counts, strides, total, chunk_bytes })
    }

    /// Returns the row-major position of the chunk at `coordinates`, in chunks; `None` outside of the extent.
    pub(crate) fn position(&self, coordinates: impl Iterator<Item = u64>) -> Option<u64> {
        let mut position = 0_u64;
        for ((coordinate, count), stride) in coordinates.zip(&self.counts).zip(&self.strides) {
            if coordinate >= *count {
                return None;
            }
            position = position.wrapping_add(coordinate.wrapping_mul(*stride));
        }
        Some(position)
    }
}

/// Returns the row-major strides of a grid, slowest axis first, and its number of chunks; `None` over 64 bits.
fn strides(counts: impl DoubleEndedIterator<Item = u64>) -> Option<(Vec<u64>, u64)> {
    let mut total = 1_u64;
    let mut strides = Vec::new();
    for count in counts.rev() {
        strides.push(total);
        total = total.checked_mul(count)?;
    }
    strides.reverse();
    Some((strides, total))
}

fn too_many(shape: &[u64]) -> Error {
    Error::limit(LAYOUT, 0, format!("shape {shape:?}, expected less than 2^64 elements"))
}

/// Numbering of chunks in fixed arrays, extensible arrays and implicit indexes: row-major over the *maximum* extent, so
/// that numbers remain valid when the extent changes. In an extensible array, the unlimited axis is the slowest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkNumbering {
    /// Whether numbers are equal to positions in the grid.
    identity: bool,
    /// Axes, slowest first in the numbering.
    axes: Vec<NumberedAxis>,
    /// End of the numbers within the extent, exclusive.
    pub(crate) end: u64,
    /// Number of chunks in the maximum extent; `None` if it is unlimited.
    pub(crate) most: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NumberedAxis {
    /// Stride along this axis in the numbering.
    step: u64,
    /// Number of chunks along this axis in the current extent.
    count: u64,
    /// Row-major stride along this axis in the grid.
    stride: u64,
}

impl ChunkNumbering {
    /// Creates the numbering for a finite maximum extent.
    pub(crate) fn bounded(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
    ) -> Result<Self, Error> {
        let order: Vec<_> = (0..grid.counts.len()).collect();
        if max_shape.contains(&None) {
            return Err(Error::malformed(
                LAYOUT,
                0,
                "unlimited axis, expected a finite maximum shape for this chunk index",
            ));
        }
        Self::new(grid, max_shape, chunk_shape, &order)
    }

    /// Creates the numbering for a maximum extent with one unlimited axis.
    pub(crate) fn extensible(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
    ) -> Result<Self, Error> {
        let mut unlimited = (0..).zip(max_shape).filter(|(_, size)| size.is_none()).map(|(axis, _)| axis);
        let (Some(first), None) = (unlimited.next(), unlimited.next()) else {
            let problem =
                format!("maximum shape {max_shape:?}, expected one unlimited axis for an extensible array");
            return Err(Error::malformed(LAYOUT, 0, problem));
        };
        let others = (0..grid.counts.len()).filter(|&axis| axis != first);
        let order: Vec<_> = std::iter::once(first).chain(others).collect();
        Self::new(grid, max_shape, chunk_shape, &order)
    }

    fn new(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
        order: &[usize],
    ) -> Result<Self, Error> {
        // No stride depends on the count along the slowest axis, so the current count can stand in for the unlimited
        // one.
        let most = |axis: usize| match (max_shape.get(axis)?, chunk_shape.get(axis)?) {
            // The sum exceeds 64 bits in the library, which then finds other chunks.
            (Some(size), chunk) => size.checked_add(chunk.checked_sub(1)?)?.checked_div(*chunk),
            (None, _) => grid.counts.get(axis).copied(),
        };
        let counts: Option<Vec<u64>> = order.iter().map(|&axis| most(axis)).collect();
        let steps = counts.as_deref().and_then(|counts| strides(counts.iter().copied()));
        let (Some(counts), Some((steps, total))) = (counts, steps) else {
            return Err(Error::limit(
                LAYOUT,
                0,
                format!(
                    "maximum shape {max_shape:?} with chunk shape {chunk_shape:?}, expected less than 2^64 chunks"
                ),
            ));
        };
        let place = |(&axis, step): (&usize, u64)| {
            Some(NumberedAxis { step, count: *grid.counts.get(axis)?, stride: *grid.strides.get(axis)? })
        };
        let axes: Vec<_> = order.iter().zip(steps).filter_map(place).collect();
        if axes.len() != grid.counts.len() || axes.iter().zip(&counts).any(|(axis, most)| axis.count > *most)
        {
            let problem =
                format!("{:?} chunks, expected at most {counts:?} of the maximum shape", grid.counts);
            return Err(Error::malformed(LAYOUT, 0, problem));
        }
        let identity = axes.iter().all(|axis| axis.step == axis.stride);
        let end = axes.first().map_or(0, |axis| axis.step.saturating_mul(axis.count));
        let most = (!max_shape.contains(&None)).then_some(total);
        Ok(Self { identity, axes, end, most })
    }

    /// Returns the row-major position of chunk `number`; `None` outside of the extent.
    pub(crate) fn position(&self, number: u64) -> Option<u64> {
        if number >= self.end {
            return None;
        }
        if self.identity {
            return Some(number);
        }
        let (mut rest, mut position) = (number, 0_u64);
        for axis in &self.axes {
            let coordinate = rest.checked_div(axis.step)?;
            rest = rest.checked_rem(axis.step)?;
            if coordinate >= axis.count {
                return None;
            }
            position = position.wrapping_add(coordinate.wrapping_mul(axis.stride));
        }
        Some(position)
    }
}

// Reads structures whose first bytes determine their size.

/// Reads the structure at each address: `guess` bytes of each in one batch, then, in a second one, those that are
/// longer according to `length`.
pub(crate) async fn read_sized(
    io: &Io<'_>,
    structure: &'static str,
    addresses: &[u64],
    guess: u64,
    length: impl Fn(&[u8], u64) -> Result<u64, Error>,
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    let guesses: Vec<_> = addresses.iter().map(|&address| ByteRange::new(address, guess)).collect();
    let first = io.read(&guesses).await?;
    let mut whole = Vec::with_capacity(first.len());
    let mut longer = Vec::new();
    for (index, (bytes, &address)) in first.into_iter().zip(addresses).enumerate() {
        let length = length(&bytes, address);
        if let Ok(length) = length
            && length > bytes.len() as u64
        {
            longer.push((index, ByteRange::new(address, length)));
        }
        whole.push(length.map(|_| bytes));
    }
    let ranges: Vec<_> = longer.iter().map(|(_, range)| *range).collect();
    for ((index, _), bytes) in longer.iter().zip(read_whole(io, structure, &ranges).await) {
        if let Some(place) = whole.get_mut(*index) {
            *place = bytes;
        }
    }
    Ok(whole)
}

// Walks version 2 B-trees that index chunks: records of type 10 (unfiltered) and 11 (filtered).
//
// ```text
// type 10  chunk-address scaled-offset(8)…
// type 11  chunk-address chunk-size filter-mask(4) scaled-offset(8)…
// ```

const HEADER: &str = "version 2 B-tree header";

/// Fills the chunk tables of the trees.
pub(super) async fn read_btree2<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let headers: Vec<_> = jobs.iter().map(|job| job.address).collect();
    let trees = jobs.into_iter().map(|job| Tree { job, element: None, record_size: 1 }).collect();
    let mut sink = Sink { format, trees };
    let results = walk_trees(io, format, &headers, &mut sink).await;
    sink.trees.into_iter().map(|tree| tree.job).zip(results).collect()
}

struct Sink<'a> {
    format: Format,
    trees: Vec<Tree<'a>>,
}

struct Tree<'a> {
    job: Job<'a>,
    element: Option<ElementFormat>,
    record_size: usize,
}

impl Btree2Sink for Sink<'_> {
    fn begin(&mut self, tree: usize, header: &Btree2Header, address: u64) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let filtered = tree.job.request.filtered;
        let size_width = tree.job.request.size_width(self.format);
        let expected = if filtered { 11 } else { 10 };
        if header.record_type != expected {
            let problem = format!("record type {}, expected {expected}", header.record_type);
            return Err(Error::malformed(HEADER, address, problem));
        }
        tree.record_size = header.record_size.into();
        let scaled = tree.job.request.chunk_shape.len().saturating_mul(8);
        tree.element =
            Some(ElementFormat::new(self.format, size_width, tree.record_size, scaled, HEADER, address)?);
        tree.job.budget.take(header.total, address)?;
        tree.job.columns.make_places(usize::try_from(header.total).unwrap_or(usize::MAX));
        Ok(())
    }

    fn records(&mut self, tree: usize, first: u64, records: &[u8]) -> Result<(), Error> {
        let Some(tree) = self.trees.get_mut(tree) else { return Ok(()) };
        let Some(element) = tree.element else { return Ok(()) };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let mut last: Option<&[u8]> = None;
        // Records arrive level by level, not in order.
        for (place, record) in (first..).zip(records.chunks_exact(tree.record_size.max(1))) {
            let (head, scaled) = record.split_at_checked(element.size()).unwrap_or_default();
            if last.is_some_and(|last| offsets(last).ge(offsets(scaled))) {
                return Err(Error::malformed(HEADER, tree.job.address, "chunks of a node out of order"));
            }
            last = Some(scaled);
            let chunk = tree.job.columns.grid().position(offsets(scaled)).zip(element.parse(head));
            tree.job.columns.place(place, chunk)?;
        }
        Ok(())
    }
}

/// Returns the scaled offsets of a record. The library finds chunks by binary search.
fn offsets(scaled: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = scaled.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    mod chunk_request {
        use super::super::*;

        fn request(version: u8, length: u64, filtered: bool) -> ChunkRequest {
            ChunkRequest {
                index: ChunkIndex::ExtensibleArray { address: None },
                shape: vec![length],
                max_shape: vec![Some(length)],
                chunk_shape: vec![length],
                element_size: 1,
                version,
                filtered,
            }
        }

        /// The widths are those of `H5D_FARRAY_FILT_COMPUTE_CHUNK_SIZE_LEN` and its siblings in libhdf5.
        #[test]
        fn stored_sizes_have_the_width_of_the_layout() {
            let format = Format { base: 0, offset_size: 8, length_size: 8 };
            let width = |version, length, filtered| request(version, length, filtered).size_width(format);
            assert_eq!([1, 255, 256, 65536].map(|length| width(4, length, true)), [2, 2, 3, 4]);
            assert_eq!([width(4, u64::MAX, true), width(5, 1, true), width(5, 1, false)], [8, 8, 0]);
        }
    }

    mod chunk_columns {
        use std::sync::Arc;

        use virtualize_bytes::{Limits, MemorySource};

        use super::super::*;

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
            assert_eq!(
                (table.positions, table.addresses),
                (Some(vec![1, 2, 3].into()), vec![10, 20, 30].into())
            );
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

    mod chunk_element {
        use super::super::*;

        const FORMAT: Format = Format { base: 0x200, offset_size: 8, length_size: 8 };

        #[test]
        fn unfiltered_elements_are_addresses() {
            let format = ElementFormat::new(FORMAT, 0, 8, 0, "array", 0).unwrap();
            let found = format.parse(&[0, 0x10, 0, 0, 0, 0, 0, 0]);
            assert_eq!(found, Some(ChunkElement { address: 0x1200, size: None, filter_mask: 0 }));
            assert_eq!(format.parse(&[0xff; 8]), None);
            assert!(ElementFormat::new(FORMAT, 0, 9, 0, "array", 0).is_err());
        }

        #[test]
        fn filtered_elements_have_a_size_and_a_mask() {
            let format = ElementFormat::new(FORMAT, 3, 15, 0, "array", 0).unwrap();
            let found = format.parse(&[0, 0x10, 0, 0, 0, 0, 0, 0, 1, 2, 3, 5, 0, 0, 0]);
            assert_eq!(found, Some(ChunkElement { address: 0x1200, size: Some(0x030201), filter_mask: 5 }));
            assert_eq!(format.size(), 15);
            assert!(ElementFormat::new(FORMAT, 3, 14, 0, "array", 0).is_err());
            assert!(ElementFormat::new(FORMAT, 3, 16, 0, "array", 0).is_err());
        }
    }

    mod chunk_grid {
        use super::super::*;

        #[test]
        fn positions_are_row_major() {
            let grid = ChunkGrid::new(&[5, 7], &[2, 3], 4).unwrap();
            assert_eq!((grid.counts.as_slice(), grid.total, grid.chunk_bytes), (&[3, 3][..], 9, 24));
            assert_eq!(grid.position([2, 1].into_iter()), Some(7));
            assert_eq!(grid.position([0, 3].into_iter()), None);
        }

        #[test]
        fn rejects_invalid_shapes() {
            assert!(ChunkGrid::new(&[5], &[0], 4).is_err());
            assert!(ChunkGrid::new(&[5], &[1], 0).is_err());
            assert!(ChunkGrid::new(&[5], &[1, 1], 1).is_err());
            assert!(ChunkGrid::new(&[], &[], 1).is_err());
            assert!(ChunkGrid::new(&[u64::MAX, u64::MAX], &[1, 1], 1).is_err());
        }

        #[test]
        fn numbers_are_row_major_over_the_maximum_extent() {
            let grid = ChunkGrid::new(&[4, 4], &[2, 2], 1).unwrap();
            let numbers = ChunkNumbering::bounded(&grid, &[Some(4), Some(10)], &[2, 2]).unwrap();
            let found: Vec<_> = (0..10).map(|number| numbers.position(number)).collect();
            let none = None;
            assert_eq!(found, [Some(0), Some(1), none, none, none, Some(2), Some(3), none, none, none]);
            assert_eq!(numbers.most, Some(10));
        }

        #[test]
        fn the_unlimited_axis_is_the_slowest() {
            let grid = ChunkGrid::new(&[2, 3, 2], &[1, 1, 1], 1).unwrap();
            let numbers = ChunkNumbering::extensible(&grid, &[Some(2), None, Some(2)], &[1, 1, 1]).unwrap();
            // Number = axis1 * 4 + axis0 * 2 + axis2; position = axis0 * 6 + axis1 * 2 + axis2.
            assert_eq!(numbers.position(4), Some(2));
            assert_eq!(numbers.position(11), Some(11));
            assert_eq!(numbers.position(6), Some(8));
            assert_eq!(numbers.position(12), None);
            assert!(ChunkNumbering::extensible(&grid, &[None, None, Some(2)], &[1, 1, 1]).is_err());
        }

        #[test]
        fn rejects_an_extent_over_the_maximum() {
            let grid = ChunkGrid::new(&[4], &[2], 1).unwrap();
            assert!(ChunkNumbering::bounded(&grid, &[Some(2)], &[2]).is_err());
        }

        #[test]
        fn rejects_a_maximum_that_the_library_cannot_round_up() {
            let grid = ChunkGrid::new(&[4, 5], &[3, 4], 1).unwrap();
            let numbered = |most| ChunkNumbering::extensible(&grid, &[None, Some(most)], &[3, 4]);
            assert!(numbered(u64::MAX - 3).is_ok() && numbered(u64::MAX - 2).is_err());
        }
    }

    mod chunk_btree2 {
        use virtualize_bytes::{Limits, MemorySource};

        use super::super::*;
        use crate::{cursor::lookup3, model::ChunkTable, testing::bytes_of, testing::ready};

        const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };
        /// Header of a tree with two records, as written by libhdf5 2.0.
        const HEADER_HEX: &str =
            "42544844 00 0a 00080000 1800 0000 64 28 0010000000000000 0200 0200000000000000 e2f7ca2f";

        /// Reads a tree whose only leaf has two chunks, (0, 0) and this one.
        fn table(second: u64) -> Result<ChunkTable, Error> {
            let mut leaf = b"BTLF\0\x0a".to_vec();
            leaf.extend([0x800, 0, 0, 0x804, 0, second].into_iter().flat_map(u64::to_le_bytes));
            leaf.extend(lookup3(&leaf).to_le_bytes());
            let mut file = vec![0; 0x2000];
            let header = bytes_of(HEADER_HEX);
            file[0x40..0x40 + header.len()].copy_from_slice(&header);
            file[0x1000..0x1000 + leaf.len()].copy_from_slice(&leaf);
            let source = MemorySource(file.into());
            let request = ChunkRequest {
                index: ChunkIndex::BTree2 { address: Some(0x40) },
                shape: vec![1, 4],
                max_shape: vec![None, None],
                chunk_shape: vec![1, 4],
                element_size: 1,
                version: 4,
                filtered: false,
            };
            ready(read_chunk_tables(&Io::new(&source, Limits::default()), FORMAT, vec![request])).remove(0)
        }

        /// libhdf5 would not find the first chunk, and show fill values.
        #[test]
        fn chunks_are_in_ascending_order() {
            assert_eq!(*table(1).unwrap().addresses, [0x800], "the second one is outside of the extent");
            let error = table(0).unwrap_err().to_string();
            assert!(error.ends_with("chunks of a node out of order"), "{error}");
        }
    }
}
