//! The header.
//!
//! ```text
//! header    = magic numrecs dim_list gatt_list var_list
//! magic     = 'C' 'D' 'F' VERSION
//! VERSION   = 1 (classic) | 2 (64-bit offset) | 5 (64-bit data)
//! numrecs   = NON_NEG | STREAMING
//! STREAMING = all bits set
//! ```

use bytes::Bytes;
use virtualize_bytes::{Cursor, Endian, Limits, NeedBytes};
use virtualize_hdf5::model::{ByteOrder, Classic, Datatype, Dimension, Float, Integer};

use crate::layout::{check_order, records};
use crate::{
    Error, Result,
    model::{Attribute, CHAR, Header, Variable},
};

/// Returns whether a file is NetCDF classic, given its first four bytes.
pub fn is_netcdf3(first_bytes: &[u8]) -> bool {
    version(first_bytes).is_some()
}

/// Returns the version: 1 (classic, with offsets of 32 bits), 2 (offsets of 64 bits), or 5 (offsets, counts and lengths of 64
/// bits, and further types).
fn version(first_bytes: &[u8]) -> Option<u8> {
    match first_bytes {
        [b'C', b'D', b'F', version @ (1 | 2 | 5), ..] => Some(*version),
        _ => None,
    }
}

/// Parses the header at the start of a file of `size` bytes. [`Error::Truncated`] if it is longer than `bytes`.
pub(crate) fn parse(bytes: &Bytes, size: u64, limits: &Limits) -> Result<Header> {
    let version = version(bytes).ok_or(Error::NotNetcdf3)?;
    let mut reader = Reader::new(bytes, version, size);
    reader.u32()?;
    reader.enter("numrecs");
    let streaming = if version == 5 { u64::MAX } else { u32::MAX.into() };
    let stated = Some(reader.count()?).filter(|count| *count != streaming);
    let mut dimensions = list(&mut reader, "dim_list", NC_DIMENSION, limits.objects, dimension)?;
    let attributes = attributes(&mut reader, limits.attributes)?;
    let item = |reader: &mut Reader<'_>| variable(reader, &dimensions, limits.attributes);
    let variables = list(&mut reader, "var_list", NC_VARIABLE, limits.objects, item)?;
    check_order(version, &variables, reader.offset())?;
    let classic = records(&variables, stated, size)?;
    for dimension in dimensions.iter_mut().filter(|dimension| dimension.is_record) {
        dimension.length = classic.records;
    }
    Ok(Header { classic: Classic { dimensions, ..classic }, attributes, variables })
}

// Variables.
//
// ```text
// var   = name nelems [dimid ...] vatt_list nc_type vsize begin
// begin = 4 bytes (CDF-1) | 8 bytes (CDF-2, CDF-5)
// ```
//
// `vsize` is redundant, and wrong in some files: for more than 2³² - 4 bytes it cannot be right. Like netCDF-C, this reader
// computes the size from the shape.

fn variable(reader: &mut Reader<'_>, dimensions: &[Dimension], most_attributes: u64) -> Result<Variable> {
    reader.enter("var");
    let name = name(reader)?;
    let rank = reader.count()?;
    let mut ids = Vec::new();
    for _ in 0..rank {
        let id = reader.count()?;
        let known = usize::try_from(id).ok().filter(|id| *id < dimensions.len());
        ids.push(known.ok_or_else(|| {
            reader.malformed(format!("\"{name}\" has dimension {id}, of {}", dimensions.len()))
        })?);
    }
    let axes: Vec<_> = ids.iter().filter_map(|id| dimensions.get(*id)).collect();
    let is_record = axes.first().is_some_and(|axis| axis.is_record);
    if axes.iter().skip(1).any(|axis| axis.is_record) {
        return Err(reader.malformed(format!("\"{name}\" has the record dimension after another")));
    }
    let attributes = attributes(reader, most_attributes)?;
    reader.enter("var");
    let datatype = nc_type(reader)?;
    let _vsize = reader.count()?;
    let begin = reader.data_offset()?;
    let mut lengths = axes.iter().filter(|axis| !axis.is_record).map(|axis| axis.length);
    let size = lengths.try_fold(datatype.size(), u64::checked_mul);
    let size =
        size.ok_or_else(|| reader.malformed(format!("\"{name}\" has more bytes than 64 bits can count")))?;
    Ok(Variable { name, dimensions: ids, attributes, datatype, begin, size, is_record })
}

// Attributes.
//
// ```text
// attr = name nc_type nelems [values ...] padding
// ```

/// Reads a list of attributes.
fn attributes(reader: &mut Reader<'_>, most: u64) -> Result<Vec<Attribute>> {
    list(reader, "att_list", NC_ATTRIBUTE, most, attribute)
}

fn attribute(reader: &mut Reader<'_>) -> Result<Attribute> {
    reader.enter("attr");
    let name = name(reader)?;
    let datatype = nc_type(reader)?;
    let count = reader.count()?;
    let values = reader.padded(count.saturating_mul(datatype.size()))?;
    Ok(Attribute { name, datatype, values })
}

// Dimensions.
//
// ```text
// dim        = name dim_length
// dim_length = NON_NEG (0 for the record dimension)
// ```

/// Reads a dimension. The length of the record dimension is set later.
fn dimension(reader: &mut Reader<'_>) -> Result<Dimension> {
    reader.enter("dim");
    let (name, length) = (name(reader)?, reader.count()?);
    Ok(Dimension { name, length, is_record: length == 0 })
}

// Lists of dimensions, attributes and variables.
//
// ```text
// dim_list  = ABSENT | NC_DIMENSION nelems [dim ...]
// gatt_list = att_list
// att_list  = ABSENT | NC_ATTRIBUTE nelems [attr ...]
// var_list  = ABSENT | NC_VARIABLE  nelems [var ...]
// ABSENT    = ZERO ZERO (CDF-5: ZERO ZERO64)
// ```

/// Tag of a list of dimensions.
const NC_DIMENSION: u32 = 10;
/// Tag of a list of variables.
const NC_VARIABLE: u32 = 11;
/// Tag of a list of attributes.
const NC_ATTRIBUTE: u32 = 12;

/// Reads a list whose items start with `tag`. `most` bounds the number of items. Like netCDF-C, ignores the tag of an empty
/// list.
fn list<T>(
    reader: &mut Reader<'_>,
    structure: &'static str,
    tag: u32,
    most: u64,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    reader.enter(structure);
    let found = reader.u32()?;
    let count = reader.count()?;
    if count > 0 && found != tag {
        return Err(reader.malformed(format!("tag {found} of {count} items, expected {tag}")));
    }
    if count > most {
        let problem = format!("{count} items, more than the limit of {most}");
        return Err(Error::limit(structure, reader.start, problem));
    }
    // The count may be wrong: memory is allocated as items are read.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}

// Names of dimensions, attributes and variables.
//
// ```text
// name       = nelems namestring
// namestring = ID1 [IDN ...] padding
// ```

/// Reads a name. Like netCDF-C, which returns C strings, takes what precedes the first NUL. Names that are not UTF-8 are
/// taken as Latin-1, as scipy does.
fn name(reader: &mut Reader<'_>) -> Result<String> {
    let length = reader.count()?;
    let bytes = reader.padded(length)?;
    let shown = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(match std::str::from_utf8(shown) {
        Ok(name) => name.to_owned(),
        Err(_) => shown.iter().map(|byte| char::from(*byte)).collect(),
    })
}

// External data types.
//
// ```text
// nc_type = NC_BYTE | NC_CHAR | NC_SHORT | NC_INT | NC_FLOAT | NC_DOUBLE
//         | NC_UBYTE | NC_USHORT | NC_UINT | NC_INT64 | NC_UINT64 (CDF-5)
// ```

/// Reads a type. Like netCDF-C, accepts those of CDF-5 in every version.
fn nc_type(reader: &mut Reader<'_>) -> Result<Datatype> {
    let integer = |size, signed| Datatype::Integer(Integer::new(size, signed, ByteOrder::Big));
    Ok(match reader.u32()? {
        1 => integer(1, true),
        2 => CHAR,
        3 => integer(2, true),
        4 => integer(4, true),
        kind @ (5 | 6) => Datatype::Float(Float::ieee(kind == 5, ByteOrder::Big)),
        7 => integer(1, false),
        8 => integer(2, false),
        9 => integer(4, false),
        10 => integer(8, true),
        11 => integer(8, false),
        other => return Err(reader.malformed(format!("nc_type {other}, expected 1 to 11"))),
    })
}

// Numbers and padded bytes of a header.
//
// ```text
// NON_NEG = 4 bytes | 8 bytes (CDF-5)
// padding = 0, 1, 2 or 3 bytes, up to the next multiple of 4
// ```

/// A position in the header of one file.
struct Reader<'a> {
    bytes: &'a Bytes,
    cursor: Cursor<'a>,
    version: u8,
    /// The structure that is being read, for errors.
    structure: &'static str,
    start: u64,
    /// Size of the file in bytes.
    size: u64,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of a header.
    fn new(bytes: &'a Bytes, version: u8, size: u64) -> Self {
        let cursor = Cursor::new(bytes, 0, Endian::Big);
        Self { bytes, cursor, version, structure: "magic", start: 0, size }
    }

    /// Names the structure that starts here.
    fn enter(&mut self, structure: &'static str) {
        (self.structure, self.start) = (structure, self.offset());
    }

    /// Returns the offset of the next byte.
    fn offset(&self) -> u64 {
        self.cursor.address()
    }

    /// Reads a number of 4 bytes, whatever the version.
    fn u32(&mut self) -> Result<u32> {
        self.cursor.u32().map_err(|need| self.short(need))
    }

    /// Reads a count, length or id.
    fn count(&mut self) -> Result<u64> {
        if self.version == 5 { self.u64() } else { self.u32().map(u64::from) }
    }

    /// Reads the offset of data.
    ///
    /// # Errors
    /// It is negative.
    fn data_offset(&mut self) -> Result<u64> {
        let at = self.offset();
        let (offset, most) = match self.version {
            1 => (self.u32()?.into(), i32::MAX.cast_unsigned().into()),
            _ => (self.u64()?, i64::MAX.cast_unsigned()),
        };
        if offset > most {
            return Err(Error::malformed("begin", at, format!("{offset:#x}, which is a negative offset")));
        }
        Ok(offset)
    }

    /// Reads `length` bytes and skips their padding. Like netCDF-C, ignores the content of the padding.
    fn padded(&mut self, length: u64) -> Result<Bytes> {
        let padded = length.checked_next_multiple_of(4).unwrap_or(u64::MAX);
        let taken = self.cursor.take_u64(padded).map_err(|need| self.short(need))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(self.bytes.slice_ref(taken.get(..length).unwrap_or_default()))
    }

    /// Creates an error of the current structure.
    fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::malformed(self.structure, self.start, problem)
    }

    fn u64(&mut self) -> Result<u64> {
        self.cursor.u64().map_err(|need| self.short(need))
    }

    fn short(&self, need: NeedBytes) -> Error {
        let Self { structure, start: offset, size, .. } = *self;
        Error::Truncated { structure, offset, range: need.range, size }
    }
}

#[cfg(test)]
mod tests {
    mod header {
        use super::super::*;

        /// Written by netCDF-C 4.10: `byte v(t, x)` with t unlimited of length 1 and x of length 3, values 1, 2, 3.
        const CLASSIC: &[u8] =
            b"CDF\x01\0\0\0\x01\0\0\0\x0a\0\0\0\x02\0\0\0\x01t\0\0\0\0\0\0\0\0\0\0\x01x\0\0\0\0\0\0\x03\
            \0\0\0\0\0\0\0\0\0\0\0\x0b\0\0\0\x01\0\0\0\x01v\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\
            \0\0\0\x01\0\0\0\x04\0\0\0\x60\x01\x02\x03";

        fn parsed(bytes: &[u8]) -> Result<Header> {
            parse(&Bytes::copy_from_slice(bytes), bytes.len() as u64, &Limits::default())
        }

        #[test]
        fn a_header_of_netcdf_c() {
            let file = parsed(CLASSIC).unwrap();
            let Classic { records, stride, is_streamed, .. } = file.classic;
            assert_eq!((records, stride, is_streamed), (1, 3, false));
            let variable = &file.variables[0];
            assert_eq!((variable.begin, variable.size), (0x60, 3));
            assert_eq!(variable.datatype, Datatype::Integer(Integer::new(1, true, ByteOrder::Big)));
            assert_eq!(variable.dimensions, [0, 1]);
        }

        #[test]
        fn every_shorter_header_needs_more_bytes() {
            for length in 4..0x60 {
                assert!(matches!(parsed(&CLASSIC[..length]), Err(Error::Truncated { .. })), "{length}");
            }
            assert!(matches!(parsed(b"CDF\x03"), Err(Error::NotNetcdf3)));
            assert!(!is_netcdf3(b"CDF") && is_netcdf3(b"CDF\x05\0"));
        }

        #[test]
        fn streamed_records_are_counted_in_the_file() {
            let mut bytes = CLASSIC.to_vec();
            bytes[4..8].fill(0xff);
            bytes.extend([4, 5, 6, 7]);
            let file = parsed(&bytes).unwrap();
            let Classic { records, stride, is_streamed, .. } = file.classic;
            assert_eq!((records, stride, is_streamed), (2, 3, true));
        }
    }

    mod variable {
        use bytes::Bytes;

        use super::super::*;
        use crate::Error;

        fn dimensions(lengths: &[u64]) -> Vec<Dimension> {
            let dimension =
                |&length: &u64| Dimension { name: "d".to_owned(), length, is_record: length == 0 };
            lengths.iter().map(dimension).collect()
        }

        fn read(ids: [u8; 2], lengths: &[u64]) -> Result<Variable> {
            let bytes = [
                b"\0\0\0\x01v\0\0\0\0\0\0\x02\0\0\0".as_slice(),
                &[ids[0], 0, 0, 0, ids[1]],
                b"\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x63\0\0\0\x80",
            ];
            variable(&mut Reader::new(&Bytes::from(bytes.concat()), 1, 0), &dimensions(lengths), 1)
        }

        #[test]
        fn the_size_follows_from_the_shape() {
            let variable = read([0, 1], &[0, 3]).unwrap();
            assert_eq!((variable.begin, variable.size, variable.is_record), (0x80, 6, true));
            assert_eq!(read([1, 1], &[0, 3]).unwrap().size, 18);
        }

        #[test]
        fn contradictions_are_refused() {
            for (ids, lengths) in
                [([0, 2], [0, 3]), ([1, 0], [0, 3]), ([0, 0], [0, 3]), ([0, 1], [1 << 32, 1 << 32])]
            {
                assert!(matches!(read(ids, &lengths), Err(Error::Malformed { .. })));
            }
        }
    }

    mod attribute {
        use bytes::Bytes;

        use super::super::*;

        #[test]
        fn values_lose_their_padding() {
            let bytes = b"\0\0\0\x0c\0\0\0\x02\
                \0\0\0\x01i\0\0\0\0\0\0\x03\0\0\0\x01\xff\xfe\0\0\
                \0\0\0\x01t\0\0\0\0\0\0\x02\0\0\0\x05hello\0\0\0";
            let bytes = Bytes::from_static(bytes);
            let read = attributes(&mut Reader::new(&bytes, 1, 0), 2).unwrap();
            let attribute = |name: &str, datatype, values: &'static [u8]| Attribute {
                name: name.to_owned(),
                datatype,
                values: Bytes::from_static(values),
            };
            assert_eq!(
                read,
                [
                    attribute("i", Datatype::Integer(Integer::new(2, true, ByteOrder::Big)), b"\xff\xfe"),
                    attribute("t", CHAR, b"hello")
                ]
            );
        }
    }

    mod list {
        use bytes::Bytes;

        use super::super::*;

        fn read(bytes: &'static [u8], most: u64) -> Result<Vec<u32>> {
            let bytes = Bytes::from_static(bytes);
            list(&mut Reader::new(&bytes, 1, 0), "dim_list", NC_DIMENSION, most, |reader| reader.u32())
        }

        #[test]
        fn lists_have_a_tag_unless_they_are_empty() {
            assert_eq!(read(b"\0\0\0\x0a\0\0\0\x02\0\0\0\x07\0\0\0\x08", 2).unwrap(), [7, 8]);
            assert!(read(&[0; 8], 2).unwrap().is_empty());
            assert!(read(b"\0\0\0\x0b\0\0\0\0", 2).unwrap().is_empty());
            assert!(matches!(
                read(b"\0\0\0\0\0\0\0\x01\0\0\0\0", 2),
                Err(Error::Malformed { .. } | Error::Limit { .. })
            ));
            assert!(matches!(
                read(b"\0\0\0\x0a\xff\xff\xff\xff", 2),
                Err(Error::Malformed { .. } | Error::Limit { .. })
            ));
            assert!(matches!(read(b"\0\0\0\x0a\0\0\0\x02\0\0\0\0", 2), Err(Error::Truncated { .. })));
        }
    }

    mod name {
        use bytes::Bytes;

        use super::super::*;

        /// What netCDF4-python 1.7 and scipy 1.18 (for Latin-1) show.
        #[test]
        fn names_are_utf_8_or_latin_1() {
            for (bytes, expected) in [
                (&b"\0\0\0\x01tpad"[..], "t"),
                (b"\0\0\0\x02\xc3\xa9pp", "\u{e9}"),
                (b"\0\0\0\x01\xe9ppp", "\u{e9}"),
                (b"\0\0\0\x03n\0m\0", "n"),
                (b"\0\0\0\0", ""),
            ] {
                let bytes = Bytes::copy_from_slice(bytes);
                assert_eq!(name(&mut Reader::new(&bytes, 1, 0)).unwrap(), expected);
            }
        }
    }

    mod reader {
        use super::super::*;

        #[test]
        fn counts_have_eight_bytes_in_cdf_5() {
            let bytes = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 7]);
            assert_eq!(Reader::new(&bytes, 5, 0).count().unwrap(), 7);
            let mut reader = Reader::new(&bytes, 2, 0);
            assert_eq!((reader.count().unwrap(), reader.count().unwrap()), (0, 7));
            assert!(matches!(
                reader.count(),
                Err(Error::Truncated { range: virtualize_bytes::ByteRange { start: 8, length: 4 }, .. })
            ));
        }

        #[test]
        fn padding_is_skipped_whatever_it_contains() {
            let bytes = Bytes::from_static(b"abc\xeedefg");
            let mut reader = Reader::new(&bytes, 1, 0);
            assert_eq!((reader.padded(3).unwrap(), reader.padded(4).unwrap()), ("abc".into(), "defg".into()));
            assert!(reader.padded(0).unwrap().is_empty());
            assert!(matches!(reader.padded(u64::MAX), Err(Error::Truncated { .. })));
        }

        #[test]
        fn negative_offsets_are_refused() {
            let bytes = Bytes::from_static(&[0x80, 0, 0, 0, 0, 0, 0, 0]);
            for version in [1, 2, 5] {
                assert!(matches!(
                    Reader::new(&bytes, version, 0).data_offset(),
                    Err(Error::Malformed { .. } | Error::Limit { .. })
                ));
            }
        }
    }
}
