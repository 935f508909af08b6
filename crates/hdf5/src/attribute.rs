//! Attribute message, 0x000C (specification IV.A.2.m), and Attribute Info message, 0x0015 (IV.A.2.v).
//!
//! ```text
//! version 1: 1 | - | name length 2 | datatype length 2 | dataspace length 2 | the three, each filled to 8 | data
//! version 2: 2 | flags: 0 datatype shared, 1 dataspace shared | the lengths | the three | data
//! version 3: as 2, with the name's character set after the lengths
//! info: 0 | flags | (flag 0) largest creation index 2 | fractal heap O | name B-tree O | (flag 1) creation B-tree O
//! ```

use bytes::Bytes;

use crate::{
    Error,
    checksum::lookup3,
    context::Format,
    object_header::kind,
    reader::{Reader, padding_to_eight, slice},
    shared::{self, SharedReference},
};

/// An attribute whose datatype and dataspace may be shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AttributeMessage {
    pub(crate) name: String,
    /// Checksum of the name as stored.
    pub(crate) hash: u32,
    pub(crate) datatype: Part,
    pub(crate) dataspace: Part,
    /// Elements as stored.
    pub(crate) data: Bytes,
}

/// A datatype or dataspace message of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The message is part of the attribute.
    Here {
        /// Address of the message.
        address: u64,
        /// Body of the message.
        bytes: Bytes,
    },
    /// The message is shared.
    Shared(SharedReference),
}

/// Parses an attribute message.
pub(crate) fn parse(bytes: &Bytes, address: u64, format: Format) -> Result<AttributeMessage, Error> {
    let mut reader = Reader::new("attribute message", bytes, address, format);
    let version = reader.version(1..=3)?;
    let flags = if version == 1 { reader.skip(1).map(|()| 0)? } else { reader.u8()? };
    let lengths = [reader.u16()?, reader.u16()?, reader.u16()?].map(u64::from);
    reader.skip(if version == 3 { 1 } else { 0 })?;
    let mut next = |length: u64| {
        let part = (reader.position(), reader.take(length)?);
        reader.skip(if version == 1 { padding_to_eight(length) } else { 0 })?;
        Ok::<_, Error>(part)
    };
    let [name, datatype, dataspace] = [next(lengths[0])?, next(lengths[1])?, next(lengths[2])?];
    let name = name.1.split(|&byte| byte == 0).next().unwrap_or_default();
    let start = reader.position().saturating_sub(address);
    Ok(AttributeMessage {
        name: String::from_utf8_lossy(name).into_owned(),
        hash: lookup3(name),
        datatype: part(datatype, flags & 1 != 0, kind::DATATYPE, format)?,
        dataspace: part(dataspace, flags & 2 != 0, kind::DATASPACE, format)?,
        data: slice(bytes, start, bytes.len() as u64).unwrap_or_default(),
    })
}

fn part((address, bytes): (u64, &[u8]), is_shared: bool, kind: u16, format: Format) -> Result<Part, Error> {
    match is_shared {
        true => Ok(Part::Shared(shared::parse(bytes, address, kind, format)?)),
        false => Ok(Part::Here { address, bytes: Bytes::copy_from_slice(bytes) }),
    }
}

/// Dense storage of attributes or links, which are too many for the object header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DenseStorage {
    /// Address of the fractal heap that contains them.
    pub(crate) heap: u64,
    /// Address of the version 2 B-tree that indexes them by name.
    pub(crate) names: u64,
}

/// Parses an Attribute Info message. Returns `None` if all attributes are in the object header.
pub(crate) fn parse_info(bytes: &[u8], address: u64, format: Format) -> Result<Option<DenseStorage>, Error> {
    let mut reader = Reader::new("attribute info message", bytes, address, format);
    reader.version(0..=0)?;
    let flags = reader.u8()?;
    reader.skip(if flags & 1 == 0 { 0 } else { 2 })?;
    if flags > 3 {
        return Err(reader.malformed(format!("flags {flags:#04x}, expected at most 3")));
    }
    dense_storage(&mut reader, flags)
}

/// Reads the addresses of heap and name index, of which both or neither must be defined, and of the creation index, if
/// flag 1 is set.
pub(crate) fn dense_storage(reader: &mut Reader<'_>, flags: u8) -> Result<Option<DenseStorage>, Error> {
    let (heap, names) = (reader.address()?, reader.address()?);
    if flags & 2 != 0 {
        reader.address()?;
    }
    match (heap, names) {
        (None, _) => Ok(None),
        (Some(heap), Some(names)) => Ok(Some(DenseStorage { heap, names })),
        (Some(_), None) => Err(reader.malformed("undefined name index address, expected a defined one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 4, length_size: 4 };

    #[test]
    fn version_1_is_padded_to_eight_bytes() {
        let mut bytes = vec![1, 0, 2, 0, 9, 0, 3, 0];
        bytes.extend(*b"a\0\0\0\0\0\0\0");
        bytes.extend([7; 16]);
        bytes.extend([8; 8]);
        bytes.extend([42, 43]);
        let found = parse(&bytes.into(), 0x100, FORMAT).unwrap();
        assert_eq!((&*found.name, &*found.data, found.hash), ("a", &[42, 43][..], lookup3(b"a")));
        assert_eq!(found.datatype, Part::Here { address: 0x110, bytes: Bytes::from_static(&[7; 9]) });
        assert_eq!(found.dataspace, Part::Here { address: 0x120, bytes: Bytes::from_static(&[8; 3]) });
    }

    #[test]
    fn version_3_with_a_shared_datatype() {
        let bytes = [3, 1, 2, 0, 6, 0, 1, 0, 1, b'a', 0, 3, 2, 0x40, 0, 0, 0, 8, 42];
        let found = parse(&Bytes::copy_from_slice(&bytes), 0, FORMAT).unwrap();
        assert_eq!(found.datatype, Part::Shared(SharedReference::Committed(0x40)));
        assert_eq!((&*found.name, &*found.data), ("a", &[42][..]));
    }

    #[test]
    fn info() {
        assert_eq!(parse_info(&[0, 0, 255, 255, 255, 255, 255, 255, 255, 255], 0, FORMAT).unwrap(), None);
        let dense = parse_info(&[0, 1, 9, 0, 8, 0, 0, 0, 16, 0, 0, 0], 0, FORMAT).unwrap();
        assert_eq!(dense, Some(DenseStorage { heap: 8, names: 16 }));
        assert!(parse_info(&[0, 0, 8, 0, 0, 0, 255, 255, 255, 255], 0, FORMAT).is_err());
    }
}
