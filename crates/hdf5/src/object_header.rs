//! Object headers, version 1 and 2, and their continuation blocks (specification IV.A.1).
//!
//! ```text
//! version 1: 1 | - | messages 2 | references 4 | size 4 | - 4 | messages …
//!   message: type 2 | size 2 | flags | - 3 | body
//! version 2: "OHDR" | 2 | flags | (flag 5) times 16 | (flag 4) attribute limits 4 | size 1, 2, 4 or 8 | messages … | checksum 4
//!   message: type | size 2 | flags | (flag 2) creation index 2 | body
//! continuation of version 2: "OCHK" | messages … | checksum 4
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error, attribute,
    cursor::{self, Format, Reader, slice},
    io::{Io, read_sized, read_whole},
    layout::{self, LayoutMessage},
    model::ChunkIndexKind,
};

const STRUCTURE: &str = "object header";
const CONTINUATION: &str = "object header continuation";

/// Types of header messages (specification IV.A.2).
pub(crate) mod kind {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const OLD_FILL_VALUE: u16 = 0x04;
    pub(crate) const FILL_VALUE: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL_FILES: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const FILTERS: u16 = 0x0B;
    pub(crate) const ATTRIBUTE: u16 = 0x0C;
    pub(crate) const SHARED_TABLE: u16 = 0x0F;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
    pub(crate) const TREE_RANKS: u16 = 0x13;
    pub(crate) const DRIVER_INFO: u16 = 0x14;
    pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
    pub(crate) const FILE_SPACE: u16 = 0x17;
    pub(crate) const CACHE_IMAGE: u16 = 0x18;
    /// Reserved for testing. No reader knows it.
    pub(crate) const BOGUS: u16 = 0x09;
    pub(crate) const LAST_KNOWN: u16 = 0x18;
}

/// Message flag bit 1: the body is a reference to a shared message.
const FLAG_SHARED: u8 = 0x02;
/// Message flag bit 7: a reader that does not know the message must not open the object.
const FLAG_MUST_KNOW: u8 = 0x80;

/// The bytes of a message or of an object in a heap, and their address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Body {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
}

/// A message of an object header, not parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// Message type (see [`kind`]).
    pub(crate) kind: u16,
    /// Whether the body is a reference to a shared message.
    pub(crate) shared: bool,
    pub(crate) body: Body,
}

/// The fields before the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    version: u8,
    /// Whether messages have a creation index.
    creation_index: bool,
    /// Offset of the first message from the start of the header, in bytes.
    start: u64,
    /// Offset of the end of the messages from the start of the header, in bytes.
    end: u64,
}

impl Prefix {
    /// Returns the size in bytes of the fields before the body of a message.
    const fn envelope(self) -> usize {
        match (self.version, self.creation_index) {
            (1, _) => 8,
            (_, false) => 4,
            (_, true) => 6,
        }
    }

    /// Returns the size of the header block in bytes, without continuation blocks.
    pub(crate) const fn length(self) -> u64 {
        self.end.saturating_add(if self.version == 2 { 4 } else { 0 })
    }
}

/// Parses the fields before the messages.
pub(crate) fn parse_prefix(bytes: &[u8], address: u64, format: Format) -> Result<Prefix, Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    if !bytes.starts_with(b"OHDR") {
        reader.version(1..=1)?;
        reader.skip(7)?;
        let end = u64::from(reader.u32()?).saturating_add(16);
        return Ok(Prefix { version: 1, creation_index: false, start: 16, end });
    }
    reader.skip(4)?;
    reader.version(2..=2)?;
    let flags = reader.u8()?;
    if flags & !0x3F != 0 {
        return Err(reader.malformed(format!("flags {flags:#04x}, expected no reserved ones")));
    }
    reader.skip(if flags & 0x20 == 0 { 0 } else { 16 })?;
    reader.skip(if flags & 0x10 == 0 { 0 } else { 4 })?;
    let size = reader.uint(1 << (flags & 3))?;
    let start = reader.position().saturating_sub(address);
    Ok(Prefix { version: 2, creation_index: flags & 4 != 0, start, end: start.saturating_add(size) })
}

/// Parses a Continuation message.
pub(crate) fn parse_continuation_message(body: &Body, format: Format) -> Result<ByteRange, Error> {
    let mut reader = Reader::new("continuation message", &body.bytes, body.address, format);
    match (reader.defined_address()?, reader.raw_length()?) {
        (_, 0) => Err(reader.malformed("continuation of 0 bytes, expected 1 or more")),
        (address, length) => Ok(ByteRange::new(address, length)),
    }
}

/// Returns the messages of a block, the first one or a continuation, except for empty space.
fn parse_messages(
    block: &Bytes,
    at: ByteRange,
    is_first: bool,
    prefix: Prefix,
    format: Format,
) -> Result<Vec<Message>, Error> {
    let structure = if is_first { STRUCTURE } else { CONTINUATION };
    let start = match (is_first, prefix.version) {
        (true, _) => prefix.start,
        (false, 1) => 0,
        (false, _) => Reader::new(structure, block, at.start, format).signature(b"OCHK").map(|()| 4)?,
    };
    let part = |start: u64, end: u64| {
        let range = ByteRange::new(at.start.saturating_add(start), end.saturating_sub(start));
        slice(block, start, end).ok_or(Error::Truncated { structure, address: at.start, range })
    };
    let end = if prefix.version == 1 {
        at.length
    } else {
        cursor::checked(structure, at.start, &part(0, at.length)?)?;
        at.length.saturating_sub(4)
    };
    let block = part(start, end)?;
    let mut reader = Reader::new(STRUCTURE, &block, at.start.saturating_add(start), format);
    let mut messages = Vec::new();
    while reader.remaining() >= prefix.envelope() {
        let is_old = prefix.version == 1;
        let kind = if is_old { reader.u16()? } else { reader.u8()?.into() };
        let (size, flags) = (reader.u16()?, reader.u8()?);
        let skipped = if is_old { 3 } else { u64::from(prefix.creation_index).saturating_mul(2) };
        reader.skip(skipped)?;
        let address = reader.position();
        let start = block.len().saturating_sub(reader.remaining()) as u64;
        let size = u64::from(size);
        if is_old && !size.is_multiple_of(8) {
            return Err(reader.malformed(format!("message of {size} bytes, expected a multiple of 8")));
        }
        reader.skip(size)?;
        let has = |flag| flags & flag != 0;
        let is_unknown = kind > kind::LAST_KNOWN || kind == kind::BOGUS;
        if is_unknown && has(FLAG_MUST_KNOW) {
            let problem = format!("message type {kind:#x}, which is unknown and marked as mandatory");
            return Err(reader.unsupported(problem));
        }
        use kind::{ATTRIBUTE, DATASPACE, DATATYPE, FILL_VALUE, FILTERS, OLD_FILL_VALUE};
        let is_shareable =
            matches!(kind, DATASPACE | DATATYPE | OLD_FILL_VALUE | FILL_VALUE | FILTERS | ATTRIBUTE);
        if has(FLAG_SHARED) && !is_unknown && !is_shareable {
            return Err(reader.malformed(format!("flags {flags:#04x} of a message of type {kind:#x}")));
        }
        if kind != 0 {
            let bytes = slice(&block, start, start.saturating_add(size)).unwrap_or_default();
            messages.push(Message { kind, shared: has(FLAG_SHARED), body: Body { address, bytes } });
        }
    }
    Ok(messages)
}

// Reads object headers with their continuation blocks, all of a level together.

/// Bytes of an object header to fetch first. Most headers are smaller.
const GUESS: u64 = 512;

/// Bytes of a chunk index to announce: the root of a B-tree, or a header.
const INDEX: u64 = 4 << 10;

/// Bytes before and after an object header that usually contain more of the object: the rest of its header, its heap of
/// attributes, and the root of its chunk index.
const NEIGHBOURHOOD: u64 = 8 << 10;

/// An object header with all its messages, including those of continuation blocks.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) address: u64,
    pub(crate) messages: Vec<Message>,
}

impl Header {
    /// Returns the first message of a type.
    pub(crate) fn find(&self, kind: u16) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// Returns the body of the first message of a type.
    pub(crate) fn body(&self, kind: u16) -> Option<&Body> {
        self.find(kind).map(|message| &message.body)
    }

    /// Parses the first message of a type that is never shared.
    pub(crate) fn parsed<T>(
        &self,
        kind: u16,
        format: Format,
        parse: impl Fn(&[u8], u64, Format) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.body(kind).map(|body| parse(&body.bytes, body.address, format)).transpose()
    }

    /// Returns all messages of a type.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// A header in progress.
struct Reading {
    header: Header,
    prefix: Prefix,
    /// Addresses of continuation blocks.
    blocks: BTreeSet<u64>,
    /// Continuation blocks to read.
    next: Vec<ByteRange>,
}

/// Reads the object headers at these addresses.
pub(crate) async fn read_headers(
    io: &Io<'_>,
    format: Format,
    addresses: &[u64],
) -> Result<Vec<Result<Header, Error>>, Error> {
    io.may_read(addresses.iter().map(|address| {
        let start = address.saturating_sub(NEIGHBOURHOOD);
        ByteRange::new(start, address.saturating_sub(start).saturating_add(NEIGHBOURHOOD))
    }));
    let length = |bytes: &[u8], address| parse_prefix(bytes, address, format).map(Prefix::length);
    let blocks = read_sized(io, "object header", addresses, GUESS, length).await?;
    let begin = |(block, &address): (Result<Bytes, Error>, &u64)| {
        let block = block?;
        let prefix = parse_prefix(&block, address, format)?;
        let messages =
            parse_messages(&block, ByteRange::new(address, prefix.length()), true, prefix, format)?;
        let header = Header { address, messages: Vec::new() };
        let mut reading = Reading { header, prefix, blocks: BTreeSet::new(), next: Vec::new() };
        reading.add(io, messages, format)?;
        Ok(reading)
    };
    let mut readings: Vec<_> = blocks.into_iter().zip(addresses).map(begin).collect();
    let headers = readings.iter().flatten().map(|reading| &reading.header);
    io.will_read(headers.flat_map(|header| structures(header, format)));
    loop {
        let mut steps = Vec::new();
        for (index, reading) in readings.iter_mut().enumerate() {
            let next = reading.as_mut().map(|reading| std::mem::take(&mut reading.next)).unwrap_or_default();
            steps.extend(next.into_iter().map(|continuation| (index, continuation)));
        }
        if steps.is_empty() {
            break;
        }
        let ranges: Vec<_> = steps.iter().map(|(_, range)| *range).collect();
        for ((index, at), block) in steps.iter().zip(read_whole(io, CONTINUATION, &ranges).await) {
            let Some(slot) = readings.get_mut(*index) else { continue };
            let Ok(reading) = slot else { continue };
            let added = block.and_then(|block| parse_messages(&block, *at, false, reading.prefix, format));
            if let Err(error) = added.and_then(|messages| reading.add(io, messages, format)) {
                *slot = Err(error);
            }
        }
    }
    Ok(readings.into_iter().map(|reading| reading.map(|reading| reading.header)).collect())
}

/// Returns the start of the structures to which a header refers: its chunk index, and the heap and B-tree of its
/// attributes.
fn structures(header: &Header, format: Format) -> impl Iterator<Item = ByteRange> {
    let index = match header.parsed(kind::LAYOUT, format, layout::parse) {
        Ok(Some(LayoutMessage::Chunked(chunked))) => match chunked.index {
            ChunkIndexKind::Single | ChunkIndexKind::Implicit => None,
            _ => chunked.address,
        },
        _ => None,
    };
    let dense = header.parsed(kind::ATTRIBUTE_INFO, format, attribute::parse_info).ok().flatten().flatten();
    let dense = dense.into_iter().flat_map(|dense| [dense.heap, dense.names]);
    let index = index.map(|address| ByteRange::new(address, INDEX));
    index.into_iter().chain(dense.map(|address| ByteRange::new(address, GUESS)))
}

impl Reading {
    /// Adds messages. Continuation messages are not part of the header: their blocks are read next.
    fn add(&mut self, io: &Io<'_>, messages: Vec<Message>, format: Format) -> Result<(), Error> {
        let bytes = (messages.len() as u64).saturating_mul(size_of::<Message>() as u64);
        io.hold("messages of object headers", bytes)?;
        let (found, others) =
            messages.into_iter().partition::<Vec<_>, _>(|message| message.kind == kind::CONTINUATION);
        self.header.messages.extend(others);
        for message in found {
            let continuation = parse_continuation_message(&message.body, format)?;
            if !self.blocks.insert(continuation.start) {
                let problem = format!("second continuation at {:#x}, expected one", continuation.start);
                return Err(Error::malformed("object header", self.header.address, problem));
            }
            self.next.push(continuation);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    #[test]
    fn version_1() {
        let mut bytes = vec![1, 0, 2, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0x03, 0, 8, 0, 2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0]);
        let prefix = parse_prefix(&bytes, 96, FORMAT).unwrap();
        assert_eq!(prefix.length(), 40);
        let messages =
            parse_messages(&bytes.into(), ByteRange::new(96, prefix.length()), true, prefix, FORMAT).unwrap();
        let body = Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let body = Body { address: 120, bytes: body };
        assert_eq!(messages, [Message { kind: 3, shared: true, body }]);
    }

    #[test]
    fn version_2_with_creation_index_and_gap() {
        let mut bytes = b"OHDR\x02\x04\x0a".to_vec();
        bytes.extend([0x0A, 2, 0, 0, 7, 0, 0, 0]);
        bytes.extend([0, 0]);
        bytes.extend(cursor::lookup3(&bytes).to_le_bytes());
        let prefix = parse_prefix(&bytes, 48, FORMAT).unwrap();
        assert_eq!((prefix.length(), prefix.creation_index), (21, true));
        let messages =
            parse_messages(&bytes.clone().into(), ByteRange::new(48, prefix.length()), true, prefix, FORMAT)
                .unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!((messages[0].kind, messages[0].body.address), (0x0A, 61));
        bytes[10] ^= 1;
        assert!(
            parse_messages(&bytes.into(), ByteRange::new(48, prefix.length()), true, prefix, FORMAT).is_err(),
            "checksum"
        );
    }

    #[test]
    fn rejects_unknown_mandatory_messages() {
        let mut bytes = vec![1, 0, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0x40, 0, 0, 0, 0x80, 0, 0, 0]);
        let prefix = parse_prefix(&bytes, 0, FORMAT).unwrap();
        for kind in [0x40, 0x19, 0x09] {
            bytes[16] = kind;
            let header = parse_messages(
                &bytes.clone().into(),
                ByteRange::new(0, prefix.length()),
                true,
                prefix,
                FORMAT,
            );
            assert!(matches!(header, Err(Error::Unsupported { .. })), "{kind:#x}");
        }
    }

    /// libhdf5 opens no object with such a message.
    #[test]
    fn rejects_empty_continuations() {
        let parsed = |length: u64| {
            let bytes = [64, length].map(u64::to_le_bytes).concat().into();
            parse_continuation_message(&Body { address: 0, bytes }, FORMAT)
        };
        assert_eq!(parsed(8).unwrap(), ByteRange::new(64, 8));
        assert!(parsed(0).is_err());
    }

    #[test]
    fn rejects_messages_that_cannot_be_read() {
        let parsed = |kind, size: u8, flags| {
            let message = [&[kind, 0, size, 0, flags, 0, 0, 0][..], &[1; 16][..size.into()]].concat();
            let length = u8::try_from(message.len()).unwrap();
            let bytes = [&[1, 0, 1, 0, 1, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0][..], &message].concat();
            let prefix = parse_prefix(&bytes, 0, FORMAT)?;
            parse_messages(&bytes.into(), ByteRange::new(0, prefix.length()), true, prefix, FORMAT)
        };
        assert_eq!(parsed(1, 16, 0).unwrap().len(), 1);
        assert!(parsed(1, 12, 0).is_err(), "size");
        assert!(parsed(8, 16, FLAG_SHARED).is_err(), "a shared layout");
        assert!(parse_prefix(b"OHDR\x02\x40\x00", 0, FORMAT).is_err(), "flags");
    }
}
