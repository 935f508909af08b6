//! Numbers that are stored in another size or type than that of the array: integers with unused bits, packed integers,
//! and complex numbers of integers.

use virtualize_bytes::{BitReader, BitWriter};
use virtualize_zarr::{Endian, StoredInteger};

use crate::{CodecFailure, bounded, corrupt, parameters};

/// Returns the unsigned number of some bytes.
pub(super) fn number(bytes: &[u8], is_big: bool) -> u128 {
    let push = |value: u128, byte: &u8| (value << 8) | u128::from(*byte);
    if is_big { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

/// Appends the lowest bytes of a number.
pub(super) fn push_number(value: u128, size: usize, is_big: bool, out: &mut Vec<u8>) {
    let bytes = value.to_le_bytes();
    let significant = bytes.get(..size).unwrap_or_default();
    if is_big { out.extend(significant.iter().rev()) } else { out.extend_from_slice(significant) }
}

/// Integers that are stored with unused bits, or in another size.
pub(super) struct Integers {
    /// Bytes of a decoded number.
    size: usize,
    is_big: bool,
    /// Bytes of a stored number.
    stored_size: usize,
    stored: StoredInteger,
    /// Bits of a number of 128 bits above the precision.
    unused: u32,
}

impl Integers {
    /// Checks sizes, offset and precision.
    pub(super) fn new(size: u32, endian: Endian, stored: StoredInteger) -> Result<Self, CodecFailure> {
        let wrong = || parameters("integers", format!("{size} bytes of {stored:?}"));
        let bits = u32::from(stored.offset) + u32::from(stored.precision);
        let fits =
            (1..=16).contains(&stored.size) && bits <= stored.size * 8 && matches!(size, 1 | 2 | 4 | 8);
        if !fits || stored.precision == 0 || u32::from(stored.precision) > size * 8 {
            return Err(wrong());
        }
        let bytes = |n| usize::try_from(n).map_err(|_| wrong());
        let unused = 128 - u32::from(stored.precision);
        let is_big = endian == Endian::Big;
        Ok(Self { size: bytes(size)?, is_big, stored_size: bytes(stored.size)?, stored, unused })
    }

    fn value(&self, stored: &[u8]) -> u128 {
        let left = number(stored, self.stored.endian == Endian::Big) >> self.stored.offset << self.unused;
        if self.stored.signed {
            (left.cast_signed() >> self.unused).cast_unsigned()
        } else {
            left >> self.unused
        }
    }

    /// Decodes to at most `limit` bytes.
    pub(super) fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
        if !bytes.len().is_multiple_of(self.stored_size) {
            let found = format!("{} bytes of numbers of {}", bytes.len(), self.stored_size);
            return Err(corrupt("integers", found));
        }
        let length = (bytes.len() / self.stored_size).checked_mul(self.size);
        let mut out = Vec::with_capacity(bounded("integers", length, limit)?);
        for stored in bytes.chunks_exact(self.stored_size) {
            push_number(self.value(stored), self.size, self.is_big, &mut out);
        }
        Ok(out)
    }

    /// Encodes numbers. Those that need more bits are an error.
    pub(super) fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
        let mut out = Vec::with_capacity(bytes.len() / self.size * self.stored_size);
        for decoded in bytes.chunks_exact(self.size) {
            let significant = number(decoded, self.is_big) << self.unused >> self.unused;
            let start = out.len();
            let is_big = self.stored.endian == Endian::Big;
            push_number(significant << self.stored.offset, self.stored_size, is_big, &mut out);
            let mut back = Vec::with_capacity(self.size);
            push_number(self.value(out.get(start..).unwrap_or_default()), self.size, self.is_big, &mut back);
            if back != decoded {
                let found = format!("a number that does not fit {} bits", self.stored.precision);
                return Err(parameters("integers", found));
            }
        }
        Ok(out)
    }
}

/// Unsigned integers of 1 to 31 bits, most significant bit first, each row starting at a byte, as TIFF stores samples
/// that do not fill bytes.
pub(super) struct Packed {
    bits: u32,
    run: usize,
    size: usize,
    is_big: bool,
}

impl Packed {
    pub(super) fn new(bits: u16, run: u64, dtype: &str) -> Result<Self, CodecFailure> {
        let wrong =
            || parameters("imagecodecs_packints", format!("{bits} bits, rows of {run}, dtype {dtype}"));
        let size: usize = dtype.get(2..).and_then(|size| size.parse().ok()).ok_or_else(wrong)?;
        let run = usize::try_from(run).map_err(|_| wrong())?;
        let fits = matches!(size, 1 | 2 | 4 | 8) && usize::from(bits) <= size * 8;
        if bits == 0 || run == 0 || !fits || run.checked_mul(64).is_none() {
            return Err(wrong());
        }
        Ok(Self { bits: bits.into(), run, size, is_big: dtype.starts_with('>') })
    }

    /// Unpacks up to `limit` bytes, or to the end of the input.
    pub(super) fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
        let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(64)));
        let row_bytes = (self.run * usize::try_from(self.bits).unwrap_or(64)).div_ceil(8);
        for row in bytes.chunks(row_bytes) {
            let mut reader = BitReader::new(row);
            for _ in 0..self.run {
                if out.len() >= limit {
                    return Ok(out);
                }
                let Some(value) = reader.read(self.bits) else { break };
                push_number(value.into(), self.size, self.is_big, &mut out);
            }
        }
        Ok(out)
    }

    /// Packs numbers. Those that need more bits are an error.
    pub(super) fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
        let mut writer = BitWriter::default();
        for row in bytes.chunks(self.run * self.size) {
            for element in row.chunks_exact(self.size) {
                let value = number(element, self.is_big);
                if value >> self.bits != 0 {
                    let found = format!("{value} does not fit {} bits", self.bits);
                    return Err(parameters("imagecodecs_packints", found));
                }
                writer.write(u64::try_from(value).unwrap_or(0), self.bits);
            }
            writer.align();
        }
        Ok(writer.finish())
    }
}

/// Complex numbers whose parts are stored as integers of half their size, in the same byte order.
pub(super) struct Complex<'a> {
    /// Type of the stored integers.
    dtype: &'a str,
    /// Bytes of a stored integer.
    size: usize,
}

const COMPLEX: &str = "complex integers";

impl<'a> Complex<'a> {
    pub(super) fn new(dtype: &'a str) -> Result<Self, CodecFailure> {
        match dtype {
            "<i2" | ">i2" => Ok(Self { dtype, size: 2 }),
            "<i4" | ">i4" => Ok(Self { dtype, size: 4 }),
            other => Err(parameters(COMPLEX, format!("parts of type {other}"))),
        }
    }

    /// Decodes integers to floats of twice their size, at most to `limit` bytes.
    pub(super) fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
        if !bytes.len().is_multiple_of(self.size) {
            return Err(corrupt(COMPLEX, format!("{} bytes of numbers of {}", bytes.len(), self.size)));
        }
        let mut out = Vec::with_capacity(bounded(COMPLEX, bytes.len().checked_mul(2), limit)?);
        bytes.chunks_exact(self.size).for_each(|part| self.push_float(part, &mut out));
        Ok(out)
    }

    /// Encodes floats. Those that are not integers of the type are an error.
    pub(super) fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
        let mut out = Vec::with_capacity(bytes.len() / 2);
        for part in bytes.chunks_exact(self.size * 2) {
            let start = out.len();
            self.push_integer(part, &mut out);
            let mut back = Vec::with_capacity(part.len());
            self.push_float(out.get(start..).unwrap_or_default(), &mut back);
            if back != part {
                return Err(parameters(
                    COMPLEX,
                    format!("a number that is not an integer of type {}", self.dtype),
                ));
            }
        }
        Ok(out)
    }

    fn push_float(&self, part: &[u8], out: &mut Vec<u8>) {
        match (self.dtype, part) {
            ("<i2", &[a, b]) => out.extend(f32::from(i16::from_le_bytes([a, b])).to_le_bytes()),
            (">i2", &[a, b]) => out.extend(f32::from(i16::from_be_bytes([a, b])).to_be_bytes()),
            ("<i4", &[a, b, c, d]) => out.extend(f64::from(i32::from_le_bytes([a, b, c, d])).to_le_bytes()),
            (">i4", &[a, b, c, d]) => out.extend(f64::from(i32::from_be_bytes([a, b, c, d])).to_be_bytes()),
            _ => {}
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the caller converts it back and compares")]
    fn push_integer(&self, part: &[u8], out: &mut Vec<u8>) {
        let four = || <[u8; 4]>::try_from(part).unwrap_or_default();
        let eight = || <[u8; 8]>::try_from(part).unwrap_or_default();
        match self.dtype {
            "<i2" => out.extend((f32::from_le_bytes(four()) as i16).to_le_bytes()),
            ">i2" => out.extend((f32::from_be_bytes(four()) as i16).to_be_bytes()),
            "<i4" => out.extend((f64::from_le_bytes(eight()) as i32).to_le_bytes()),
            _ => out.extend((f64::from_be_bytes(eight()) as i32).to_be_bytes()),
        }
    }
}
