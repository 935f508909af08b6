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
    object_header::{Body, Header, Message, kind, read_headers},
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
    /// Parses the body of a message, if it is a reference.
    pub(crate) fn new(message: Message, format: Format) -> Result<Self, Error> {
        let Message { kind, shared, body } = message;
        if !shared {
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
    /// Indexes of the table: the message types, as a bit mask, and the address of the fractal heap that contains them.
    indexes: Vec<(u16, Option<u64>)>,
    found: BTreeMap<SharedReference, Result<Body, Error>>,
}

impl SharedMessages {
    /// Reads the shared message table, if the superblock extension refers to one.
    pub(crate) async fn open(io: &Io<'_>, format: Format, extension: Option<&Header>) -> Result<Self, Error> {
        let Some(body) = extension.and_then(|header| header.body(kind::SHARED_TABLE)) else {
            return Ok(Self::default());
        };
        let mut message = Reader::new("shared message table message", &body.bytes, body.address, format);
        message.version(0..=0)?;
        let (address, count) = (message.defined_address()?, message.u8()?);
        let index_length = u64::from(format.offset_size).saturating_mul(2).saturating_add(14);
        let length = index_length.saturating_mul(u64::from(count)).saturating_add(8);
        let table = io.read(&[ByteRange::new(address, length)]).await?.pop().unwrap_or_default();
        let mut reader = Reader::checked("shared message table", b"SMTB", &table, address, format)?;
        let index = |_| {
            reader.version(0..=0)?;
            reader.skip(1)?;
            let kinds = reader.u16()?;
            reader.skip(10)?;
            reader.address()?;
            Ok((kinds, reader.address()?))
        };
        let indexes = (0..count).map(index).collect::<Result<_, Error>>()?;
        Ok(Self { indexes, found: BTreeMap::new() })
    }

    /// Returns a message. A shared one must have been looked up.
    pub(crate) fn body(&self, stored: &Stored) -> Result<Body, Error> {
        let missing = || Err(Error::malformed("shared message", 0, "not looked up"));
        match stored {
            Stored::Here(body) => Ok(body.clone()),
            Stored::Shared(reference) => self.found.get(reference).cloned().unwrap_or_else(missing),
        }
    }

    /// Parses the first message of a type in a header, if there is one. A shared one must have been looked up.
    pub(crate) fn parsed<T>(
        &self,
        header: &Header,
        kind: u16,
        format: Format,
        parse: impl Fn(&[u8], u64, Format) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Some(message) = header.find(kind) else { return Ok(None) };
        self.parse(&Stored::new(message.clone(), format)?, format, parse).map(Some)
    }

    /// Parses a message. A shared one must have been looked up.
    pub(crate) fn parse<T>(
        &self,
        stored: &Stored,
        format: Format,
        parse: impl Fn(&[u8], u64, Format) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let body = self.body(stored)?;
        parse(&body.bytes, body.address, format)
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
                SharedReference::Heap { kind, id } => {
                    let bit = 1_u16.checked_shl(u32::from(kind)).unwrap_or(0);
                    let index = self.indexes.iter().find(|(kinds, _)| kinds & bit != 0);
                    if let Some((_, Some(heap))) = index {
                        heaps.entry(*heap).or_default().push((reference, id));
                    } else {
                        let problem = format!("no heap for messages of type {kind:#x}");
                        let error = Error::malformed("shared message table", 0, problem);
                        self.found.insert(reference, Err(error));
                    }
                }
            }
        }
        let headers = read_headers(io, format, &committed).await?;
        for (address, header) in committed.into_iter().zip(headers) {
            let body = header.and_then(|header| match header.find(kind::DATATYPE) {
                Some(message) if !message.shared => Ok(message.body.clone()),
                _ => {
                    let problem = "no datatype message, or a shared one, expected one in the header";
                    Err(Error::malformed("committed datatype", address, problem))
                }
            });
            self.found.insert(SharedReference::Committed(address), body);
        }
        let addresses: Vec<_> = heaps.keys().copied().collect();
        let ids = |wanted: &Vec<(_, HeapId)>| wanted.iter().map(|(_, id)| *id).collect();
        let requests: Vec<_> = heaps.values().map(ids).collect();
        let opened = open_heaps(io, format, &addresses).await?;
        let answers = read_heap_objects(io, format, opened, &requests).await;
        for (wanted, objects) in heaps.into_values().zip(answers) {
            let references = wanted.into_iter().map(|(reference, _)| reference);
            match objects {
                Ok(objects) => self.found.extend(references.zip(objects)),
                Err(error) => self.found.extend(references.map(|lost| (lost, Err(error.clone())))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use virtualize_bytes::{Limits, MemorySource};

    use super::*;
    use crate::testing::ready;

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
        let mut bytes = b"SMTB".to_vec();
        bytes.extend([0, 0, 0b1010, 0, 50, 0, 0, 0, 50, 0, 40, 0, 3, 0, 0x60, 0, 0, 0, 0x80, 0, 0, 0]);
        bytes.extend(crate::cursor::lookup3(&bytes).to_le_bytes());
        let source = MemorySource([vec![0; 0x20], bytes].concat().into());
        let io = Io::new(&source, Limits::default());
        let body = Body { address: 0, bytes: Bytes::from_static(&[0, 0x20, 0, 0, 0, 1]) };
        let messages = vec![Message { kind: kind::SHARED_TABLE, shared: false, body }];
        let header = Header { address: 0, messages };
        let mut shared = ready(SharedMessages::open(&io, FORMAT, Some(&header))).unwrap();
        let reference = |kind| SharedReference::Heap { kind, id: [0; 8] };
        ready(shared.look_up(&io, FORMAT, [reference(3), reference(12)].into())).unwrap();
        let error = |kind| shared.body(&Stored::Shared(reference(kind))).unwrap_err().to_string();
        assert!(error(3).starts_with("fractal heap header at 0x80"), "{}", error(3));
        assert!(error(12).contains("no heap for messages of type 0xc"), "{}", error(12));
    }
}
