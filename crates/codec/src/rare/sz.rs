//! SZ of version 2.1: HDF5 filter 32017. <https://github.com/szcompressor/SZ>
//!
//! ```text
//! 3  version   1  flags   28 or 36  parameters (32-bit or 64-bit floats)   4 or 8  number of values
//! then     a value that all are equal to, or the values themselves, or quantized errors of predictions
//! ```
//!
//! Zstandard or Deflate is around all that, unless it is short. Numbers are big-endian unless stated otherwise. Only
//! floats are decoded, and no error bounds that are relative to each value. Values are restored with the operations of the C
//! library in the same order and width, so that they are those of the original decoder, bit by bit.

use virtualize_bytes::BitReader;

use super::sz3::{
    blocks::{Lorenzo, advance, strides},
    huffman::{Reader, Tree},
    number::Number,
};
use crate::{CodecFailure, bounded, codecs::streams, corrupt, parameters, unsupported};

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

/// Maximum number of bytes for each decoded byte: a code, two nodes of its tree, and the value.
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
    let length = shape.iter().try_fold(T::SIZE, |length, size| length.checked_mul(*size));
    let length = bounded(NAME, length, limit)?;
    let most = limit.saturating_mul(EXPANSION).saturating_add(SLACK);
    let flat = match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => streams::decode_zstd(bytes, most)?,
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => streams::decode_zlib(bytes, most)?,
        _ => bytes.to_vec(),
    };
    let values = values::<T>(Reader::new(&flat), shape, length / T::SIZE)?;
    let mut out = Vec::with_capacity(length);
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
        return Err(unsupported(NAME, "values limited to a range"));
    }
    if flags & LOSSLESS != 0 {
        return (0..count).map(|_| T::read(&mut reader)).collect();
    }
    if flags & EQUAL != 0 {
        return Ok(vec![T::read(&mut reader)?; count]);
    }
    if flags & RELATIVE != 0 || method != Some(ORDINARY) {
        return Err(unsupported(NAME, "errors relative to each value, and transposed values"));
    }
    match (flags & BLOCKS != 0, shape.len()) {
        (true, 2..) => decode_blocks(reader, shape, count),
        (false, 1) => decode_series(reader, flags, count),
        (_, axes) => Err(unsupported(NAME, format!("arrays of {axes} axes with flags {flags:#x}"))),
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

// Images and volumes, predicted block by block from neighbours or by a linear function
// (`decompressDataSeries_float_3D_nonblocked_with_blocked_regression` in `szd_float.c`).
//
// ```text
// 4  size of a block   number: error bound   4  bins   4  bytes of the tree   4  nodes   tree
// 1  whether there is a mean   number: mean (little-endian)   a bit for each block: 1 neighbours, 0 linear function
// for each coefficient, if a block has any:
//    number: error bound   4  radius   4 bytes of the tree   4  nodes   tree   8  bytes of codes   codes
//    4  exact values   exact values (little-endian)
// 8  exact values (little-endian)   exact values (little-endian)   codes
// ```

/// Restores values from predictions.
struct Quantizer<T> {
    bound: T,
    radius: i32,
    exact: std::vec::IntoIter<T>,
}

impl<T: Real> Quantizer<T> {
    fn recover(&mut self, predicted: T, code: i32) -> Result<T, CodecFailure> {
        match code {
            0 => self.exact.next().ok_or_else(cut_off),
            code => {
                let bins = code.wrapping_sub(self.radius).wrapping_mul(2);
                Ok(predicted + T::from_i32(bins) * self.bound)
            }
        }
    }
}

/// A coefficient of the linear functions.
struct Coefficient<T> {
    quantizer: Quantizer<T>,
    codes: std::vec::IntoIter<i32>,
    value: T,
}

impl<T: Real> Coefficient<T> {
    fn parse(reader: &mut Reader<'_>, count: usize) -> Result<Self, CodecFailure> {
        let (bound, radius) = (T::read(reader)?, reader.i32_be()?);
        let tree = tree(reader)?;
        let stored = usize::try_from(u64::from_be_bytes(reader.array()?)).map_err(|_| cut_off())?;
        let codes = tree.decode(reader.bytes(stored)?, count, 0)?.into_iter();
        let exact = reader.big_endian()?;
        let exact = reader.values(exact)?;
        Ok(Self { quantizer: Quantizer { bound, radius, exact }, codes, value: T::default() })
    }

    fn next(&mut self) -> Result<(), CodecFailure> {
        let code = self.codes.next().ok_or_else(cut_off)?;
        self.value = self.quantizer.recover(self.value, code)?;
        Ok(())
    }
}

/// Reads a tree, which the bytes that it takes precede.
fn tree(reader: &mut Reader<'_>) -> Result<Tree, CodecFailure> {
    let (stored, nodes) = (reader.big_endian()?, reader.big_endian()?);
    Tree::parse(&mut Reader::new(reader.bytes(stored)?), nodes)
}

struct Decoder<T> {
    shape: Vec<usize>,
    strides: Vec<usize>,
    codes: std::vec::IntoIter<i32>,
    quantizer: Quantizer<T>,
    /// The value of the middle code, which shifts those below it.
    mean: Option<T>,
    neighbours: Lorenzo,
    /// Slopes along each axis, and a constant.
    coefficients: Vec<Coefficient<T>>,
    values: Vec<T>,
}

/// Decodes all values of an image or volume.
fn decode_blocks<T: Real>(
    mut reader: Reader<'_>,
    shape: &[usize],
    count: usize,
) -> Result<Vec<T>, CodecFailure> {
    let size = reader.big_endian()?;
    let (bound, bins) = (T::read(&mut reader)?, reader.i32_be()?);
    let tree = tree(&mut reader)?;
    let has_mean = reader.flag()?;
    let mean = reader.values::<T>(1)?.next().filter(|_| has_mean);
    let grid: Vec<usize> = shape
        .iter()
        .map(|count| count.checked_div(size).map(|n| n.max(1)))
        .collect::<Option<_>>()
        .ok_or_else(cut_off)?;
    let blocks: usize = grid.iter().product();
    let mut choices = BitReader::new(reader.bytes(blocks.div_ceil(8))?);
    let choices: Vec<bool> = (0..blocks).map_while(|_| choices.read(1)).map(|bit| bit == 1).collect();
    let linear = choices.iter().filter(|is_neighbours| !**is_neighbours).count();
    let number = if linear > 0 { shape.len() + 1 } else { 0 };
    let coefficients =
        (0..number).map(|_| Coefficient::parse(&mut reader, linear)).collect::<Result<_, _>>()?;
    let exact = reader.size()?;
    let exact = reader.values(exact)?;
    let codes = tree.decode(reader.rest(), count, 0)?.into_iter();
    let strides = strides(shape);
    let axes: Vec<usize> = (0..shape.len()).collect();
    let mut decoder = Decoder {
        shape: shape.to_vec(),
        neighbours: Lorenzo::new(false, &axes, &strides),
        strides,
        codes,
        quantizer: Quantizer { bound, radius: bins / 2, exact },
        mean,
        coefficients,
        values: vec![T::default(); count],
    };
    for (number, is_neighbours) in choices.into_iter().enumerate() {
        decoder.block(number, &grid, is_neighbours)?;
    }
    Ok(decoder.values)
}

impl<T: Real> Decoder<T> {
    /// Restores a block. Those at the start of an axis are longer by one value if it is not a multiple of the blocks.
    fn block(&mut self, mut number: usize, grid: &[usize], is_neighbours: bool) -> Result<(), CodecFailure> {
        let mut start = vec![0; grid.len()];
        let mut size = start.clone();
        for (((start, size), count), axis) in start.iter_mut().zip(&mut size).zip(grid).zip(&self.shape).rev()
        {
            let (at, longer) = (number % count, axis % count);
            *start = at * (axis / count) + at.min(longer);
            *size = axis / count + usize::from(at < longer);
            number /= count;
        }
        if !is_neighbours {
            self.coefficients.iter_mut().try_for_each(Coefficient::next)?;
        }
        let mut within = vec![0; grid.len()];
        loop {
            self.value(&start, &within, is_neighbours)?;
            if !advance(&mut within, &size) {
                return Ok(());
            }
        }
    }

    fn value(&mut self, start: &[usize], within: &[usize], is_neighbours: bool) -> Result<(), CodecFailure> {
        let index: Vec<usize> = start.iter().zip(within).map(|(start, within)| start + within).collect();
        let position: usize = index.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum();
        let code = self.codes.next().ok_or_else(cut_off)?;
        let radius = self.quantizer.radius;
        let value = match (is_neighbours, self.mean) {
            (true, Some(mean)) if code == radius => mean,
            (true, mean) => {
                let predicted = self.neighbours.predict(&self.values, &index, position);
                let is_shifted = mean.is_some() && code != 0 && code < radius;
                self.quantizer.recover(predicted, code + i32::from(is_shifted))?
            }
            (false, _) => self.quantizer.recover(self.linear(within), code)?,
        };
        *self.values.get_mut(position).ok_or_else(cut_off)? = value;
        Ok(())
    }

    /// Evaluates the linear function.
    fn linear(&self, within: &[usize]) -> T {
        let number = |at: &usize| T::from_i32(i32::try_from(*at).unwrap_or(i32::MAX));
        let terms = self.coefficients.iter().zip(within).map(|(slope, at)| slope.value * number(at));
        let constant = self.coefficients.last().map(|constant| constant.value);
        terms.chain(constant).reduce(|sum, term| sum + term).unwrap_or_default()
    }
}

// A row of values, each predicted as the one before it (`szd_float.c`, `TightDataPointStorageF.c`).
//
// ```text
// 4  bins, unused   4  bins   number: median   1  bits of exact values   8  error bound
// sizes of codes, number of exact values, size of their bytes
// codes: 4 nodes, 4 unused, tree, bits    exact values: 2 bits each, bytes, remaining bits
// ```
//
// An exact value is stored without the median. Two bits tell how many of its leading bytes are those of the exact value
// before it. Its other bytes and the bits of its last, partial byte are apart.

fn decode_series<T: Real>(mut reader: Reader<'_>, flags: u8, count: usize) -> Result<Vec<T>, CodecFailure> {
    let _most_bins = reader.big_endian()?;
    let radius = reader.i32_be()? / 2;
    let median = T::read(&mut reader)?;
    let [bits] = reader.array()?;
    let bound = f64::read(&mut reader)?;
    let (codes, exact, bytes) =
        (size(&mut reader, flags)?, size(&mut reader, flags)?, size(&mut reader, flags)?);
    let mut codes = Reader::new(reader.bytes(codes)?);
    let (nodes, _numbers) = (codes.big_endian()?, codes.big_endian()?);
    let codes = Tree::parse(&mut codes, nodes)?.decode(codes.rest(), count, 0)?;
    let mut exact = Exact {
        median,
        bits: bits.into(),
        leading: BitReader::new(reader.bytes(exact.div_ceil(4))?),
        bytes: reader.bytes(bytes)?.iter(),
        rest: BitReader::new(reader.rest()),
        before: vec![0; T::SIZE],
    };
    let interval = T::from_f64(bound * 2.0);
    let mut values: Vec<T> = Vec::with_capacity(count);
    for code in codes {
        let value = match (code, values.last()) {
            (0, _) => exact.next().ok_or_else(cut_off)?,
            (code, Some(before)) => *before + T::from_i32(code.wrapping_sub(radius)) * interval,
            (_, None) => return Err(cut_off()),
        };
        values.push(value);
    }
    Ok(values)
}

/// Values that no prediction fits.
struct Exact<'a, T> {
    median: T,
    /// Bits that are stored of each.
    bits: usize,
    leading: BitReader<'a>,
    bytes: std::slice::Iter<'a, u8>,
    rest: BitReader<'a>,
    /// The one before, most significant byte first.
    before: Vec<u8>,
}

impl<T: Real> Exact<'_, T> {
    fn next(&mut self) -> Option<T> {
        let (whole, partial) = (self.bits / 8, u32::try_from(self.bits % 8).ok()?);
        let rest = self.rest.read(partial)? << (8 - partial) & 0xff;
        let same = usize::try_from(self.leading.read(2)?).ok()?;
        for (at, byte) in self.before.iter_mut().enumerate().skip(same) {
            *byte = match at {
                _ if at < whole => *self.bytes.next()?,
                _ if at == whole && partial > 0 => u8::try_from(rest).ok()?,
                _ => 0,
            };
        }
        if partial > 0 && same > whole {
            *self.before.get_mut(whole)? = u8::try_from(rest).ok()?;
        }
        Some(T::from_be_slice(&self.before)? + self.median)
    }
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
        let lines =
            include_str!("../../tests/data/lossy_chunks.txt").lines().filter(|line| line.starts_with("sz_"));
        for line in lines {
            let stored = BASE64_STANDARD.decode(line.rsplit('|').next().unwrap()).unwrap();
            let flat = if stored.starts_with(&[0x28, 0xb5]) {
                streams::decode_zstd(&stored, 1 << 20).unwrap()
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
