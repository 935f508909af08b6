//! The image file header (TIFF 6.0, section 2; BigTIFF design, "Header").
//!
//! ```text
//! TIFF     | 'II' or 'MM' | 42 | offset of the first directory, 4 bytes |
//! BigTIFF  | 'II' or 'MM' | 43 | 8 | 0 | offset of the first directory, 8 bytes |
//! ```

use virtualize_bytes::{Cursor, Endian, NeedBytes};

use crate::Error;

/// Byte order and offset size of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    pub(crate) endian: Endian,
    /// Whether the file is a BigTIFF, with counts and offsets of 8 bytes.
    pub(crate) big: bool,
    /// Whether the file is a Hamamatsu NDPI file: offsets of directories have 8 bytes, and the high words of the values
    /// follow each directory.
    pub(crate) ndpi: bool,
}

/// Size in bytes of the largest file that offsets of 4 bytes can address.
pub(crate) const MAX_CLASSIC: u64 = 1 << 32;

/// The header of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) format: Format,
    /// Offset of the first directory.
    pub(crate) first_directory: u64,
}

/// Returns whether a file is a TIFF or BigTIFF, given its first four bytes.
pub fn is_tiff(first_bytes: &[u8]) -> bool {
    signature(first_bytes).is_some()
}

fn signature(first_bytes: &[u8]) -> Option<Format> {
    let (endian, big) = match first_bytes.get(..4)? {
        b"II*\0" => (Endian::Little, false),
        b"MM\0*" => (Endian::Big, false),
        b"II+\0" => (Endian::Little, true),
        b"MM\0+" => (Endian::Big, true),
        _ => return None,
    };
    Some(Format { endian, big, ndpi: false })
}

impl Header {
    /// Parses the first 8 (BigTIFF: 16) bytes of a file with `size` bytes.
    pub(crate) fn parse(first_bytes: &[u8], size: u64) -> Result<Self, Error> {
        let format = signature(first_bytes).ok_or(Error::NotTiff)?;
        let mut cursor = Cursor::new(first_bytes, 0, format.endian);
        let truncated = |need: NeedBytes| Error::truncated("header", 0, need.range, size);
        cursor.skip(4).map_err(truncated)?;
        if !format.big {
            let first_directory = u64::from(cursor.u32().map_err(truncated)?);
            return Ok(Self { format, first_directory });
        }
        let (offset_size, zero) = (cursor.u16().map_err(truncated)?, cursor.u16().map_err(truncated)?);
        if (offset_size, zero) != (8, 0) {
            let problem = format!("offset size {offset_size} and constant {zero}, expected 8 and 0");
            return Err(Error::malformed("BigTIFF header", 0, problem));
        }
        Ok(Self { format, first_directory: cursor.u64().map_err(truncated)? })
    }

    /// Returns the header as that of an NDPI file, if this can be one: little-endian, and larger than 4 GiB. The offset of
    /// the first directory then has 8 bytes.
    pub(crate) fn as_ndpi(&self, first_bytes: &[u8], size: u64) -> Option<Self> {
        let Format { endian, big, .. } = self.format;
        if big || endian != Endian::Little || size <= MAX_CLASSIC {
            return None;
        }
        let mut cursor = Cursor::new(first_bytes, 0, endian);
        cursor.skip(4).ok()?;
        Some(Self { format: Format { endian, big, ndpi: true }, first_directory: cursor.u64().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_four_headers() {
        let cases: [(&[u8], Endian, bool, u64); 4] = [
            (b"II*\0\x08\0\0\0", Endian::Little, false, 8),
            (b"MM\0*\0\0\x01\0", Endian::Big, false, 256),
            (b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0", Endian::Little, true, 16),
            (b"MM\0+\0\x08\0\0\0\0\0\x01\0\0\0\0", Endian::Big, true, 1 << 32),
        ];
        for (bytes, endian, big, first_directory) in cases {
            let expected = Header { format: Format { endian, big, ndpi: false }, first_directory };
            assert_eq!(Header::parse(bytes, 100).unwrap(), expected);
            assert!(is_tiff(bytes));
        }
    }

    #[test]
    fn rejects_other_signatures() {
        for bytes in [&b"II\0*"[..], b"MM*\0", b"\x89HDF\r\n", b"II*", b""] {
            assert!(!is_tiff(bytes));
            assert!(matches!(Header::parse(bytes, 100), Err(Error::NotTiff)));
        }
        let four_byte_offsets = b"II+\0\x04\0\0\0\x10\0\0\0\0\0\0\0";
        assert!(matches!(Header::parse(four_byte_offsets, 100), Err(Error::Malformed { .. })));
        assert!(matches!(Header::parse(b"II*\0\x08\0", 6), Err(Error::Truncated { .. })));
    }
}
