//! References (specification IV.A.2.d, "Reference"; those of HDF5 1.12 as encoded by its library).
//!
//! ```text
//! region (type 1)    global heap collection O | index 4                     → object address O | selection
//! HDF5 1.12          kind 1 | flags 1 | what follows the kind
//!   2 object         token size 1 | token
//!   3 region         size 4 | collection O | index 4   → token size 1 | token | size 4 | rank 4 | selection
//!   4 attribute      size 4 | collection O | index 4   → token size 1 | token | length 2 | name
//! ```
//!
//! A token is the address of an object header. Flag bit 0: the object is in another file.

use crate::{
    Error,
    cursor::{Format, Reader},
    layout::HeapPointer,
    model::Selection,
    virtual_dataset::parse_selection,
};

const STRUCTURE: &str = "reference";

/// A reference as stored in an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoredReference {
    /// Null reference.
    Null,
    /// Address of an object.
    Object(u64),
    /// Dataset region, in the global heap.
    Region(HeapPointer),
    /// Attribute, in the global heap.
    Attribute(HeapPointer),
    /// Object of another file.
    OtherFile,
}

/// Parses a reference of HDF5 1.12.
pub(crate) fn parse_standard(bytes: &[u8], format: Format) -> Result<StoredReference, Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, 0, format);
    let (kind, flags) = (reader.u8()?, reader.u8()?);
    match (kind, flags) {
        (0, _) => Ok(StoredReference::Null),
        (2..=4, 1) => Ok(StoredReference::OtherFile),
        (2, 0) => Ok(token(&mut reader)?.map_or(StoredReference::Null, StoredReference::Object)),
        (3 | 4, 0) => {
            reader.skip(4)?;
            let in_heap = if kind == 3 { StoredReference::Region } else { StoredReference::Attribute };
            Ok(pointer(&mut reader)?.map_or(StoredReference::Null, in_heap))
        }
        _ => Err(reader.unsupported(format!("kind {kind} with flags {flags:#x}, expected kind 2 to 4"))),
    }
}

/// Parses the global heap object of a region reference of type 1: the address of the dataset and the selection.
pub(crate) fn region_in_heap(bytes: &[u8], format: Format) -> Result<(u64, Selection), Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, 0, format);
    Ok((reader.defined_address()?, parse_selection(&mut reader)?))
}

/// Parses the global heap object of a region reference of HDF5 1.12.
pub(crate) fn standard_region_in_heap(bytes: &[u8], format: Format) -> Result<(u64, Selection), Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, 0, format);
    let dataset =
        token(&mut reader)?.ok_or_else(|| reader.malformed("null token, expected that of a dataset"))?;
    reader.skip(8)?;
    Ok((dataset, parse_selection(&mut reader)?))
}

/// Parses the global heap object of an attribute reference of HDF5 1.12: the address of the object and the attribute's
/// name.
pub(crate) fn attribute_in_heap(bytes: &[u8], format: Format) -> Result<(u64, String), Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, 0, format);
    let object =
        token(&mut reader)?.ok_or_else(|| reader.malformed("null token, expected that of an object"))?;
    let length = reader.u16()?;
    let name = reader.take(length.into())?;
    match std::str::from_utf8(name) {
        Ok(name) => Ok((object, name.to_owned())),
        Err(_) => Err(reader.malformed("attribute name in an invalid encoding, expected UTF-8")),
    }
}

fn token(reader: &mut Reader<'_>) -> Result<Option<u64>, Error> {
    let (size, expected) = (reader.u8()?, reader.format().offset_size);
    if size != expected {
        return Err(reader.malformed(format!("token of {size} bytes, expected {expected}")));
    }
    let base = reader.format().base;
    Ok(reader.address()?.filter(|address| *address != base))
}

/// Reads a pointer to the global heap; `None` if its address is null.
pub(crate) fn pointer(reader: &mut Reader<'_>) -> Result<Option<HeapPointer>, Error> {
    let base = reader.format().base;
    let collection = reader.address()?.filter(|address| *address != base);
    let index = reader.u32()?;
    Ok(collection.map(|collection| HeapPointer { collection, index }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes_of;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    #[test]
    fn parses_stored_references() {
        let standard = |hex: &str| parse_standard(&bytes_of(hex), FORMAT);
        assert_eq!(
            standard("02 00 08 2003000000000000 00000000000000").unwrap(),
            StoredReference::Object(0x320)
        );
        assert_eq!(standard("00 00 00000000 0000000000000000 00000000").unwrap(), StoredReference::Null);
        let pointer = HeapPointer { collection: 0x800, index: 3 };
        let attribute = standard("04 00 0e000000 0008000000000000 03000000").unwrap();
        assert_eq!(attribute, StoredReference::Attribute(pointer));
        let region = standard("03 00 40000000 0008000000000000 03000000").unwrap();
        assert_eq!(region, StoredReference::Region(pointer));
        let other = standard("02 01 0e000000 0008000000000000 03000000").unwrap();
        assert_eq!(other, StoredReference::OtherFile);
        let region = |bytes: &[u8]| super::pointer(&mut Reader::new(STRUCTURE, bytes, 0, FORMAT)).unwrap();
        assert_eq!(region(&bytes_of("0008000000000000 03000000")), Some(pointer));
        assert_eq!(region(&[0; 12]), None);
        assert!(standard("07 00 08 2003000000000000 00000000000000").is_err(), "kind 7");
        assert!(standard("02 00 04 2003000000000000 00000000000000").is_err(), "token of 4 bytes");
        assert!(standard("02").is_err(), "too short");
    }

    #[test]
    fn parses_heap_objects() {
        let points = "01000000 01000000 00000000 10000000 01000000 02000000 01000000 07000000";
        let expected = (0x320, Selection::Points(vec![vec![1], vec![7]]));
        let old = bytes_of(&format!("2003000000000000 {points}"));
        assert_eq!(region_in_heap(&old, FORMAT).unwrap(), expected);
        let new = bytes_of(&format!("08 2003000000000000 20000000 01000000 {points}"));
        assert_eq!(standard_region_in_heap(&new, FORMAT).unwrap(), expected);
        let name = bytes_of("08 2003000000000000 0200 6162");
        assert_eq!(attribute_in_heap(&name, FORMAT).unwrap(), (0x320, "ab".to_owned()));
        assert!(attribute_in_heap(&bytes_of("08 2003000000000000 0300 6162"), FORMAT).is_err());
        assert!(region_in_heap(&[1, 2, 3], FORMAT).is_err());
    }
}
