//! Images and volumes, predicted block by block from neighbours or by a linear function
//! (`decompressDataSeries_float_3D_nonblocked_with_blocked_regression` in `szd_float.c`).
//!
//! ```text
//! 4  size of a block   number: error bound   4  bins   4  bytes of the tree   4  nodes   tree
//! 1  whether there is a mean   number: mean (little-endian)   a bit for each block: 1 neighbours, 0 linear function
//! for each coefficient, if a block has any:
//!    number: error bound   4  radius   4 bytes of the tree   4  nodes   tree   8  bytes of codes   codes
//!    4  exact values   exact values (little-endian)
//! 8  exact values (little-endian)   exact values (little-endian)   codes
//! ```

use super::{Real, cut_off};
use crate::{
    CodecFailure,
    bits::BitReader,
    codecs::sz3::{huffman::Tree, lorenzo::Lorenzo, reader::Reader},
};

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
        let exact = little_endian(reader, exact)?;
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

fn little_endian<T: Real>(
    reader: &mut Reader<'_>,
    count: usize,
) -> Result<std::vec::IntoIter<T>, CodecFailure> {
    let bytes = reader.bytes(count.checked_mul(T::SIZE).ok_or_else(cut_off)?)?;
    let values: Option<Vec<T>> = bytes.chunks_exact(T::SIZE).map(T::from_le_slice).collect();
    Ok(values.ok_or_else(cut_off)?.into_iter())
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
pub(super) fn decode<T: Real>(
    mut reader: Reader<'_>,
    shape: &[usize],
    count: usize,
) -> Result<Vec<T>, CodecFailure> {
    let size = reader.big_endian()?;
    let (bound, bins) = (T::read(&mut reader)?, reader.i32_be()?);
    let tree = tree(&mut reader)?;
    let has_mean = reader.flag()?;
    let mean = little_endian::<T>(&mut reader, 1)?.next().filter(|_| has_mean);
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
    let exact = little_endian(&mut reader, exact)?;
    let codes = tree.decode(reader.rest(), count, 0)?.into_iter();
    let mut strides: Vec<usize> =
        shape.iter().rev().scan(1, |stride, size| Some(std::mem::replace(stride, *stride * size))).collect();
    strides.reverse();
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
    /// Restores a block. Those at the start of an axis are longer by one value if it is no multiple of the blocks.
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

/// Moves to the next index of a block, the last axis fastest; `false` at the end.
fn advance(index: &mut [usize], size: &[usize]) -> bool {
    for (at, size) in index.iter_mut().zip(size).rev() {
        *at += 1;
        if *at < *size {
            return true;
        }
        *at = 0;
    }
    false
}
