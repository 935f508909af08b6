//! NeXT's compression of 2-bit samples, as libtiff's `tif_next.c` decodes it. Each row starts with a byte:
//!
//! ```text
//! 00                           the row, uncompressed
//! 40, 2 offset, 2 length, …    a part of the row, uncompressed (numbers big-endian); the rest is white
//! any other                    runs: value in the upper 2 bits, length in the lower 6, until the row is full
//! ```

use crate::size;
use crate::{DecodeError, corrupt};

const NAME: &str = "NeXT";
const WHITE: u8 = 0xff;

/// Decodes as many rows of packed bits as fit into `limit` bytes.
pub(super) fn decode(bytes: &[u8], width: u64, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let row_bytes = size(width.div_ceil(4));
    let rows = limit.checked_div(row_bytes).unwrap_or(0);
    let mut out = vec![WHITE; rows.saturating_mul(row_bytes)];
    let mut rest = bytes;
    for row in out.chunks_exact_mut(row_bytes.max(1)) {
        rest = self::row(rest, row, size(width)).ok_or_else(|| corrupt(NAME, "the data end inside a row"))?;
    }
    Ok(out)
}

/// Decodes a row and returns the bytes after it.
fn row<'a>(bytes: &'a [u8], row: &mut [u8], width: usize) -> Option<&'a [u8]> {
    match bytes.split_first()? {
        (0x00, rest) => {
            let (literal, rest) = rest.split_at_checked(row.len())?;
            row.copy_from_slice(literal);
            Some(rest)
        }
        (0x40, rest) => {
            let (head, rest) = rest.split_first_chunk::<4>()?;
            let [a, b, c, d] = *head;
            let (start, length) = (u16::from_be_bytes([a, b]).into(), u16::from_be_bytes([c, d]).into());
            let (literal, rest) = rest.split_at_checked(length)?;
            row.get_mut(start..)?.get_mut(..length)?.copy_from_slice(literal);
            Some(rest)
        }
        _ => runs(bytes, row, width),
    }
}

fn runs<'a>(bytes: &'a [u8], row: &mut [u8], width: usize) -> Option<&'a [u8]> {
    let (mut rest, mut at) = (bytes, 0_usize);
    while at < width {
        let (&run, after) = rest.split_first()?;
        let end = at.saturating_add(usize::from(run & 0x3f)).min(width);
        for pixel in at..end {
            let shift = 6 - 2 * (pixel % 4);
            let byte = row.get_mut(pixel / 4)?;
            // The first of four pixels replaces the byte, which was white.
            let before = if pixel % 4 == 0 { 0 } else { *byte };
            *byte = before | (run >> 6) << shift;
        }
        (rest, at) = (after, end);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files next_*.tif of GDAL's tests, which GDAL reads as 1 1 1 1, and cases of tif_next.c.
    #[test]
    fn the_three_kinds_of_rows() {
        assert_eq!(decode(&[0x00, 0x55], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode(&[0x40, 0, 0, 0, 1, 0x55], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode(&[0x40, 0, 1, 0, 1, 0x55], 12, 3).unwrap(), [0xff, 0x55, 0xff]);
        assert_eq!(decode(&[0x44], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode(&[0x83, 0xc2, 0x00, 0x11], 6, 2).unwrap(), [0xab, 0xc0]);
    }

    #[test]
    fn damaged_rows_are_refused() {
        for bytes in [&[][..], &[0], &[0x40, 0, 0, 0, 2, 1], &[0x40, 0, 1, 0, 1, 1], &[0x42]] {
            assert!(decode(bytes, 4, 1).is_err(), "{bytes:?}");
        }
        assert!(decode(&[0x44, 0x44], 4, 3).is_err());
        assert!(decode(&[0x44], 0, 3).unwrap().is_empty());
    }
}
