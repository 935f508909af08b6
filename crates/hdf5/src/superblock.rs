//! The superblock (specification II.A) and the search for it.
//!
//! ```text
//! versions 0, 1: signature 8 | version | free space version | root entry version | - | shared header version |
//!                size of offsets | size of lengths | - | leaf K 2 | internal K 2 | flags 4 |
//!                (version 1: indexed storage K 2 | - 2) | base O | free space O | end of file O | driver block O |
//!                root group symbol table entry
//! versions 2, 3: signature 8 | version | size of offsets | size of lengths | flags |
//!                base O | extension O | end of file O | root group object header O | checksum 4
//! ```

use bytes::Bytes;
use virtualize_bytes::ByteRange;

use crate::{
    Error,
    btree1::TreeRanks,
    cursor::{self, Format, Reader},
};

const STRUCTURE: &str = "superblock";
/// Format signature.
pub(crate) const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// An upper bound on the size of a superblock in bytes.
pub(crate) const LENGTH: u64 = 128;

/// The superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) version: u8,
    /// Address at which the superblock was found.
    pub(crate) address: u64,
    pub(crate) format: Format,
    /// Address of the superblock extension's object header.
    pub(crate) extension: Option<u64>,
    /// Address of the driver information block (versions 0 and 1).
    pub(crate) driver_block: Option<u64>,
    /// Address of the root group's object header.
    pub(crate) root: u64,
    /// End of the file, exclusive.
    pub(crate) end: u64,
    /// Sizes of version 1 B-trees; from version 2 on, those without a message in the extension.
    pub(crate) ranks: TreeRanks,
}

impl Superblock {
    /// Checks that a file of `size` bytes is not shorter than the superblock declares.
    pub(crate) fn check_end(&self, size: u64) -> Result<(), Error> {
        if self.end <= size {
            return Ok(());
        }
        let problem = format!("truncated file: {size} bytes, expected {}", self.end);
        Err(Error::malformed(STRUCTURE, self.address, problem))
    }
}

/// Known file consistency flags.
const FLAGS: u8 = 0x07;
/// File consistency flags of version 3: open for writing, and open for writing with concurrent readers (SWMR).
const OPEN_FOR_WRITING: u8 = 0x01 | 0x04;

/// Returns the offsets at which a superblock can be in a file of `size` bytes: 0, 512, and each doubling of it.
pub(crate) fn candidates(size: u64) -> impl Iterator<Item = u64> {
    let doublings = std::iter::successors(Some(512_u64), |at| at.checked_mul(2));
    std::iter::once(0).chain(doublings).take_while(move |at| at.saturating_add(8) <= size)
}

/// Parses the superblock at `address`.
pub(crate) fn parse(bytes: &[u8], address: u64) -> Result<Superblock, Error> {
    let unknown = Format { base: 0, offset_size: 8, length_size: 8 };
    let mut reader = Reader::new(STRUCTURE, bytes, address, unknown);
    reader.skip(8)?;
    let version = reader.version(0..=3)?;
    let is_old = version < 2;
    if is_old {
        let versions = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
        if let [free_space, entries, _, shared] = versions
            && [free_space, entries, shared] != [0; 3]
        {
            return Err(reader.unsupported(format!("versions {versions:?} of its parts, expected 0")));
        }
    }
    let (offset_size, length_size) = (reader.u8()?, reader.u8()?);
    if [offset_size, length_size].iter().any(|size| !matches!(size, 2 | 4 | 8)) {
        let sizes = format!("size of offsets {offset_size} and size of lengths {length_size}");
        return Err(reader.unsupported(format!("{sizes}, expected 2, 4 or 8")));
    }
    let mut ranks = TreeRanks::DEFAULT;
    if is_old {
        reader.skip(1)?;
        (ranks.symbols, ranks.groups) = (reader.u16()?, reader.u16()?);
        let flags = reader.u32()?;
        if version == 1 {
            ranks.chunks = reader.u16()?;
            reader.skip(2)?;
        }
        if ranks.symbols == 0 || ranks.groups == 0 || flags > FLAGS.into() {
            let found = format!("{ranks:?} and flags {flags:#x}");
            return Err(reader.malformed(format!("{found}, expected 1 or more and at most 7")));
        }
    } else {
        let flags = reader.u8()?;
        if version == 3 && flags & OPEN_FOR_WRITING != 0 {
            return Err(reader.unsupported("file marked as open for writing (h5clear -s clears the mark)"));
        }
        if flags > FLAGS {
            return Err(reader.malformed(format!("flags {flags:#04x}, expected at most 7")));
        }
    }
    // Like the library, takes the address of the superblock as base address, whatever is stored: a user block can have
    // been added or removed after the file was written.
    let (format, at) = (Format { base: address, offset_size, length_size }, reader.position());
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    reader.skip(at.saturating_sub(address))?;
    let stored_base = reader.uint(offset_size)?;
    // Old superblocks have the address of the free space here.
    let extension = reader.address()?.filter(|_| !is_old);
    let end = reader.defined_address()?;
    let Some(end) = end.checked_sub(stored_base).filter(|corrected| *corrected > address) else {
        return Err(
            reader.malformed(format!("end of file {end:#x}, expected one after base {stored_base:#x}"))
        );
    };
    let driver_block = if is_old { reader.address()? } else { None };
    // The symbol table entry of an old root group starts with the offset of its name.
    reader.skip(if is_old { length_size.into() } else { 0 })?;
    let root = reader.defined_address()?;
    if !is_old {
        reader.skip(4)?;
        let length = bytes.len().saturating_sub(reader.remaining());
        cursor::checked(STRUCTURE, address, bytes.get(..length).unwrap_or(bytes))?;
    }
    Ok(Superblock { version, address, format, extension, driver_block, root, end, ranks })
}

// Metadata cache image: structures that the library kept in its cache image instead of writing them to their addresses
// when it closed the file (Metadata Cache Image message, 0x0018, of the superblock extension, and its block).
//
// ```text
// message: 0 | address O | length L
// block: "MDCI" | 0 | flags | length L | entries 4 | entries … | checksum 4
//   entry: type | flags | ring | age | children 2 | changed children 2 | parents 2 | rank 4 | address O | length L | parents O×n | image
// ```

const CACHE_IMAGE: &str = "metadata cache image";

/// Parses the message. Returns the range of the image; `None` after a writer has loaded it.
pub(crate) fn parse_message(bytes: &[u8], address: u64, format: Format) -> Result<Option<ByteRange>, Error> {
    let mut reader = Reader::new("metadata cache image message", bytes, address, format);
    reader.version(0..=0)?;
    let address = reader.address()?;
    let length = reader.raw_length()?;
    Ok(address.map(|address| ByteRange::new(address, length)))
}

/// Parses the image. Returns structures with their addresses.
pub(crate) fn parse_image(bytes: &[u8], address: u64, format: Format) -> Result<Vec<(u64, Bytes)>, Error> {
    cursor::checked(CACHE_IMAGE, address, bytes)?;
    let mut reader = Reader::new(CACHE_IMAGE, bytes, address, format);
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

// File space info: how a file's space is managed (File Space Info message, 0x0017, of the superblock extension).
//
// ```text
// version 1: 1 | strategy 1 | persistent 1 | threshold L | page size L | page end 2 | end of allocation O | managers O×12
// ```

/// Strategy that keeps metadata and raw data in separate pages.
const PAGED: u8 = 1;

/// Parses the message. Returns the size in bytes of the pages; `None` if space is not managed in pages.
pub(crate) fn parse_page_size(bytes: &[u8], address: u64, format: Format) -> Result<Option<u64>, Error> {
    let mut reader = Reader::new("file space info message", bytes, address, format);
    reader.version(1..=1)?;
    let strategy = reader.u8()?;
    reader.skip(1)?;
    reader.raw_length()?;
    let size = reader.raw_length()?;
    Ok((strategy == PAGED && size > 0).then_some(size))
}

#[cfg(test)]
mod tests {

    mod superblock {
        use super::super::*;

        #[test]
        fn candidates_double() {
            assert_eq!(candidates(3000).collect::<Vec<_>>(), [0, 512, 1024, 2048]);
            assert_eq!(candidates(7).count(), 0);
        }

        #[test]
        fn version_0() {
            let mut bytes = SIGNATURE.to_vec();
            bytes.extend([0, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0, 0, 0, 0, 0]);
            bytes.extend(512_u64.to_le_bytes());
            bytes.extend([0xFF; 8]);
            bytes.extend(4096_u64.to_le_bytes());
            bytes.extend([0xFF; 8]);
            bytes.extend(0_u64.to_le_bytes());
            bytes.extend(96_u64.to_le_bytes());
            bytes.extend([0; 4]);
            let found = parse(&bytes, 512).unwrap();
            assert_eq!(found.root, 608);
            assert_eq!(found.format, Format { base: 512, offset_size: 8, length_size: 8 });
            assert_eq!(found.driver_block, None);
            assert_eq!(found.end, 4096);
            assert!(found.check_end(4096).is_ok() && found.check_end(4095).is_err());
        }

        #[test]
        fn rejects_old_superblocks_with_other_parts() {
            let parsed = |at: usize| {
                let mut bytes = SIGNATURE.to_vec();
                bytes.extend([0, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0, 0, 0, 0, 0]);
                bytes.extend([0; 8]);
                bytes.extend([0xFF; 8]);
                bytes.extend(4096_u64.to_le_bytes());
                bytes.extend([0xFF; 8]);
                bytes.extend([0; 20]);
                bytes[at] = 1;
                parse(&bytes, 0).map_err(|error| error.to_string())
            };
            parsed(11).unwrap();
            for at in [9, 10, 12] {
                assert!(parsed(at).unwrap_err().contains("of its parts, expected 0"));
            }
            assert!(parsed(21).unwrap_err().contains("flags 0x100"));
        }

        /// libhdf5 subtracts the stored base address, and then finds the file truncated.
        #[test]
        fn rejects_ends_before_the_base() {
            let parsed = |base: u64, end: u64| {
                let mut bytes = [&SIGNATURE[..], &[2, 8, 8, 0]].concat();
                bytes.extend([base, u64::MAX, end, 48].map(u64::to_le_bytes).concat());
                bytes.extend(cursor::lookup3(&bytes).to_le_bytes());
                parse(&bytes, 0).map(|found| found.end)
            };
            assert_eq!(parsed(512, 4096).unwrap(), 3584);
            for (base, end) in [(4096, 4096), (8192, 4096), (u64::MAX - 7, 4096), (0, 0), (0, u64::MAX)] {
                assert!(parsed(base, end).is_err(), "{base} {end}");
            }
        }

        #[test]
        fn rejects_unknown_versions_and_sizes() {
            let mut bytes = SIGNATURE.to_vec();
            bytes.push(4);
            assert_eq!(
                parse(&bytes, 0).unwrap_err().to_string(),
                "superblock at 0x0: version 4, expected 0 to 3"
            );
            for tail in [[2, 3, 8, 0], [3, 8, 8, 1], [3, 8, 8, 4]] {
                bytes.truncate(8);
                bytes.extend(tail);
                assert!(matches!(parse(&bytes, 0), Err(Error::Unsupported { .. })), "{tail:?}");
            }
        }
    }

    mod cache_image {
        use super::super::*;

        const FORMAT: Format = Format { base: 0x10, offset_size: 2, length_size: 2 };

        #[test]
        fn parses_entries_with_addresses() {
            assert_eq!(parse_message(&[0, 0x40, 0, 9, 0], 0, FORMAT).unwrap(), Some(ByteRange::new(0x50, 9)));
            let mut bytes = b"MDCI\0\0\0\0\x01\0\0\0".to_vec();
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x30, 0, 2, 0, 0x20, 0, 7, 8]);
            bytes.extend(cursor::lookup3(&bytes).to_le_bytes());
            assert_eq!(parse_image(&bytes, 0, FORMAT).unwrap(), [(0x40, Bytes::from_static(&[7, 8]))]);
            bytes.truncate(30);
            assert!(parse_image(&bytes, 0, FORMAT).is_err());
        }
    }

    mod file_space {
        use super::super::*;

        const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 2 };

        #[test]
        fn only_paged_files_have_pages() {
            let message = |strategy| [1, strategy, 0, 1, 0, 0, 16, 0, 0];
            assert_eq!(parse_page_size(&message(1), 0, FORMAT).unwrap(), Some(4096));
            assert_eq!(parse_page_size(&message(0), 0, FORMAT).unwrap(), None);
            assert!(parse_page_size(&message(1)[..6], 0, FORMAT).is_err());
            assert!(parse_page_size(&[0; 20], 0, FORMAT).is_err());
        }
    }
}
