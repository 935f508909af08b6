//! SZ of version 2.1: HDF5 filter 32017. <https://github.com/szcompressor/SZ>
//!
//! ```text
//! 3  version   1  flags   28 or 36  parameters (32-bit or 64-bit floats)   4 or 8  number of values
//! then     a value that all are equal to, or the values themselves, or quantized errors of predictions
//! ```
//!
//! Zstandard or Deflate is around all that, unless it is short. Numbers are big-endian where nothing else is said. Only
//! floats are decoded, and no error bounds that are relative to each value. Values are restored with the operations of the C
//! library in the same order and width, so that they are those of the original decoder, bit by bit.

mod blocks;
mod series;

use super::{
    sz3::{number::Number, reader::Reader},
    zlib, zstd,
};
use crate::{CodecFailure, corrupt, parameters};

const NAME: &str = "sz";

/// Flags: all values are equal.
const EQUAL: u8 = 1;
/// Values are limited to a range.
const LIMITED: u8 = 4;
/// Values are stored as they are.
const LOSSLESS: u8 = 0x10;
/// Errors are relative to each value.
const RELATIVE: u8 = 0x20;
/// Sizes have 8 bytes.
const LONG: u8 = 0x40;
/// Values are predicted block by block.
const BLOCKS: u8 = 0x80;

/// The way of prediction that is not for transposed values.
const ORDINARY: u8 = 101;

/// Most bytes for each decoded byte: a code, two nodes of its tree, and the value.
const EXPANSION: usize = 64;
const SLACK: usize = 1 << 16;

/// Floats, with the operations of C.
trait Real: Number + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> {
    /// Bytes of the parameters.
    const PARAMETERS: usize;

    fn from_i32(value: i32) -> Self;

    /// Reads a big-endian number.
    fn from_be_slice(bytes: &[u8]) -> Option<Self> {
        let reversed: Vec<u8> = bytes.iter().take(Self::SIZE).rev().copied().collect();
        Self::from_le_slice(&reversed)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, CodecFailure> {
        Self::from_be_slice(reader.bytes(Self::SIZE)?).ok_or_else(cut_off)
    }
}

impl Real for f32 {
    const PARAMETERS: usize = 28;

    #[expect(clippy::cast_precision_loss, reason = "rounded as C does it")]
    fn from_i32(value: i32) -> Self {
        value as Self
    }
}

impl Real for f64 {
    const PARAMETERS: usize = 36;

    fn from_i32(value: i32) -> Self {
        value.into()
    }
}

/// Decodes a chunk of floats of `width` bytes and of this shape, slowest axis first, to at most `limit` bytes.
pub(super) fn decode(
    bytes: &[u8],
    (width, shape): (usize, &[u64]),
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let refuse = || parameters(NAME, format!("chunks of shape {shape:?}"));
    let sizes = shape.iter().filter(|size| **size != 1).map(|size| usize::try_from(*size).ok());
    let sizes: Vec<usize> = sizes.collect::<Option<_>>().ok_or_else(refuse)?;
    let shape = match *sizes.as_slice() {
        _ if sizes.contains(&0) => return Err(refuse()),
        [_] | [_, _] | [_, _, _] => sizes,
        [t, z, y, x] => vec![t.checked_mul(z).ok_or_else(refuse)?, y, x],
        _ => return Err(refuse()),
    };
    match width {
        4 => chunk::<f32>(bytes, &shape, limit),
        _ => chunk::<f64>(bytes, &shape, limit),
    }
}

fn chunk<T: Real>(bytes: &[u8], shape: &[usize], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let count = shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
    let count = count.filter(|count| count.checked_mul(T::SIZE).is_some_and(|size| size <= limit));
    let count = count.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    let most = limit.saturating_mul(EXPANSION).saturating_add(SLACK);
    let flat = match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::decode(bytes, most)?,
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => zlib::decode(bytes, most)?,
        _ => bytes.to_vec(),
    };
    let values = values::<T>(Reader::new(&flat), shape, count)?;
    let mut out = Vec::with_capacity(count * T::SIZE);
    values.into_iter().for_each(|value| value.push_le_bytes(&mut out));
    Ok(out)
}

fn values<T: Real>(mut reader: Reader<'_>, shape: &[usize], count: usize) -> Result<Vec<T>, CodecFailure> {
    let [major, minor, _, flags] = reader.array()?;
    if (major, minor) != (2, 1) {
        return Err(corrupt(NAME, format!("version {major}.{minor}")));
    }
    let method = reader.bytes(T::PARAMETERS)?.get(14).copied();
    let stored = size(&mut reader, flags)?;
    if stored != count {
        return Err(corrupt(NAME, format!("{stored} values, expected {count}")));
    }
    if flags & LIMITED != 0 {
        return Err(unsupported("values limited to a range"));
    }
    if flags & LOSSLESS != 0 {
        return (0..count).map(|_| T::read(&mut reader)).collect();
    }
    if flags & EQUAL != 0 {
        return Ok(vec![T::read(&mut reader)?; count]);
    }
    if flags & RELATIVE != 0 || method != Some(ORDINARY) {
        return Err(unsupported("errors relative to each value, and transposed values"));
    }
    match (flags & BLOCKS != 0, shape.len()) {
        (true, 2..) => blocks::decode(reader, shape, count),
        (false, 1) => series::decode(reader, flags, count),
        (_, axes) => Err(unsupported(&format!("arrays of {axes} axes with flags {flags:#x}"))),
    }
}

/// Reads a size.
fn size(reader: &mut Reader<'_>, flags: u8) -> Result<usize, CodecFailure> {
    match flags & LONG {
        0 => reader.big_endian(),
        _ => usize::try_from(u64::from_be_bytes(reader.array()?)).map_err(|_| cut_off()),
    }
}

fn cut_off() -> CodecFailure {
    corrupt(NAME, "the chunk is truncated or damaged")
}

fn unsupported(what: &str) -> CodecFailure {
    CodecFailure::NoDecoder(format!("{NAME}: {what}"))
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::*;

    /// Whatever the compressed bytes hold: no panic, and the requested number of values.
    #[test]
    fn damage_behind_the_compression_does_no_harm() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut random = |below| random.usize(..below);
        let lines = include_str!("../../../tests/data/lossy_chunks.txt")
            .lines()
            .filter(|line| line.starts_with("sz_"));
        for line in lines {
            let stored = BASE64_STANDARD.decode(line.rsplit('|').next().unwrap()).unwrap();
            let flat = if stored.starts_with(&[0x28, 0xb5]) {
                zstd::decode(&stored, 1 << 20).unwrap()
            } else {
                stored
            };
            let shape = [[300, 1, 1], [17, 19, 1], [7, 8, 9], [20, 6, 3]][random(4)];
            for _ in 0..300 {
                let mut flat = flat.clone();
                for _ in 0..=random(3) {
                    // The parameters at the start matter most.
                    let within = if random(2) == 0 { flat.len().min(150) } else { flat.len() };
                    let at = random(within).max(4);
                    flat[at] = u8::try_from(random(256)).unwrap();
                }
                let count: u64 = shape.iter().product();
                let at = 4 + if line.starts_with("sz_f4") { 28 } else { 36 };
                flat[at..at + 8].copy_from_slice(&count.to_be_bytes());
                if let Ok(values) = decode(&flat, (4, &shape), 1 << 20) {
                    assert_eq!(values.len() as u64, 4 * count);
                }
                drop(decode(&flat, (8, &shape), 1 << 20));
            }
        }
    }
}
