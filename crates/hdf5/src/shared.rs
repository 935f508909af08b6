//! Shared messages (specification IV.A.1, "Shared Message"), the Shared Message Table message, 0x000F (IV.A.2.p), and
//! the table (III.I).
//!
//! ```text
//! version 1: 1 | type | - 6 | heap address L | object header O
//! version 2: 2 | type | object header O
//! version 3: 3 | type (1 heap, 2 object header) | heap id 8 or object header O
//! table: "SMTB" | per index: 0 | index type | message types 2 | min size 4 | cutoffs 4 | messages 2 | index O | heap O | … checksum 4
//! ```

use crate::{Error, checksum, context::Format, reader::Reader};

/// Location of a shared message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SharedReference {
    /// In the object header of the committed datatype at this address.
    Committed(u64),
    /// In the shared message heap for this type.
    Heap {
        /// Message type.
        kind: u16,
        /// Heap id.
        id: [u8; 8],
    },
}

/// Parses the body of a shared message of type `kind`.
pub(crate) fn parse(bytes: &[u8], address: u64, kind: u16, format: Format) -> Result<SharedReference, Error> {
    let mut reader = Reader::new("shared message", bytes, address, format);
    let version = reader.version(1..=3)?;
    let class = reader.u8()?;
    match (version, class) {
        (1, _) => {
            reader.skip(6)?;
            reader.raw_length()?;
            Ok(SharedReference::Committed(reader.defined_address()?))
        }
        (3, 1) => {
            let mut id = [0; 8];
            id.copy_from_slice(reader.take(8)?);
            Ok(SharedReference::Heap { kind, id })
        }
        (2, _) | (_, 2) => Ok(SharedReference::Committed(reader.defined_address()?)),
        _ => Err(reader.unsupported(format!("type {class}, expected 1 or 2"))),
    }
}

/// Location of the shared message table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableMessage {
    pub(crate) address: u64,
    indexes: u8,
    /// Size of the table in bytes.
    pub(crate) length: u64,
}

/// Parses a Shared Message Table message.
pub(crate) fn parse_table_message(bytes: &[u8], address: u64, format: Format) -> Result<TableMessage, Error> {
    let mut reader = Reader::new("shared message table message", bytes, address, format);
    reader.version(0..=0)?;
    let table = reader.defined_address()?;
    let indexes = reader.u8()?;
    let index_length = u64::from(format.offset_size).saturating_mul(2).saturating_add(14);
    let length = index_length.saturating_mul(u64::from(indexes)).saturating_add(8);
    Ok(TableMessage { address: table, indexes, length })
}

/// An index of the table: the message types in a heap, as a bit mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SharedIndex {
    kinds: u16,
    heap: Option<u64>,
}

impl SharedIndex {
    /// Returns the address of the fractal heap for messages of a type.
    pub(crate) fn heap_of(indexes: &[Self], kind: u16) -> Option<u64> {
        let bit = 1_u16.checked_shl(u32::from(kind)).unwrap_or(0);
        indexes.iter().find(|index| index.kinds & bit != 0)?.heap
    }
}

/// Parses the table.
pub(crate) fn parse_table(
    bytes: &[u8],
    message: TableMessage,
    format: Format,
) -> Result<Vec<SharedIndex>, Error> {
    const STRUCTURE: &str = "shared message table";
    let mut reader = Reader::new(STRUCTURE, bytes, message.address, format);
    reader.signature(b"SMTB")?;
    checksum::checked(STRUCTURE, message.address, bytes)?;
    (0..message.indexes).map(|_| index(&mut reader)).collect()
}

fn index(reader: &mut Reader<'_>) -> Result<SharedIndex, Error> {
    reader.version(0..=0)?;
    reader.skip(1)?;
    let kinds = reader.u16()?;
    reader.skip(10)?;
    reader.address()?;
    Ok(SharedIndex { kinds, heap: reader.address()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 4, length_size: 4 };

    #[test]
    fn references_of_each_version() {
        let old = [1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 0x40, 0, 0, 0];
        assert_eq!(parse(&old, 0, 3, FORMAT).unwrap(), SharedReference::Committed(0x40));
        assert_eq!(parse(&[2, 0, 0x40, 0, 0, 0], 0, 3, FORMAT).unwrap(), SharedReference::Committed(0x40));
        assert_eq!(parse(&[3, 2, 0x40, 0, 0, 0], 0, 3, FORMAT).unwrap(), SharedReference::Committed(0x40));
        let heap = SharedReference::Heap { kind: 12, id: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert_eq!(parse(&[3, 1, 1, 2, 3, 4, 5, 6, 7, 8], 0, 12, FORMAT).unwrap(), heap);
        assert!(parse(&[3, 3, 0, 0, 0, 0], 0, 3, FORMAT).is_err());
    }

    #[test]
    fn a_table_names_the_heap_of_each_type() {
        let message = parse_table_message(&[0, 0x20, 0, 0, 0, 1], 0, FORMAT).unwrap();
        let mut bytes = b"SMTB".to_vec();
        bytes.extend([0, 0, 0b1010, 0, 50, 0, 0, 0, 50, 0, 40, 0, 3, 0, 0x60, 0, 0, 0, 0x80, 0, 0, 0]);
        bytes.extend(checksum::lookup3(&bytes).to_le_bytes());
        assert_eq!(message.length, bytes.len() as u64);
        let indexes = parse_table(&bytes, message, FORMAT).unwrap();
        assert_eq!(SharedIndex::heap_of(&indexes, 3), Some(0x80));
        assert_eq!(SharedIndex::heap_of(&indexes, 12), None);
    }
}
