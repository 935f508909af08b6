use std::ops::RangeInclusive;

use bytes::Bytes;
use virtualize_bytes::{Cursor, NeedBytes};

use crate::{Error, context::Format};

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
        let bytes = self.cursor.nul_terminated().map_err(|need| self.short(need))?;
        let used = (bytes.len() as u64).saturating_add(1);
        self.skip(padding_to_eight(used))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
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

/// Returns the number of padding bytes up to a multiple of eight.
pub(crate) const fn padding_to_eight(length: u64) -> u64 {
    length.wrapping_neg() % 8
}

/// Returns the bytes from `start` to `end` of a block, sharing its memory; `None` if the block is shorter.
pub(crate) fn slice(block: &Bytes, start: u64, end: u64) -> Option<Bytes> {
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    (start <= end && end <= block.len()).then(|| block.slice(start..end))
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
}
