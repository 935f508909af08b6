//! Extensible arrays (specification VII.D, "Extensible Array Index"): header, index block, secondary blocks ("super
//! blocks"), data blocks.
//!
//! ```text
//! header       "EAHD" version(0) client element-size max-elements-bits index-block-elements data-block-min-elements
//!              super-block-min-data-block-pointers page-bits (six statistics of a length each) index-block-address checksum
//! index block  "EAIB" version(0) client header-address element… data-block-address… super-block-address… checksum
//! super block  "EASB" version(0) client header-address block-offset [page-bitmap] data-block-address… checksum
//! data block   "EADB" version(0) client header-address block-offset element… checksum
//!              "EADB" version(0) client header-address block-offset checksum page…    more elements than a page
//! page         element… checksum
//! ```
//!
//! After the elements of the index block, super block *n* has 2^(n/2) data blocks, each of 2^((n+1)/2) times the
//! minimum number of elements. The first super blocks are not stored: the index block contains the addresses of their
//! data blocks.

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor};

use crate::{
    Error,
    chunk_index::{ChunkNumbering, ElementFormat, Job},
    cursor::{Format, checked},
    fixed_array::bit,
    io::{Io, read_whole},
    object_header::expect_prefix,
};

pub(crate) const HEADER: &str = "extensible array header";
pub(crate) const INDEX_BLOCK: &str = "extensible array index block";
pub(crate) const SUPER_BLOCK: &str = "extensible array secondary block";
pub(crate) const DATA_BLOCK: &str = "extensible array data block";

/// Size of a checksum in bytes.
const CHECKSUM: u64 = 4;

/// The header of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtensibleArray {
    /// Whether elements include a size and a filter mask (client 1).
    pub(crate) filtered: bool,
    /// Size of an element in bytes.
    pub(crate) element_size: u8,
    /// Number of elements in the index block.
    pub(crate) index_elements: u8,
    /// Address of the index block; `None` for an empty array.
    pub(crate) index_block: Option<u64>,
    /// End of the elements that were ever set, exclusive.
    pub(crate) end: u64,
    max_bits: u8,
    min_elements: u8,
    min_pointers: u8,
    page_elements: u64,
    header: u64,
}

/// A data block to read, with the properties that follow from its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DataBlock {
    pub(crate) address: u64,
    /// Index of its first element.
    pub(crate) first: u64,
    /// Number of its elements.
    pub(crate) elements: u64,
    /// Bitmap of its initialized pages; `None` for a block without pages.
    pages: Option<Vec<bool>>,
}

/// A part of a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All of a block without pages.
    Whole,
    /// The fields before the pages.
    Prefix,
    /// The page with this first element.
    Page { first: u64 },
}

/// A super block to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SuperBlock {
    pub(crate) address: u64,
    /// Its number, counting those that are not stored.
    level: u32,
    /// Index of its first element.
    pub(crate) first: u64,
}

/// The content of an index block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexBlock<'a> {
    pub(crate) elements: &'a [u8],
    pub(crate) data_blocks: Vec<DataBlock>,
    pub(crate) super_blocks: Vec<SuperBlock>,
}

impl ExtensibleArray {
    /// Returns the size of a header in bytes.
    pub(crate) fn header_size(format: Format) -> u64 {
        let lengths = u64::from(format.length_size).saturating_mul(6);
        16_u64.saturating_add(lengths).saturating_add(format.offset_size.into())
    }

    /// Parses a header from exactly [`ExtensibleArray::header_size`] bytes.
    pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Self, Error> {
        let truncated = Error::truncated(HEADER, address);
        let mut cursor = Cursor::little(bytes, address);
        expect_prefix(&mut cursor, HEADER, *b"EAHD", 0)?;
        checked(HEADER, address, bytes)?;
        let fields = cursor.array().map_err(&truncated)?;
        let [client, element_size, max_bits, index_elements, min_elements, min_pointers, page_bits] = fields;
        cursor.skip(usize::from(format.length_size).saturating_mul(4)).map_err(&truncated)?;
        let end = cursor.uint(format.length_size.into()).map_err(&truncated)?;
        cursor.skip(format.length_size.into()).map_err(&truncated)?;
        let index_block = format.address(&mut cursor).map_err(&truncated)?;
        // The library's shift by more bits is undefined.
        let Some(page_elements) = 1_u64.checked_shl(page_bits.into()) else {
            return Err(Error::malformed(HEADER, address, format!("pages of 2^{page_bits} elements")));
        };
        let array = Self {
            filtered: client == 1,
            element_size,
            index_elements,
            index_block,
            end,
            max_bits,
            min_elements,
            min_pointers,
            page_elements,
            header: address,
        };
        array.check(client)
    }

    /// Rejects parameters that do not determine the positions of blocks.
    fn check(self, client: u8) -> Result<Self, Error> {
        let Self { element_size, max_bits, min_elements, min_pointers, header, .. } = self;
        if client > 1 || element_size == 0 {
            let problem = format!("client {client} with elements of {element_size} bytes, expected 0 or 1");
            return Err(Error::malformed(HEADER, header, problem));
        }
        if 1_u64.checked_shl(max_bits.into()).is_some_and(|most| self.end > most) {
            let problem = format!("{} elements, expected at most 2^{max_bits}", self.end);
            return Err(Error::malformed(HEADER, header, problem));
        }
        let powers = min_elements.is_power_of_two() && min_pointers.is_power_of_two() && min_pointers >= 2;
        if !powers || max_bits > 64 || self.levels() < self.direct_levels() {
            let problem = format!(
                "{max_bits} bits, data blocks of {min_elements} elements, super blocks of {min_pointers} pointers"
            );
            return Err(Error::malformed(HEADER, header, problem));
        }
        Ok(self)
    }

    /// Returns the number of super blocks that the array can have, including those that are not stored.
    fn levels(&self) -> u32 {
        let least = self.min_elements.checked_ilog2().unwrap_or(0);
        u32::from(self.max_bits).saturating_sub(least).saturating_add(1)
    }

    /// Returns the number of super blocks that are not stored.
    fn direct_levels(&self) -> u32 {
        self.min_pointers.checked_ilog2().unwrap_or(0).saturating_mul(2)
    }

    /// Returns the number of data blocks of a super block.
    fn blocks(level: u32) -> u64 {
        1_u64.checked_shl(level / 2).unwrap_or(u64::MAX)
    }

    /// Returns the number of elements in each data block of a super block.
    fn block_elements(&self, level: u32) -> u64 {
        let times = 1_u64.checked_shl(level.div_ceil(2)).unwrap_or(u64::MAX);
        times.saturating_mul(self.min_elements.into())
    }

    /// Returns the index of the first element of each super block.
    fn starts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut next = u64::from(self.index_elements);
        (0..self.levels()).map(move |level| {
            let first = next;
            next = next.saturating_add(Self::blocks(level).saturating_mul(self.block_elements(level)));
            (level, first)
        })
    }

    fn bytes_of(&self, elements: u64) -> u64 {
        elements.saturating_mul(self.element_size.into())
    }

    /// Returns the size of the block offset field in bytes.
    fn offset_size(&self) -> u64 {
        u64::from(self.max_bits).div_ceil(8)
    }

    /// Returns the size of signature, version, client and header address in bytes.
    fn prefix(format: Format) -> u64 {
        6_u64.saturating_add(format.offset_size.into())
    }

    /// Returns the range of the index block.
    pub(crate) fn index_range(&self, address: u64, format: Format) -> ByteRange {
        let supers = u64::from(self.levels().saturating_sub(self.direct_levels()));
        let pointers = u64::from(self.min_pointers)
            .saturating_sub(1)
            .saturating_mul(2)
            .saturating_add(supers)
            .saturating_mul(format.offset_size.into());
        let elements = self.bytes_of(self.index_elements.into());
        let length = Self::prefix(format).saturating_add(elements).saturating_add(pointers);
        ByteRange::new(address, length.saturating_add(CHECKSUM))
    }

    /// Parses the index block. Omits blocks from element `end` on.
    pub(crate) fn parse_index_block<'a>(
        &self,
        bytes: &'a [u8],
        address: u64,
        end: u64,
        format: Format,
    ) -> Result<IndexBlock<'a>, Error> {
        let mut cursor = self.open(INDEX_BLOCK, *b"EAIB", bytes, address, format)?;
        let truncated = Error::truncated(INDEX_BLOCK, address);
        let elements = cursor.take_u64(self.bytes_of(self.index_elements.into())).map_err(&truncated)?;
        let (mut data_blocks, mut super_blocks) = (Vec::new(), Vec::new());
        for (level, first) in self.starts() {
            if level >= self.direct_levels() {
                let address = format.address(&mut cursor).map_err(&truncated)?;
                super_blocks.extend(address.map(|address| SuperBlock { address, level, first }));
                continue;
            }
            let elements = self.block_elements(level);
            if elements > self.page_elements {
                let problem = format!(
                    "pages of {} elements, expected at least as many as in a data block",
                    self.page_elements
                );
                return Err(Error::malformed(INDEX_BLOCK, address, problem));
            }
            for number in 0..Self::blocks(level) {
                let first = first.saturating_add(number.saturating_mul(elements));
                let address = format.address(&mut cursor).map_err(&truncated)?;
                let block = |address| DataBlock { address, first, elements, pages: None };
                data_blocks.extend(address.map(block));
            }
        }
        data_blocks.retain(|block| block.first < end);
        super_blocks.retain(|block| block.first < end);
        Ok(IndexBlock { elements, data_blocks, super_blocks })
    }

    /// Returns the number of pages in each data block of a super block; 0 for blocks without pages.
    fn pages(&self, level: u32) -> u64 {
        match self.block_elements(level) {
            elements if elements > self.page_elements => {
                elements.checked_div(self.page_elements).unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn bitmap_size(&self, level: u32) -> u64 {
        Self::blocks(level).saturating_mul(self.pages(level).div_ceil(8))
    }

    /// Returns the range of a super block.
    pub(crate) fn super_range(&self, block: SuperBlock, format: Format) -> ByteRange {
        let pointers = Self::blocks(block.level).saturating_mul(format.offset_size.into());
        let prefix = Self::prefix(format).saturating_add(self.offset_size());
        let length = prefix.saturating_add(self.bitmap_size(block.level)).saturating_add(pointers);
        ByteRange::new(block.address, length.saturating_add(CHECKSUM))
    }

    /// Parses the data blocks of a super block. Omits those from element `end` on.
    pub(crate) fn parse_super_block(
        &self,
        bytes: &[u8],
        block: SuperBlock,
        end: u64,
        format: Format,
    ) -> Result<Vec<DataBlock>, Error> {
        let mut cursor = self.open(SUPER_BLOCK, *b"EASB", bytes, block.address, format)?;
        let truncated = Error::truncated(SUPER_BLOCK, block.address);
        cursor.take_u64(self.offset_size()).map_err(&truncated)?;
        let bitmap = cursor.take_u64(self.bitmap_size(block.level)).map_err(&truncated)?;
        let (elements, pages) = (self.block_elements(block.level), self.pages(block.level));
        let mut found = Vec::new();
        for number in 0..Self::blocks(block.level) {
            let first = block.first.saturating_add(number.saturating_mul(elements));
            let address = format.address(&mut cursor).map_err(&truncated)?;
            let Some(address) = address.filter(|_| first < end) else { continue };
            let bits = (0..pages).map(|page| number.saturating_mul(pages).saturating_add(page));
            let pages = (pages > 0).then(|| bits.map(|number| bit(bitmap, number)).collect());
            found.push(DataBlock { address, first, elements, pages });
        }
        Ok(found)
    }

    /// Returns the initialized parts of a data block with elements before `end`, and their ranges including the
    /// checksums.
    pub(crate) fn parts(&self, block: &DataBlock, end: u64, format: Format) -> Vec<(Part, ByteRange)> {
        let prefix = Self::prefix(format).saturating_add(self.offset_size());
        let Some(pages) = &block.pages else {
            let length = prefix.saturating_add(self.bytes_of(block.elements)).saturating_add(CHECKSUM);
            return vec![(Part::Whole, ByteRange::new(block.address, length))];
        };
        let prefix = prefix.saturating_add(CHECKSUM);
        let size = self.bytes_of(self.page_elements).saturating_add(CHECKSUM);
        let page = |number: u64| {
            let start = number.saturating_mul(size).saturating_add(prefix).saturating_add(block.address);
            let first = block.first.saturating_add(number.saturating_mul(self.page_elements));
            (Part::Page { first }, ByteRange::new(start, size))
        };
        let written = (0..).zip(pages).filter(|(_, written)| **written).map(|(number, _)| page(number));
        let written = written.filter(|(part, _)| matches!(part, Part::Page { first } if *first < end));
        std::iter::once((Part::Prefix, ByteRange::new(block.address, prefix))).chain(written).collect()
    }

    /// Checks a part of a data block. Returns its elements and the index of the first one.
    pub(crate) fn parse_part<'a>(
        &self,
        bytes: &'a [u8],
        block: &DataBlock,
        part: Part,
        format: Format,
    ) -> Result<(u64, &'a [u8]), Error> {
        if let Part::Page { first } = part {
            return Ok((first, checked(DATA_BLOCK, block.address, bytes)?));
        }
        let mut cursor = self.open(DATA_BLOCK, *b"EADB", bytes, block.address, format)?;
        let truncated = Error::truncated(DATA_BLOCK, block.address);
        cursor.take_u64(self.offset_size()).map_err(&truncated)?;
        let elements = if part == Part::Whole { self.bytes_of(block.elements) } else { 0 };
        let elements = cursor.take_u64(elements).map_err(&truncated)?;
        Ok((block.first, elements))
    }

    /// Checks the fields common to all blocks, and the checksum. Returns a cursor after these fields.
    fn open<'a>(
        &self,
        structure: &'static str,
        signature: [u8; 4],
        bytes: &'a [u8],
        address: u64,
        format: Format,
    ) -> Result<Cursor<'a>, Error> {
        let truncated = Error::truncated(structure, address);
        let mut cursor = Cursor::little(bytes, address);
        expect_prefix(&mut cursor, structure, signature, 0)?;
        checked(structure, address, bytes)?;
        let client = cursor.u8().map_err(&truncated)?;
        let header = format.address(&mut cursor).map_err(&truncated)?;
        if client != u8::from(self.filtered) || header != Some(self.header) {
            let problem =
                format!("client {client} and header address {header:x?}, expected {:#x}", self.header);
            return Err(Error::malformed(structure, address, problem));
        }
        Ok(cursor)
    }
}

// Walks extensible arrays: headers, index blocks, secondary blocks, then all data blocks or their pages.

/// An array in progress.
struct Array<'a> {
    job: Job<'a>,
    state: Result<Header, Error>,
    super_blocks: Vec<SuperBlock>,
    data_blocks: Vec<DataBlock>,
}

/// Properties that follow from the header and the dataset.
struct Header {
    array: ExtensibleArray,
    elements: ElementFormat,
    /// Ends after the last element that was set and is within the extent.
    numbering: ChunkNumbering,
}

/// A data block, or a page of one, to read.
struct Wanted {
    array: usize,
    block: usize,
    part: Part,
    range: ByteRange,
}

/// Fills the chunk tables of the arrays.
pub(super) async fn read_extensible_arrays<'a>(
    io: &Io<'_>,
    format: Format,
    jobs: Vec<Job<'a>>,
) -> Vec<(Job<'a>, Result<(), Error>)> {
    let size = ExtensibleArray::header_size(format);
    let ranges: Vec<_> = jobs.iter().map(|job| ByteRange::new(job.address, size)).collect();
    let headers = read_whole(io, HEADER, &ranges).await;
    let open = |(job, bytes): (Job<'a>, Result<Bytes, Error>)| {
        let state = bytes.and_then(|bytes| Header::parse(&bytes, &job, format));
        Array { job, state, super_blocks: Vec::new(), data_blocks: Vec::new() }
    };
    let mut arrays: Vec<_> = jobs.into_iter().zip(headers).map(open).collect();
    let index = |(place, array): (usize, &Array<'_>)| {
        let array = &array.state.as_ref().ok()?.array;
        Some((place, array.index_range(array.index_block?, format)))
    };
    let wanted: Vec<_> = arrays.iter().enumerate().filter_map(index).collect();
    let ranges: Vec<_> = wanted.iter().map(|(_, range)| *range).collect();
    for ((place, range), bytes) in wanted.into_iter().zip(read_whole(io, INDEX_BLOCK, &ranges).await) {
        if let Some(array) = arrays.get_mut(place) {
            let result = bytes.and_then(|bytes| array.read_index_block(&bytes, range.start, format));
            array.note(result);
        }
    }
    let mut wanted = Vec::new();
    for (place, array) in arrays.iter().enumerate() {
        let Ok(header) = &array.state else { continue };
        let blocks = array.super_blocks.iter();
        wanted.extend(blocks.map(|block| (place, *block, header.array.super_range(*block, format))));
    }
    let ranges: Vec<_> = wanted.iter().map(|(.., range)| *range).collect();
    for ((place, block, _), bytes) in wanted.into_iter().zip(read_whole(io, SUPER_BLOCK, &ranges).await) {
        if let Some(array) = arrays.get_mut(place) {
            let result = bytes.and_then(|bytes| array.read_super_block(&bytes, block, format));
            array.note(result);
        }
    }
    let parts: Vec<_> =
        arrays.iter().enumerate().flat_map(|(place, array)| array.parts(place, format)).collect();
    for batch in parts.chunks(io.batch()) {
        let ranges: Vec<_> = batch.iter().map(|part| part.range).collect();
        for (part, bytes) in batch.iter().zip(read_whole(io, DATA_BLOCK, &ranges).await) {
            if let Some(array) = arrays.get_mut(part.array) {
                let result = bytes.and_then(|bytes| array.read_part(part, &bytes, format));
                array.note(result);
            }
        }
    }
    arrays.into_iter().map(|array| (array.job, array.state.map(drop))).collect()
}

impl Header {
    fn parse(bytes: &[u8], job: &Job<'_>, format: Format) -> Result<Self, Error> {
        let array = ExtensibleArray::parse(bytes, job.address, format)?;
        if array.filtered != job.request.filtered {
            let problem = format!("filtered: {}, expected {}", array.filtered, job.request.filtered);
            return Err(Error::malformed(HEADER, job.address, problem));
        }
        let mut numbering = job.numbering(true)?;
        let size = array.element_size.into();
        let elements =
            ElementFormat::new(format, job.request.size_width(format), size, 0, HEADER, job.address)?;
        numbering.end = numbering.end.min(array.end);
        Ok(Self { array, elements, numbering })
    }
}

impl Array<'_> {
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.state = Err(error);
        }
    }

    fn read_index_block(&mut self, bytes: &[u8], address: u64, format: Format) -> Result<(), Error> {
        let Ok(header) = &self.state else { return Ok(()) };
        let block = header.array.parse_index_block(bytes, address, header.numbering.end, format)?;
        (self.data_blocks, self.super_blocks) = (block.data_blocks, block.super_blocks);
        self.job.list(0, block.elements, header.elements, &header.numbering)
    }

    fn read_super_block(&mut self, bytes: &[u8], block: SuperBlock, format: Format) -> Result<(), Error> {
        let Ok(header) = &self.state else { return Ok(()) };
        self.data_blocks.extend(header.array.parse_super_block(
            bytes,
            block,
            header.numbering.end,
            format,
        )?);
        Ok(())
    }

    /// Returns the parts of all data blocks.
    fn parts(&self, place: usize, format: Format) -> Vec<Wanted> {
        let Ok(header) = &self.state else { return Vec::new() };
        let mut found = Vec::new();
        for (number, block) in self.data_blocks.iter().enumerate() {
            let parts = header.array.parts(block, header.numbering.end, format).into_iter();
            found.extend(parts.map(|(part, range)| Wanted { array: place, block: number, part, range }));
        }
        found
    }

    fn read_part(&mut self, wanted: &Wanted, bytes: &[u8], format: Format) -> Result<(), Error> {
        let (Ok(header), Some(block)) = (&self.state, self.data_blocks.get(wanted.block)) else {
            return Ok(());
        };
        let (first, content) = header.array.parse_part(bytes, block, wanted.part, format)?;
        self.job.list(first, content, header.elements, &header.numbering)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cursor::lookup3, testing::bytes_of};

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    /// Header of an array of ten chunks, as written by libhdf5 2.0.
    const HEADER_HEX: &str = "45414844 00 00 08 20 04 10 04 0a 0000000000000000 0000000000000000 0100000000000000 \
                              9600000000000000 0a00000000000000 1400000000000000 0106000000000000 88dc4779";

    /// Two elements in the index block, data blocks of 2, 4, 4, 8, … elements, pages of 4, ten bits for the number of
    /// elements.
    const SMALL: ExtensibleArray = ExtensibleArray {
        filtered: false,
        element_size: 8,
        index_elements: 2,
        index_block: Some(0x100),
        end: 1000,
        max_bits: 10,
        min_elements: 2,
        min_pointers: 2,
        page_elements: 4,
        header: 0x40,
    };

    fn block(signature: &[u8; 4], offset: Option<u16>, rest: &[u8]) -> Vec<u8> {
        let mut bytes = [&signature[..], &[0, 0], &0x40_u64.to_le_bytes()].concat();
        bytes.extend(offset.into_iter().flat_map(u16::to_le_bytes));
        bytes.extend(rest);
        let sum = lookup3(&bytes).to_le_bytes();
        bytes.extend(sum);
        bytes
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn sizes_follow_from_the_header() {
        let bytes = bytes_of(HEADER_HEX);
        assert_eq!(ExtensibleArray::header_size(FORMAT), bytes.len() as u64);
        let array = ExtensibleArray::parse(&bytes, 0x5b9, FORMAT).unwrap();
        assert_eq!((array.element_size, array.index_block, array.end), (8, Some(0x601), 10));
        // 29 super blocks, of which 4 with 6 data blocks are in the index block: 4 elements and 31 addresses.
        assert_eq!(array.index_range(0x601, FORMAT), ByteRange::new(0x601, 14 + 35 * 8 + 4));
        let starts: Vec<_> = array.starts().take(6).collect();
        assert_eq!(starts, [(0, 4), (1, 20), (2, 52), (3, 116), (4, 244), (5, 500)]);
    }

    #[test]
    fn parses_an_index_block() {
        let mut content = vec![0x1000, 0x2000, 0x3000, u64::MAX, 0x4000];
        content.resize(2 + 2 + 8, u64::MAX);
        let bytes = block(b"EAIB", None, &words(&content));
        assert_eq!(SMALL.index_range(0x100, FORMAT).length, bytes.len() as u64);
        let found = SMALL.parse_index_block(&bytes, 0x100, 1000, FORMAT).unwrap();
        assert_eq!(found.elements, words(&[0x1000, 0x2000]));
        let first = DataBlock { address: 0x3000, first: 2, elements: 2, pages: None };
        assert_eq!(found.data_blocks, [first]);
        assert_eq!(found.super_blocks, [SuperBlock { address: 0x4000, level: 2, first: 8 }]);
        let found = SMALL.parse_index_block(&bytes, 0x100, 8, FORMAT).unwrap();
        assert!(found.super_blocks.is_empty(), "blocks outside of the extent are omitted");
    }

    /// Super block 4: four data blocks of 8 elements in two pages each, with one bit per page.
    #[test]
    fn super_blocks_list_initialized_pages() {
        let place = SuperBlock { address: 0x4000, level: 4, first: 32 };
        let mut rest = vec![0b0111_0000, 0, 0, 0];
        rest.extend(words(&[0x5000, 0x6000, u64::MAX, u64::MAX]));
        let bytes = block(b"EASB", Some(30), &rest);
        assert_eq!(SMALL.super_range(place, FORMAT).length, bytes.len() as u64);
        let found = SMALL.parse_super_block(&bytes, place, 1000, FORMAT).unwrap();
        assert_eq!(found.len(), 2);
        let pages = |block: usize| SMALL.parts(&found[block], 1000, FORMAT);
        let prefix = |address| (Part::Prefix, ByteRange::new(address, 20));
        let page = |first, start| (Part::Page { first }, ByteRange::new(start, 36));
        assert_eq!(pages(0), [prefix(0x5000), page(36, 0x5000 + 20 + 36)]);
        assert_eq!(pages(1), [prefix(0x6000), page(40, 0x6014), page(44, 0x6014 + 36)]);
    }

    #[test]
    fn rejects_invalid_parameters() {
        let odd = [
            ExtensibleArray { min_elements: 3, ..SMALL },
            ExtensibleArray { min_pointers: 1, ..SMALL },
            ExtensibleArray { min_pointers: 128, ..SMALL },
            ExtensibleArray { max_bits: 65, ..SMALL },
            ExtensibleArray { end: 1025, ..SMALL },
            ExtensibleArray { element_size: 0, ..SMALL },
        ];
        assert!(SMALL.check(0).is_ok() && SMALL.check(2).is_err());
        assert!(odd.into_iter().all(|array| array.check(0).is_err()));
    }
}
