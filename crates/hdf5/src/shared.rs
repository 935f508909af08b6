//! Shared messages (specification IV.A.1, "Shared Message"), the Shared Message Table message, 0x000F (IV.A.2.p), and
//! the table (III.I).
//!
//! ```text
//! version 1: 1 | type | - 6 | heap address L | object header O
//! version 2: 2 | type | object header O
//! version 3: 3 | type (1 heap, 2 object header) | heap id 8 or object header O
//! table: "SMTB" | per index: 0 | index type | message types 2 | min size 4 | cutoffs 4 | messages 2 | index O | heap O | … checksum 4
//! ```

use std::collections::{BTreeMap, BTreeSet};

use virtualize_bytes::ByteRange;

use crate::{
    Error,
    cursor::{Format, Reader},
    fractal_heap::{HeapId, open_heaps, read_heap_objects},
    io::Io,
    object_header::{Body, Header, kind, read_headers},
};

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
    let mut reader = Reader::checked("shared message table", b"SMTB", bytes, message.address, format)?;
    let index = |_| {
        reader.version(0..=0)?;
        reader.skip(1)?;
        let kinds = reader.u16()?;
        reader.skip(10)?;
        reader.address()?;
        Ok(SharedIndex { kinds, heap: reader.address()? })
    };
    (0..message.indexes).map(index).collect()
}

// Resolves shared messages: those in the headers of committed datatypes, and those in shared message heaps.

/// Memory in bytes of a parsed message per byte.
const PARSED_FACTOR: u64 = 4;

/// A message, or a reference to it if it is shared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    Here(Body),
    Shared(SharedReference),
}

impl Stored {
    /// Parses the body of a message of type `kind`, if it is a reference.
    pub(crate) fn new(body: Body, is_shared: bool, kind: u16, format: Format) -> Result<Self, Error> {
        if !is_shared {
            return Ok(Self::Here(body));
        }
        parse(&body.bytes, body.address, kind, format).map(Self::Shared)
    }

    /// Returns the reference of a shared message.
    pub(crate) fn reference(&self) -> Option<SharedReference> {
        match self {
            Self::Here(_) => None,
            Self::Shared(reference) => Some(*reference),
        }
    }
}

/// Shared messages that are resolved.
#[derive(Debug, Default)]
pub(crate) struct SharedMessages {
    indexes: Vec<SharedIndex>,
    found: BTreeMap<SharedReference, Result<Body, Error>>,
}

impl SharedMessages {
    /// Reads the shared message table, if the superblock extension refers to one.
    pub(crate) async fn open(io: &Io<'_>, format: Format, extension: Option<&Header>) -> Result<Self, Error> {
        let message = extension.map(|header| header.parsed(kind::SHARED_TABLE, format, parse_table_message));
        let Some(message) = message.transpose()?.flatten() else { return Ok(Self::default()) };
        let range = ByteRange::new(message.address, message.length);
        let table = io.read(&[range]).await?.into_iter().next().unwrap_or_default();
        Ok(Self { indexes: parse_table(&table, message, format)?, found: BTreeMap::new() })
    }

    /// Returns a message. A shared one must have been looked up.
    pub(crate) fn body(&self, stored: &Stored) -> Result<Body, Error> {
        let missing = || Err(Error::malformed("shared message", 0, "not looked up"));
        match stored {
            Stored::Here(body) => Ok(body.clone()),
            Stored::Shared(reference) => self.found.get(reference).cloned().unwrap_or_else(missing),
        }
    }

    /// Charges the memory of a parsed message for one more object that shares it.
    pub(crate) fn hold(&self, io: &Io<'_>, reference: SharedReference) -> Result<(), Error> {
        let found = self.found.get(&reference).and_then(|body| body.as_ref().ok());
        let bytes = found.map_or(0, |body| body.bytes.len() as u64);
        io.hold("shared messages", bytes.saturating_mul(PARSED_FACTOR))
    }

    /// Resolves messages, all in the same batches.
    pub(crate) async fn look_up(
        &mut self,
        io: &Io<'_>,
        format: Format,
        mut references: BTreeSet<SharedReference>,
    ) -> Result<(), Error> {
        references.retain(|reference| !self.found.contains_key(reference));
        let mut committed = Vec::new();
        let mut heaps: BTreeMap<u64, Vec<(SharedReference, HeapId)>> = BTreeMap::new();
        for reference in references {
            match reference {
                SharedReference::Committed(address) => committed.push(address),
                SharedReference::Heap { kind, id } => match SharedIndex::heap_of(&self.indexes, kind) {
                    Some(heap) => heaps.entry(heap).or_default().push((reference, id)),
                    None => {
                        let problem = format!("no heap for messages of type {kind:#x}");
                        let error = Error::malformed("shared message table", 0, problem);
                        self.found.insert(reference, Err(error));
                    }
                },
            }
        }
        let addresses = &committed;
        let headers = read_headers(io, format, addresses).await?;
        for (&address, header) in addresses.iter().zip(headers) {
            let body = header.and_then(|header| committed_datatype(&header));
            self.found.insert(SharedReference::Committed(address), body);
        }
        let addresses: Vec<_> = heaps.keys().copied().collect();
        let ids = |wanted: &Vec<(_, HeapId)>| wanted.iter().map(|(_, id)| *id).collect();
        let requests: Vec<_> = heaps.values().map(ids).collect();
        let opened = open_heaps(io, format, &addresses).await?;
        let answers = read_heap_objects(io, format, opened, &requests).await;
        for (wanted, objects) in heaps.into_values().zip(answers) {
            match objects {
                Ok(objects) => {
                    let references = wanted.into_iter().map(|(reference, _)| reference);
                    self.found.extend(references.zip(objects));
                }
                Err(error) => {
                    let lost = wanted.into_iter().map(|(reference, _)| (reference, Err(error.clone())));
                    self.found.extend(lost);
                }
            }
        }
        Ok(())
    }
}

/// Returns the datatype message of a committed datatype.
fn committed_datatype(header: &Header) -> Result<Body, Error> {
    match header.find(kind::DATATYPE) {
        Some(message) if !message.shared => Ok(message.body.clone()),
        _ => {
            let problem = "no datatype message, or a shared one, expected one in the header";
            Err(Error::malformed("committed datatype", header.address, problem))
        }
    }
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
        bytes.extend(crate::cursor::lookup3(&bytes).to_le_bytes());
        assert_eq!(message.length, bytes.len() as u64);
        let indexes = parse_table(&bytes, message, FORMAT).unwrap();
        assert_eq!(SharedIndex::heap_of(&indexes, 3), Some(0x80));
        assert_eq!(SharedIndex::heap_of(&indexes, 12), None);
    }
}
