//! Datatype message, 0x0003 (specification IV.A.2.d).
//!
//! ```text
//! class (low 4 bits) and version (high 4 bits) | class bits 3 | size 4 | properties of the class …
//! ```

use std::collections::BTreeSet;

use crate::{
    Error,
    cursor::{Format, Reader, text_before_nul},
    model::{ByteOrder, CharacterSet, Datatype, Float, Integer, Member, ReferenceKind, StringPadding},
};

const STRUCTURE: &str = "datatype message";
/// Limit on the nesting depth. The library has none; real files stay below ten.
const MAX_DEPTH: u32 = 64;

/// Parses the message at `address`.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Datatype, Error> {
    parse_next(&mut Reader::new(STRUCTURE, bytes, address, format), MAX_DEPTH)
}

/// The eight bytes before the properties.
#[derive(Clone, Copy)]
struct Head {
    version: u8,
    class: u8,
    bits: u32,
    size: u32,
}

impl Head {
    const fn bit(self, bit: u32) -> bool {
        self.bits >> bit & 1 == 1
    }

    /// Returns `count` bits, starting at bit `first`.
    fn field(self, first: u32, count: u32) -> u8 {
        let [low, ..] = (self.bits >> first & !u32::MAX.unbounded_shl(count)).to_le_bytes();
        low
    }
}

fn parse_next(reader: &mut Reader<'_>, depth: u32) -> Result<Datatype, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(reader.unsupported(format!("datatypes nested deeper than {MAX_DEPTH} levels")));
    };
    let head = head(reader)?;
    let size = head.size;
    match head.class {
        0 => Ok(Datatype::Integer(integer(reader, head)?)),
        1 => Ok(Datatype::Float(float(reader, head)?)),
        2 => {
            let order = if head.bit(0) { ByteOrder::Big } else { ByteOrder::Little };
            reader.skip(2).map(|()| Datatype::Time { size, order })
        }
        3 => {
            let (padding, charset) = (padding(reader, head.field(0, 4))?, charset(reader, head.field(4, 4))?);
            Ok(Datatype::String { size, padding, charset })
        }
        4 => Ok(Datatype::Bitfield(integer(reader, head)?)),
        5 => opaque(reader, head),
        6 => compound(reader, head, depth),
        7 => reference(reader, head).map(|kind| Datatype::Reference { size, kind }),
        8 => enumeration(reader, head, depth),
        9 => variable(reader, head, depth),
        10 => array(reader, head, depth),
        11 => complex(reader, head, depth),
        class => Err(reader.unsupported(format!("class {class}, expected 0 to 11"))),
    }
}

fn head(reader: &mut Reader<'_>) -> Result<Head, Error> {
    let first = reader.u8()?;
    let [low, middle, high] = [reader.u8()?, reader.u8()?, reader.u8()?];
    let bits = u32::from_le_bytes([low, middle, high, 0]);
    let head = Head { version: first >> 4, class: first & 0xF, bits, size: reader.u32()? };
    if !(1..=5).contains(&head.version) {
        return Err(reader.unsupported(format!("version {}, expected 1 to 5", head.version)));
    }
    if head.size == 0 {
        return Err(reader.malformed(format!("class {} with size 0, expected 1 or more", head.class)));
    }
    Ok(head)
}

fn integer(reader: &mut Reader<'_>, head: Head) -> Result<Integer, Error> {
    let order = if head.bit(0) { ByteOrder::Big } else { ByteOrder::Little };
    let (bit_offset, precision) = (reader.u16()?, reader.u16()?);
    check_bits(reader, head, bit_offset, precision)?;
    let signed = head.class == 0 && head.bit(3);
    Ok(Integer { size: head.size, order, signed, bit_offset, precision })
}

fn check_bits(reader: &Reader<'_>, head: Head, offset: u16, precision: u16) -> Result<(), Error> {
    let end = u64::from(offset).saturating_add(u64::from(precision));
    let there = u64::from(head.size).saturating_mul(8);
    if precision > 0 && end <= there {
        return Ok(());
    }
    Err(reader.malformed(format!("{precision} significant bits from bit {offset}, expected 1 to {there}")))
}

fn float(reader: &mut Reader<'_>, head: Head) -> Result<Float, Error> {
    let order = match (head.version > 2 && head.bit(6), head.bit(0)) {
        (false, false) => ByteOrder::Little,
        (false, true) => ByteOrder::Big,
        (true, true) => ByteOrder::Vax,
        (true, false) => {
            return Err(reader.malformed("reserved byte order, expected little-endian, big-endian or VAX"));
        }
    };
    let normalization = head.field(4, 2);
    if normalization > 2 {
        return Err(reader.malformed("mantissa normalization 3, expected 0 to 2"));
    }
    let float = Float {
        size: head.size,
        order,
        sign_location: head.field(8, 8),
        normalization,
        bit_offset: reader.u16()?,
        precision: reader.u16()?,
        exponent_location: reader.u8()?,
        exponent_size: reader.u8()?,
        mantissa_location: reader.u8()?,
        mantissa_size: reader.u8()?,
        exponent_bias: reader.u32()?,
    };
    check_bits(reader, head, float.bit_offset, float.precision)?;
    // Sign, exponent and mantissa have bits of their own. The HDF5 library counts positions from bit 0 of the element, not
    // from the first significant bit.
    let fields = [
        (float.sign_location, 1),
        (float.exponent_location, float.exponent_size),
        (float.mantissa_location, float.mantissa_size),
    ];
    let bits = float.bit_offset.saturating_add(float.precision);
    let mut used = 0_u16;
    let mut places = fields.map(|(from, size)| (u16::from(from), u16::from(size)));
    places.sort_unstable();
    for (from, size) in places {
        let end = from.saturating_add(size);
        if size == 0 || from < used || end > bits {
            let problem = format!("sign, exponent and mantissa at bits (first, count) {fields:?} of {bits}");
            return Err(reader.malformed(problem));
        }
        used = end;
    }
    Ok(float)
}

fn padding(reader: &Reader<'_>, code: u8) -> Result<StringPadding, Error> {
    match code {
        0 => Ok(StringPadding::NullTerminated),
        1 => Ok(StringPadding::NullPadded),
        2 => Ok(StringPadding::SpacePadded),
        _ => Err(reader.unsupported(format!("string padding {code}, expected 0 to 2"))),
    }
}

fn charset(reader: &Reader<'_>, code: u8) -> Result<CharacterSet, Error> {
    match code {
        0 => Ok(CharacterSet::Ascii),
        1 => Ok(CharacterSet::Utf8),
        _ => Err(reader.unsupported(format!("character set {code}, expected 0 or 1"))),
    }
}

fn opaque(reader: &mut Reader<'_>, head: Head) -> Result<Datatype, Error> {
    let length = head.field(0, 8);
    if !length.is_multiple_of(8) {
        return Err(reader.malformed(format!("tag of {length} bytes, expected a multiple of 8")));
    }
    let tag = text_before_nul(reader.take(u64::from(length))?);
    Ok(Datatype::Opaque { size: head.size, tag })
}

fn reference(reader: &Reader<'_>, head: Head) -> Result<ReferenceKind, Error> {
    match head.field(0, 4) {
        0 => Ok(ReferenceKind::Object),
        1 => Ok(ReferenceKind::Region),
        kind @ 2..=4 if head.field(4, 4) == 1 => Ok(ReferenceKind::Standard(kind)),
        2..=4 => Err(reader.unsupported(format!("reference version {}, expected 1", head.field(4, 4)))),
        kind => Err(reader.unsupported(format!("reference type {kind}, expected 0 to 4"))),
    }
}

fn compound(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Datatype, Error> {
    let count = head.bits & 0xFFFF;
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(member(reader, head, depth)?);
    }
    let names: BTreeSet<_> = members.iter().map(|member| &member.name).collect();
    let has_unknown = names.iter().any(|name| name.contains(char::REPLACEMENT_CHARACTER));
    if members.is_empty() || names.len() < members.len() && !has_unknown {
        return Err(reader.malformed(format!("{count} members with {} names", names.len())));
    }
    // Members are within the compound and do not overlap, so that decoding never yields more than the stored bytes.
    let mut places: Vec<_> =
        members.iter().map(|m| (u64::from(m.offset), m.datatype.size(), &m.name)).collect();
    places.sort_unstable();
    let (size, mut free_from) = (head.size, 0_u64);
    for (offset, length, name) in places {
        let end = offset.saturating_add(length);
        if offset < free_from || end > u64::from(size) {
            let problem = format!("member {name:?} at bytes {offset} to {end} of a compound of {size} bytes");
            return Err(reader.malformed(format!("{problem}, of which {free_from} are used")));
        }
        free_from = end;
    }
    Ok(Datatype::Compound { size, members })
}

fn member(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Member, Error> {
    let name = if head.version < 3 { reader.padded_text()? } else { reader.text()? };
    let offset = match head.version {
        1 | 2 => reader.u32()?,
        _ => u32::try_from(reader.uint(bytes_for(head.size))?).unwrap_or(u32::MAX),
    };
    // Version 1 stores the shape of an array member in the compound.
    let mut shape = Vec::new();
    if head.version == 1 {
        let rank = reader.u8()?;
        reader.skip(11)?;
        let sizes = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let Some(sizes) = sizes.get(..usize::from(rank)) else {
            return Err(reader.malformed(format!("member with {rank} dimensions, expected at most 4")));
        };
        shape = sizes.iter().copied().map(u64::from).collect();
    }
    let datatype = parse_next(reader, depth)?;
    let datatype =
        if shape.is_empty() { datatype } else { Datatype::Array { base: Box::new(datatype), shape } };
    Ok(Member { name, offset, datatype })
}

/// Returns the size in bytes of a member offset in a compound of `size` bytes.
fn bytes_for(size: u32) -> u8 {
    match size {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFF_FFFF => 3,
        _ => 4,
    }
}

fn enumeration(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Datatype, Error> {
    let base = parse_next(reader, depth)?;
    if !matches!(base, Datatype::Integer(_)) || base.size() != u64::from(head.size) {
        return Err(reader.malformed("enumeration base type, expected an integer of the same size"));
    }
    let count = head.bits & 0xFFFF;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(if head.version < 3 { reader.padded_text()? } else { reader.text()? });
    }
    if names.iter().any(String::is_empty) {
        return Err(reader.malformed("an empty name of an enumeration member"));
    }
    let value = |name| Ok((name, reader.take(u64::from(head.size))?.to_vec()));
    let members = names.into_iter().map(value).collect::<Result<_, Error>>()?;
    Ok(Datatype::Enum { base: Box::new(base), members })
}

fn variable(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Datatype, Error> {
    let size = head.size;
    let pointer = u32::from(reader.format().offset_size).saturating_add(8);
    if size != pointer {
        return Err(reader.malformed(format!("variable-length type with size {size}, expected {pointer}")));
    }
    let base = parse_next(reader, depth)?;
    match head.field(0, 4) {
        0 => Ok(Datatype::Sequence { size, base: Box::new(base) }),
        1 => {
            if base.size() != 1 {
                let problem = format!("variable-length string of items of {} bytes, expected 1", base.size());
                return Err(reader.malformed(problem));
            }
            let (padding, charset) = (padding(reader, head.field(4, 4))?, charset(reader, head.field(8, 4))?);
            Ok(Datatype::VariableString { size, padding, charset })
        }
        kind => Err(reader.unsupported(format!("variable-length type {kind}, expected 0 or 1"))),
    }
}

fn array(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Datatype, Error> {
    let rank = reader.u8()?;
    reader.skip(if head.version < 3 { 3 } else { 0 })?;
    let shape = (0..rank).map(|_| reader.u32().map(u64::from)).collect::<Result<Vec<_>, _>>()?;
    reader.skip(if head.version < 3 { u64::from(rank).saturating_mul(4) } else { 0 })?;
    let base = Box::new(parse_next(reader, depth)?);
    let datatype = Datatype::Array { base, shape };
    if datatype.size() == u64::from(head.size) {
        return Ok(datatype);
    }
    let problem = format!("array with size {}, expected {} for its shape", head.size, datatype.size());
    Err(reader.malformed(problem))
}

fn complex(reader: &mut Reader<'_>, head: Head, depth: u32) -> Result<Datatype, Error> {
    let base = parse_next(reader, depth)?;
    let parts = u64::from(head.size);
    if head.bits != 1 {
        return Err(reader.unsupported(format!("complex number with flags {:#x}, expected 1", head.bits)));
    }
    if !matches!(base, Datatype::Float(_)) || base.size().checked_mul(2) != Some(parts) {
        return Err(reader
            .unsupported(format!("complex number of {parts} bytes, expected two floating-point numbers")));
    }
    Ok(Datatype::Complex { base: Box::new(base) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };
    const INT16: [u8; 12] = [0x10, 0x08, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0];

    fn int16() -> Datatype {
        let order = ByteOrder::Little;
        Datatype::Integer(Integer { size: 2, order, signed: true, bit_offset: 0, precision: 16 })
    }

    fn parsed(bytes: &[u8]) -> Result<Datatype, Error> {
        parse(bytes, 0, FORMAT)
    }

    /// The 20-bit float of the HDF5 library's tests of n-bit packing: its fields are at bits 7 to 26.
    #[test]
    fn fields_may_begin_at_the_offset() {
        let format = Format { base: 0, offset_size: 8, length_size: 8 };
        let packed = [0x11, 0x20, 26, 0, 4, 0, 0, 0, 7, 0, 20, 0, 20, 6, 7, 13, 31, 0, 0, 0];
        super::parse(&packed, 0, format).unwrap();
    }

    #[test]
    fn rejects_overlapping_fields() {
        let format = Format { base: 0, offset_size: 8, length_size: 8 };
        let single = [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];
        super::parse(&single, 0, format).unwrap();
        for (at, value) in [(15, 24), (13, 0), (2, 30), (13, 9)] {
            let mut odd = single;
            odd[at] = value;
            let error = super::parse(&odd, 0, format).unwrap_err().to_string();
            assert!(error.contains("sign, exponent and mantissa at bits"), "{error}");
        }
    }

    #[test]
    fn integers_and_floats() {
        assert_eq!(parsed(&INT16).unwrap(), int16());
        let double = [0x11, 0x21, 63, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 0xFF, 3, 0, 0];
        let Datatype::Float(float) = parsed(&double).unwrap() else { panic!("not a float") };
        assert_eq!((float.order, float.sign_location, float.normalization), (ByteOrder::Big, 63, 2));
        assert_eq!((float.exponent_location, float.exponent_size, float.exponent_bias), (52, 11, 1023));
    }

    #[test]
    fn strings() {
        let datatype = parsed(&[0x13, 0x12, 0, 0, 5, 0, 0, 0]).unwrap();
        let (padding, charset) = (StringPadding::SpacePadded, CharacterSet::Utf8);
        assert_eq!(datatype, Datatype::String { size: 5, padding, charset });
        let mut variable = vec![0x19, 0x01, 0x01, 0, 16, 0, 0, 0];
        variable.extend([0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0]);
        let padding = StringPadding::NullTerminated;
        assert_eq!(parsed(&variable).unwrap(), Datatype::VariableString { size: 16, padding, charset });
        let mut wide = variable;
        (wide[12], wide[18]) = (2, 16);
        assert!(parsed(&wide).unwrap_err().to_string().contains("items of 2 bytes, expected 1"));
    }

    #[test]
    fn compounds_of_each_version() {
        let expected = Datatype::Compound {
            size: 4,
            members: vec![Member { name: "a".into(), offset: 2, datatype: int16() }],
        };
        let mut first = vec![0x16, 1, 0, 0, 4, 0, 0, 0];
        first.extend(*b"a\0\0\0\0\0\0\0");
        first.extend([2, 0, 0, 0]);
        first.extend([0; 28]);
        first.extend(INT16);
        assert_eq!(parsed(&first).unwrap(), expected);
        let mut second = vec![0x26, 1, 0, 0, 4, 0, 0, 0];
        second.extend(*b"a\0\0\0\0\0\0\0");
        second.extend([2, 0, 0, 0]);
        second.extend(INT16);
        assert_eq!(parsed(&second).unwrap(), expected);
        let mut third = vec![0x36, 1, 0, 0, 4, 0, 0, 0, b'a', 0, 2];
        third.extend(INT16);
        assert_eq!(parsed(&third).unwrap(), expected);
        third[10] = 3;
        assert!(parsed(&third).is_err(), "a member beyond the end of the compound");
    }

    #[test]
    fn enumerations() {
        let mut bytes = vec![0x38, 2, 0, 0, 2, 0, 0, 0];
        bytes.extend(INT16);
        bytes.extend(*b"no\0yes\0\0\0\x01\0");
        let members = vec![("no".into(), vec![0, 0]), ("yes".into(), vec![1, 0])];
        assert_eq!(parsed(&bytes).unwrap(), Datatype::Enum { base: Box::new(int16()), members });
    }

    #[test]
    fn rejects_arrays_of_another_size() {
        let mut bytes = vec![0x3A, 0, 0, 0, 12, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0, 0];
        bytes.extend(INT16);
        assert_eq!(parsed(&bytes).unwrap(), Datatype::Array { base: Box::new(int16()), shape: vec![2, 3] });
        bytes[4] = 13;
        assert!(parsed(&bytes).is_err());
    }

    /// libhdf5 opens no dataset with one of these types.
    #[test]
    fn rejects_types_that_the_library_does_not_decode() {
        assert!(parsed(&[0x36, 0, 0, 0, 4, 0, 0, 0]).is_err(), "no members");
        let mut twice = vec![0x36, 2, 0, 0, 4, 0, 0, 0];
        for (name, offset) in [(b'a', 0), (b'a', 2)] {
            twice.extend([name, 0, offset]);
            twice.extend(INT16);
        }
        assert!(parsed(&twice).is_err(), "two members of one name");
        twice[8] = b'b';
        assert!(parsed(&twice).is_ok());
        assert!(parsed(&[0x15, 3, 0, 0, 4, 0, 0, 0, b'a', 0, 0]).is_err(), "a tag of 3 bytes");
        assert!(parsed(&[0x47, 0x12, 0, 0, 16, 0, 0, 0]).is_ok());
        assert!(parsed(&[0x47, 0x22, 0, 0, 16, 0, 0, 0]).is_err(), "references of version 2");
        let mut unnamed = vec![0x38, 1, 0, 0, 2, 0, 0, 0];
        unnamed.extend(INT16);
        unnamed.extend(*b"\0\x01\0");
        assert!(parsed(&unnamed).is_err(), "a member of an enumeration without a name");
    }

    #[test]
    fn rejects_invalid_types() {
        assert!(parsed(&[0x60, 0, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0]).is_err(), "version 6");
        assert!(parsed(&[0x1C, 0, 0, 0, 2, 0, 0, 0]).is_err(), "class 12");
        assert!(parsed(&[0x10, 0, 0, 0, 2, 0, 0, 0, 1, 0, 16, 0]).is_err(), "17 bits in two bytes");
        let nested: Vec<u8> = (0..100).flat_map(|_| [0x19, 0, 0, 0, 16, 0, 0, 0]).collect();
        assert!(parsed(&nested).unwrap_err().to_string().contains("nested"));
    }
}
