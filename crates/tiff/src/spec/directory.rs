//! Image file directories (TIFF 6.0, section 2): lists of tags, one directory per image.
//!
//! ```text
//!            | entries | tag | type | count | value or offset | … | offset of the next directory |
//! TIFF           2        2     2      4           4                          4
//! BigTIFF        8        2     2      8           8                          8
//! NDPI           2        2     2      4           4                          8, then 4 per entry: the high words
//! ```

use std::collections::BTreeMap;

use tiff::tags::Type;
use virtualize_bytes::{ByteRange, Cursor, Limits, NeedBytes};

use super::{Format, tag};
use crate::{Error, Structure};

/// A directory before its values are read.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Entries in the order of the file; only the first one of each tag, except for ImageDescription: tifffile describes its
    /// arrays in a second one.
    pub(crate) entries: Vec<Entry>,
    /// Errors of entries with an unknown field type, which are skipped.
    pub(crate) skipped: Vec<Error>,
    /// Offset of the next directory in the chain; 0 for none.
    pub(crate) next: u64,
    /// Size of the directory in bytes.
    pub(crate) length: u64,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) tag: u16,
    pub(crate) kind: Type,
    pub(crate) count: u64,
    pub(crate) place: Place,
}

/// Location of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the entry, at its start.
    Inline([u8; 8]),
    /// At this offset in the file.
    At(u64),
}

impl Directory {
    /// Parses the directory at the cursor, in a file of `size` bytes. The outer error contains the missing range.
    pub(crate) fn parse(
        cursor: Cursor<'_>,
        format: Format,
        limits: &Limits,
        size: u64,
    ) -> Result<Result<Self, Error>, NeedBytes> {
        let mut cursor = cursor;
        let offset = cursor.address();
        let count = if format.big { cursor.u64()? } else { u64::from(cursor.u16()?) };
        if let Err(error) = check_count(count, offset, limits) {
            return Ok(Err(error));
        }
        let entry_size: u64 = if format.big { 20 } else { 12 };
        let mut entries =
            Cursor::new(cursor.take_u64(count.saturating_mul(entry_size))?, cursor.address(), format.endian);
        let mut directory = Self { offset, entries: Vec::new(), skipped: Vec::new(), next: 0, length: 0 };
        let wide = format.big || format.ndpi;
        directory.next = match if wide { cursor.u64() } else { cursor.u32().map(u64::from) } {
            Ok(next) => next,
            // The offset of the next directory may be missing at the end of the file.
            Err(missing) if missing.range.end() > size && !format.ndpi => 0,
            Err(missing) => return Err(missing),
        };
        let high = if format.ndpi { cursor.take_u64(count.saturating_mul(4))? } else { &[] };
        let mut high = Cursor::new(high, 0, format.endian);
        let mut seen = BTreeMap::new();
        while !entries.is_empty() {
            let mut raw = Raw::parse(&mut entries, format)?;
            if format.ndpi {
                raw.widen(high.u32()?);
            }
            directory.push(raw, offset, &mut seen);
        }
        directory.length = cursor.address().saturating_sub(offset);
        Ok(Ok(directory))
    }

    fn push(&mut self, raw: Raw, offset: u64, seen: &mut BTreeMap<u16, u8>) {
        let most = if raw.tag == tag::IMAGE_DESCRIPTION { 2 } else { 1 };
        let count = seen.entry(raw.tag).or_insert(0);
        if *count == most {
            return;
        }
        *count = count.saturating_add(1);
        match Type::from_u16(raw.kind) {
            Some(kind) => self.entries.push(raw.entry(kind)),
            None => {
                let problem = format!("unknown field type {}, expected 1 to 13 or 16 to 18", raw.kind);
                self.skipped.push(Error::unsupported(Structure::Tag(raw.tag), offset, problem));
            }
        }
    }
}

/// Checks the number of entries. libtiff treats a larger one as a sign of a wrong offset.
const MAX_ENTRIES: u64 = 0xffff;

fn check_count(count: u64, offset: u64, limits: &Limits) -> Result<(), Error> {
    let most = limits.attributes.min(MAX_ENTRIES);
    match count {
        0 => Err(Error::malformed("directory", offset, "0 entries, expected at least 1")),
        _ if count > most => {
            Err(Error::limit("directory", offset, format!("{count} entries, expected at most {most}")))
        }
        _ => Ok(()),
    }
}

/// An entry before its type is checked.
struct Raw {
    tag: u16,
    kind: u16,
    count: u64,
    inline: [u8; 8],
    at: u64,
    /// Size in bytes of the largest value in the entry.
    capacity: u64,
}

impl Raw {
    fn parse(cursor: &mut Cursor<'_>, format: Format) -> Result<Self, NeedBytes> {
        let (tag, kind) = (cursor.u16()?, cursor.u16()?);
        let count = if format.big { cursor.u64()? } else { u64::from(cursor.u32()?) };
        let mut peek = *cursor;
        if format.big {
            return Ok(Self { tag, kind, count, inline: cursor.array()?, at: peek.u64()?, capacity: 8 });
        }
        let [a, b, c, d] = cursor.array()?;
        let inline = [a, b, c, d, 0, 0, 0, 0];
        Ok(Self { tag, kind, count, inline, at: u64::from(peek.u32()?), capacity: 4 })
    }

    /// Adds the high word of the value or offset of an NDPI file. A single LONG, such as StripOffsets, becomes a LONG8.
    /// Text is never in the entry.
    fn widen(&mut self, high: u32) {
        let [a, b, c, d, ..] = self.inline;
        let [e, f, g, h] = high.to_le_bytes();
        self.at |= u64::from(high) << 32;
        match Type::from_u16(self.kind) {
            Some(Type::LONG | Type::SLONG | Type::IFD) if self.count == 1 && high != 0 => {
                self.kind = Type::LONG8.to_u16();
                self.inline = [a, b, c, d, e, f, g, h];
                self.capacity = 8;
            }
            Some(Type::ASCII) => self.capacity = 0,
            _ => {}
        }
    }

    /// Returns the entry. The count of UIC2Tag is the number of planes, each with three pairs of numbers.
    fn entry(&self, kind: Type) -> Entry {
        let planes = (self.tag, kind) == (tag::UIC2, Type::RATIONAL);
        let count = if planes { self.count.saturating_mul(3) } else { self.count };
        let inline = value_length(kind, count) <= self.capacity;
        let place = if inline { Place::Inline(self.inline) } else { Place::At(self.at) };
        Entry { tag: self.tag, kind, count, place }
    }
}

impl Entry {
    /// Returns the range of the value; `None` if it is in the entry.
    pub(crate) fn range(&self) -> Option<ByteRange> {
        match self.place {
            Place::Inline(_) => None,
            Place::At(offset) => Some(ByteRange::new(offset, value_length(self.kind, self.count))),
        }
    }

    /// Returns the entry with at most `count` values.
    pub(crate) fn shortened(self, count: u64) -> Self {
        Self { count: self.count.min(count), ..self }
    }

    /// Returns the value if it is in the entry.
    pub(crate) fn inline(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Inline(bytes) => bytes.get(..usize::try_from(value_length(self.kind, self.count)).ok()?),
            Place::At(_) => None,
        }
    }
}

fn value_length(kind: Type, count: u64) -> u64 {
    count.saturating_mul(size(kind))
}

/// Returns the size in bytes of a value of this type.
pub(crate) const fn size(kind: Type) -> u64 {
    match kind {
        Type::SHORT | Type::SSHORT => 2,
        Type::LONG | Type::SLONG | Type::FLOAT | Type::IFD => 4,
        Type::RATIONAL | Type::SRATIONAL | Type::DOUBLE | Type::LONG8 | Type::SLONG8 | Type::IFD8 => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::Endian;

    use super::*;

    const LITTLE: Format = Format { endian: Endian::Little, big: false, ndpi: false };

    fn parse(bytes: &[u8], format: Format) -> Result<Result<Directory, Error>, NeedBytes> {
        Directory::parse(Cursor::new(bytes, 0x10, format.endian), format, &Limits::default(), 0x1000)
    }

    #[test]
    fn reads_a_classic_directory() {
        let bytes = b"\x02\0\
            \x00\x01\x03\0\x01\0\0\0\x07\0\0\0\
            \x11\x01\x04\0\x02\0\0\0\x00\x02\0\0\
            \x34\x12\0\0";
        let directory = parse(bytes, LITTLE).unwrap().unwrap();
        assert_eq!((directory.offset, directory.next), (0x10, 0x1234));
        let [width, offsets] = &directory.entries[..] else { panic!("two entries") };
        assert_eq!((width.tag, width.inline(), width.range()), (256, Some(&[7, 0][..]), None));
        assert_eq!((offsets.tag, offsets.inline()), (273, None));
        assert_eq!(offsets.range(), Some(ByteRange::new(0x200, 8)));
    }

    #[test]
    fn reads_a_big_endian_bigtiff_directory() {
        let bytes = b"\0\0\0\0\0\0\0\x01\
            \x01\x11\0\x10\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\0\
            \0\0\0\0\0\0\0\0";
        let directory =
            parse(bytes, Format { endian: Endian::Big, big: true, ndpi: false }).unwrap().unwrap();
        assert_eq!(directory.next, 0);
        assert_eq!(directory.entries[0].inline(), Some(&[0, 0, 0, 5, 0, 0, 0, 0][..]));
    }

    #[test]
    fn high_words_follow_ndpi_directories() {
        let bytes = b"\x03\0\
            \x00\x01\x04\0\x01\0\0\0\x07\0\0\0\
            \x0f\x01\x02\0\x02\0\0\0\x00\x02\0\0\
            \x11\x01\x04\0\x01\0\0\0\x00\x03\0\0\
            \x34\x12\0\0\x01\0\0\0\
            \0\0\0\0\x02\0\0\0\x03\0\0\0";
        let directory = parse(bytes, Format { ndpi: true, ..LITTLE }).unwrap().unwrap();
        assert_eq!((directory.next, directory.length), (0x1_0000_1234, bytes.len() as u64));
        let [width, make, offset] = &directory.entries[..] else { panic!("three entries") };
        assert_eq!(width.inline(), Some(&[7, 0, 0, 0][..]));
        assert_eq!(make.range(), Some(ByteRange::new(0x2_0000_0200, 2)), "text is never inline");
        assert_eq!((offset.kind, offset.inline()), (Type::LONG8, Some(&[0, 3, 0, 0, 3, 0, 0, 0][..])));
        let missing = parse(&bytes[..50], Format { ndpi: true, ..LITTLE }).unwrap_err();
        assert_eq!(missing.range.end(), 0x10 + bytes.len() as u64);
    }

    #[test]
    fn skips_unknown_types_and_repeated_tags() {
        let bytes = b"\x03\0\
            \x00\x01\x03\0\x01\0\0\0\x07\0\0\0\
            \x00\x01\x03\0\x01\0\0\0\x09\0\0\0\
            \x01\x01\xc8\0\x01\0\0\0\x09\0\0\0\
            \0\0\0\0";
        let directory = parse(bytes, LITTLE).unwrap().unwrap();
        assert_eq!(directory.entries.len(), 1);
        assert_eq!(directory.entries[0].inline(), Some(&[7, 0][..]), "the first of two counts");
        let message = directory.skipped[0].to_string();
        assert_eq!(
            message,
            "tag 257 (ImageLength) at 0x10: unknown field type 200, expected 1 to 13 or 16 to 18"
        );
    }

    #[test]
    fn errors_contain_the_missing_range() {
        let missing = parse(b"\x02\0\x00\x01", LITTLE).unwrap_err();
        assert_eq!(missing.range, ByteRange::new(0x12, 24));
        assert!(parse(b"\0\0", LITTLE).unwrap().is_err(), "no entries");
    }
}
