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
    object_header::Body,
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
    Tiny(Bytes),
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
        let mut reader = Reader::checked(HEADER, b"FRHP", bytes, address, format)?;
        reader.version(0..=0)?;
        let (id_length, filters_length, flags) = (reader.u16()?, reader.u16()?, reader.u8()?);
        let largest_managed = u64::from(reader.u32()?);
        reader.raw_length()?;
        let huge = reader.address()?;
        reader.raw_length()?;
        reader.address()?;
        let managed_size = reader.raw_length()?;
        reader.skip(u64::from(format.length_size).saturating_mul(7))?;
        let width = reader.u16()?;
        let (first_size, largest_direct) = (reader.raw_length()?, reader.raw_length()?);
        let heap_bits = reader.u16()?;
        let powers =
            width.is_power_of_two() && first_size.is_power_of_two() && largest_direct.is_power_of_two();
        let is_ordered = first_size <= largest_direct && largest_direct <= LARGEST_DIRECT;
        if !powers || !is_ordered || !(1..=64).contains(&heap_bits) {
            let sizes = format!("blocks from {first_size} to {largest_direct} bytes, {heap_bits} bits");
            return Err(reader.malformed(format!("doubling table of width {width}, {sizes}")));
        }
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
    fn parse_id(&self, id: &[u8]) -> Result<ObjectId, Error> {
        let id = id.get(..usize::from(self.id_length)).unwrap_or(id);
        let mut reader = Reader::new(ID, id, self.address, self.format);
        let first = reader.u8()?;
        match (first >> 6, first >> 4 & 3) {
            (0, 0) => {
                let (offset, length) = (reader.uint(self.offset_bytes)?, reader.uint(self.length_bytes)?);
                let (end, most) = (self.managed_size, self.largest_managed.min(self.largest_direct));
                if !(1..=end).contains(&offset) || !(1..=most).contains(&length) {
                    let problem =
                        format!("object of {length} bytes at {offset}, expected 1 to {most} at 1 to {end}");
                    return Err(reader.malformed(problem));
                }
                Ok(ObjectId::Managed { offset, length })
            }
            (0, 1) => {
                let direct = self.entry_size().saturating_add(self.format.length_size.into());
                if u64::from(self.id_length) > direct {
                    return self.huge_object(&mut reader).map(ObjectId::Huge);
                }
                let [size, _] = self.id_length.saturating_sub(1).min(8).to_le_bytes();
                reader.uint(size).map(ObjectId::HugeIndexed)
            }
            (0, 2) => {
                let extended = self.id_length > 18;
                let low = if extended { u64::from(reader.u8()?) } else { 0 };
                let high = u64::from(first & 0xF) << if extended { 8 } else { 0 };
                Ok(ObjectId::Tiny(reader.bytes((high | low).saturating_add(1))?))
            }
            (version, kind) => Err(reader.unsupported(format!(
                "version {version} and type {kind}, expected version 0 and type 0 to 2"
            ))),
        }
    }

    fn huge_object(&self, reader: &mut Reader<'_>) -> Result<HugeObject, Error> {
        let (address, length) = (reader.defined_address()?, reader.raw_length()?);
        let filtered =
            if self.filters.is_empty() { None } else { Some((reader.u32()?, reader.raw_length()?)) };
        Ok(HugeObject { address, length, filtered })
    }

    /// Returns the child of an indirect block that covers `offset` in the heap's address space; `None` if it is not
    /// allocated.
    fn child(&self, parent: &Block, bytes: &[u8], offset: u64) -> Result<Option<Block>, Error> {
        let within = offset.saturating_sub(parent.offset);
        let mut rows = 0..parent.rows;
        let Some(row) = rows.find(|row| within < self.rows_size(row.saturating_add(1))) else {
            return Ok(None);
        };
        let (size, row_start) = (self.row_size(row), self.rows_size(row));
        let column = within.saturating_sub(row_start).checked_div(size).unwrap_or(0);
        let offset = column.saturating_mul(size).saturating_add(row_start).saturating_add(parent.offset);
        let mut reader = Reader::new("fractal heap indirect block", bytes, parent.address, self.format);
        reader.skip(self.block_head())?;
        let (width, direct_rows) = (u64::from(self.width), self.direct_rows());
        let before = u64::from(row).saturating_mul(width).saturating_add(column);
        let direct = before.min(u64::from(direct_rows).saturating_mul(width));
        let indirect = before.saturating_sub(direct).saturating_mul(self.format.offset_size.into());
        reader.skip(direct.saturating_mul(self.entry_size()).saturating_add(indirect))?;
        let (address, is_direct) = (reader.address()?, row < direct_rows);
        let has_filter = is_direct && !self.filters.is_empty();
        let filtered = if has_filter { Some((reader.raw_length()?, reader.u32()?)) } else { None };
        let first_row = self.first_size.saturating_mul(width);
        let doublings = size.checked_ilog2().and_then(|size| size.checked_sub(first_row.ilog2()));
        let rows = match doublings.and_then(|doublings| u16::try_from(doublings).ok()) {
            _ if is_direct => 0,
            Some(doublings) => doublings.saturating_add(1),
            None => return Err(reader.malformed("indirect block with a size smaller than a row")),
        };
        Ok(address.map(|address| Block { address, rows, offset, size, filtered }))
    }

    /// Reverses the filters of a direct block. Checks signature, version, heap header address, offset and checksum.
    fn open_block(&self, io: &Io<'_>, block: &Block, bytes: Bytes) -> Result<Bytes, Error> {
        let bytes = match block.filtered {
            Some((_, mask)) => decode(io, &self.filters, mask, bytes, block.size, block.address)?,
            None => bytes,
        };
        let (structure, signature) = match block.rows {
            0 => ("fractal heap direct block", b"FHDB"),
            _ => ("fractal heap indirect block", b"FHIB"),
        };
        let mut reader = Reader::new(structure, &bytes, block.address, self.format);
        reader.signature(signature)?;
        reader.version(0..=0)?;
        if reader.address()? != Some(self.address) {
            let problem = format!("another heap header address, expected {:#x}", self.address);
            return Err(reader.malformed(problem));
        }
        let offset = reader.uint(self.offset_bytes)?;
        if offset != block.offset {
            return Err(reader.malformed(format!("block offset {offset}, expected {}", block.offset)));
        }
        if block.rows > 0 {
            cursor::checked(structure, block.address, &bytes)?;
        } else if self.checksummed {
            // The checksum is computed with zeros in its place.
            let at = bytes.len().saturating_sub(reader.remaining());
            let (stored, mut blanked) = (reader.u32()?, bytes.to_vec());
            blanked.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0);
            let computed = cursor::lookup3(&blanked);
            if stored != computed {
                let problem = format!("checksum {stored:#010x}, expected {computed:#010x}");
                return Err(reader.malformed(problem));
            }
        }
        Ok(bytes)
    }

    /// Returns a managed object, which is after the header of its direct block and within the block.
    fn object(&self, block: &Block, bytes: &Bytes, managed: Managed) -> Result<Body, Error> {
        let Managed { offset, length, .. } = managed;
        let head = self.block_head().saturating_add(if self.checksummed { 4 } else { 0 });
        let start = offset.checked_sub(block.offset).filter(|start| *start >= head);
        let found = start.and_then(|start| Some((start, slice(bytes, start, start.checked_add(length)?)?)));
        match found {
            Some((start, bytes)) => Ok(Body { address: block.address.saturating_add(start), bytes }),
            None => {
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

    /// Returns the size in bytes of an address, with the fields of a filtered object.
    fn entry_size(&self) -> u64 {
        let filters =
            if self.filters.is_empty() { 0 } else { u64::from(self.format.length_size).saturating_add(4) };
        u64::from(self.format.offset_size).saturating_add(filters)
    }

    /// Returns the stored range of a block.
    fn range_of(&self, block: &Block) -> ByteRange {
        let length = match (block.rows, block.filtered) {
            (0, Some((length, _))) => length,
            (0, None) => block.size,
            (rows, _) => {
                let direct = u64::from(rows.min(self.direct_rows()));
                let indirect = u64::from(rows).saturating_sub(direct);
                let indirect = indirect.saturating_mul(self.format.offset_size.into());
                let row = direct.saturating_mul(self.entry_size()).saturating_add(indirect);
                row.saturating_mul(u64::from(self.width)).saturating_add(self.block_head()).saturating_add(4)
            }
        };
        ByteRange::new(block.address, length)
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

/// Objects and their addresses. An object in a filtered block has the address of the block.
type Objects = Vec<Result<Body, Error>>;

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
    let root = |heap: &FractalHeap| heap.root.map(|root| heap.range_of(&root));
    let ranges: Vec<_> = headers.iter().flatten().filter_map(root).collect();
    let mut roots = read_whole(io, BLOCK, &ranges).await.into_iter();
    let open = |header: Result<FractalHeap, Error>| {
        let header = header?;
        let root = header.root.and_then(|_| roots.next());
        if let (Some(parent @ Block { rows: 1.., .. }), Some(Ok(bytes))) = (&header.root, &root) {
            let mut offset = parent.offset;
            let children = std::iter::from_fn(|| {
                let block = header.child(parent, bytes, offset).ok().flatten()?;
                offset = block.offset.saturating_add(block.size.max(1));
                Some(header.range_of(&block))
            });
            io.may_read(children.take(ANNOUNCED));
        }
        Ok(OpenHeap { header, root })
    };
    Ok(headers.into_iter().map(open).collect())
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

/// Reads objects of heaps. Returns, for each request, the result of each object, or the error of the whole heap.
pub(crate) async fn read_heap_objects(
    io: &Io<'_>,
    format: Format,
    heaps: Vec<Result<OpenHeap, Error>>,
    requests: &[Vec<HeapId>],
) -> Vec<Result<Objects, Error>> {
    let mut found: Vec<Vec<Option<Result<Body, Error>>>> =
        requests.iter().map(|ids| ids.iter().map(|_| None).collect()).collect();
    let mut put = |want: Want, object: Result<Body, Error>| {
        if let Some(slot) = found.get_mut(want.heap).and_then(|found| found.get_mut(want.object)) {
            *slot = Some(object);
        }
    };
    let (mut visits, mut blocks, mut huge) = (Vec::new(), Vec::new(), Vec::new());
    let mut indexed: BTreeMap<usize, Vec<(Want, u64)>> = BTreeMap::new();
    for (heap, (opened, ids)) in heaps.iter().zip(requests).enumerate() {
        let Ok(OpenHeap { header, root }) = opened else { continue };
        let mut wants = Vec::new();
        for (object, id) in ids.iter().enumerate() {
            let want = Want { heap, object };
            match header.parse_id(id) {
                Ok(ObjectId::Managed { offset, length }) => wants.push(Managed { want, offset, length }),
                Ok(ObjectId::Huge(object)) => huge.push((want, object)),
                Ok(ObjectId::HugeIndexed(key)) => indexed.entry(heap).or_default().push((want, key)),
                Ok(ObjectId::Tiny(bytes)) => put(want, Ok(Body { address: header.address, bytes })),
                Err(error) => put(want, Err(error)),
            }
        }
        if let (Some(block), Some(root), false) = (header.root, root, wants.is_empty()) {
            visits.push(Visit { heap, block, wants });
            blocks.push(root.clone());
        }
    }
    let header = |heap: usize| match heaps.get(heap) {
        Some(Ok(opened)) => Some(&opened.header),
        _ => None,
    };
    while !visits.is_empty() {
        let mut next = Vec::new();
        for (Visit { heap, block, wants }, bytes) in visits.into_iter().zip(blocks) {
            let Some(header) = header(heap) else { continue };
            let bytes = match bytes.and_then(|bytes| header.open_block(io, &block, bytes)) {
                Ok(bytes) => bytes,
                Err(error) => {
                    wants.iter().for_each(|managed| put(managed.want, Err(error.clone())));
                    continue;
                }
            };
            let mut children: BTreeMap<u64, Visit> = BTreeMap::new();
            for managed in wants {
                if block.rows == 0 {
                    put(managed.want, header.object(&block, &bytes, managed));
                    continue;
                }
                match header.child(&block, &bytes, managed.offset) {
                    Ok(Some(block)) => {
                        let new = || Visit { heap, block, wants: Vec::new() };
                        children.entry(block.offset).or_insert_with(new).wants.push(managed);
                    }
                    Ok(None) => {}
                    Err(error) => put(managed.want, Err(error)),
                }
            }
            next.extend(children.into_values());
        }
        let range = |visit: &Visit| header(visit.heap).map(|header| header.range_of(&visit.block));
        let ranges: Vec<_> = next.iter().filter_map(range).collect();
        (visits, blocks) = (next, read_whole(io, BLOCK, &ranges).await);
    }
    let tree = |heap: usize| header(heap).and_then(|header| header.huge);
    indexed.retain(|heap, _| tree(*heap).is_some());
    let trees: Vec<_> = indexed.keys().filter_map(|heap| tree(*heap)).collect();
    let records = read_records(io, format, &trees).await;
    for ((heap, wants), records) in indexed.into_iter().zip(records) {
        let Some(header) = header(heap) else { continue };
        let objects = records.and_then(|records| {
            let records = records.records.chunks_exact(records.record_size.max(1));
            // Records of types 1 and 2: the object, and its key.
            let object = |record| {
                let mut reader = Reader::new("huge object record", record, header.address, format);
                let object = header.huge_object(&mut reader)?;
                Ok((reader.raw_length()?, object))
            };
            records.map(object).collect::<Result<BTreeMap<_, _>, Error>>()
        });
        for (want, key) in wants {
            match &objects {
                Ok(objects) => huge.extend(objects.get(&key).map(|object| (want, *object))),
                Err(error) => put(want, Err(error.clone())),
            }
        }
    }
    let ranges: Vec<_> = huge.iter().map(|(_, at)| ByteRange::new(at.address, at.length)).collect();
    let blocks = read_whole(io, "huge object", &ranges).await;
    for ((want, HugeObject { address, filtered, .. }), bytes) in huge.into_iter().zip(blocks) {
        let Some(header) = header(want.heap) else { continue };
        let bytes = bytes.and_then(|bytes| match filtered {
            Some((mask, size)) => decode(io, &header.filters, mask, bytes, size, address),
            None => Ok(bytes),
        });
        put(want, bytes.map(|bytes| Body { address, bytes }));
    }
    let finish = |(heap, found): (Result<OpenHeap, Error>, Vec<Option<_>>)| {
        let address = heap?.header.address;
        let missing = || Err(Error::malformed("fractal heap", address, "no such object"));
        Ok(found.into_iter().map(|object| object.unwrap_or_else(missing)).collect())
    };
    heaps.into_iter().zip(found).map(finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a header with the size of managed objects and that of the largest direct block.
    fn heap(managed: u64, largest_direct: u64) -> Result<FractalHeap, Error> {
        let mut bytes = b"FRHP\0\x07\0\0\0\0\0\x10\0\0".to_vec();
        bytes.extend([0, u64::MAX, 0, u64::MAX, managed, 0, 0, 0, 0, 0, 0, 0].map(u64::to_le_bytes).concat());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend([512_u64, largest_direct].map(u64::to_le_bytes).concat());
        bytes.extend([32, 0, 1, 0]);
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(cursor::lookup3(&bytes).to_le_bytes());
        FractalHeap::parse(&bytes, 0, Format { base: 0, offset_size: 8, length_size: 8 })
    }

    /// libhdf5 finds no objects in heaps with larger blocks.
    #[test]
    fn direct_blocks_have_a_largest_size() {
        assert!(heap(0, 1 << 31).is_ok() && heap(0, 1 << 32).is_err());
    }

    /// libhdf5 reads no other objects.
    #[test]
    fn managed_objects_are_within_their_limits() {
        let heap = heap(8192, 65536).unwrap();
        let parsed = |offset: u32, length: u16| {
            heap.parse_id(&[&[0][..], &offset.to_le_bytes(), &length.to_le_bytes()].concat())
        };
        assert!(parsed(21, 4096).is_ok() && parsed(8192, 1).is_ok());
        for (offset, length) in [(0, 1), (21, 0), (8193, 1), (21, 4097)] {
            assert!(parsed(offset, length).is_err(), "{length} at {offset}");
        }
    }
}
