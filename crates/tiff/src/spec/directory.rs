//! Image file directories (TIFF 6.0, section 2): lists of tags, one directory per image.
//!
//! ```text
//!            | entries | tag | type | count | value or offset | … | offset of the next directory |
//! TIFF           2        2     2      4           4                          4
//! BigTIFF        8        2     2      8           8                          8
//! NDPI           2        2     2      4           4                          8, then 4 per entry: the high words
//! ```

use std::{borrow::Cow, collections::BTreeMap};

use tiff::tags::Type;
use virtualize_bytes::{ByteRange, Cursor, Endian, Limits, NeedBytes};

use super::{Format, tag};
use crate::{Error, Structure, model::Value};

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
        let most = limits.attributes.min(MAX_ENTRIES);
        if count == 0 {
            return Ok(Err(Error::malformed("directory", offset, "0 entries, expected at least 1")));
        }
        if count > most {
            let problem = format!("{count} entries, expected at most {most}");
            return Ok(Err(Error::limit("directory", offset, problem)));
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

/// Maximum number of entries. libtiff treats a larger one as a sign of a wrong offset.
const MAX_ENTRIES: u64 = 0xffff;

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

// Access to the values of a directory by tag, with checks of type and range.

/// Values of a directory by tag.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// Offset of the directory.
    pub(crate) offset: u64,
    /// Readable values.
    pub(crate) values: BTreeMap<u16, Value>,
    /// The second ImageDescription.
    pub(crate) second_description: Option<String>,
    /// Errors of the tags that could not be read.
    pub(crate) unreadable: BTreeMap<u16, Error>,
}

impl Fields {
    /// Creates a directory without values.
    pub(crate) fn empty(offset: u64) -> Self {
        Self { offset, values: BTreeMap::new(), second_description: None, unreadable: BTreeMap::new() }
    }

    /// Creates an error for a tag.
    pub(crate) fn malformed(&self, tag: u16, problem: impl Into<String>) -> Error {
        Error::malformed(Structure::Tag(tag), self.offset, problem)
    }

    /// Creates an error for a missing tag.
    pub(crate) fn missing(&self, tag: u16) -> Error {
        self.malformed(tag, "missing")
    }

    /// Returns a value, if the tag exists.
    pub(crate) fn value(&self, tag: u16) -> Result<Option<&Value>, Error> {
        match self.unreadable.get(&tag) {
            Some(error) => Err(error.clone()),
            None => Ok(self.values.get(&tag)),
        }
    }

    /// Returns non-negative integers of any width. Like libtiff, treats an empty value as absent, unless the layout of
    /// the image depends on the tag.
    pub(crate) fn integers(&self, tag: u16) -> Result<Option<Cow<'_, [u64]>>, Error> {
        let Some(value) = self.value(tag)? else { return Ok(None) };
        let numbers = match value {
            Value::Unsigned(numbers) => Cow::Borrowed(&numbers[..]),
            Value::Signed(numbers) => Cow::Owned(self.non_negative(tag, numbers)?),
            other => return Err(self.malformed(tag, format!("{}, expected integers", describe(other)))),
        };
        match numbers.is_empty() {
            true if tag::determines_layout(tag) => Err(self.malformed(tag, "no value, expected one")),
            true => Ok(None),
            false => Ok(Some(numbers)),
        }
    }

    /// Removes and returns non-negative integers; empty if the tag is absent.
    pub(crate) fn take_unsigned(&mut self, tag: u16) -> Result<Vec<u64>, Error> {
        self.value(tag)?;
        match self.values.remove(&tag) {
            None => Ok(Vec::new()),
            Some(Value::Unsigned(numbers)) if numbers.is_empty() => {
                Err(self.malformed(tag, "no value, expected one"))
            }
            Some(Value::Unsigned(numbers)) => Ok(numbers),
            Some(Value::Signed(numbers)) => self.non_negative(tag, &numbers),
            Some(other) => {
                Err(self.malformed(tag, format!("{}, expected unsigned integers", describe(&other))))
            }
        }
    }

    fn non_negative(&self, tag: u16, numbers: &[i64]) -> Result<Vec<u64>, Error> {
        let convert = |&number: &i64| {
            u64::try_from(number).map_err(|_| self.malformed(tag, format!("{number}, expected 0 or more")))
        };
        numbers.iter().map(convert).collect()
    }

    /// Returns non-negative integers of at most 16 bits.
    pub(crate) fn shorts(&self, tag: u16) -> Result<Option<Vec<u16>>, Error> {
        let Some(numbers) = self.integers(tag)? else { return Ok(None) };
        numbers.iter().map(|&number| self.narrow(tag, number)).collect::<Result<_, _>>().map(Some)
    }

    /// Returns one integer. Old writers repeat the compression for each sample, which is accepted if all are equal. libtiff
    /// ignores other tags with several values.
    pub(crate) fn integer(&self, tag: u16) -> Result<Option<u64>, Error> {
        let Some(numbers) = self.integers(tag)? else { return Ok(None) };
        match numbers.first() {
            Some(&first) if numbers.len() == 1 => Ok(Some(first)),
            Some(&first) if tag == tag::COMPRESSION && numbers.iter().all(|&number| number == first) => {
                Ok(Some(first))
            }
            _ => Err(self.malformed(tag, format!("{} values, expected 1", numbers.len()))),
        }
    }

    /// Returns whether a tag that must be 1 or 2, and is 1 by default, is 2.
    pub(crate) fn one_or_two(&self, tag: u16) -> Result<bool, Error> {
        match self.integer(tag)? {
            None | Some(1) => Ok(false),
            Some(2) => Ok(true),
            Some(other) => Err(self.malformed(tag, format!("{other}, expected 1 or 2"))),
        }
    }

    /// Returns one integer of the requested type.
    pub(crate) fn narrowed<T: TryFrom<u64>>(&self, tag: u16) -> Result<Option<T>, Error> {
        self.integer(tag)?.map(|number| self.narrow(tag, number)).transpose()
    }

    fn narrow<T: TryFrom<u64>>(&self, tag: u16, number: u64) -> Result<T, Error> {
        let problem = || self.malformed(tag, format!("{number}, out of range"));
        T::try_from(number).map_err(|_| problem())
    }

    /// Returns one number per sample: a single stored value applies to all, and `default` if there is none. Like
    /// libtiff, accepts more values than samples and rejects other counts.
    pub(crate) fn per_sample(&self, tag: u16, samples: u16, default: u16) -> Result<Vec<u16>, Error> {
        let wanted = usize::from(samples);
        let mut numbers = self.shorts(tag)?.unwrap_or_else(|| vec![default]);
        let first = numbers.first().copied().unwrap_or(default);
        if (2..wanted).contains(&numbers.len()) {
            let problem = format!("{} values, expected 1 or {samples}", numbers.len());
            return Err(self.malformed(tag, problem));
        }
        numbers.resize(wanted, first);
        Ok(numbers)
    }

    /// Returns numbers of any type as floats; `None` if the tag is absent or not numeric.
    #[expect(clippy::cast_precision_loss, reason = "rounds to the nearest, as libtiff does")]
    pub(crate) fn floats(&self, tag: u16) -> Option<Vec<f64>> {
        match self.values.get(&tag)? {
            Value::Unsigned(numbers) => Some(numbers.iter().map(|&number| number as f64).collect()),
            Value::Signed(numbers) => Some(numbers.iter().map(|&number| number as f64).collect()),
            Value::Float(numbers) => Some(numbers.clone()),
            Value::Rational(pairs) => {
                Some(pairs.iter().map(|&(over, under)| f64::from(over) / f64::from(under)).collect())
            }
            Value::SignedRational(pairs) => {
                Some(pairs.iter().map(|&(over, under)| f64::from(over) / f64::from(under)).collect())
            }
            _ => None,
        }
    }

    /// Returns the text of a tag, its strings joined by NULs. Bytes count as text.
    pub(crate) fn text(&self, tag: u16) -> Option<String> {
        match self.values.get(&tag)? {
            Value::Text(strings) => Some(strings.join("\0")),
            Value::Bytes(bytes) => Some(trimmed(bytes)),
            Value::Unsigned(numbers) => bytes(numbers).map(|bytes| trimmed(&bytes)),
            Value::Signed(numbers) => bytes(numbers).map(|bytes| trimmed(&bytes)),
            _ => None,
        }
    }
}

/// Returns the numbers as bytes, if all of them are.
fn bytes<T: Copy>(numbers: &[T]) -> Option<Vec<u8>>
where
    u8: TryFrom<T>,
{
    numbers.iter().map(|&number| u8::try_from(number).ok()).collect()
}

fn trimmed(bytes: &[u8]) -> String {
    to_utf8(bytes).trim_end_matches('\0').to_owned()
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Unsigned(_) => "integers",
        Value::Signed(_) => "signed integers",
        Value::Float(_) => "floats",
        Value::Rational(_) | Value::SignedRational(_) => "rationals",
        Value::Text(_) => "text",
        Value::Bytes(_) => "undefined bytes",
    }
}

// Values of entries by field type (TIFF 6.0, section 2; BigTIFF adds LONG8, SLONG8 and IFD8).

/// Limit on the number of strings in a value. The last one contains the rest.
const MAX_STRINGS: usize = 10_000;

/// Decodes all complete values in `bytes`.
pub(crate) fn decode(kind: Type, bytes: &[u8], endian: Endian) -> Value {
    /// Converts every value of the array with `$to`.
    macro_rules! numbers {
        ($type:ty, $to:expr) => {
            match endian {
                Endian::Little => each(bytes, |value| $to(<$type>::from_le_bytes(value))),
                Endian::Big => each(bytes, |value| $to(<$type>::from_be_bytes(value))),
            }
        };
    }
    match kind {
        Type::BYTE => Value::Unsigned(bytes.iter().map(|&byte| u64::from(byte)).collect()),
        Type::SHORT => Value::Unsigned(numbers!(u16, u64::from)),
        Type::LONG | Type::IFD => Value::Unsigned(numbers!(u32, u64::from)),
        Type::LONG8 | Type::IFD8 => Value::Unsigned(numbers!(u64, u64::from)),
        Type::SBYTE => Value::Signed(bytes.iter().map(|&byte| i64::from(byte.cast_signed())).collect()),
        Type::SSHORT => Value::Signed(numbers!(i16, i64::from)),
        Type::SLONG => Value::Signed(numbers!(i32, i64::from)),
        Type::SLONG8 => Value::Signed(numbers!(i64, i64::from)),
        Type::FLOAT => Value::Float(numbers!(f32, f64::from)),
        Type::DOUBLE => Value::Float(numbers!(f64, f64::from)),
        Type::RATIONAL => Value::Rational(pairs(numbers!(u32, u32::from))),
        Type::SRATIONAL => Value::SignedRational(pairs(numbers!(i32, i32::from))),
        Type::ASCII => Value::Text(strings(bytes)),
        // UNDEFINED. Other variants cannot occur, because `Directory` skips unknown types.
        _ => Value::Bytes(bytes.to_vec()),
    }
}

fn each<const N: usize, T>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (values, _) = bytes.as_chunks::<N>();
    values.iter().map(|value| convert(*value)).collect()
}

fn pairs<T: Copy>(numbers: Vec<T>) -> Vec<(T, T)> {
    let (pairs, _) = numbers.as_chunks::<2>();
    pairs.iter().map(|&[numerator, denominator]| (numerator, denominator)).collect()
}

/// Returns the NUL-terminated strings of an ASCII value. Padding NULs at the end are ignored.
fn strings(bytes: &[u8]) -> Vec<String> {
    let padding = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let text = bytes.get(..bytes.len().saturating_sub(padding)).unwrap_or_default();
    if bytes.is_empty() {
        return Vec::new();
    }
    to_utf8(text).splitn(MAX_STRINGS, '\0').map(str::to_owned).collect()
}

/// Decodes UTF-8 or, if it is invalid, Latin-1.
pub(crate) fn to_utf8(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
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

    fn fields(value: Value) -> Fields {
        Fields { values: [(258, value)].into(), ..Fields::empty(8) }
    }

    /// libtiff converts any number, such as a ReferenceBlackWhite of LONG.
    #[test]
    fn numbers_of_any_type_are_floats() {
        assert_eq!(fields(Value::Unsigned(vec![16, 235])).floats(258), Some(vec![16.0, 235.0]));
        assert_eq!(fields(Value::Signed(vec![-1])).floats(258), Some(vec![-1.0]));
        assert_eq!(fields(Value::Text(vec![])).floats(258), None);
    }

    #[test]
    fn one_value_applies_to_all_samples() {
        let bits = |numbers: &[u64]| fields(Value::Unsigned(numbers.to_vec())).per_sample(258, 3, 1).ok();
        assert_eq!(bits(&[8]), Some(vec![8, 8, 8]));
        assert_eq!(bits(&[5, 6, 5, 9]), Some(vec![5, 6, 5]));
        assert_eq!(bits(&[8, 8]), None);
        assert_eq!(bits(&[5, 6]), None);
        assert_eq!(bits(&[]), None);
        assert_eq!(bits(&[70_000]), None);
    }

    /// libtiff ignores a FillOrder (266) with several values.
    #[test]
    fn only_compressions_are_repeated() {
        let integer = |tag, numbers: &[u64]| {
            let values = [(tag, Value::Unsigned(numbers.to_vec()))].into();
            Fields { values, ..Fields::empty(8) }.integer(tag)
        };
        assert_eq!((integer(266, &[2]).unwrap(), integer(259, &[5, 5]).unwrap()), (Some(2), Some(5)));
        assert!(integer(266, &[2, 2]).is_err() && integer(259, &[5, 1]).is_err());
    }

    #[test]
    fn empty_values_are_absent_unless_they_determine_the_layout() {
        let empty = |tag| Fields { values: [(tag, Value::Unsigned(vec![]))].into(), ..Fields::empty(8) };
        assert_eq!(empty(274).integer(274).unwrap(), None);
        let error = empty(284).integer(284).unwrap_err();
        assert_eq!(error.to_string(), "tag 284 (PlanarConfiguration) at 0x8: no value, expected one");
        // GDAL takes all strips of such a table for missing.
        assert!(empty(279).take_unsigned(279).is_err());
    }

    #[test]
    fn errors_name_wrong_types() {
        let error = fields(Value::Text(vec!["8".into()])).integer(258).unwrap_err();
        assert_eq!(error.to_string(), "tag 258 (BitsPerSample) at 0x8: text, expected integers");
        let error = fields(Value::Signed(vec![-1])).integer(258).unwrap_err();
        assert_eq!(error.to_string(), "tag 258 (BitsPerSample) at 0x8: -1, expected 0 or more");
        assert_eq!(fields(Value::Signed(vec![7])).integer(258).unwrap(), Some(7));
    }

    #[test]
    fn decodes_each_type_in_both_byte_orders() {
        let bytes = [0x80, 1, 2, 3, 4, 5, 6, 0xff];
        let little = |kind| decode(kind, &bytes, Endian::Little);
        let big = |kind| decode(kind, &bytes, Endian::Big);
        assert_eq!(little(Type::SHORT), Value::Unsigned(vec![0x180, 0x302, 0x504, 0xff06]));
        assert_eq!(big(Type::SSHORT), Value::Signed(vec![-0x7fff, 0x203, 0x405, 0x6ff]));
        assert_eq!(big(Type::SBYTE), Value::Signed(vec![-128, 1, 2, 3, 4, 5, 6, -1]));
        assert_eq!(big(Type::LONG), Value::Unsigned(vec![0x8001_0203, 0x0405_06ff]));
        assert_eq!(little(Type::LONG8), Value::Unsigned(vec![0xff06_0504_0302_0180]));
        assert_eq!(big(Type::RATIONAL), Value::Rational(vec![(0x8001_0203, 0x0405_06ff)]));
        assert_eq!(little(Type::SRATIONAL), Value::SignedRational(vec![(0x0302_0180, -0x00f9_fafc)]));
        assert_eq!(decode(Type::FLOAT, &[0x3f, 0x80, 0, 0], Endian::Big), Value::Float(vec![1.0]));
        assert_eq!(decode(Type::DOUBLE, &1.5_f64.to_le_bytes(), Endian::Little), Value::Float(vec![1.5]));
        assert_eq!(little(Type::UNDEFINED), Value::Bytes(bytes.to_vec()));
    }

    #[test]
    fn incomplete_numbers_are_omitted() {
        assert_eq!(decode(Type::SHORT, &[1, 0, 2], Endian::Little), Value::Unsigned(vec![1]));
    }

    #[test]
    fn text_is_split_at_nuls() {
        let text = |bytes: &[u8]| decode(Type::ASCII, bytes, Endian::Little);
        let strings = |parts: &[&str]| Value::Text(parts.iter().map(|part| (*part).to_owned()).collect());
        assert_eq!(text(b"one\0two\0"), strings(&["one", "two"]));
        assert_eq!(text(b"no end"), strings(&["no end"]));
        assert_eq!(text(b"padded\0\0\0"), strings(&["padded"]));
        assert_eq!(text(b"\xe9t\xe9\0"), strings(&["été"]), "Latin-1");
        assert_eq!(text("été\0".as_bytes()), strings(&["été"]));
        assert_eq!(text(b""), strings(&[]));
    }
}
