//! Fractal heaps (specification III.G): header, direct and indirect blocks, and heap ids.
//!
//! ```text
//! header: "FRHP" | 0 | id length 2 | filters' length 2 | flags | largest managed object 4 | next huge id L | huge B-tree O |
//!         free L | free space O | managed space L | allocated L | iterator L | managed objects L | huge L, L | tiny L, L |
//!         table width 2 | first block size L | largest direct block L | heap size in bits 2 | first rows 2 | root O |
//!         rows of the root 2 | (filters) size of the filtered root L, filter mask 4, filters | checksum 4
//! indirect: "FHIB" | 0 | heap O | offset | direct children: O, (filters) L, mask 4 | indirect children: O | checksum 4
//! direct:   "FHDB" | 0 | heap O | offset | (flag) checksum 4 | objects …
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    btree2::read_records,
    cursor::{self, Format, Reader, slice},
    filters::{self, decode},
    io::{Io, read_sized, read_whole},
    model::Filter,
};

const HEADER: &str = "fractal heap header";
const ID: &str = "fractal heap ID";

/// Largest direct block of the library, in bytes. Of larger ones, it computes another size of heap IDs.
const LARGEST_DIRECT: u64 = 1 << 31;

/// A block of the heap's doubling table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    /// Number of rows of an indirect block; 0 for a direct block.
    pub(crate) rows: u16,
    /// Offset of the block in the heap's address space.
    pub(crate) offset: u64,
    /// Size of the block in the heap's address space, in bytes.
    pub(crate) size: u64,
    /// Stored size in bytes and filter mask of a filtered direct block.
    pub(crate) filtered: Option<(u64, u32)>,
}

/// The header of a heap.
#[derive(Clone, Debug)]
pub(crate) struct FractalHeap {
    pub(crate) address: u64,
    id_length: u16,
    checksummed: bool,
    /// Address of the B-tree of huge objects.
    pub(crate) huge: Option<u64>,
    width: u16,
    first_size: u64,
    largest_direct: u64,
    offset_bytes: u8,
    length_bytes: u8,
    /// Size in bytes of the largest managed object.
    largest_managed: u64,
    /// Size of the heap's address space for managed objects, in bytes.
    managed_size: u64,
    pub(crate) filters: Vec<Filter>,
    /// Root block; `None` for an empty heap.
    pub(crate) root: Option<Block>,
    format: Format,
}

/// The location of an object, as encoded in its heap id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ObjectId {
    /// Managed object, in a direct block.
    Managed {
        /// Offset in the heap's address space.
        offset: u64,
        /// Size in bytes.
        length: u64,
    },
    /// Huge object, with its address in the id.
    Huge(HugeObject),
    /// Huge object, by its key in the B-tree of huge objects.
    HugeIndexed(u64),
    /// Tiny object, in the id itself.
    Tiny(Vec<u8>),
}

/// Location of a huge object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HugeObject {
    pub(crate) address: u64,
    /// Stored size in bytes.
    pub(crate) length: u64,
    /// Filter mask, and decoded size in bytes, of a filtered object.
    pub(crate) filtered: Option<(u32, u64)>,
}

/// Returns the size of a header without filters, in bytes.
pub(crate) fn header_length(format: Format) -> u64 {
    let (offset, length) = (u64::from(format.offset_size), u64::from(format.length_size));
    offset.saturating_mul(3).saturating_add(length.saturating_mul(12)).saturating_add(26)
}

/// Returns the size of the header in bytes, given its first ten bytes.
pub(crate) fn length(bytes: &[u8], address: u64, format: Format) -> Result<u64, Error> {
    let mut reader = Reader::new(HEADER, bytes, address, format);
    reader.signature(b"FRHP")?;
    reader.version(0..=0)?;
    reader.skip(2)?;
    let plain = header_length(format);
    Ok(match u64::from(reader.u16()?) {
        0 => plain,
        filters => {
            plain.saturating_add(filters).saturating_add(u64::from(format.length_size)).saturating_add(4)
        }
    })
}

impl FractalHeap {
    /// Parses the header.
    pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Self, Error> {
        let mut reader = Reader::new(HEADER, bytes, address, format);
        reader.signature(b"FRHP")?;
        reader.version(0..=0)?;
        cursor::checked(HEADER, address, bytes)?;
        let (id_length, filters_length, flags) = (reader.u16()?, reader.u16()?, reader.u8()?);
        let largest_managed = u64::from(reader.u32()?);
        reader.raw_length()?;
        let huge = reader.address()?;
        reader.raw_length()?;
        reader.address()?;
        let managed_size = reader.raw_length()?;
        reader.skip(u64::from(format.length_size).saturating_mul(4))?;
        reader.skip(u64::from(format.length_size).saturating_mul(3))?;
        let width = reader.u16()?;
        let (first_size, largest_direct) = (reader.raw_length()?, reader.raw_length()?);
        let heap_bits = reader.u16()?;
        check_table(&reader, width, first_size, largest_direct, heap_bits)?;
        reader.skip(2)?;
        let (root, rows) = (reader.address()?, reader.u16()?);
        let (filtered, filters) = match filters_length {
            0 => (None, Vec::new()),
            length => {
                let filtered = (reader.raw_length()?, reader.u32()?);
                let at = reader.position();
                let filters = filters::parse(reader.take(u64::from(length))?, at, format)?;
                (Some(filtered), filters)
            }
        };
        let mut heap = Self {
            address,
            id_length,
            checksummed: flags & 2 != 0,
            huge,
            width,
            first_size,
            largest_direct,
            offset_bytes: bytes_for_bits(u64::from(heap_bits)),
            length_bytes: bytes_to_hold(largest_direct).min(bytes_to_hold(largest_managed)),
            largest_managed,
            managed_size,
            filters,
            root: None,
            format,
        };
        let size = if rows == 0 { first_size } else { heap.rows_size(rows) };
        let filtered = filtered.filter(|_| rows == 0);
        heap.root = root.map(|address| Block { address, rows, offset: 0, size, filtered });
        Ok(heap)
    }

    /// Parses a heap id of this heap.
    pub(crate) fn parse_id(&self, id: &[u8]) -> Result<ObjectId, Error> {
        let id = id.get(..usize::from(self.id_length)).unwrap_or(id);
        let mut reader = Reader::new(ID, id, self.address, self.format);
        let first = reader.u8()?;
        match (first >> 6, first >> 4 & 3) {
            (0, 0) => {
                let (offset, length) = (reader.uint(self.offset_bytes)?, reader.uint(self.length_bytes)?);
                let most = self.largest_managed.min(self.largest_direct);
                if (1..=self.managed_size).contains(&offset) && (1..=most).contains(&length) {
                    Ok(ObjectId::Managed { offset, length })
                } else {
                    Err(reader.malformed(format!(
                        "object of {length} bytes at {offset}, expected 1 to {most} at 1 to {}",
                        self.managed_size
                    )))
                }
            }
            (0, 1) => self.parse_huge_id(&mut reader),
            (0, 2) => {
                let extended = self.id_length > 18;
                let low = if extended { u64::from(reader.u8()?) } else { 0 };
                let high = u64::from(first & 0xF) << if extended { 8 } else { 0 };
                Ok(ObjectId::Tiny(reader.take((high | low).saturating_add(1))?.to_vec()))
            }
            (version, kind) => Err(reader.unsupported(format!(
                "version {version} and type {kind}, expected version 0 and type 0 to 2"
            ))),
        }
    }

    fn parse_huge_id(&self, reader: &mut Reader<'_>) -> Result<ObjectId, Error> {
        let (offset, length) = (u64::from(self.format.offset_size), u64::from(self.format.length_size));
        let filters = if self.filters.is_empty() { 0 } else { length.saturating_add(4) };
        let direct = offset.saturating_add(length).saturating_add(filters);
        if u64::from(self.id_length) <= direct {
            let bytes = self.id_length.saturating_sub(1).min(8);
            let [bytes, _] = bytes.to_le_bytes();
            return Ok(ObjectId::HugeIndexed(reader.uint(bytes)?));
        }
        self.huge_object(reader).map(ObjectId::Huge)
    }

    fn huge_object(&self, reader: &mut Reader<'_>) -> Result<HugeObject, Error> {
        let (address, length) = (reader.defined_address()?, reader.raw_length()?);
        let filtered =
            if self.filters.is_empty() { None } else { Some((reader.u32()?, reader.raw_length()?)) };
        Ok(HugeObject { address, length, filtered })
    }

    /// Returns the child of an indirect block that covers `offset` in the heap's address space; `None` if it is not
    /// allocated.
    pub(crate) fn child(&self, parent: &Block, bytes: &[u8], offset: u64) -> Result<Option<Block>, Error> {
        let Some(place) = self.place(parent, offset) else { return Ok(None) };
        let mut reader = Reader::new("fractal heap indirect block", bytes, parent.address, self.format);
        reader.skip(self.indirect_head())?;
        let before = u64::from(place.row).saturating_mul(u64::from(self.width)).saturating_add(place.column);
        let direct_rows = self.direct_rows();
        let direct = before.min(u64::from(direct_rows).saturating_mul(u64::from(self.width)));
        let entry = self.direct_entry();
        let indirect = before.saturating_sub(direct).saturating_mul(u64::from(self.format.offset_size));
        reader.skip(direct.saturating_mul(entry).saturating_add(indirect))?;
        let address = reader.address()?;
        let is_direct = place.row < direct_rows;
        let filtered = if is_direct && !self.filters.is_empty() {
            Some((reader.raw_length()?, reader.u32()?))
        } else {
            None
        };
        let rows = if is_direct { 0 } else { self.rows_of(place.size) };
        if !is_direct && rows == 0 {
            return Err(reader.malformed("indirect block with a size smaller than a row"));
        }
        let (offset, size) = (place.offset, place.size);
        Ok(address.map(|address| Block { address, rows, offset, size, filtered }))
    }

    /// Checks signature, version, heap header address, offset and checksum of a decoded block.
    pub(crate) fn check_block(&self, block: &Block, bytes: &[u8]) -> Result<(), Error> {
        let (structure, signature) = match block.rows {
            0 => ("fractal heap direct block", b"FHDB"),
            _ => ("fractal heap indirect block", b"FHIB"),
        };
        let mut reader = Reader::new(structure, bytes, block.address, self.format);
        reader.signature(signature)?;
        reader.version(0..=0)?;
        if reader.address()? != Some(self.address) {
            return Err(
                reader.malformed(format!("another heap header address, expected {:#x}", self.address))
            );
        }
        let offset = reader.uint(self.offset_bytes)?;
        if offset != block.offset {
            return Err(reader.malformed(format!("block offset {offset}, expected {}", block.offset)));
        }
        match (block.rows, self.checksummed) {
            (0, false) => Ok(()),
            (0, true) => self.check_direct(&mut reader, bytes),
            _ => cursor::checked(structure, block.address, bytes).map(drop),
        }
    }

    /// Checks the checksum of a direct block, which is computed with zeros in its place.
    fn check_direct(&self, reader: &mut Reader<'_>, bytes: &[u8]) -> Result<(), Error> {
        let at = bytes.len().saturating_sub(reader.remaining());
        let stored = reader.u32()?;
        let mut blanked = bytes.to_vec();
        if let Some(place) = blanked.get_mut(at..at.saturating_add(4)) {
            place.fill(0);
        }
        let computed = cursor::lookup3(&blanked);
        if stored == computed {
            return Ok(());
        }
        Err(reader.malformed(format!("checksum {stored:#010x}, expected {computed:#010x}")))
    }

    /// Checks that a managed object is after the header of its direct block and within the block.
    pub(crate) fn place_in(&self, block: &Block, offset: u64, length: u64) -> Result<(u64, u64), Error> {
        let checksum = if self.checksummed { 4 } else { 0 };
        let head = self.block_head().saturating_add(checksum);
        let start = offset.checked_sub(block.offset).filter(|start| *start >= head);
        let end = start.and_then(|start| start.checked_add(length)).filter(|end| *end <= block.size);
        match (start, end) {
            (Some(start), Some(end)) => Ok((start, end)),
            _ => {
                let problem = format!(
                    "object of {length} bytes at heap offset {offset}, expected one within the block"
                );
                Err(Error::malformed("fractal heap direct block", block.address, problem))
            }
        }
    }

    /// Returns the size in bytes of signature, version, heap header address and block offset.
    fn block_head(&self) -> u64 {
        u64::from(self.format.offset_size).saturating_add(u64::from(self.offset_bytes)).saturating_add(5)
    }

    fn indirect_head(&self) -> u64 {
        self.block_head()
    }

    fn direct_entry(&self) -> u64 {
        let filters =
            if self.filters.is_empty() { 0 } else { u64::from(self.format.length_size).saturating_add(4) };
        u64::from(self.format.offset_size).saturating_add(filters)
    }

    fn indirect_length(&self, rows: u16) -> u64 {
        let direct = u64::from(rows.min(self.direct_rows()));
        let indirect =
            u64::from(rows).saturating_sub(direct).saturating_mul(u64::from(self.format.offset_size));
        let row = direct.saturating_mul(self.direct_entry()).saturating_add(indirect);
        row.saturating_mul(u64::from(self.width)).saturating_add(self.indirect_head()).saturating_add(4)
    }

    /// Returns the number of rows with direct blocks.
    fn direct_rows(&self) -> u16 {
        let doublings = self.largest_direct.ilog2().saturating_sub(self.first_size.ilog2());
        u16::try_from(doublings).unwrap_or(u16::MAX).saturating_add(2)
    }

    /// Returns the size in the heap's address space, in bytes, of each block of a row.
    fn row_size(&self, row: u16) -> u64 {
        let doublings = u32::from(row.saturating_sub(1));
        self.first_size
            .checked_shl(doublings)
            .filter(|size| size >> doublings == self.first_size)
            .unwrap_or(u64::MAX)
    }

    /// Returns the size in the heap's address space, in bytes, of the first `rows` rows.
    fn rows_size(&self, rows: u16) -> u64 {
        match rows {
            0 => 0,
            _ => self.row_size(rows).saturating_mul(u64::from(self.width)),
        }
    }

    /// Returns the number of rows of an indirect block that covers `size` bytes.
    fn rows_of(&self, size: u64) -> u16 {
        let first_row = self.first_size.saturating_mul(u64::from(self.width));
        let doublings = size.checked_ilog2().and_then(|size| size.checked_sub(first_row.ilog2()));
        doublings
            .and_then(|doublings| u16::try_from(doublings).ok())
            .map_or(0, |doublings| doublings.saturating_add(1))
    }

    /// Returns row and column of the child that covers `offset`.
    fn place(&self, parent: &Block, offset: u64) -> Option<Place> {
        let within = offset.checked_sub(parent.offset)?;
        let row = (0..parent.rows).find(|row| within < self.rows_size(row.saturating_add(1)))?;
        let size = self.row_size(row);
        let row_start = self.rows_size(row);
        let column = within.checked_sub(row_start)?.checked_div(size)?;
        let offset = parent.offset.checked_add(row_start)?.checked_add(column.checked_mul(size)?)?;
        Some(Place { row, column, offset, size })
    }
}

struct Place {
    row: u16,
    column: u64,
    offset: u64,
    size: u64,
}

/// Checks that the parameters of the doubling table are powers of two in ascending order, within the limits of the library.
fn check_table(
    reader: &Reader<'_>,
    width: u16,
    first: u64,
    largest: u64,
    heap_bits: u16,
) -> Result<(), Error> {
    let powers = width.is_power_of_two() && first.is_power_of_two() && largest.is_power_of_two();
    if powers && first <= largest && largest <= LARGEST_DIRECT && (1..=64).contains(&heap_bits) {
        return Ok(());
    }
    let problem =
        format!("doubling table of width {width}, blocks from {first} to {largest} bytes, {heap_bits} bits");
    Err(reader.malformed(problem))
}

fn bytes_for_bits(bits: u64) -> u8 {
    let [bytes, ..] = bits.div_ceil(8).min(8).to_le_bytes();
    bytes
}

/// Returns the size in bytes of numbers up to `limit`.
fn bytes_to_hold(limit: u64) -> u8 {
    let bits = u64::from(limit.checked_ilog2().unwrap_or(0));
    bytes_for_bits(bits.saturating_add(1))
}

// Reads objects of fractal heaps, all heaps of a level together: headers in one batch, then one batch per level of
// blocks.

const BLOCK: &str = "fractal heap block";

/// A heap id, padded with zeros to eight bytes: those of links have seven bytes, others eight.
pub(crate) type HeapId = [u8; 8];

/// An object and its address. An object in a filtered block has the address of the block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeapObject {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
}

type Objects = Vec<Result<HeapObject, Error>>;

/// A heap with its root block as stored.
pub(crate) struct OpenHeap {
    header: FractalHeap,
    root: Option<Result<Bytes, Error>>,
}

/// Number of children of a root block that are announced.
const ANNOUNCED: usize = 1024;

/// Reads the headers and root blocks of the heaps at these addresses.
pub(crate) async fn open_heaps(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<OpenHeap, Error>>, Error> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    let length = |bytes: &[u8], address| length(bytes, address, format);
    let guess = header_length(format);
    let headers = read_sized(io, "fractal heap header", addresses, guess, length).await?;
    let parse =
        |(bytes, &address): (Result<Bytes, Error>, &u64)| FractalHeap::parse(&bytes?, address, format);
    let headers: Vec<_> = headers.into_iter().zip(addresses).map(parse).collect();
    let root = |heap: &FractalHeap| heap.root.map(|root| range_of(heap, &root));
    let ranges: Vec<_> = headers.iter().flatten().filter_map(root).collect();
    let mut roots = read_whole(io, BLOCK, &ranges).await.into_iter();
    let open = |header: Result<FractalHeap, Error>| {
        let header = header?;
        let root = header.root.and_then(|_| roots.next());
        if let (Some(block), Some(Ok(bytes))) = (&header.root, &root) {
            io.may_read(children(&header, block, bytes));
        }
        Ok(OpenHeap { header, root })
    };
    Ok(headers.into_iter().map(open).collect())
}

fn range_of(heap: &FractalHeap, block: &Block) -> ByteRange {
    let length = match (block.rows, block.filtered) {
        (0, Some((length, _))) => length,
        (0, None) => block.size,
        (rows, _) => heap.indirect_length(rows),
    };
    ByteRange::new(block.address, length)
}

/// Returns the ranges of the first children of an indirect block.
fn children<'a>(
    heap: &'a FractalHeap,
    parent: &'a Block,
    bytes: &'a [u8],
) -> impl Iterator<Item = ByteRange> + 'a {
    let mut offset = parent.offset;
    let mut next = move || {
        let block = heap.child(parent, bytes, offset).ok().flatten()?;
        offset = block.offset.saturating_add(block.size.max(1));
        Some(range_of(heap, &block))
    };
    std::iter::from_fn(move || if parent.rows > 0 { next() } else { None }).take(ANNOUNCED)
}

/// Reads objects of heaps. Returns, for each request, the result of each object, or the error of the whole heap.
pub(crate) async fn read_heap_objects(
    io: &Io<'_>,
    format: Format,
    heaps: Vec<Result<OpenHeap, Error>>,
    requests: &[Vec<HeapId>],
) -> Vec<Result<Objects, Error>> {
    let mut reading = Reading::new(heaps, requests);
    while reading.read_level(io).await {}
    let mut wanted: BTreeMap<usize, Vec<(Want, u64)>> = BTreeMap::new();
    for (want, number) in std::mem::take(&mut reading.huge_indexed) {
        wanted.entry(want.heap).or_default().push((want, number));
    }
    let tree = |heap: &usize| match reading.heaps.get(*heap) {
        Some(Ok(header)) => header.huge,
        _ => None,
    };
    wanted.retain(|heap, _| tree(heap).is_some());
    let trees: Vec<_> = wanted.keys().filter_map(tree).collect();
    let records = read_records(io, format, &trees).await;
    for ((heap, wants), records) in wanted.into_iter().zip(records) {
        let Some(Ok(header)) = reading.heaps.get(heap) else { continue };
        let parsed = records.and_then(|records| {
            let records = records.records.chunks_exact(records.record_size.max(1));
            // Records of types 1 and 2: the object, and its key.
            let object = |record| {
                let mut reader = Reader::new("huge object record", record, header.address, format);
                let object = header.huge_object(&mut reader)?;
                Ok((reader.raw_length()?, object))
            };
            records.map(object).collect::<Result<BTreeMap<_, _>, Error>>()
        });
        for (want, number) in wants {
            match &parsed {
                Ok(parsed) => reading.huge.extend(parsed.get(&number).map(|at| (want, *at))),
                Err(error) => reading.put(want, Err(error.clone())),
            }
        }
    }
    let huge = std::mem::take(&mut reading.huge);
    let ranges: Vec<_> = huge.iter().map(|(_, at)| ByteRange::new(at.address, at.length)).collect();
    let blocks = read_whole(io, "huge object", &ranges).await;
    for ((want, at), bytes) in huge.into_iter().zip(blocks) {
        let Some(Ok(heap)) = reading.heaps.get(want.heap) else { continue };
        let bytes = bytes.and_then(|bytes| match at.filtered {
            Some((mask, size)) => decode(io, &heap.filters, mask, bytes, size, at.address),
            None => Ok(bytes),
        });
        reading.put(want, bytes.map(|bytes| HeapObject { address: at.address, bytes }));
    }
    reading.finish()
}

/// Index of an object in a request.
#[derive(Clone, Copy)]
struct Want {
    heap: usize,
    object: usize,
}

/// An object in a direct block.
#[derive(Clone, Copy)]
struct Managed {
    want: Want,
    offset: u64,
    length: u64,
}

/// A block to read, and the requested objects below it.
struct Visit {
    heap: usize,
    block: Block,
    wants: Vec<Managed>,
}

struct Reading {
    heaps: Vec<Result<FractalHeap, Error>>,
    /// Root blocks that were not visited yet.
    roots: Vec<Option<Result<Bytes, Error>>>,
    found: Vec<Vec<Option<Result<HeapObject, Error>>>>,
    next: Vec<Visit>,
    huge: Vec<(Want, HugeObject)>,
    huge_indexed: Vec<(Want, u64)>,
}

impl Reading {
    fn new(heaps: Vec<Result<OpenHeap, Error>>, requests: &[Vec<HeapId>]) -> Self {
        let found = requests.iter().map(|ids| ids.iter().map(|_| None).collect()).collect();
        let parts = heaps.into_iter().map(|heap| match heap {
            Ok(OpenHeap { header, root }) => (Ok(header), root),
            Err(error) => (Err(error), None),
        });
        let (heaps, roots) = parts.unzip();
        let (next, huge, huge_indexed) = (Vec::new(), Vec::new(), Vec::new());
        let mut reading = Self { heaps, roots, found, next, huge, huge_indexed };
        for (heap, ids) in requests.iter().enumerate() {
            reading.sort_ids(heap, ids);
        }
        reading
    }

    /// Groups the ids of a heap by kind of object.
    fn sort_ids(&mut self, heap: usize, ids: &[HeapId]) {
        let Some(Ok(header)) = self.heaps.get(heap).cloned() else { return };
        let mut wants = Vec::new();
        for (object, id) in ids.iter().enumerate() {
            let want = Want { heap, object };
            match header.parse_id(id) {
                Ok(ObjectId::Managed { offset, length }) => wants.push(Managed { want, offset, length }),
                Ok(ObjectId::Huge(huge)) => self.huge.push((want, huge)),
                Ok(ObjectId::HugeIndexed(number)) => self.huge_indexed.push((want, number)),
                Ok(ObjectId::Tiny(bytes)) => {
                    self.put(want, Ok(HeapObject { address: header.address, bytes: bytes.into() }));
                }
                Err(error) => self.put(want, Err(error)),
            }
        }
        if let (Some(block), false) = (header.root, wants.is_empty()) {
            self.next.push(Visit { heap, block, wants });
        }
    }

    fn put(&mut self, want: Want, object: Result<HeapObject, Error>) {
        if let Some(place) = self.found.get_mut(want.heap).and_then(|found| found.get_mut(want.object)) {
            *place = Some(object);
        }
    }

    /// Returns the blocks of one level: root blocks, which are read already, or blocks below them.
    async fn blocks(&mut self, io: &Io<'_>, visits: &[Visit]) -> Vec<Result<Bytes, Error>> {
        let mut root = |visit: &Visit| self.roots.get_mut(visit.heap)?.take();
        let roots: Vec<_> = visits.iter().map_while(&mut root).collect();
        if roots.len() == visits.len() {
            return roots;
        }
        let range = |visit: &Visit| match self.heaps.get(visit.heap) {
            Some(Ok(heap)) => range_of(heap, &visit.block),
            _ => ByteRange::new(visit.block.address, 0),
        };
        read_whole(io, BLOCK, &visits.iter().map(range).collect::<Vec<_>>()).await
    }

    /// Visits one level of blocks. Returns whether there was one.
    async fn read_level(&mut self, io: &Io<'_>) -> bool {
        let visits = std::mem::take(&mut self.next);
        let blocks = self.blocks(io, &visits).await;
        let any = !visits.is_empty();
        for (visit, bytes) in visits.into_iter().zip(blocks) {
            let Some(Ok(heap)) = self.heaps.get(visit.heap).cloned() else { continue };
            let bytes = bytes.and_then(|bytes| open_block(io, &heap, &visit.block, bytes));
            match (bytes, visit.block.rows) {
                (Ok(bytes), 0) => self.take_objects(&heap, &visit, &bytes),
                (Ok(bytes), _) => self.descend(&heap, &visit, &bytes),
                (Err(error), _) => visit.wants.iter().for_each(|m| self.put(m.want, Err(error.clone()))),
            }
        }
        any
    }

    fn take_objects(&mut self, heap: &FractalHeap, visit: &Visit, bytes: &Bytes) {
        for managed in &visit.wants {
            let object = heap.place_in(&visit.block, managed.offset, managed.length).map(|(start, end)| {
                let address = visit.block.address.saturating_add(start);
                HeapObject { address, bytes: slice(bytes, start, end).unwrap_or_default() }
            });
            self.put(managed.want, object);
        }
    }

    fn descend(&mut self, heap: &FractalHeap, visit: &Visit, bytes: &[u8]) {
        let mut children: BTreeMap<u64, Visit> = BTreeMap::new();
        for managed in &visit.wants {
            match heap.child(&visit.block, bytes, managed.offset) {
                Ok(Some(block)) => {
                    let new = || Visit { heap: visit.heap, block, wants: Vec::new() };
                    children.entry(block.offset).or_insert_with(new).wants.push(*managed);
                }
                Ok(None) => {}
                Err(error) => self.put(managed.want, Err(error)),
            }
        }
        self.next.extend(children.into_values());
    }

    fn finish(self) -> Vec<Result<Objects, Error>> {
        let finish = |(heap, found): (Result<FractalHeap, Error>, Vec<Option<_>>)| {
            let address = heap?.address;
            let missing = || Err(Error::malformed("fractal heap", address, "no such object"));
            Ok(found.into_iter().map(|object| object.unwrap_or_else(missing)).collect())
        };
        self.heaps.into_iter().zip(self.found).map(finish).collect()
    }
}

/// Reverses the filters of a direct block and checks its header.
fn open_block(io: &Io<'_>, heap: &FractalHeap, block: &Block, bytes: Bytes) -> Result<Bytes, Error> {
    let bytes = match block.filtered {
        Some((_, mask)) => decode(io, &heap.filters, mask, bytes, block.size, block.address)?,
        None => bytes,
    };
    heap.check_block(block, &bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a header with the address of the tree of huge objects, the size of managed objects and the number of huge ones.
    fn heap(tree: u64, managed: u64, huge: u64) -> Result<FractalHeap, Error> {
        let mut bytes = b"FRHP\0\x07\0\0\0\0\0\x10\0\0".to_vec();
        bytes.extend([0, tree, 0, u64::MAX, managed, 0, 0, 0, 0, huge, 0, 0].map(u64::to_le_bytes).concat());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend([512_u64, 65536].map(u64::to_le_bytes).concat());
        bytes.extend([32, 0, 1, 0]);
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(cursor::lookup3(&bytes).to_le_bytes());
        FractalHeap::parse(&bytes, 0, Format { base: 0, offset_size: 8, length_size: 8 })
    }

    /// libhdf5 finds no objects in heaps with larger blocks.
    #[test]
    fn direct_blocks_have_a_largest_size() {
        let reader = Reader::new(HEADER, &[], 0, Format { base: 0, offset_size: 8, length_size: 8 });
        assert!(check_table(&reader, 4, 512, 1 << 31, 32).is_ok());
        assert!(check_table(&reader, 4, 512, 1 << 32, 32).is_err());
    }

    /// libhdf5 reads no other objects.
    #[test]
    fn managed_objects_are_within_their_limits() {
        let heap = heap(u64::MAX, 8192, 0).unwrap();
        let parsed = |offset: u32, length: u16| {
            heap.parse_id(&[&[0][..], &offset.to_le_bytes(), &length.to_le_bytes()].concat())
        };
        assert!(parsed(21, 4096).is_ok() && parsed(8192, 1).is_ok());
        for (offset, length) in [(0, 1), (21, 0), (8193, 1), (21, 4097)] {
            assert!(parsed(offset, length).is_err(), "{length} at {offset}");
        }
    }
}
