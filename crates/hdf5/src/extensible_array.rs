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
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    chunk_index::{ChunkNumbering, ElementFormat, Job},
    cursor::{Format, Reader, checked},
    fixed_array::{bit, check_block},
    io::{Io, Tree, walk},
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
    format: Format,
}

/// A structure of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Header,
    IndexBlock,
    /// A super block: its number, counting those that are not stored, and the index of its first element.
    SuperBlock {
        level: u32,
        first: u64,
    },
    /// A data block without pages, with this first element.
    DataBlock {
        first: u64,
        elements: u64,
    },
    /// The fields of a data block before its pages.
    Prefix,
    /// The page with this first element.
    Page {
        first: u64,
    },
}

/// Structures of an array, with their ranges.
type Parts = Vec<(ByteRange, Part)>;

impl ExtensibleArray {
    /// Returns the size of a header in bytes.
    pub(crate) fn header_size(format: Format) -> u64 {
        let lengths = u64::from(format.length_size).saturating_mul(6);
        16_u64.saturating_add(lengths).saturating_add(format.offset_size.into())
    }

    /// Parses a header from exactly [`ExtensibleArray::header_size`] bytes.
    pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Self, Error> {
        let mut reader = Reader::checked(HEADER, b"EAHD", bytes, address, format)?;
        reader.version(0..=0)?;
        let (client, element_size, max_bits, index_elements) =
            (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
        let (min_elements, min_pointers, page_bits) = (reader.u8()?, reader.u8()?, reader.u8()?);
        reader.skip(u64::from(format.length_size).saturating_mul(4))?;
        let end = reader.raw_length()?;
        reader.raw_length()?;
        let index_block = reader.address()?;
        // The library's shift by more bits is undefined.
        let Some(page_elements) = 1_u64.checked_shl(page_bits.into()) else {
            return Err(reader.malformed(format!("pages of 2^{page_bits} elements")));
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
            format,
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
    fn prefix(&self) -> u64 {
        6_u64.saturating_add(self.format.offset_size.into())
    }

    /// Returns the range of the index block.
    pub(crate) fn index_range(&self, address: u64) -> ByteRange {
        let supers = u64::from(self.levels().saturating_sub(self.direct_levels()));
        let pointers = u64::from(self.min_pointers)
            .saturating_sub(1)
            .saturating_mul(2)
            .saturating_add(supers)
            .saturating_mul(self.format.offset_size.into());
        let elements = self.bytes_of(self.index_elements.into());
        let length = self.prefix().saturating_add(elements).saturating_add(pointers);
        ByteRange::new(address, length.saturating_add(CHECKSUM))
    }

    /// Parses the index block. Returns its elements, and the blocks to which it refers. Omits blocks from element `end` on.
    pub(crate) fn parse_index_block<'a>(
        &self,
        bytes: &'a [u8],
        address: u64,
        end: u64,
    ) -> Result<(&'a [u8], Parts), Error> {
        let mut reader = Reader::checked(INDEX_BLOCK, b"EAIB", bytes, address, self.format)?;
        check_block(&mut reader, self.filtered, self.header)?;
        let content = reader.take(self.bytes_of(self.index_elements.into()))?;
        let mut blocks = Vec::new();
        for (level, first) in self.starts() {
            let elements = self.block_elements(level);
            if level >= self.direct_levels() {
                if let Some(address) = reader.address()?.filter(|_| first < end) {
                    blocks.push((self.super_range(level, address), Part::SuperBlock { level, first }));
                }
            } else if elements > self.page_elements {
                let pages = self.page_elements;
                let problem =
                    format!("pages of {pages} elements, expected at least as many as in a data block");
                return Err(reader.malformed(problem));
            } else {
                for number in 0..Self::blocks(level) {
                    let first = first.saturating_add(number.saturating_mul(elements));
                    if let Some(address) = reader.address()?.filter(|_| first < end) {
                        let range = self.data_range(address, elements);
                        blocks.push((range, Part::DataBlock { first, elements }));
                    }
                }
            }
        }
        Ok((content, blocks))
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
    fn super_range(&self, level: u32, address: u64) -> ByteRange {
        let pointers = Self::blocks(level).saturating_mul(self.format.offset_size.into());
        let prefix = self.prefix().saturating_add(self.offset_size());
        let length = prefix.saturating_add(self.bitmap_size(level)).saturating_add(pointers);
        ByteRange::new(address, length.saturating_add(CHECKSUM))
    }

    /// Returns the range of a data block with `elements` elements, or of its fields before its pages with 0.
    fn data_range(&self, address: u64, elements: u64) -> ByteRange {
        let prefix = self.prefix().saturating_add(self.offset_size());
        ByteRange::new(address, prefix.saturating_add(self.bytes_of(elements)).saturating_add(CHECKSUM))
    }

    /// Parses a super block. Returns its data blocks, or their initialized pages. Omits those from element `end` on.
    pub(crate) fn parse_super_block(
        &self,
        bytes: &[u8],
        address: u64,
        level: u32,
        first: u64,
        end: u64,
    ) -> Result<Parts, Error> {
        let mut reader = Reader::checked(SUPER_BLOCK, b"EASB", bytes, address, self.format)?;
        check_block(&mut reader, self.filtered, self.header)?;
        reader.skip(self.offset_size())?;
        let bitmap = reader.take(self.bitmap_size(level))?;
        let (elements, pages) = (self.block_elements(level), self.pages(level));
        let page_size = self.bytes_of(self.page_elements).saturating_add(CHECKSUM);
        let mut parts = Vec::new();
        for number in 0..Self::blocks(level) {
            let first = first.saturating_add(number.saturating_mul(elements));
            let Some(address) = reader.address()?.filter(|_| first < end) else { continue };
            if pages == 0 {
                let range = self.data_range(address, elements);
                parts.push((range, Part::DataBlock { first, elements }));
                continue;
            }
            let prefix = self.data_range(address, 0);
            parts.push((prefix, Part::Prefix));
            for page in 0..pages {
                let first = first.saturating_add(page.saturating_mul(self.page_elements));
                if first < end && bit(bitmap, number.saturating_mul(pages).saturating_add(page)) {
                    let start = prefix.end().saturating_add(page.saturating_mul(page_size));
                    parts.push((ByteRange::new(start, page_size), Part::Page { first }));
                }
            }
        }
        Ok(parts)
    }

    /// Parses a data block of `elements` elements, or its fields before its pages with 0. Returns its elements.
    fn parse_data_block<'a>(&self, bytes: &'a [u8], address: u64, elements: u64) -> Result<&'a [u8], Error> {
        let mut reader = Reader::checked(DATA_BLOCK, b"EADB", bytes, address, self.format)?;
        check_block(&mut reader, self.filtered, self.header)?;
        reader.skip(self.offset_size())?;
        reader.take(self.bytes_of(elements))
    }
}

// Walks extensible arrays: headers, index blocks, then secondary blocks and data blocks or their pages.

/// An array in progress.
struct Array<'a, 'b> {
    job: &'a mut Job<'b>,
    format: Format,
    /// The numbering ends after the last element that was set and is within the extent.
    header: Option<(ExtensibleArray, ElementFormat, ChunkNumbering)>,
}

/// Fills the chunk tables of the arrays.
pub(crate) async fn read_extensible_arrays(io: &Io<'_>, format: Format, jobs: Vec<&mut Job<'_>>) {
    let size = ExtensibleArray::header_size(format);
    let headers = jobs.iter().map(|job| (ByteRange::new(job.address, size), Part::Header)).collect();
    let mut arrays: Vec<_> = jobs.into_iter().map(|job| Array { job, format, header: None }).collect();
    walk(io, "extensible array", &mut arrays, headers).await;
}

impl Tree for Array<'_, '_> {
    type Part = Part;

    fn result(&mut self) -> &mut Result<(), Error> {
        &mut self.job.result
    }

    fn visit(&mut self, range: ByteRange, part: &Part, bytes: &Bytes) -> Result<Parts, Error> {
        let format = self.format;
        let Some((array, elements, numbering)) = &self.header else {
            let array = ExtensibleArray::parse(bytes, range.start, format)?;
            let elements = self.job.elements(format, array.element_size, array.filtered, HEADER)?;
            let mut numbering = self.job.numbering(true)?;
            numbering.end = numbering.end.min(array.end);
            let block = array.index_block.map(|address| (array.index_range(address), Part::IndexBlock));
            self.header = Some((array, elements, numbering));
            return Ok(block.into_iter().collect());
        };
        let (first, content, blocks) = match *part {
            Part::Header => return Ok(Vec::new()),
            Part::IndexBlock => {
                let (content, blocks) = array.parse_index_block(bytes, range.start, numbering.end)?;
                (0, content, blocks)
            }
            Part::SuperBlock { level, first } => {
                return array.parse_super_block(bytes, range.start, level, first, numbering.end);
            }
            Part::DataBlock { first, elements } => {
                (first, array.parse_data_block(bytes, range.start, elements)?, Vec::new())
            }
            Part::Prefix => (0, array.parse_data_block(bytes, range.start, 0)?, Vec::new()),
            Part::Page { first } => (first, checked(DATA_BLOCK, range.start, bytes)?, Vec::new()),
        };
        self.job.list(first, content, *elements, numbering)?;
        Ok(blocks)
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
        format: FORMAT,
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
        assert_eq!(array.index_range(0x601), ByteRange::new(0x601, 14 + 35 * 8 + 4));
        let starts: Vec<_> = array.starts().take(6).collect();
        assert_eq!(starts, [(0, 4), (1, 20), (2, 52), (3, 116), (4, 244), (5, 500)]);
    }

    #[test]
    fn parses_an_index_block() {
        let mut content = vec![0x1000, 0x2000, 0x3000, u64::MAX, 0x4000];
        content.resize(2 + 2 + 8, u64::MAX);
        let bytes = block(b"EAIB", None, &words(&content));
        assert_eq!(SMALL.index_range(0x100).length, bytes.len() as u64);
        let found = SMALL.parse_index_block(&bytes, 0x100, 1000).unwrap();
        assert_eq!(found.0, words(&[0x1000, 0x2000]));
        let data = (ByteRange::new(0x3000, 16 + 16 + 4), Part::DataBlock { first: 2, elements: 2 });
        let super_block = (ByteRange::new(0x4000, 16 + 16 + 4), Part::SuperBlock { level: 2, first: 8 });
        assert_eq!(found.1, [data, super_block]);
        let found = SMALL.parse_index_block(&bytes, 0x100, 8).unwrap();
        assert_eq!(found.1, [data], "blocks outside of the extent are omitted");
    }

    /// Super block 4: four data blocks of 8 elements in two pages each, with one bit per page.
    #[test]
    fn super_blocks_list_initialized_pages() {
        let mut rest = vec![0b0111_0000, 0, 0, 0];
        rest.extend(words(&[0x5000, 0x6000, u64::MAX, u64::MAX]));
        let bytes = block(b"EASB", Some(30), &rest);
        assert_eq!(SMALL.super_range(4, 0x4000).length, bytes.len() as u64);
        let found = SMALL.parse_super_block(&bytes, 0x4000, 4, 32, 1000).unwrap();
        let prefix = |address| (ByteRange::new(address, 20), Part::Prefix);
        let page = |first, start| (ByteRange::new(start, 36), Part::Page { first });
        let first = [prefix(0x5000), page(36, 0x5000 + 20 + 36)];
        let second = [prefix(0x6000), page(40, 0x6014), page(44, 0x6014 + 36)];
        assert_eq!(found, [&first[..], &second[..]].concat());
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
