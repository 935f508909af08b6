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

use virtualize_bytes::Address;

use crate::{
    Error,
    cursor::Reader,
    layout::HeapPointer,
    model::{Element, ReferenceKind},
    value::{Decoder, object_in},
    virtual_dataset::parse_selection,
};

const STRUCTURE: &str = "reference";

impl Decoder<'_> {
    /// Decodes a reference.
    pub(crate) fn reference(&mut self, kind: ReferenceKind, bytes: &[u8]) -> Result<Element, Error> {
        let Some((format, collections)) = self.heap else { return Ok(Element::Unknown("reference")) };
        let mut reader = Reader::new(STRUCTURE, bytes, 0, format);
        let (kind, pointer) = match kind {
            ReferenceKind::Object => {
                let address = reader.address().ok().flatten().filter(|address| *address != format.base);
                return Ok(Element::Object(address.map(Address)));
            }
            ReferenceKind::Region => (1, pointer(&mut reader)?),
            ReferenceKind::Standard(_) => match (reader.u8()?, reader.u8()?) {
                (0, _) => (0, None),
                (2..=4, 1) => return Ok(Element::Unknown("reference into another file")),
                (2, 0) => return Ok(Element::Object(token(&mut reader)?.map(Address))),
                (kind @ (3 | 4), 0) => {
                    reader.skip(4)?;
                    (kind, pointer(&mut reader)?)
                }
                (kind, flags) => {
                    let problem = format!("kind {kind} with flags {flags:#x}, expected kind 2 to 4");
                    return Err(reader.unsupported(problem));
                }
            },
        };
        let Some(pointer) = pointer else { return Ok(Element::Object(None)) };
        let Some(object) = object_in(collections, pointer)? else {
            self.missing.insert(pointer.collection);
            return Ok(Element::Unknown("not fetched"));
        };
        // Coordinates of 2 bytes become 8 bytes each, in a vector per point or block.
        let factor = if kind == 4 { 1 } else { 16 };
        self.spend((object.len() as u64).saturating_mul(factor))?;
        let mut reader = Reader::new(STRUCTURE, &object, 0, format);
        let target = if kind == 1 { Some(reader.defined_address()?) } else { token(&mut reader)? };
        let null = || reader.malformed("null token, expected that of an object");
        let target = Address(target.ok_or_else(null)?);
        if kind == 4 {
            let length = reader.u16()?;
            let name = str::from_utf8(reader.take(length.into())?);
            let invalid = |_| reader.malformed("attribute name in an invalid encoding, expected UTF-8");
            return Ok(Element::Attribute(target, name.map_err(invalid)?.to_owned()));
        }
        reader.skip(if kind == 3 { 8 } else { 0 })?;
        Ok(Element::Region(target, parse_selection(&mut reader)?))
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::{cursor::Format, model::Selection, testing::bytes_of, value::Collections};

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };
    const POINTER: &str = "0008000000000000 03000000";

    fn standard(hex: &str) -> Result<Element, Error> {
        let collections = Collections::new();
        let mut decoder = Decoder::new(Some((FORMAT, &collections)), u64::MAX);
        let element = decoder.reference(ReferenceKind::Standard(2), &bytes_of(hex))?;
        let is_missing = element == Element::Unknown("not fetched");
        assert_eq!(decoder.missing.contains(&0x800), is_missing);
        Ok(element)
    }

    #[test]
    fn parses_stored_references() {
        assert_eq!(
            standard("02 00 08 2003000000000000 00000000000000").unwrap(),
            Element::Object(Some(Address(0x320)))
        );
        assert_eq!(standard("00 00 00000000 0000000000000000 00000000").unwrap(), Element::Object(None));
        let unknown = Element::Unknown("not fetched");
        assert_eq!(standard(&format!("04 00 0e000000 {POINTER}")).unwrap(), unknown);
        assert_eq!(standard(&format!("03 00 40000000 {POINTER}")).unwrap(), unknown);
        let other = Element::Unknown("reference into another file");
        assert_eq!(standard(&format!("02 01 0e000000 {POINTER}")).unwrap(), other);
        let region = |bytes: &[u8]| super::pointer(&mut Reader::new(STRUCTURE, bytes, 0, FORMAT)).unwrap();
        let expected = HeapPointer { collection: 0x800, index: 3 };
        assert_eq!(region(&bytes_of(POINTER)), Some(expected));
        assert_eq!(region(&[0; 12]), None);
        assert!(standard("07 00 08 2003000000000000 00000000000000").is_err(), "kind 7");
        assert!(standard("02 00 04 2003000000000000 00000000000000").is_err(), "token of 4 bytes");
        assert!(standard("02").is_err(), "too short");
    }

    #[test]
    fn parses_heap_objects() {
        let decoded = |kind, reference: &str, object: &str| {
            let objects = BTreeMap::from([(3, bytes_of(object).into())]);
            let collections = Collections::from([(0x800, Ok(objects))]);
            let mut decoder = Decoder::new(Some((FORMAT, &collections)), u64::MAX);
            decoder.reference(kind, &bytes_of(&format!("{reference} {POINTER}")))
        };
        let points = "01000000 01000000 00000000 10000000 01000000 02000000 01000000 07000000";
        let expected = Element::Region(Address(0x320), Selection::Points(vec![vec![1], vec![7]]));
        let old = |object: &str| decoded(ReferenceKind::Region, "", object);
        assert_eq!(old(&format!("2003000000000000 {points}")).unwrap(), expected);
        let new = |kind: &str, object: &str| {
            decoded(ReferenceKind::Standard(3), &format!("{kind} 00 40000000"), object)
        };
        let region = format!("08 2003000000000000 20000000 01000000 {points}");
        assert_eq!(new("03", &region).unwrap(), expected);
        let attribute = Element::Attribute(Address(0x320), "ab".to_owned());
        assert_eq!(new("04", "08 2003000000000000 0200 6162").unwrap(), attribute);
        assert!(new("04", "08 2003000000000000 0300 6162").is_err());
        assert!(old("010203").is_err());
    }
}
