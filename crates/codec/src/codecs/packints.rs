//! Unsigned integers of 1 to 31 bits, most significant bit first, each row starting at a byte, as TIFF stores samples
//! that do not fill bytes.

use crate::bits::{BitReader, BitWriter};
use crate::{CodecFailure, parameters};

const NAME: &str = "imagecodecs_packints";

/// Layout of packed and unpacked numbers.
struct Layout {
    bits: u32,
    run: usize,
    size: usize,
    big_endian: bool,
}

impl Layout {
    fn new(bits: u16, run: u64, dtype: &str) -> Result<Self, CodecFailure> {
        let wrong = || parameters(NAME, format!("{bits} bits, rows of {run}, dtype {dtype}"));
        let size: usize = dtype.get(2..).and_then(|size| size.parse().ok()).ok_or_else(wrong)?;
        let run = usize::try_from(run).map_err(|_| wrong())?;
        let fits = matches!(size, 1 | 2 | 4 | 8) && usize::from(bits) <= size * 8;
        let bounded = run.checked_mul(64).is_some();
        if bits == 0 || run == 0 || !fits || !bounded {
            return Err(wrong());
        }
        Ok(Self { bits: bits.into(), run, size, big_endian: dtype.starts_with('>') })
    }

    fn row_bytes(&self) -> usize {
        (self.run * usize::try_from(self.bits).unwrap_or(64)).div_ceil(8)
    }
}

/// Unpacks up to `limit` bytes, or to the end of the input.
pub(super) fn decode(
    bytes: &[u8],
    bits: u16,
    run: u64,
    dtype: &str,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(bits, run, dtype)?;
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(64)));
    for row in bytes.chunks(layout.row_bytes()) {
        let mut reader = BitReader::new(row);
        for _ in 0..layout.run {
            if out.len() >= limit {
                return Ok(out);
            }
            let Some(value) = reader.read(layout.bits) else { break };
            push(value, &layout, &mut out);
        }
    }
    Ok(out)
}

fn push(value: u64, layout: &Layout, out: &mut Vec<u8>) {
    let little = value.to_le_bytes();
    let significant = little.get(..layout.size).unwrap_or_default();
    if layout.big_endian {
        out.extend(significant.iter().rev());
    } else {
        out.extend_from_slice(significant);
    }
}

/// Packs numbers. Those that need more bits are an error.
pub(super) fn encode(bytes: &[u8], bits: u16, run: u64, dtype: &str) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(bits, run, dtype)?;
    let mut writer = BitWriter::default();
    for row in bytes.chunks(layout.run * layout.size) {
        for element in row.chunks_exact(layout.size) {
            let add = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
            let value = if layout.big_endian {
                element.iter().fold(0, add)
            } else {
                element.iter().rev().fold(0, add)
            };
            if layout.bits < 64 && value >> layout.bits != 0 {
                return Err(parameters(NAME, format!("{value} does not fit {bits} bits")));
            }
            writer.write(value, layout.bits);
        }
        writer.align();
    }
    Ok(writer.finish())
}
