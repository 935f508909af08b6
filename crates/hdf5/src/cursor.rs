//! A cursor over one structure, and the checksum at the end of most structures.

use std::ops::RangeInclusive;

use bytes::Bytes;
use virtualize_bytes::{Cursor, NeedBytes};

use crate::Error;

/// A cursor over one structure, whose errors name the structure and its address.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    cursor: Cursor<'a>,
    format: Format,
    structure: &'static str,
    start: u64,
}

macro_rules! numbers {
    ($($name:ident $type:ty),*) => {$(
        pub(crate) fn $name(&mut self) -> Result<$type, Error> {
            self.cursor.$name().map_err(|need| self.short(need))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte of `structure`, which is at `address`.
    pub(crate) const fn new(structure: &'static str, bytes: &'a [u8], address: u64, format: Format) -> Self {
        Self { cursor: Cursor::little(bytes, address), format, structure, start: address }
    }

    /// Creates a reader of a structure that ends with a checksum. Checks the signature and the checksum, which is not read.
    pub(crate) fn checked(
        structure: &'static str,
        signature: &[u8; 4],
        bytes: &'a [u8],
        address: u64,
        format: Format,
    ) -> Result<Self, Error> {
        Self::new(structure, bytes, address, format).signature(signature)?;
        let mut reader = Self::new(structure, checked(structure, address, bytes)?, address, format);
        reader.skip(4)?;
        Ok(reader)
    }

    numbers!(u8 u8, u16 u16, u32 u32, u64 u64);

    /// Reads an unsigned integer of `size` bytes.
    pub(crate) fn uint(&mut self, size: u8) -> Result<u64, Error> {
        self.cursor.uint(usize::from(size)).map_err(|need| self.short(need))
    }

    /// Reads an address, as an absolute offset; `None` for the undefined address.
    pub(crate) fn address(&mut self) -> Result<Option<u64>, Error> {
        self.format.address(&mut self.cursor).map_err(|need| self.short(need))
    }

    /// Reads an address that must be defined.
    pub(crate) fn defined_address(&mut self) -> Result<u64, Error> {
        self.address()?.ok_or_else(|| self.malformed("undefined address, expected a defined one"))
    }

    /// Reads a length; `None` if all bits are set.
    pub(crate) fn length(&mut self) -> Result<Option<u64>, Error> {
        self.format.length(&mut self.cursor).map_err(|need| self.short(need))
    }

    /// Reads a length as stored.
    pub(crate) fn raw_length(&mut self) -> Result<u64, Error> {
        self.uint(self.format.length_size)
    }

    /// Reads `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        self.cursor.take_u64(count).map_err(|need| self.short(need))
    }

    /// Returns the unread bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Reads `count` bytes as a copy.
    pub(crate) fn bytes(&mut self, count: u64) -> Result<Bytes, Error> {
        self.take(count).map(Bytes::copy_from_slice)
    }

    /// Skips `count` bytes.
    pub(crate) fn skip(&mut self, count: u64) -> Result<(), Error> {
        self.take(count).map(drop)
    }

    /// Reads text up to the next NUL and skips the NUL.
    pub(crate) fn text(&mut self) -> Result<String, Error> {
        let bytes = self.cursor.nul_terminated().map_err(|need| self.short(need))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads text up to the next NUL and skips padding to a multiple of eight bytes.
    pub(crate) fn padded_text(&mut self) -> Result<String, Error> {
        let start = self.position();
        let text = self.text()?;
        self.skip(padding_to_eight(self.position().saturating_sub(start)))?;
        Ok(text)
    }

    /// Reads and checks the signature of the structure.
    pub(crate) fn signature(&mut self, expected: &[u8; 4]) -> Result<(), Error> {
        let found = self.take(4)?;
        if found == expected {
            return Ok(());
        }
        let problem = format!("signature {}, expected {}", found.escape_ascii(), expected.escape_ascii());
        Err(self.malformed(problem))
    }

    /// Reads the version byte, which must be in `known`.
    pub(crate) fn version(&mut self, known: RangeInclusive<u8>) -> Result<u8, Error> {
        let version = self.u8()?;
        if known.contains(&version) {
            return Ok(version);
        }
        let problem = match (known.start(), known.end()) {
            (first, last) if first == last => format!("version {version}, expected {first}"),
            (first, last) => format!("version {version}, expected {first} to {last}"),
        };
        Err(self.unsupported(problem))
    }

    /// Returns the number of unread bytes.
    pub(crate) const fn remaining(&self) -> usize {
        self.cursor.remaining()
    }

    /// Returns the address of the next byte.
    pub(crate) const fn position(&self) -> u64 {
        self.cursor.address()
    }

    /// Returns the format parameters of the file.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Creates an error for a structure that contradicts the specification.
    pub(crate) fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::malformed(self.structure, self.start, problem)
    }

    /// Creates an error for a valid but unsupported structure.
    pub(crate) fn unsupported(&self, problem: impl Into<String>) -> Error {
        Error::unsupported(self.structure, self.start, problem)
    }

    fn short(&self, need: NeedBytes) -> Error {
        Error::Truncated { structure: self.structure, address: self.start, range: need.range }
    }
}

/// Returns text up to its first NUL. Invalid UTF-8 is replaced.
pub(crate) fn text_before_nul(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// Returns a little-endian number of at most 8 bytes.
pub(crate) fn uint(bytes: &[u8]) -> u64 {
    match bytes.as_array() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}

/// Returns the number of padding bytes up to a multiple of eight.
pub(crate) const fn padding_to_eight(length: u64) -> u64 {
    length.wrapping_neg() % 8
}

/// Returns the bytes from `start` to `end` of a block, sharing its memory; `None` if the block is shorter.
pub(crate) fn slice(block: &Bytes, start: u64, end: u64) -> Option<Bytes> {
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    (start <= end && end <= block.len()).then(|| block.slice(start..end))
}

/// Parameters from the superblock that all parsers need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// Base address, which is added to every address that is read.
    pub(crate) base: u64,
    /// Size of an address in bytes ("size of offsets").
    pub(crate) offset_size: u8,
    /// Size of a length in bytes ("size of lengths").
    pub(crate) length_size: u8,
}

impl Format {
    /// Reads an address, as an absolute offset; `None` for the undefined address (all bits set).
    pub(crate) fn address(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.offset_size))?;
        Ok((raw != all_ones(self.offset_size)).then(|| raw.saturating_add(self.base)))
    }

    /// Reads a length in bytes or elements; `None` for the undefined or unlimited one (all bits set).
    pub(crate) fn length(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.length_size))?;
        Ok((raw != all_ones(self.length_size)).then_some(raw))
    }
}

/// Returns the largest number of `size` bytes.
fn all_ones(size: u8) -> u64 {
    match 64_u32.checked_sub(u32::from(size).saturating_mul(8)) {
        Some(unused) => u64::MAX.checked_shr(unused).unwrap_or(0),
        None => u64::MAX,
    }
}

/// Verifies the checksum in the last four bytes of a structure. Returns the bytes before it.
pub(crate) fn checked<'a>(structure: &'static str, address: u64, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
    let Some((content, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::malformed(
            structure,
            address,
            format!("{} bytes, expected a checksum of 4", bytes.len()),
        ));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), lookup3(content));
    if stored != computed && !is_ignored() {
        let problem = format!("checksum {stored:#010x}, expected {computed:#010x}");
        return Err(Error::malformed(structure, address, problem));
    }
    Ok(content)
}

/// Whether checksums are ignored: only in tests of damaged files, so that the damage reaches the parsers.
#[cfg(not(test))]
fn is_ignored() -> bool {
    false
}

#[cfg(test)]
thread_local! {
    pub(crate) static IGNORED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_ignored() -> bool {
    IGNORED.get()
}

// Bob Jenkins' lookup3 ("hashlittle") with initial value 0: the checksum of HDF5 (specification, appendix C).

/// Returns the checksum that most structures of HDF5 end with, that of `bytes`.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let start = u32::try_from(bytes.len()).unwrap_or(u32::MAX).wrapping_add(0xdead_beef);
    let mut state = [start; 3];
    // The last block has 1 to 12 bytes and a mixing function of its own.
    let before_last = bytes.len().saturating_sub(1);
    let body = before_last.saturating_sub(before_last % 12);
    let (body, tail) = bytes.split_at_checked(body).unwrap_or((bytes, &[]));
    let (blocks, _) = body.as_chunks::<12>();
    for block in blocks {
        state = mix(add(state, block));
    }
    match tail {
        [] => state[2],
        _ => last(add(state, &padded(tail))),
    }
}

fn padded(tail: &[u8]) -> [u8; 12] {
    let mut block = [0; 12];
    block.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    block
}

fn add([a, b, c]: [u32; 3], block: &[u8; 12]) -> [u32; 3] {
    let &[a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = block;
    [
        a.wrapping_add(u32::from_le_bytes([a0, a1, a2, a3])),
        b.wrapping_add(u32::from_le_bytes([b0, b1, b2, b3])),
        c.wrapping_add(u32::from_le_bytes([c0, c1, c2, c3])),
    ]
}

/// Mixes a block other than the last one.
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    [a, b, c]
}

/// Mixes the last block.
fn last([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_to_a_multiple_of_eight() {
        assert_eq!([0, 1, 7, 8, 9].map(padding_to_eight), [0, 7, 1, 0, 7]);
    }

    #[test]
    fn errors_name_structure_and_address() {
        let format = Format { base: 0, offset_size: 8, length_size: 8 };
        let mut reader = Reader::new("link message", &[9, 0], 0x40, format);
        assert_eq!(
            reader.version(1..=1).unwrap_err().to_string(),
            "link message at 0x40: version 9, expected 1"
        );
        assert!(
            reader.u32().unwrap_err().to_string().starts_with("link message at 0x40: 4 bytes at 0x41 needed")
        );
    }

    #[test]
    fn errors_show_both_checksums() {
        let mut bytes = b"Four score and seven years ago".to_vec();
        bytes.extend(0x1777_0551_u32.to_le_bytes());
        assert_eq!(checked("text", 0, &bytes).unwrap().len(), 30);
        bytes[0] = b'f';
        let error = checked("text", 0x40, &bytes).unwrap_err().to_string();
        assert!(error.starts_with("text at 0x40: checksum 0x17770551, expected 0x"), "{error}");
        assert!(checked("text", 0, &[1, 2, 3]).is_err());
    }

    /// Expected values: those that the author of lookup3 publishes for initial value 0.
    #[test]
    fn agrees_with_the_published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn the_last_block_can_be_full() {
        let zeros = [0_u8; 24];
        assert_eq!(lookup3(&zeros), lookup3_by_bytes(&zeros));
    }

    /// A second implementation, byte by byte, with the published loop bound.
    fn lookup3_by_bytes(mut bytes: &[u8]) -> u32 {
        let mut state = [0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap()); 3];
        while bytes.len() > 12 {
            state = mix(add(state, bytes[..12].try_into().unwrap()));
            bytes = &bytes[12..];
        }
        if bytes.is_empty() { state[2] } else { last(add(state, &padded(bytes))) }
    }
}
