//! Metadata cache image: structures that the library kept in its cache image instead of writing them to their addresses
//! when it closed the file (Metadata Cache Image message, 0x0018, of the superblock extension, and its block).
//!
//! ```text
//! message: 0 | address O | length L
//! block: "MDCI" | 0 | flags | length L | entries 4 | entries … | checksum 4
//!   entry: type | flags | ring | age | children 2 | changed children 2 | parents 2 | rank 4 | address O | length L | parents O×n | image
//! ```

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{Error, checksum, context::Format, reader::Reader};

const STRUCTURE: &str = "metadata cache image";

/// Parses the message. Returns the range of the image; `None` after a writer has loaded it.
pub(crate) fn parse_message(bytes: &[u8], address: u64, format: Format) -> Result<Option<ByteRange>, Error> {
    let mut reader = Reader::new("metadata cache image message", bytes, address, format);
    reader.version(0..=0)?;
    let address = reader.address()?;
    let length = reader.raw_length()?;
    Ok(address.map(|address| ByteRange::new(address, length)))
}

/// Parses the image. Returns structures with their addresses.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Vec<(u64, Bytes)>, Error> {
    checksum::checked(STRUCTURE, address, bytes)?;
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    reader.signature(b"MDCI")?;
    reader.version(0..=0)?;
    reader.skip(1)?;
    reader.raw_length()?;
    let count = reader.u32()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(entry(&mut reader)?);
    }
    Ok(entries)
}

fn entry(reader: &mut Reader<'_>) -> Result<(u64, Bytes), Error> {
    reader.skip(8)?;
    let parents = u64::from(reader.u16()?);
    reader.skip(4)?;
    let address = reader.defined_address()?;
    let length = reader.raw_length()?;
    reader.skip(parents.saturating_mul(u64::from(reader.format().offset_size)))?;
    Ok((address, reader.bytes(length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0x10, offset_size: 2, length_size: 2 };

    #[test]
    fn parses_entries_with_addresses() {
        assert_eq!(parse_message(&[0, 0x40, 0, 9, 0], 0, FORMAT).unwrap(), Some(ByteRange::new(0x50, 9)));
        let mut bytes = b"MDCI\0\0\0\0\x01\0\0\0".to_vec();
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x30, 0, 2, 0, 0x20, 0, 7, 8]);
        bytes.extend(checksum::lookup3(&bytes).to_le_bytes());
        assert_eq!(parse(&bytes, 0, FORMAT).unwrap(), [(0x40, Bytes::from_static(&[7, 8]))]);
        bytes.truncate(30);
        assert!(parse(&bytes, 0, FORMAT).is_err());
    }
}
