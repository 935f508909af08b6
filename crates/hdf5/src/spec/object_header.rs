//! Object headers, version 1 and 2, and their continuation blocks (specification IV.A.1).
//!
//! ```text
//! version 1: 1 | - | messages 2 | references 4 | size 4 | - 4 | messages …
//!   message: type 2 | size 2 | flags | - 3 | body
//! version 2: "OHDR" | 2 | flags | (flag 5) times 16 | (flag 4) attribute limits 4 | size 1, 2, 4 or 8 | messages … | checksum 4
//!   message: type | size 2 | flags | (flag 2) creation index 2 | body
//! continuation of version 2: "OCHK" | messages … | checksum 4
//! ```

use bytes::Bytes;

use super::{Format, Reader, checksum, slice};
use crate::Error;

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

/// A message of an object header, not parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// Message type (see [`kind`]).
    pub(crate) kind: u16,
    /// Whether the body is a reference to a shared message.
    pub(crate) shared: bool,
    /// Address of the body.
    pub(crate) address: u64,
    /// Body.
    pub(crate) body: Bytes,
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
    /// Returns the size of the header block in bytes, without continuation blocks.
    pub(crate) const fn length(self) -> u64 {
        self.end.saturating_add(if self.version == 2 { 4 } else { 0 })
    }
}

/// A continuation block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Continuation {
    pub(crate) address: u64,
    pub(crate) length: u64,
}

/// Parses the fields before the messages.
pub(crate) fn parse_prefix(bytes: &[u8], address: u64, format: Format) -> Result<Prefix, Error> {
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    if !bytes.starts_with(b"OHDR") {
        reader.version(1..=1)?;
        reader.skip(7)?;
        let size = u64::from(reader.u32()?);
        return Ok(Prefix { version: 1, creation_index: false, start: 16, end: size.saturating_add(16) });
    }
    reader.skip(4)?;
    reader.version(2..=2)?;
    let flags = reader.u8()?;
    reader.skip(if flags & 0x20 == 0 { 0 } else { 16 })?;
    reader.skip(if flags & 0x10 == 0 { 0 } else { 4 })?;
    let size = reader.uint(1 << (flags & 3))?;
    let start = reader.position().saturating_sub(address);
    Ok(Prefix { version: 2, creation_index: flags & 4 != 0, start, end: start.saturating_add(size) })
}

/// Parses the messages of the header block.
pub(crate) fn parse_header(
    block: &Bytes,
    address: u64,
    prefix: Prefix,
    format: Format,
) -> Result<Vec<Message>, Error> {
    if prefix.version == 2 {
        checksum::checked(STRUCTURE, address, &part(STRUCTURE, block, address, 0, prefix.length())?)?;
    }
    let body = part(STRUCTURE, block, address, prefix.start, prefix.end)?;
    parse_messages(&body, address.saturating_add(prefix.start), prefix, format)
}

/// Parses the messages of a continuation block.
pub(crate) fn parse_continuation(
    block: &Bytes,
    at: Continuation,
    prefix: Prefix,
    format: Format,
) -> Result<Vec<Message>, Error> {
    if prefix.version == 1 {
        let body = part(CONTINUATION, block, at.address, 0, at.length)?;
        return parse_messages(&body, at.address, prefix, format);
    }
    Reader::new(CONTINUATION, block, at.address, format).signature(b"OCHK")?;
    let end = at.length.saturating_sub(4);
    checksum::checked(CONTINUATION, at.address, &part(CONTINUATION, block, at.address, 0, at.length)?)?;
    let body = part(CONTINUATION, block, at.address, 4, end)?;
    parse_messages(&body, at.address.saturating_add(4), prefix, format)
}

/// Parses a Continuation message.
pub(crate) fn parse_continuation_message(message: &Message, format: Format) -> Result<Continuation, Error> {
    let mut reader = Reader::new("continuation message", &message.body, message.address, format);
    Ok(Continuation { address: reader.defined_address()?, length: reader.raw_length()? })
}

fn part(structure: &'static str, block: &Bytes, address: u64, start: u64, end: u64) -> Result<Bytes, Error> {
    let range = virtualize_bytes::ByteRange::new(address.saturating_add(start), end.saturating_sub(start));
    slice(block, start, end).ok_or(Error::Truncated { structure, address, range })
}

fn parse_messages(
    block: &Bytes,
    address: u64,
    prefix: Prefix,
    format: Format,
) -> Result<Vec<Message>, Error> {
    let mut reader = Reader::new(STRUCTURE, block, address, format);
    let envelope = match (prefix.version, prefix.creation_index) {
        (1, _) => 8,
        (_, false) => 4,
        (_, true) => 6,
    };
    let mut messages = Vec::new();
    while reader.remaining() >= envelope {
        let (kind, size, flags) = envelope_of(&mut reader, prefix)?;
        let address = reader.position();
        let start = block.len().saturating_sub(reader.remaining()) as u64;
        let size = u64::from(size);
        reader.skip(size)?;
        let unknown = kind > kind::LAST_KNOWN || kind == kind::BOGUS;
        if unknown && flags & FLAG_MUST_KNOW != 0 {
            return Err(reader
                .unsupported(format!("message type {kind:#x}, which is unknown and marked as mandatory")));
        }
        if kind != 0 {
            let body = slice(block, start, start.saturating_add(size)).unwrap_or_default();
            messages.push(Message { kind, shared: flags & FLAG_SHARED != 0, address, body });
        }
    }
    Ok(messages)
}

/// Reads type, size and flags of the next message.
fn envelope_of(reader: &mut Reader<'_>, prefix: Prefix) -> Result<(u16, u16, u8), Error> {
    if prefix.version == 1 {
        let found = (reader.u16()?, reader.u16()?, reader.u8()?);
        reader.skip(3)?;
        return Ok(found);
    }
    let found = (u16::from(reader.u8()?), reader.u16()?, reader.u8()?);
    reader.skip(if prefix.creation_index { 2 } else { 0 })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };

    #[test]
    fn version_1() {
        let mut bytes = vec![1, 0, 2, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0x11, 0, 8, 0, 2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0]);
        let prefix = parse_prefix(&bytes, 96, FORMAT).unwrap();
        assert_eq!(prefix.length(), 40);
        let messages = parse_header(&bytes.into(), 96, prefix, FORMAT).unwrap();
        let body = Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(messages, [Message { kind: 0x11, shared: true, address: 120, body }]);
    }

    #[test]
    fn version_2_with_creation_index_and_gap() {
        let mut bytes = b"OHDR\x02\x04\x0a".to_vec();
        bytes.extend([0x0A, 2, 0, 0, 7, 0, 0, 0]);
        bytes.extend([0, 0]);
        bytes.extend(checksum::lookup3(&bytes).to_le_bytes());
        let prefix = parse_prefix(&bytes, 48, FORMAT).unwrap();
        assert_eq!((prefix.length(), prefix.creation_index), (21, true));
        let messages = parse_header(&bytes.clone().into(), 48, prefix, FORMAT).unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!((messages[0].kind, messages[0].address), (0x0A, 61));
        bytes[10] ^= 1;
        assert!(parse_header(&bytes.into(), 48, prefix, FORMAT).is_err(), "checksum");
    }

    #[test]
    fn rejects_unknown_mandatory_messages() {
        let mut bytes = vec![1, 0, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0x40, 0, 0, 0, 0x80, 0, 0, 0]);
        let prefix = parse_prefix(&bytes, 0, FORMAT).unwrap();
        for kind in [0x40, 0x19, 0x09] {
            bytes[16] = kind;
            let header = parse_header(&bytes.clone().into(), 0, prefix, FORMAT);
            assert!(matches!(header, Err(Error::Unsupported { .. })), "{kind:#x}");
        }
    }
}
