//! Reads chunk tables. All chunk indexes of a call are walked together, one batch of ranges per level.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use futures::join;

use crate::{
    Error,
    btree1::read_btree1,
    btree2::{Btree2Header, visit_records},
    cursor::{Format, uint},
    extensible_array::read_extensible_arrays,
    fixed_array::read_fixed_arrays,
    io::Io,
    layout::ChunkedLayout,
    model::{ChunkIndexKind, ChunkSizes, ChunkTable},
};

const STRUCTURE: &str = "chunk index";
const LAYOUT: &str = "chunked layout";

/// A dataset whose chunks are requested. Shapes are in elements, slowest axis first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRequest<'a> {
    pub(crate) layout: &'a ChunkedLayout,
    /// Current shape.
    pub(crate) shape: &'a [u64],
    /// Maximum shape, `None` for unlimited axes.
    pub(crate) max_shape: Vec<Option<u64>>,
    /// Whether the dataset has filters.
    pub(crate) filtered: bool,
}

/// Reads the chunk table of each dataset, in the order of the requests.
pub(crate) async fn read_chunk_tables(
    io: &Io<'_>,
    format: Format,
    requests: Vec<Result<ChunkRequest<'_>, Error>>,
) -> Vec<Result<ChunkTable, Error>> {
    let budget = ChunkBudget::new(io);
    let jobs = requests.into_iter().map(|request| Job::new(request?, &budget));
    let mut jobs: Vec<Result<Job<'_>, Error>> = jobs.collect();
    let (mut btree1, mut btree2, mut fixed, mut extensible) = (vec![], vec![], vec![], vec![]);
    for job in jobs.iter_mut().flatten() {
        if job.request.layout.address.is_none() || job.columns.grid.total == 0 {
            continue;
        }
        match job.request.layout.index {
            ChunkIndexKind::BTree1 => btree1.push(job),
            ChunkIndexKind::BTree2 => btree2.push(job),
            ChunkIndexKind::FixedArray => fixed.push(job),
            ChunkIndexKind::ExtensibleArray => extensible.push(job),
            ChunkIndexKind::Single => job.result = job.list_single(),
            ChunkIndexKind::Implicit => job.result = job.list_implicit(io),
        }
    }
    join!(
        read_btree1(io, format, btree1),
        read_btree2(io, format, btree2),
        read_fixed_arrays(io, format, fixed),
        read_extensible_arrays(io, format, extensible),
    );
    jobs.into_iter().map(|job| job.and_then(|job| job.result.and_then(|()| job.columns.finish()))).collect()
}

/// A chunk index in progress.
pub(crate) struct Job<'a> {
    pub(crate) request: ChunkRequest<'a>,
    /// Address of the index; 0 without chunks.
    pub(crate) address: u64,
    pub(crate) columns: ChunkColumns,
    pub(crate) budget: &'a ChunkBudget<'a>,
    pub(crate) result: Result<(), Error>,
}

impl<'a> Job<'a> {
    fn new(request: ChunkRequest<'a>, budget: &'a ChunkBudget<'a>) -> Result<Self, Error> {
        let ChunkRequest { layout, shape, max_shape, filtered } = &request;
        let grid = ChunkGrid::new(shape, &layout.chunk_shape, layout.element_size)?;
        if max_shape.len() != shape.len() {
            let problem = format!("maximum shape {max_shape:?}, expected the rank of {shape:?}");
            return Err(Error::malformed("dataspace", 0, problem));
        }
        let address = layout.address.unwrap_or(0);
        let columns = ChunkColumns::new(grid, *filtered, address);
        Ok(Self { request, address, columns, budget, result: Ok(()) })
    }

    /// Returns the numbering of chunks in an array index, with one unlimited axis if it is extensible.
    pub(crate) fn numbering(&self, is_extensible: bool) -> Result<ChunkNumbering, Error> {
        let ChunkRequest { layout, max_shape, .. } = &self.request;
        ChunkNumbering::new(&self.columns.grid, max_shape, &layout.chunk_shape, is_extensible)
    }

    /// Returns the format of elements of `size` bytes in an index that contains filtered chunks or not.
    pub(crate) fn elements(
        &self,
        format: Format,
        size: u8,
        is_filtered: bool,
        structure: &'static str,
    ) -> Result<ElementFormat, Error> {
        if is_filtered != self.request.filtered {
            let problem = format!("filtered: {is_filtered}, expected {}", self.request.filtered);
            return Err(Error::malformed(structure, self.address, problem));
        }
        ElementFormat::new(format, self.request.size_width(format), size.into(), 0, structure, self.address)
    }

    fn list_single(&mut self) -> Result<(), Error> {
        let total = self.columns.grid.total;
        if total != 1 {
            let problem = format!("single chunk index of {total} chunks");
            return Err(Error::malformed(LAYOUT, self.address, problem));
        }
        self.budget.take(1, self.address)?;
        let (size, filter_mask) = self.request.layout.single.unwrap_or((0, 0));
        let size = self.request.filtered.then_some(size);
        self.columns.push(0, ChunkElement { address: self.address, size, filter_mask })
    }

    /// Adds consecutive chunks.
    fn list_implicit(&mut self, io: &Io<'_>) -> Result<(), Error> {
        let numbering = self.numbering(false)?;
        let (bytes, filtered) = (self.columns.grid.chunk_bytes, self.request.filtered);
        let end = numbering.end.saturating_mul(bytes).saturating_add(self.address);
        if filtered || end > io.size() {
            let problem = format!(
                "chunks up to {end:#x}, filtered: {filtered}; expected unfiltered chunks within the file"
            );
            return Err(Error::malformed("implicit chunk index", self.address, problem));
        }
        self.budget.take(numbering.end, self.address)?;
        self.columns.reserve(numbering.end);
        for number in 0..numbering.end {
            let address = self.address.saturating_add(number.saturating_mul(bytes));
            if let Some(position) = numbering.position(number) {
                self.columns.push(position, ChunkElement { address, size: None, filter_mask: 0 })?;
            }
        }
        Ok(())
    }

    /// Adds the chunks of consecutive array elements. `first` is the index of the first element.
    pub(crate) fn list(
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

impl ChunkRequest<'_> {
    /// Returns the bytes of a stored size in indexes of versions 4 and 5; 0 without filters.
    fn size_width(&self, format: Format) -> usize {
        match (self.filtered, self.layout.version) {
            (false, _) => 0,
            (true, 5..) => format.length_size.into(),
            (true, _) => {
                let shape = self.layout.chunk_shape.iter().copied();
                let bytes = shape.fold(self.layout.element_size, u64::saturating_mul);
                // One byte more than the size of a chunk needs.
                let width = bytes.checked_ilog2().unwrap_or(0) / 8;
                usize::try_from(width).map_or(8, |width| width.saturating_add(2).min(8))
            }
        }
    }
}

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
        /// Position, address and size.
        const CHUNK_BYTES: u64 = 20;
        let less = |left: u64| left.checked_sub(count);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => self.io.hold("chunk tables", count.saturating_mul(CHUNK_BYTES)),
            Err(_) => Err(Error::limit(STRUCTURE, address, format!("more than {} chunks", self.limit))),
        }
    }
}

/// Columns of a [`ChunkTable`] in progress.
#[derive(Debug)]
pub(crate) struct ChunkColumns {
    pub(crate) grid: ChunkGrid,
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
    last: Option<u64>,
}

impl ChunkColumns {
    fn new(grid: ChunkGrid, filtered: bool, address: u64) -> Self {
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

    /// Adds a chunk. `size` is `None` if the index does not store it.
    pub(crate) fn push(&mut self, position: u64, chunk: ChunkElement) -> Result<(), Error> {
        match chunk.size {
            Some(size) if self.filtered => self.sizes.push(u32::try_from(size).map_err(|_| {
                let problem = format!(
                    "chunk {position} has {size} bytes; filtered chunks over 4 GiB are not supported"
                );
                Error::unsupported(STRUCTURE, self.address, problem)
            })?),
            Some(size) if size != self.grid.chunk_bytes => {
                let expected = self.grid.chunk_bytes;
                let problem = format!("unfiltered chunk {position} has {size} bytes, expected {expected}");
                return Err(Error::malformed(STRUCTURE, self.address, problem));
            }
            _ => {}
        }
        self.ascending &= self.last.is_none_or(|last| last < position);
        self.last = Some(position);
        let count = self.addresses.len() as u64;
        if self.positions.is_none() && position != count {
            self.positions = Some((0..count).collect());
        }
        self.positions.iter_mut().for_each(|positions| positions.push(position));
        self.addresses.push(chunk.address);
        if chunk.filter_mask != 0 && self.filtered {
            self.filter_masks.insert(position, chunk.filter_mask);
        }
        Ok(())
    }

    /// Returns the table, ordered by position.
    fn finish(mut self) -> Result<ChunkTable, Error> {
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

    fn sort(&mut self) -> Result<(), Error> {
        let sizes = self.sizes.iter().copied().chain(std::iter::repeat(0));
        let positions = self.positions.take().unwrap_or_default();
        let mut rows: Vec<_> = positions.into_iter().zip(self.addresses.drain(..)).zip(sizes).collect();
        // A stable sort makes use of runs that are already in order.
        rows.sort_by_key(|((position, _), _)| *position);
        if let Some([((twice, _), _), _]) =
            rows.array_windows().find(|[first, second]| first.0.0 == second.0.0)
        {
            let problem = format!("chunk {twice} is listed twice");
            return Err(Error::malformed(STRUCTURE, self.address, problem));
        }
        if self.filtered {
            self.sizes = rows.iter().map(|(_, size)| *size).collect();
        }
        let (positions, addresses) = rows.into_iter().map(|(row, _)| row).unzip();
        (self.positions, self.addresses) = (Some(positions), addresses);
        Ok(())
    }
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

/// Returns little-endian numbers.
pub(crate) fn words_of(words: &[[u8; 8]]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| u64::from_le_bytes(*word))
}

// The grid of a dataset's chunks, and the numbering of chunks in array indexes.

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
    pub(crate) fn new(shape: &[u64], chunk_shape: &[u64], element_size: u64) -> Result<Self, Error> {
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
        let bytes = chunk_shape.iter().try_fold(element_size, |bytes, axis| bytes.checked_mul(*axis));
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
    /// Creates the numbering for a maximum extent that is finite, or has one unlimited axis if the index is extensible.
    fn new(
        grid: &ChunkGrid,
        max_shape: &[Option<u64>],
        chunk_shape: &[u64],
        is_extensible: bool,
    ) -> Result<Self, Error> {
        let mut unlimited = (0..).zip(max_shape).filter(|(_, size)| size.is_none()).map(|(axis, _)| axis);
        let (first, second) = (unlimited.next(), unlimited.next());
        if first.is_some() != is_extensible || second.is_some() {
            let expected = u8::from(is_extensible);
            let problem =
                format!("maximum shape {max_shape:?}, expected {expected} unlimited axes for this index");
            return Err(Error::malformed(LAYOUT, 0, problem));
        }
        let others = (0..grid.counts.len()).filter(|axis| Some(*axis) != first);
        let order: Vec<usize> = first.into_iter().chain(others).collect();
        // No stride depends on the count along the slowest axis, so the current count replaces the unlimited one.
        let most = |axis: usize| match (max_shape.get(axis)?, chunk_shape.get(axis)?) {
            // The sum exceeds 64 bits in the library, which then finds other chunks.
            (Some(size), chunk) => size.checked_add(chunk.checked_sub(1)?)?.checked_div(*chunk),
            (None, _) => grid.counts.get(axis).copied(),
        };
        let counts: Option<Vec<u64>> = order.iter().map(|&axis| most(axis)).collect();
        let steps = counts.as_deref().and_then(|counts| strides(counts.iter().copied()));
        let (Some(counts), Some((steps, total))) = (counts, steps) else {
            let problem = format!(
                "maximum shape {max_shape:?} with chunk shape {chunk_shape:?}, expected less than 2^64 chunks"
            );
            return Err(Error::limit(LAYOUT, 0, problem));
        };
        let numbered = |(&axis, step): (&usize, u64)| {
            Some(NumberedAxis { step, count: *grid.counts.get(axis)?, stride: *grid.strides.get(axis)? })
        };
        let axes: Vec<_> = order.iter().zip(steps).filter_map(numbered).collect();
        if axes.iter().zip(&counts).any(|(axis, most)| axis.count > *most) {
            let problem =
                format!("{:?} chunks, expected at most {counts:?} of the maximum shape", grid.counts);
            return Err(Error::malformed(LAYOUT, 0, problem));
        }
        let identity = axes.iter().all(|axis| axis.step == axis.stride);
        let end = axes.first().map_or(0, |axis| axis.step.saturating_mul(axis.count));
        let most = (!is_extensible).then_some(total);
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

// Version 2 B-trees that index chunks: records of type 10 (unfiltered) and 11 (filtered).
//
// ```text
// type 10  chunk-address scaled-offset(8)…
// type 11  chunk-address chunk-size filter-mask(4) scaled-offset(8)…
// ```

/// Fills the chunk tables of the trees.
async fn read_btree2(io: &Io<'_>, format: Format, mut jobs: Vec<&mut Job<'_>>) {
    let trees = jobs.iter_mut().map(|job| {
        let (address, mut element, mut last) = (job.address, None, Vec::new());
        (address, move |header: &Btree2Header, records: &[u8]| {
            let element = match element {
                Some(element) => element,
                None => *element.insert(job.begin_records(format, header)?),
            };
            job.list_records(records.chunks_exact(usize::from(header.record_size).max(1)), element, &mut last)
        })
    });
    let results = visit_records(io, format, trees).await;
    for (job, result) in jobs.into_iter().zip(results) {
        job.result = result;
    }
}

const BTREE2: &str = "version 2 B-tree";

impl Job<'_> {
    /// Returns the format of the chunk in each record, and reserves memory for all of them.
    fn begin_records(&mut self, format: Format, header: &Btree2Header) -> Result<ElementFormat, Error> {
        let (found, expected) = (header.record_type, if self.request.filtered { 11 } else { 10 });
        if found != expected {
            let problem = format!("record type {found}, expected {expected}");
            return Err(Error::malformed(BTREE2, self.address, problem));
        }
        self.budget.take(header.total, self.address)?;
        self.columns.reserve(header.total);
        let (width, offsets) = (self.request.size_width(format), self.request.shape.len().saturating_mul(8));
        ElementFormat::new(format, width, header.record_size.into(), offsets, BTREE2, self.address)
    }

    /// Adds the chunks of records, and moves `last` to the scaled offsets of the last one.
    fn list_records<'r>(
        &mut self,
        records: impl Iterator<Item = &'r [u8]>,
        element: ElementFormat,
        last: &mut Vec<[u8; 8]>,
    ) -> Result<(), Error> {
        let saved = std::mem::take(last);
        let mut previous: &[[u8; 8]] = &saved;
        for record in records {
            let (chunk, words) = record.split_at_checked(element.size()).unwrap_or_default();
            let offsets = words.as_chunks().0;
            // libhdf5 finds chunks by binary search, and shows the fill value in those that it does not find.
            if words_of(previous).ge(words_of(offsets)) {
                let [found, previous] = [offsets, previous].map(|words| Vec::from_iter(words_of(words)));
                let problem = format!("chunk {found:?} after {previous:?}, expected ascending ones");
                return Err(Error::malformed(BTREE2, self.address, problem));
            }
            let position = self.columns.grid.position(words_of(offsets));
            if let (Some(position), Some(chunk)) = (position, element.parse(chunk)) {
                self.columns.push(position, chunk)?;
            }
            previous = offsets;
        }
        *last = previous.to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    mod chunk_request {
        use super::super::*;

        fn width(version: u8, length: u64, filtered: bool) -> usize {
            let layout = ChunkedLayout {
                version,
                chunk_shape: vec![length],
                element_size: 1,
                unfiltered_edges: false,
                index: ChunkIndexKind::ExtensibleArray,
                single: None,
                address: None,
            };
            let format = Format { base: 0, offset_size: 8, length_size: 8 };
            let max_shape = vec![Some(length)];
            ChunkRequest { layout: &layout, shape: &[length], max_shape, filtered }.size_width(format)
        }

        /// The widths are those of `H5D_FARRAY_FILT_COMPUTE_CHUNK_SIZE_LEN` and its siblings in libhdf5.
        #[test]
        fn stored_sizes_have_the_width_of_the_layout() {
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
            let numbers = ChunkNumbering::new(&grid, &[Some(4), Some(10)], &[2, 2], false).unwrap();
            let found: Vec<_> = (0..10).map(|number| numbers.position(number)).collect();
            let none = None;
            assert_eq!(found, [Some(0), Some(1), none, none, none, Some(2), Some(3), none, none, none]);
            assert_eq!(numbers.most, Some(10));
        }

        #[test]
        fn the_unlimited_axis_is_the_slowest() {
            let grid = ChunkGrid::new(&[2, 3, 2], &[1, 1, 1], 1).unwrap();
            let numbers = ChunkNumbering::new(&grid, &[Some(2), None, Some(2)], &[1, 1, 1], true).unwrap();
            // Number = axis1 * 4 + axis0 * 2 + axis2; position = axis0 * 6 + axis1 * 2 + axis2.
            assert_eq!(numbers.position(4), Some(2));
            assert_eq!(numbers.position(11), Some(11));
            assert_eq!(numbers.position(6), Some(8));
            assert_eq!(numbers.position(12), None);
            assert!(ChunkNumbering::new(&grid, &[None, None, Some(2)], &[1, 1, 1], true).is_err());
        }

        #[test]
        fn rejects_an_extent_over_the_maximum() {
            let grid = ChunkGrid::new(&[4], &[2], 1).unwrap();
            assert!(ChunkNumbering::new(&grid, &[Some(2)], &[2], false).is_err());
        }

        #[test]
        fn rejects_a_maximum_that_the_library_cannot_round_up() {
            let grid = ChunkGrid::new(&[4, 5], &[3, 4], 1).unwrap();
            let numbered = |most| ChunkNumbering::new(&grid, &[None, Some(most)], &[3, 4], true);
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
            let layout = ChunkedLayout {
                version: 4,
                chunk_shape: vec![1, 4],
                element_size: 1,
                unfiltered_edges: false,
                index: ChunkIndexKind::BTree2,
                single: None,
                address: Some(0x40),
            };
            let max_shape = vec![None, None];
            let request = ChunkRequest { layout: &layout, shape: &[1, 4], max_shape, filtered: false };
            ready(read_chunk_tables(&Io::new(&source, Limits::default()), FORMAT, vec![Ok(request)]))
                .remove(0)
        }

        /// libhdf5 would not find the first chunk, and show fill values.
        #[test]
        fn chunks_are_in_ascending_order() {
            assert_eq!(*table(1).unwrap().addresses, [0x800], "the second one is outside of the extent");
            let error = table(0).unwrap_err().to_string();
            assert!(error.ends_with("expected ascending ones"), "{error}");
        }
    }
}
