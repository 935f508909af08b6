//! Numbers and padded bytes of a header.
//!
//! ```text
//! NON_NEG = 4 bytes | 8 bytes (CDF-5)
//! padding = 0, 1, 2 or 3 bytes, up to the next multiple of 4
//! ```

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Cursor, Endian, NeedBytes};

use crate::{Error, model::Version};

/// Why a structure could not be parsed.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    /// The bytes end before the structure does.
    Bytes { structure: &'static str, offset: u64, range: ByteRange },
    /// No more bytes would help.
    Nothing(Error),
}

impl From<Error> for Missing {
    fn from(error: Error) -> Self {
        Self::Nothing(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Missing>;

/// A position in the header of one file.
pub(crate) struct Reader<'a> {
    bytes: &'a Bytes,
    cursor: Cursor<'a>,
    pub(crate) version: Version,
    /// The structure that is being read, for errors.
    structure: &'static str,
    start: u64,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of a header.
    pub(crate) fn new(bytes: &'a Bytes, version: Version) -> Self {
        let cursor = Cursor::new(bytes, 0, Endian::Big);
        Self { bytes, cursor, version, structure: "magic", start: 0 }
    }

    /// Names the structure that starts here.
    pub(crate) fn enter(&mut self, structure: &'static str) {
        (self.structure, self.start) = (structure, self.offset());
    }

    /// Returns the offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.cursor.address()
    }

    /// Reads a number of 4 bytes, whatever the version.
    pub(crate) fn u32(&mut self) -> Result<u32> {
        let number = self.cursor.u32();
        number.map_err(|need| self.short(need))
    }

    /// Reads a count, length or id.
    pub(crate) fn count(&mut self) -> Result<u64> {
        match self.version {
            Version::Data64 => self.u64(),
            Version::Classic | Version::Offset64 => self.u32().map(u64::from),
        }
    }

    /// Reads the offset of data.
    ///
    /// # Errors
    /// It is negative.
    pub(crate) fn data_offset(&mut self) -> Result<u64> {
        let at = self.offset();
        let (offset, is_negative) = match self.version {
            Version::Classic => self.u32().map(|n| (u64::from(n), n.cast_signed() < 0))?,
            Version::Offset64 | Version::Data64 => self.u64().map(|n| (n, n.cast_signed() < 0))?,
        };
        match is_negative {
            true => {
                Err(Error::malformed("begin", at, format!("{offset:#x}, which is a negative offset")).into())
            }
            false => Ok(offset),
        }
    }

    /// Reads `length` bytes and skips their padding. Like netCDF-C, ignores the content of the padding.
    pub(crate) fn padded(&mut self, length: u64) -> Result<Bytes> {
        let padded = length.checked_next_multiple_of(4).unwrap_or(u64::MAX);
        let taken = self.cursor.take_u64(padded).map_err(|need| self.short(need))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(self.bytes.slice_ref(taken.get(..length).unwrap_or_default()))
    }

    /// Creates an error of the current structure.
    pub(crate) fn malformed(&self, problem: impl Into<String>) -> Missing {
        Error::malformed(self.structure, self.start, problem).into()
    }

    /// Creates an error of an exceeded limit in the current structure.
    pub(crate) fn limit(&self, problem: impl Into<String>) -> Missing {
        Error::limit(self.structure, self.start, problem).into()
    }

    fn u64(&mut self) -> Result<u64> {
        let number = self.cursor.u64();
        number.map_err(|need| self.short(need))
    }

    fn short(&self, need: NeedBytes) -> Missing {
        Missing::Bytes { structure: self.structure, offset: self.start, range: need.range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_eight_bytes_in_cdf_5() {
        let bytes = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(Reader::new(&bytes, Version::Data64).count().unwrap(), 7);
        let mut reader = Reader::new(&bytes, Version::Offset64);
        assert_eq!((reader.count().unwrap(), reader.count().unwrap()), (0, 7));
        assert!(matches!(
            reader.count(),
            Err(Missing::Bytes { range: ByteRange { start: 8, length: 4 }, .. })
        ));
    }

    #[test]
    fn padding_is_skipped_whatever_it_contains() {
        let bytes = Bytes::from_static(b"abc\xeedefg");
        let mut reader = Reader::new(&bytes, Version::Classic);
        assert_eq!((reader.padded(3).unwrap(), reader.padded(4).unwrap()), ("abc".into(), "defg".into()));
        assert!(reader.padded(0).unwrap().is_empty());
        assert!(matches!(reader.padded(u64::MAX), Err(Missing::Bytes { .. })));
    }

    #[test]
    fn negative_offsets_are_refused() {
        let bytes = Bytes::from_static(&[0x80, 0, 0, 0, 0, 0, 0, 0]);
        for version in [Version::Classic, Version::Offset64, Version::Data64] {
            assert!(matches!(Reader::new(&bytes, version).data_offset(), Err(Missing::Nothing(_))));
        }
    }
}
