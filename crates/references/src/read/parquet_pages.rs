//! Page headers of a Parquet file, checked before the `parquet` crate reads the pages, as it allocates whatever size
//! they declare.
//!
//! A header is a struct of Thrift's compact protocol (`PageHeader` in `parquet.thrift`), followed by its page.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use ::parquet::file::metadata::RowGroupMetaData;

use super::{PageFault, ParquetFault};

/// Greatest size of all pages of a file in bytes, decompressed.
const PAGES: u64 = 1 << 30;
/// Greatest number of values of a repeated column in a row group.
const REPEATED: i64 = 4 << 20;
/// Greatest nesting of structs and lists.
const DEPTH: u32 = 16;

/// Accepted values of `Encoding`: PLAIN, PLAIN_DICTIONARY and RLE_DICTIONARY. The size of others, which no writer of
/// references uses, depends on numbers inside the pages.
const ENCODINGS: [i64; 3] = [0, 2, 8];

/// Rejects the pages of a row group that extend beyond their columns, or that would take more memory than is left.
///
/// `bytes` are those of the file from offset `start` on. A column of a list may have four million values.
///
/// # Errors
/// [`ParquetFault`].
pub fn check_row_group(
    bytes: &[u8],
    start: u64,
    group: &RowGroupMetaData,
    left: &mut u64,
) -> Result<(), ParquetFault> {
    for column in group.columns() {
        let name = column.column_path().string();
        let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let first = u64::try_from(first).ok().and_then(|first| first.checked_sub(start));
        let length = usize::try_from(column.compressed_size()).ok();
        let range = first.and_then(|first| usize::try_from(first).ok()).zip(length);
        let pages = range.and_then(|(at, length)| bytes.get(at..at.checked_add(length)?));
        let pages = pages.ok_or_else(|| ParquetFault::ColumnOutside(name.clone()))?;
        let is_repeated = column.column_descr().max_rep_level() > 0;
        let most = if is_repeated { column.num_values().min(REPEATED) } else { group.num_rows() };
        let failed = |(at, fault)| ParquetFault::PageHeader { column: name.clone(), at, fault };
        let values = check_column(pages, most, left).map_err(failed)?;
        if is_repeated && values > most {
            return Err(failed((0, PageFault::Values { found: values, limit: most })));
        }
    }
    Ok(())
}

/// Checks all pages of a column, and returns the number of values of its data pages. A fault comes with the offset of its
/// header in the column.
fn check_column(pages: &[u8], rows: i64, left: &mut u64) -> Result<i64, (usize, PageFault)> {
    let mut reader = Compact { bytes: pages, at: 0 };
    let mut values = 0_i64;
    while reader.at < pages.len() {
        let start = reader.at;
        let header = reader.page_header().map_err(|fault| (start, fault))?;
        let length = header.check(pages.len() - reader.at, rows, left).map_err(|fault| (start, fault))?;
        values = values.saturating_add(if header.is_dictionary { 0 } else { header.values });
        reader.at = reader.at.saturating_add(length);
    }
    Ok(values)
}

/// A page header.
#[derive(Default)]
struct PageHeader {
    uncompressed: i64,
    compressed: i64,
    values: i64,
    encoding: i64,
    is_dictionary: bool,
}

impl PageHeader {
    /// Checks the header of a page in a column with so many bytes after it, and returns the page's stored size in
    /// bytes.
    fn check(&self, rest: usize, rows: i64, left: &mut u64) -> Result<usize, PageFault> {
        let stored = usize::try_from(self.compressed).ok().filter(|size| *size <= rest);
        let stored = stored.ok_or(PageFault::Page { found: self.compressed, left: rest })?;
        let size = u64::try_from(self.uncompressed).unwrap_or(u64::MAX);
        let too_large = PageFault::Decompressed { found: self.uncompressed, limit: PAGES };
        *left = left.checked_sub(size).ok_or(too_large)?;
        // Values of a dictionary take memory before they are read. Rows of other pages may all be one value.
        let limit = if self.is_dictionary { self.uncompressed } else { rows };
        if !(0..=limit).contains(&self.values) {
            return Err(PageFault::Values { found: self.values, limit });
        }
        match ENCODINGS.contains(&self.encoding) {
            true => Ok(stored),
            false => Err(PageFault::Encoding(self.encoding)),
        }
    }
}

/// A reader of Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Types of fields.
const I32: u8 = 5;
const STRUCT: u8 = 12;

impl Compact<'_> {
    /// Reads a `PageHeader`. Fields: 2 uncompressed_page_size, 3 compressed_page_size, 5 data_page_header, 7
    /// dictionary_page_header, 8 data_page_header_v2. Exactly one of the last three is present.
    fn page_header(&mut self) -> Result<PageHeader, PageFault> {
        let mut header = PageHeader::default();
        let mut pages = 0_u32;
        self.fields(|reader, id, kind| {
            match (id, kind) {
                (2, I32) => header.uncompressed = reader.number()?,
                (3, I32) => header.compressed = reader.number()?,
                (5 | 7 | 8, STRUCT) => {
                    pages = pages.saturating_add(1);
                    header.is_dictionary = id == 7;
                    reader.page(id, &mut header)?;
                }
                (2 | 3 | 5 | 7 | 8, _) => return Err(PageFault::FieldType { id, kind }),
                _ => reader.skip(kind, DEPTH)?,
            }
            Ok(())
        })?;
        match pages {
            1 => Ok(header),
            _ => Err(PageFault::PageKinds(pages)),
        }
    }

    /// Reads the header of a kind of page. Field 1 is num_values; encoding is 4 in data_page_header_v2 and 2 in the
    /// others.
    fn page(&mut self, page: i64, header: &mut PageHeader) -> Result<(), PageFault> {
        let encoding = if page == 8 { 4 } else { 2 };
        self.fields(|reader, id, kind| {
            match (id, kind) {
                (1, I32) => header.values = reader.number()?,
                (id, I32) if id == encoding => header.encoding = reader.number()?,
                (1, _) => return Err(PageFault::FieldType { id, kind }),
                (id, _) if id == encoding => return Err(PageFault::FieldType { id, kind }),
                _ => reader.skip(kind, DEPTH)?,
            }
            Ok(())
        })
    }

    /// Reads the fields of a struct, whose ids ascend.
    fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, i64, u8) -> Result<(), PageFault>,
    ) -> Result<(), PageFault> {
        let mut last = 0;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            let id = match byte >> 4 {
                0 => self.number()?,
                step => last + i64::from(step),
            };
            if id <= last || id > i64::from(i16::MAX) {
                return Err(PageFault::FieldOrder { id, last });
            }
            last = id;
            field(self, id, byte & 15)?;
        }
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Result<(), PageFault> {
        let depth = depth.checked_sub(1).ok_or(PageFault::Depth)?;
        match kind {
            // The type holds the value of a boolean.
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8),
            8 => {
                let length = self.varint()?;
                self.take(length)
            }
            9 | 10 => self.skip_list(depth),
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind, depth)),
            kind => Err(PageFault::Type(kind)),
        }
    }

    fn skip_list(&mut self, depth: u32) -> Result<(), PageFault> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        for _ in 0..count {
            match byte & 15 {
                1 | 2 => self.byte().map(drop)?,
                kind => self.skip(kind, depth)?,
            }
        }
        Ok(())
    }

    /// Reads a zigzag number of 32 bits.
    fn number(&mut self) -> Result<i64, PageFault> {
        let read = self.varint()?;
        let number = u32::try_from(read).map_err(|_| PageFault::Number(32))?;
        let half = i64::from(number >> 1);
        Ok(if number & 1 == 1 { -half - 1 } else { half })
    }

    fn varint(&mut self) -> Result<u64, PageFault> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(PageFault::Number(63))
    }

    fn byte(&mut self) -> Result<u8, PageFault> {
        let byte = self.bytes.get(self.at).copied();
        self.at = self.at.saturating_add(1);
        byte.ok_or(PageFault::CutOff)
    }

    fn take(&mut self, length: u64) -> Result<(), PageFault> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        self.at = end.filter(|end| *end <= self.bytes.len()).ok_or(PageFault::CutOff)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type 0, 40 bytes decompressed, 3 compressed; data page of 5 values, plain, levels RLE twice; then the page.
    const PAGE: [u8; 21] =
        [0x15, 0, 0x15, 80, 0x15, 6, 0x2C, 0x15, 10, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0, 0xAA, 0xBB, 0xCC, 0];
    const HEADER: usize = 17;

    fn check(bytes: &[u8], rows: i64) -> Result<u64, (usize, PageFault)> {
        let mut left = PAGES;
        check_column(bytes, rows, &mut left)?;
        Ok(PAGES - left)
    }

    #[test]
    fn pages_follow_their_headers() {
        assert_eq!(check(&PAGE[..20], 5), Ok(40));
        assert_eq!(check(&[&PAGE[..20], &PAGE[..20]].concat(), 5), Ok(80));
        assert_eq!(check(&PAGE, 5).unwrap_err().0, 20);
    }

    #[test]
    fn headers_that_promise_too_much_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut page = PAGE[..HEADER + 3].to_vec();
            page[at] = byte;
            check(&page, 5).unwrap_err().1.to_string()
        };
        assert!(with(5, 8).ends_with("a page of 4 bytes, 3 are there"));
        assert!(with(5, 5).ends_with("a page of -3 bytes, 3 are there"));
        assert!(with(8, 12).ends_with("6 values, expected at most 5"));
        assert!(with(8, 1).ends_with("-1 values, expected at most 5"));
        assert!(with(10, 10).ends_with("encoding 5, expected plain or a dictionary"));
        assert!(with(3, 1).ends_with("expected at most 1073741824 in the file"));
        assert!(with(2, 0x16).contains("field 2 of type 6"));
        assert!(with(6, 0x1C).contains("0 kinds of page"));
    }
}
