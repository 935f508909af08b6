//! Resolves shared messages: those in the headers of committed datatypes, and those in shared message heaps.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    Error,
    context::Format,
    fractal_heaps::{HeapId, open_heaps, read_heap_objects},
    headers::{Header, read_headers},
    io::Io,
    object_header::kind,
    shared::{SharedIndex, SharedReference, parse_table, parse_table_message},
};

/// Memory in bytes of a parsed message per byte.
const PARSED_FACTOR: u64 = 4;

/// The body of a message and its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Body {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
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
        let Some(message) = extension.and_then(|header| header.find(kind::SHARED_TABLE)) else {
            return Ok(Self::default());
        };
        let message = parse_table_message(&message.body, message.address, format)?;
        let range = virtualize_bytes::ByteRange::new(message.address, message.length);
        let table = io.read(&[range]).await?.into_iter().next().unwrap_or_default();
        Ok(Self { indexes: parse_table(&table, message, format)?, found: BTreeMap::new() })
    }

    /// Returns a message that was looked up.
    pub(crate) fn get(&self, reference: SharedReference) -> Result<Body, Error> {
        let missing = || Err(Error::malformed("shared message", 0, "not looked up"));
        self.found.get(&reference).cloned().unwrap_or_else(missing)
    }

    /// Charges the memory of a parsed message for one more object that shares it.
    pub(crate) fn hold(&self, io: &Io<'_>, reference: SharedReference) -> Result<(), Error> {
        let bytes = self.get(reference).map_or(0, |body| body.bytes.len());
        io.hold("shared messages", (bytes as u64).saturating_mul(PARSED_FACTOR))
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
        self.read_committed(io, format, &committed).await?;
        self.read_heaps(io, format, heaps).await
    }

    async fn read_committed(&mut self, io: &Io<'_>, format: Format, addresses: &[u64]) -> Result<(), Error> {
        let headers = read_headers(io, format, addresses).await?;
        for (&address, header) in addresses.iter().zip(headers) {
            let body = header.and_then(|header| committed_datatype(&header));
            self.found.insert(SharedReference::Committed(address), body);
        }
        Ok(())
    }

    async fn read_heaps(
        &mut self,
        io: &Io<'_>,
        format: Format,
        heaps: BTreeMap<u64, Vec<(SharedReference, HeapId)>>,
    ) -> Result<(), Error> {
        let addresses: Vec<_> = heaps.keys().copied().collect();
        let ids = |wanted: &Vec<(_, HeapId)>| wanted.iter().map(|(_, id)| *id).collect();
        let requests: Vec<_> = heaps.values().map(ids).collect();
        let opened = open_heaps(io, format, &addresses).await?;
        let answers = read_heap_objects(io, format, opened, &requests).await;
        for (wanted, objects) in heaps.into_values().zip(answers) {
            match objects {
                Ok(objects) => {
                    for ((reference, _), object) in wanted.into_iter().zip(objects) {
                        let body = object.map(|o| Body { address: o.address, bytes: o.bytes });
                        self.found.insert(reference, body);
                    }
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
        Some(message) if !message.shared => {
            Ok(Body { address: message.address, bytes: message.body.clone() })
        }
        Some(_) => Err(Error::malformed(
            "committed datatype",
            header.address,
            "a shared datatype message, expected one in the header",
        )),
        None => {
            Err(Error::malformed("committed datatype", header.address, "no datatype message, expected one"))
        }
    }
}
