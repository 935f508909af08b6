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

use crate::{Error, checksum, context::Format, reader::Reader, tree_ranks::TreeRanks};

const STRUCTURE: &str = "superblock";
/// Format signature.
const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
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

/// Returns whether `bytes` start with the format signature.
pub(crate) fn is_superblock(bytes: &[u8]) -> bool {
    bytes.starts_with(&SIGNATURE)
}

/// Parses the superblock at `address`.
pub(crate) fn parse(bytes: &[u8], address: u64) -> Result<Superblock, Error> {
    let unknown = Format { base: 0, offset_size: 8, length_size: 8 };
    let mut reader = Reader::new(STRUCTURE, bytes, address, unknown);
    reader.skip(8)?;
    match reader.version(0..=3)? {
        version @ (0 | 1) => parse_old(reader, bytes, address, version),
        version => parse_new(reader, bytes, address, version),
    }
}

fn parse_old(mut reader: Reader<'_>, bytes: &[u8], address: u64, version: u8) -> Result<Superblock, Error> {
    let versions = [reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?];
    if let [free_space, entries, _, shared] = versions
        && [free_space, entries, shared] != [0; 3]
    {
        return Err(reader.unsupported(format!("versions {versions:?} of its parts, expected 0")));
    }
    let sizes = sizes(&mut reader)?;
    reader.skip(1)?;
    let (symbols, groups) = (reader.u16()?, reader.u16()?);
    let flags = reader.u32()?;
    let chunks = if version == 0 { TreeRanks::DEFAULT.chunks } else { reader.u16()? };
    reader.skip(if version == 0 { 0 } else { 2 })?;
    let ranks = TreeRanks { symbols, groups, chunks };
    if symbols == 0 || groups == 0 || flags > FLAGS.into() {
        return Err(
            reader.malformed(format!("{ranks:?} and flags {flags:#x}, expected 1 or more and at most 7"))
        );
    }
    let (mut reader, stored_base) = rebase(bytes, address, &reader, sizes)?;
    let format = reader.format();
    if let Some(free_space) = reader.address()? {
        return Err(reader.malformed(format!("free space at {free_space:#x}, expected an undefined address")));
    }
    let end = end_of_file(&mut reader, stored_base)?;
    let driver_block = reader.address()?;
    reader.skip(u64::from(sizes.0))?;
    let root = reader.defined_address()?;
    if reader.u32()? > 2 {
        return Err(reader.malformed("cache type of the root group, expected 0 to 2"));
    }
    Ok(Superblock { version, address, format, extension: None, driver_block, root, end, ranks })
}

fn parse_new(mut reader: Reader<'_>, bytes: &[u8], address: u64, version: u8) -> Result<Superblock, Error> {
    let sizes = sizes(&mut reader)?;
    let flags = reader.u8()?;
    if version == 3 && flags & OPEN_FOR_WRITING != 0 {
        return Err(reader.unsupported("file marked as open for writing (h5clear -s clears the mark)"));
    }
    if flags > FLAGS {
        return Err(reader.malformed(format!("flags {flags:#04x}, expected at most 7")));
    }
    let (mut reader, stored_base) = rebase(bytes, address, &reader, sizes)?;
    let format = reader.format();
    let extension = reader.address()?;
    let end = end_of_file(&mut reader, stored_base)?;
    let root = reader.defined_address()?;
    reader.skip(4)?;
    let length = bytes.len().saturating_sub(reader.remaining());
    checksum::checked(STRUCTURE, address, bytes.get(..length).unwrap_or(bytes))?;
    let ranks = TreeRanks::DEFAULT;
    Ok(Superblock { version, address, format, extension, driver_block: None, root, end, ranks })
}

/// Reads the sizes of offsets and lengths.
fn sizes(reader: &mut Reader<'_>) -> Result<(u8, u8), Error> {
    let sizes = (reader.u8()?, reader.u8()?);
    let known = |size| matches!(size, 2 | 4 | 8);
    if known(sizes.0) && known(sizes.1) {
        return Ok(sizes);
    }
    let problem = format!("size of offsets {} and size of lengths {}, expected 2, 4 or 8", sizes.0, sizes.1);
    Err(reader.unsupported(problem))
}

/// Reads the base address. Returns a reader that adds the superblock's own address instead.
///
/// Like the library, takes the address of the superblock as base address, whatever is stored: a user block can have
/// been added or removed after the file was written.
fn rebase<'a>(
    bytes: &'a [u8],
    address: u64,
    at: &Reader<'_>,
    (offset_size, length_size): (u8, u8),
) -> Result<(Reader<'a>, u64), Error> {
    let mut reader =
        Reader::new(STRUCTURE, bytes, address, Format { base: address, offset_size, length_size });
    reader.skip(at.position().saturating_sub(address))?;
    let stored_base = reader.uint(offset_size)?;
    Ok((reader, stored_base))
}

/// Reads the end of the file, corrected for a moved base address.
fn end_of_file(reader: &mut Reader<'_>, stored_base: u64) -> Result<u64, Error> {
    let end = reader.defined_address()?;
    match end.checked_sub(stored_base).filter(|corrected| *corrected > reader.format().base) {
        Some(corrected) => Ok(corrected),
        None => {
            Err(reader.malformed(format!("end of file {end:#x}, expected one after base {stored_base:#x}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(parsed(73).unwrap_err().contains("cache type of the root group"));
        assert!(parsed(32).unwrap_err().contains("expected an undefined address"));
    }

    /// libhdf5 subtracts the stored base address, and then finds the file truncated.
    #[test]
    fn rejects_ends_before_the_base() {
        let parsed = |base: u64, end: u64| {
            let mut bytes = [&SIGNATURE[..], &[2, 8, 8, 0]].concat();
            bytes.extend([base, u64::MAX, end, 48].map(u64::to_le_bytes).concat());
            bytes.extend(checksum::lookup3(&bytes).to_le_bytes());
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
