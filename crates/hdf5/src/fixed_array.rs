//! Fixed arrays (specification VII.C, "Fixed Array Index"): header, data block, pages of elements.
//!
//! ```text
//! header      "FAHD" version(0) client element-size page-bits elements(length) data-block-address checksum
//! data block  "FADB" version(0) client header-address [element…] checksum               up to 2^page-bits elements
//!             "FADB" version(0) client header-address page-bitmap checksum page…        more
//! page        element… checksum
//! ```

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    chunk_index::{ChunkNumbering, ElementFormat, Job},
    cursor::{Format, Reader, checked},
    io::{Io, Tree, walk},
};

pub(crate) const HEADER: &str = "fixed array header";
pub(crate) const BLOCK: &str = "fixed array data block";
pub(crate) const PAGE: &str = "fixed array data block page";

/// Size of a checksum in bytes.
const CHECKSUM: u64 = 4;

/// The header of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FixedArray {
    /// Whether elements include a size and a filter mask (client 1).
    pub(crate) filtered: bool,
    /// Size of an element in bytes.
    pub(crate) element_size: u8,
    /// Number of elements.
    pub(crate) elements: u64,
    /// Address of the data block; `None` for an empty array.
    pub(crate) block: Option<u64>,
    /// Number of elements in a page.
    page_elements: u64,
    header: u64,
    format: Format,
}

impl FixedArray {
    /// Returns the size of a header in bytes.
    pub(crate) fn header_size(format: Format) -> u64 {
        12_u64.saturating_add(format.offset_size.into()).saturating_add(format.length_size.into())
    }

    /// Parses a header from exactly [`FixedArray::header_size`] bytes.
    pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Self, Error> {
        let mut reader = Reader::checked(HEADER, b"FAHD", bytes, address, format)?;
        reader.version(0..=0)?;
        let (client, element_size, page_bits) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let (elements, block) = (reader.raw_length()?, reader.address()?);
        if client > 1 || element_size == 0 {
            let problem = format!("client {client} with elements of {element_size} bytes, expected 0 or 1");
            return Err(reader.malformed(problem));
        }
        // The library's shift by more bits is undefined.
        let Some(page_elements) = 1_u64.checked_shl(page_bits.into()) else {
            return Err(reader.malformed(format!("pages of 2^{page_bits} elements")));
        };
        Ok(Self {
            filtered: client == 1,
            element_size,
            elements,
            block,
            page_elements,
            header: address,
            format,
        })
    }

    /// Returns the size in bytes of the data block before its elements or pages, without the checksum.
    fn block_prefix(&self) -> u64 {
        let bitmap = if self.is_paged() { self.pages().div_ceil(8) } else { 0 };
        bitmap.saturating_add(6).saturating_add(self.format.offset_size.into())
    }

    /// Returns whether the elements are in pages.
    pub(crate) fn is_paged(&self) -> bool {
        self.elements > self.page_elements
    }

    fn pages(&self) -> u64 {
        self.elements.div_ceil(self.page_elements.max(1))
    }

    fn bytes_of(&self, elements: u64) -> u64 {
        elements.saturating_mul(self.element_size.into())
    }

    /// Returns the range of the data block: with its elements, or up to the end of its page bitmap.
    pub(crate) fn block_range(&self, address: u64) -> ByteRange {
        let elements = if self.is_paged() { 0 } else { self.bytes_of(self.elements) };
        let length = self.block_prefix().saturating_add(elements).saturating_add(CHECKSUM);
        ByteRange::new(address, length)
    }

    /// Checks a data block. Returns its elements or its page bitmap.
    pub(crate) fn parse_block<'a>(&self, bytes: &'a [u8], address: u64) -> Result<&'a [u8], Error> {
        let mut reader = Reader::checked(BLOCK, b"FADB", bytes, address, self.format)?;
        check_block(&mut reader, self.filtered, self.header)?;
        Ok(reader.rest())
    }

    /// Returns the initialized pages with elements before `end`: the index of the first element and the range of each
    /// page.
    pub(crate) fn page_ranges<'a>(
        &'a self,
        bitmap: &'a [u8],
        address: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, ByteRange)> + 'a {
        let first_page = address.saturating_add(self.block_prefix()).saturating_add(CHECKSUM);
        let step = self.bytes_of(self.page_elements).saturating_add(CHECKSUM);
        let end = end.min(self.elements);
        (0..end.div_ceil(self.page_elements.max(1))).filter(|page| bit(bitmap, *page)).map(move |page| {
            let first = page.saturating_mul(self.page_elements);
            let elements = self.elements.saturating_sub(first).min(self.page_elements);
            let start = first_page.saturating_add(page.saturating_mul(step));
            (first, ByteRange::new(start, self.bytes_of(elements).saturating_add(CHECKSUM)))
        })
    }
}

/// Checks the fields common to all blocks of fixed and extensible arrays: version, client, and address of the header.
pub(crate) fn check_block(reader: &mut Reader<'_>, filtered: bool, header: u64) -> Result<(), Error> {
    reader.version(0..=0)?;
    let (client, found) = (reader.u8()?, reader.address()?);
    if client == u8::from(filtered) && found == Some(header) {
        return Ok(());
    }
    Err(reader.malformed(format!("client {client} and header address {found:x?}, expected {header:#x}")))
}

/// Returns bit `number` of a bitmap, counted from the most significant bit of the first byte.
pub(crate) fn bit(bitmap: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bitmap.get(at));
    byte.is_some_and(|byte| byte << (number % 8) & 0x80 != 0)
}

// Walks fixed arrays: headers, then data blocks, then the pages of paged data blocks.

/// An array in progress.
struct Array<'a, 'b> {
    job: &'a mut Job<'b>,
    format: Format,
    header: Option<(FixedArray, ElementFormat, ChunkNumbering)>,
}

/// A structure of an array.
enum Part {
    Header,
    Block,
    /// The page with this first element.
    Page(u64),
}

/// Fills the chunk tables of the arrays.
pub(crate) async fn read_fixed_arrays(io: &Io<'_>, format: Format, jobs: Vec<&mut Job<'_>>) {
    let size = FixedArray::header_size(format);
    let headers = jobs.iter().map(|job| (ByteRange::new(job.address, size), Part::Header)).collect();
    let mut arrays: Vec<_> = jobs.into_iter().map(|job| Array { job, format, header: None }).collect();
    walk(io, "fixed array", &mut arrays, headers).await;
}

impl Tree for Array<'_, '_> {
    type Part = Part;

    fn result(&mut self) -> &mut Result<(), Error> {
        &mut self.job.result
    }

    fn visit(
        &mut self,
        range: ByteRange,
        part: &Part,
        bytes: &Bytes,
    ) -> Result<Vec<(ByteRange, Part)>, Error> {
        let format = self.format;
        let Some((array, elements, numbering)) = &self.header else {
            let array = FixedArray::parse(bytes, range.start, format)?;
            let elements = self.job.elements(format, array.element_size, array.filtered, HEADER)?;
            let numbering = self.job.numbering(false)?;
            if Some(array.elements) != numbering.most {
                let problem = format!("{} elements, expected {:?}", array.elements, numbering.most);
                return Err(Error::malformed(HEADER, range.start, problem));
            }
            let block = array.block.map(|address| (array.block_range(address), Part::Block));
            self.header = Some((array, elements, numbering));
            return Ok(block.into_iter().collect());
        };
        match part {
            Part::Header => {}
            Part::Block => {
                let content = array.parse_block(bytes, range.start)?;
                if array.is_paged() {
                    self.job.columns.reserve(numbering.end);
                    let pages = array.page_ranges(content, range.start, numbering.end);
                    return Ok(pages.map(|(first, range)| (range, Part::Page(first))).collect());
                }
                self.job.list(0, content, *elements, numbering)?;
            }
            Part::Page(first) => {
                self.job.list(*first, checked(PAGE, range.start, bytes)?, *elements, numbering)?;
            }
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes_of;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    /// Header and data block of three filtered chunks, of which the second is allocated, as written by libhdf5 2.0.
    const HEADER_HEX: &str = "46414844 00 01 14 0a 0300000000000000 6b05000000000000 3e5892c5";
    const BLOCK_HEX: &str = "46414442 00 01 4304000000000000 ffffffffffffffff 0000000000000000 00000000 \
                             0c08000000000000 0a00000000000000 00000000 ffffffffffffffff 0000000000000000 00000000 d1cc3037";

    #[test]
    fn parses_a_data_block() {
        let bytes = bytes_of(HEADER_HEX);
        assert_eq!(FixedArray::header_size(FORMAT), bytes.len() as u64);
        let array = FixedArray::parse(&bytes, 0x443, FORMAT).unwrap();
        assert!(array.filtered && !array.is_paged());
        assert_eq!((array.element_size, array.elements, array.block), (20, 3, Some(0x56b)));
        let block = bytes_of(BLOCK_HEX);
        assert_eq!(array.block_range(0x56b), ByteRange::new(0x56b, block.len() as u64));
        assert_eq!(array.parse_block(&block, 0x56b).unwrap(), &block[14..74]);
    }

    /// Ten elements of 8 bytes in pages of four, of which the first and the last are initialized.
    #[test]
    fn bitmaps_list_initialized_pages() {
        let array = FixedArray {
            filtered: false,
            element_size: 8,
            elements: 10,
            block: Some(0x100),
            page_elements: 4,
            header: 0x40,
            format: FORMAT,
        };
        assert!(array.is_paged());
        assert_eq!(array.block_range(0x100), ByteRange::new(0x100, 19));
        let pages: Vec<_> = array.page_ranges(&[0b1010_0000], 0x100, 10).collect();
        assert_eq!(pages, [(0, ByteRange::new(0x113, 36)), (8, ByteRange::new(0x113 + 72, 20))]);
        let pages: Vec<_> = array.page_ranges(&[0xff], 0x100, 4).collect();
        assert_eq!(pages, [(0, ByteRange::new(0x113, 36))], "pages outside of the extent are omitted");
    }

    #[test]
    fn bits_are_counted_from_the_most_significant() {
        assert!(bit(&[0x80, 0x01], 0) && bit(&[0x80, 0x01], 15));
        assert!(!bit(&[0x80, 0x01], 1) && !bit(&[0x80, 0x01], 16));
    }

    #[test]
    fn rejects_invalid_arrays() {
        let mut pages = bytes_of(HEADER_HEX);
        pages[7] = 64;
        let end = pages.len() - 4;
        let checksum = crate::cursor::lookup3(&pages[..end]).to_le_bytes();
        pages[end..].copy_from_slice(&checksum);
        let error = FixedArray::parse(&pages, 0x443, FORMAT).unwrap_err().to_string();
        assert!(error.contains("pages of 2^64 elements"), "{error}");
        let mut bytes = bytes_of(HEADER_HEX);
        bytes[5] = 2;
        assert!(FixedArray::parse(&bytes, 0, FORMAT).unwrap_err().to_string().contains("checksum"));
        let array = FixedArray::parse(&bytes_of(HEADER_HEX), 0x400, FORMAT).unwrap();
        let error = array.parse_block(&bytes_of(BLOCK_HEX), 0x56b).unwrap_err().to_string();
        assert!(error.contains("client 1 and header address Some(443), expected 0x400"), "{error}");
    }
}
