//! Codecs that only the package `numcodecs` defines, and Zarr's core codec `crc32c`.
//! <https://numcodecs.readthedocs.io>

use crc_fast::CrcAlgorithm::{Crc32Iscsi, Crc32IsoHdlc};

use super::hdf5_lz4::lz4_block;
use crate::{CodecFailure, bounded, corrupt, parameters, size};

/// Decodes `lz4`: the decoded size as 4 little-endian bytes, then a block.
pub(super) fn decode_lz4(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (length, block) = bytes.split_first_chunk::<4>().ok_or_else(|| corrupt("lz4", "too few bytes"))?;
    lz4_block("lz4", block, bounded("lz4", Some(size(u32::from_le_bytes(*length))), limit)?)
}

pub(super) fn encode_lz4(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let size =
        i32::try_from(bytes.len()).map_err(|_| CodecFailure::NoEncoder("a chunk over 2 GiB".to_owned()))?;
    let mut out = size.to_le_bytes().to_vec();
    out.extend(lz4_flex::block::compress(bytes));
    Ok(out)
}

/// Verifies a checksum of 4 little-endian bytes before or after the data, and returns the data.
pub(super) fn verified<'b>(
    bytes: &'b [u8],
    name: &'static str,
    is_at_end: bool,
) -> Result<&'b [u8], CodecFailure> {
    let split = match is_at_end {
        true => bytes.split_last_chunk::<4>(),
        false => bytes.split_first_chunk::<4>().map(|(stored, data)| (data, stored)),
    };
    let (data, stored) = split.ok_or_else(|| corrupt(name, "the chunk is shorter than its checksum"))?;
    let (stored, computed) = (u32::from_le_bytes(*stored), checksum(data, name)?);
    if stored != computed {
        return Err(corrupt(name, format!("checksum {stored:#010x}, expected {computed:#010x}")));
    }
    Ok(data)
}

pub(super) fn add_checksum(
    bytes: &[u8],
    name: &'static str,
    is_at_end: bool,
) -> Result<Vec<u8>, CodecFailure> {
    let sum = checksum(bytes, name)?.to_le_bytes();
    Ok(if is_at_end { [bytes, &sum].concat() } else { [&sum, bytes].concat() })
}

fn checksum(bytes: &[u8], name: &'static str) -> Result<u32, CodecFailure> {
    let sum = match name {
        "crc32c" => crc_fast::checksum(Crc32Iscsi, bytes),
        "crc32" => crc_fast::checksum(Crc32IsoHdlc, bytes),
        "adler32" => adler2::adler32_slice(bytes).into(),
        _ => return Err(parameters(name, "unknown checksum")),
    };
    u32::try_from(sum).map_err(|error| corrupt(name, error))
}

/// Decodes `packbits`: the number of padding bits in the last byte, then one bit for each bool, the most significant
/// first.
pub(super) fn decode_bools(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (padding, packed) = bytes.split_first().ok_or_else(|| corrupt("packbits", "no bytes"))?;
    let bits = packed.len().saturating_mul(8).checked_sub(usize::from(*padding));
    let bits = bits.filter(|_| *padding < 8).ok_or_else(|| corrupt("packbits", "too few bits"))?;
    let bits = bounded("packbits", Some(bits), limit)?;
    let bools = packed.iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1));
    Ok(bools.take(bits).collect())
}

/// Decodes `fixedscaleoffset`: numbers of type `astype`, divided by `scale`, plus `offset`, as `dtype`. Like NumPy, this
/// computes in single precision if `astype` is `f4`, and otherwise in double precision.
pub(super) fn decode_scaled(
    bytes: &[u8],
    offset: f64,
    scale: f64,
    dtype: &str,
    astype: &str,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    const NAME: &str = "fixedscaleoffset";
    let wrong = || parameters(NAME, format!("dtype {dtype}, astype {astype}"));
    let size = |dtype: &str| dtype.get(2..).and_then(|size| size.parse::<usize>().ok()).ok_or_else(wrong);
    let (from, to) = (size(astype)?, size(dtype)?);
    if !bytes.len().is_multiple_of(from) {
        return Err(corrupt(NAME, format!("{} bytes of numbers of {from}", bytes.len())));
    }
    let is_big = |dtype: &str| dtype.starts_with('>');
    let kind = astype.get(1..).unwrap_or_default();
    let mut out = Vec::with_capacity(bounded(NAME, (bytes.len() / from).checked_mul(to), limit)?);
    for element in bytes.chunks_exact(from) {
        let mut little = [0; 8];
        let target = little.get_mut(..from).ok_or_else(wrong)?;
        target.copy_from_slice(element);
        if is_big(astype) {
            target.reverse();
        }
        let bits = u64::from_le_bytes(little);
        let value = number(bits, kind).ok_or_else(wrong)?;
        #[expect(clippy::cast_possible_truncation, reason = "NumPy rounds to single precision, too")]
        let value = match kind {
            "f4" => f64::from(value as f32 / scale as f32 + offset as f32),
            _ => value / scale + offset,
        };
        let start = out.len();
        #[expect(clippy::cast_possible_truncation, reason = "NumPy rounds to single precision, too")]
        match to {
            4 => out.extend((value as f32).to_le_bytes()),
            _ => out.extend(value.to_le_bytes()),
        }
        if is_big(dtype) {
            out.get_mut(start..).unwrap_or_default().reverse();
        }
    }
    Ok(out)
}

/// Returns the number of a type such as `i2`, whose bits are the lowest ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "the type has as many bits, and NumPy converts to double precision, too"
)]
fn number(bits: u64, kind: &str) -> Option<f64> {
    Some(match kind {
        "i1" => f64::from(bits as i8),
        "i2" => f64::from(bits as i16),
        "i4" => f64::from(bits as i32),
        "i8" => bits as i64 as f64,
        "u1" | "u2" | "u4" | "u8" => bits as f64,
        "f4" => f64::from(f32::from_bits(bits as u32)),
        "f8" => f64::from_bits(bits),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As numcodecs 0.17 encodes them.
    #[test]
    fn chunks_of_numcodecs() {
        let stored = [&[10, 0, 0, 0], lz4_flex::block::compress(b"aaaaaaaaaa").as_slice()].concat();
        assert_eq!(decode_lz4(&stored, 10).unwrap(), b"aaaaaaaaaa");
        assert!(decode_lz4(&stored, 9).is_err() && decode_lz4(&stored[..7], 10).is_err());
        assert_eq!(encode_lz4(b"aaaaaaaaaa").unwrap(), stored);
        for (name, sum) in [("crc32", 0xcbf4_3926_u32), ("crc32c", 0xe306_9283), ("adler32", 0x091e_01de)] {
            for is_at_end in [false, true] {
                let chunk = add_checksum(b"123456789", name, is_at_end).unwrap();
                assert_eq!(verified(&chunk, name, is_at_end).unwrap(), b"123456789");
                let at = if is_at_end { 9 } else { 0 };
                assert_eq!(chunk[at..at + 4], sum.to_le_bytes(), "{name}");
                assert!(verified(&chunk, name, !is_at_end).is_err());
            }
            assert!(verified(b"123", name, true).is_err());
        }
        assert_eq!(decode_bools(&[4, 0b1001_0000], 4).unwrap(), [1, 0, 0, 1]);
        assert_eq!(decode_bools(&[0, 0xff], 8).unwrap(), [1; 8]);
        assert!(decode_bools(&[9, 0xff], 8).is_err() && decode_bools(&[0, 0xff], 7).is_err());
        let scaled = decode_scaled(&[0xff, 0xfe, 0, 7], 10.0, 0.5, "<f8", ">i2", 16).unwrap();
        assert_eq!(scaled, [6.0_f64.to_le_bytes(), 24.0_f64.to_le_bytes()].concat());
        let single = decode_scaled(&0.1_f32.to_le_bytes(), 0.3, 7.0, ">f4", "<f4", 4).unwrap();
        assert_eq!(single, (0.1_f32 / 7.0 + 0.3).to_be_bytes());
    }
}
