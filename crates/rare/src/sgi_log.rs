//! SGI's run lengths for LogL of 16 bits, as libtiff's `tif_luv.c` decodes them: each row is its high bytes, then its
//! low bytes, each a sequence of runs:
//!
//! ```text
//! 80 + n, byte    repeat the byte n + 2 times
//! n, n bytes      literal bytes
//! ```

use virtualize_zarr::Endian;

use crate::size;
use crate::{DecodeError, corrupt};

const NAME: &str = "SGI Log";

/// Decodes as many rows as fit into `limit` bytes.
pub(super) fn decode(bytes: &[u8], width: u64, endian: Endian, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let width = size(width);
    let rows = limit.checked_div(width.saturating_mul(2)).unwrap_or(0);
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(128)));
    let (mut rest, mut high, mut low) = (bytes, Vec::new(), Vec::new());
    for _ in 0..rows {
        for half in [&mut high, &mut low] {
            rest = fill(rest, half, width).ok_or_else(|| corrupt(NAME, "the data end inside a row"))?;
        }
        for (high, low) in high.iter().zip(&low) {
            out.extend(match endian {
                Endian::Little => [*low, *high],
                Endian::Big => [*high, *low],
            });
        }
    }
    Ok(out)
}

/// Decodes `count` bytes and returns the bytes after them. The end of the row truncates a run.
fn fill<'a>(bytes: &'a [u8], out: &mut Vec<u8>, count: usize) -> Option<&'a [u8]> {
    let mut rest = bytes;
    out.clear();
    while out.len() < count {
        let left = count - out.len();
        let (&control, after) = rest.split_first()?;
        rest = match control.checked_sub(128) {
            Some(more) => {
                let (&value, after) = after.split_first()?;
                out.resize(out.len() + usize::from(more).saturating_add(2).min(left), value);
                after
            }
            None => {
                let (literal, after) = after.split_at_checked(usize::from(control).min(left))?;
                out.extend_from_slice(literal);
                after
            }
        };
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By tif_luv.c: three times 1 and one 2 are the high bytes, 7 8 9 9 the low ones.
    #[test]
    fn rows_are_two_planes_of_bytes() {
        let row = [0x81, 1, 1, 2, 0, 2, 7, 8, 0x80, 9];
        let little = [7, 1, 8, 1, 9, 1, 9, 2];
        assert_eq!(decode(&row, 4, Endian::Little, 8).unwrap(), little);
        assert_eq!(decode(&row, 4, Endian::Big, 9).unwrap(), [1, 7, 1, 8, 1, 9, 2, 9]);
        let twice = [row, row].concat();
        assert_eq!(decode(&twice, 4, Endian::Little, 16).unwrap(), [little, little].concat());
        assert!(decode(&twice[..19], 4, Endian::Little, 16).is_err());
        assert!(decode(&row, 4, Endian::Little, 16).is_err());
    }
}
