//! Global heap collections (specification III.E).
//!
//! ```text
//! "GCOL" | 1 | - 3 | size of the collection L (filled to 8) | objects …
//! object: index 2 | references 2 | - 4 | size L (filled to 8) | data (filled to 8); index 0 is the free space at the end
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    Error,
    cursor::{Format, Reader, padding_to_eight, slice},
    io::{Io, read_sized},
    layout::HeapPointer,
    reference,
    value::{Collections, object_in},
};

const STRUCTURE: &str = "global heap collection";

/// Size in bytes of the smallest collection that the library reads.
const SMALLEST: u64 = 4096;

/// Returns the size of the collection in bytes, given its first 16 bytes.
pub(crate) fn length(bytes: &[u8], address: u64, format: Format) -> Result<u64, Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    match head(&mut reader)? {
        length if length < SMALLEST => {
            Err(reader.malformed(format!("{length} bytes, expected at least {SMALLEST}")))
        }
        length => Ok(length),
    }
}

/// Parses the objects of a collection, by index.
pub(crate) fn parse(block: &Bytes, address: u64, format: Format) -> Result<BTreeMap<u16, Bytes>, Error> {
    let mut reader = Reader::new(STRUCTURE, block, address, format);
    let end = head(&mut reader)?;
    let fill = padding_to_eight(u64::from(format.length_size));
    reader.skip(fill)?;
    let envelope = u64::from(format.length_size).saturating_add(8).saturating_add(fill);
    let mut objects = BTreeMap::new();
    loop {
        let position = reader.position().saturating_sub(address);
        if position.saturating_add(envelope) > end {
            return Ok(objects);
        }
        let index = reader.u16()?;
        reader.skip(6)?;
        let size = reader.raw_length()?;
        reader.skip(fill)?;
        if index == 0 {
            return Ok(objects);
        }
        let start = reader.position().saturating_sub(address);
        reader.skip(size)?;
        objects.insert(index, slice(block, start, start.saturating_add(size)).unwrap_or_default());
        reader.skip(padding_to_eight(size))?;
    }
}

/// Checks the fields before the objects. Returns the size of the collection in bytes.
fn head(reader: &mut Reader<'_>) -> Result<u64, Error> {
    reader.signature(b"GCOL")?;
    reader.version(1..=1)?;
    reader.skip(3)?;
    reader.raw_length()
}

// Reads global heap collections.

/// Minimum size of a collection in bytes.
const GUESS: u64 = 4096;

/// Fetches collections, all in one batch, and adds them to `collections`.
pub(crate) async fn fetch_collections(
    io: &Io<'_>,
    format: Format,
    addresses: BTreeSet<u64>,
    collections: &mut Collections,
) -> Result<(), Error> {
    let addresses: Vec<_> = addresses.into_iter().collect();
    let length = |bytes: &[u8], address| length(bytes, address, format);
    let blocks = read_sized(io, "global heap collection", &addresses, GUESS, length).await?;
    for (address, block) in addresses.into_iter().zip(blocks) {
        let objects = block.and_then(|block| parse(&block, address, format));
        collections.insert(address, objects);
    }
    Ok(())
}

// Variable-length elements: pointers to the global heap (specification IV.A.2.d, "Variable-Length").
//
// ```text
// length 4 | global heap collection O | index 4
// ```

/// A variable-length element as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VariableElement {
    /// Number of items of a sequence, or of bytes of a string.
    pub(crate) length: u64,
    /// Pointer to the items; `None` if there are none. Without items, the library reads an object of 0 bytes where there is
    /// a pointer.
    pub(crate) pointer: Option<HeapPointer>,
}

pub(crate) fn parse_variable(bytes: &[u8], format: Format) -> Result<VariableElement, Error> {
    let mut reader = Reader::new("variable-length element", bytes, 0, format);
    let length = u64::from(reader.u32()?);
    Ok(VariableElement { length, pointer: reference::pointer(&mut reader)? })
}

/// Returns the items of a variable-length element, of `size` bytes each; `None` if their collection is not fetched.
pub(crate) fn items_in(
    collections: &Collections,
    element: VariableElement,
    size: u64,
) -> Result<Option<Bytes>, Error> {
    let VariableElement { length, pointer } = element;
    let Some(pointer) = pointer else { return Ok(Some(Bytes::new())) };
    let object = object_in(collections, pointer)?;
    match object.as_ref().map(|object| object.len() as u64) {
        Some(found) if length.checked_mul(size) != Some(found) => {
            let problem = format!("{length} items of {size} bytes in an object of {found}");
            Err(Error::malformed("variable-length element", pointer.collection, problem))
        }
        _ => Ok(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    #[test]
    fn objects_by_index() {
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend(72_u64.to_le_bytes());
        bytes.extend([3, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'h', b'i', 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 32]);
        assert!(length(&bytes, 0, FORMAT).is_err(), "the library reads at least 4096 bytes");
        let objects = parse(&bytes.into(), 0, FORMAT).unwrap();
        assert_eq!(objects, BTreeMap::from([(3, Bytes::from_static(b"hi"))]));
    }

    #[test]
    fn objects_are_padded_to_eight_bytes() {
        let format = Format { length_size: 4, ..FORMAT };
        let mut bytes = b"GCOL\x01\0\0\0\x40\0\0\0\0\0\0\0".to_vec();
        for index in [1, 2] {
            bytes.extend([index, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0]);
        }
        let objects = parse(&bytes.into(), 0, format).unwrap();
        assert_eq!(objects, BTreeMap::from([(1, Bytes::from_static(&[1])), (2, Bytes::from_static(&[2]))]));
    }

    #[test]
    fn rejects_objects_beyond_the_end() {
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend(40_u64.to_le_bytes());
        bytes.extend([3, 0, 1, 0, 0, 0, 0, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, b'h', b'i', 0, 0, 0, 0, 0, 0]);
        assert!(matches!(parse(&bytes.into(), 0, FORMAT), Err(Error::Truncated { .. })));
    }

    #[test]
    fn a_null_address_is_not_a_pointer() {
        let format = Format { base: 16, offset_size: 2, length_size: 8 };
        let pointer = Some(HeapPointer { collection: 0x40, index: 3 });
        assert_eq!(parse_variable(&[2, 0, 0, 0, 0x30, 0, 3, 0, 0, 0], format).unwrap().pointer, pointer);
        assert_eq!(parse_variable(&[0, 0, 0, 0, 0x30, 0, 3, 0, 0, 0], format).unwrap().pointer, pointer);
        assert_eq!(parse_variable(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0], format).unwrap().pointer, None);
    }
}
