//! Prediction block by block (`SZ3/frontend/SZGeneralFrontend.hpp`, and for volumes `SZFastFrontend.hpp`).
//!
//! ```text
//! general   8  size of each axis   4  size of a block   predictors, choices of the blocks   quantizer, code
//! volumes   44 parameters   8  error bound   1 + number  mean   8  blocks with coefficients
//!           choices of the blocks, coefficients, quantizer, code
//! ```

use super::{
    NAME, cut_off,
    huffman::{self, Reader},
    number::{Config, Number, Quantizer},
};
use crate::{CodecFailure, corrupt, unsupported};

/// Predictor of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    First,
    Second,
    Regression,
}

/// What precedes the code of quantized errors.
struct Frontend<T> {
    /// Values along each axis of a block.
    block: usize,
    /// Axes of the Lorenzo predictors.
    along: Vec<usize>,
    choices: Vec<Choice>,
    regression: Regression<T>,
    quantizer: Quantizer<T>,
}

/// Decodes all values.
pub(super) fn decode<T: Number>(config: &Config, mut reader: Reader<'_>) -> Result<Vec<T>, CodecFailure> {
    let frontend = match config.shape.len() {
        3 => Frontend::parse_volume(config, &mut reader)?,
        _ => Frontend::parse(config, &mut reader)?,
    };
    let count = config.elements().ok_or_else(cut_off)?;
    let codes = huffman::decode(&mut reader, count)?;
    frontend.run(&config.shape, codes)
}

fn blocks_of(shape: &[usize], block: usize) -> usize {
    shape.iter().map(|size| size.div_ceil(block)).product()
}

/// Returns the size of a block. Those of one value would predict from values of other rows.
fn block_size(number: i32) -> Result<usize, CodecFailure> {
    let size = usize::try_from(number).ok().filter(|size| *size >= 2);
    size.ok_or_else(|| corrupt(NAME, format!("blocks of {number} values")))
}

impl<T: Number> Frontend<T> {
    fn parse(config: &Config, reader: &mut Reader<'_>) -> Result<Self, CodecFailure> {
        let axes = config.shape.len();
        let shape = (0..axes).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
        if shape != config.shape {
            return Err(corrupt(NAME, format!("values of shape {shape:?}, expected {:?}", config.shape)));
        }
        let block = block_size(reader.i32()?)?;
        let known = [
            (config.lorenzo, Choice::First),
            (config.lorenzo2, Choice::Second),
            (config.regression, Choice::Regression),
        ];
        let known: Vec<Choice> =
            known.into_iter().filter(|(is_used, _)| *is_used).map(|(_, choice)| choice).collect();
        let mut regression = Regression::None;
        for choice in &known {
            match choice {
                Choice::Regression => regression = Regression::parse(reader, axes)?,
                // A byte that names the predictor.
                _ => drop(reader.flag()?),
            }
        }
        let blocks = blocks_of(&shape, block);
        let choices = match known.as_slice() {
            [] => return Err(corrupt(NAME, "no predictor")),
            [only] => vec![*only; blocks],
            known => {
                let count = reader.size()?;
                if count != blocks {
                    return Err(corrupt(NAME, format!("choices for {count} of {blocks} blocks")));
                }
                let numbers = huffman::decode(reader, blocks)?;
                let choice = |number| usize::try_from(number).ok().and_then(|n: usize| known.get(n)).copied();
                numbers.into_iter().map(choice).collect::<Option<_>>().ok_or_else(cut_off)?
            }
        };
        let quantizer = Quantizer::parse(reader)?;
        Ok(Self { block, along: (0..axes).collect(), choices, regression, quantizer })
    }

    fn parse_volume(config: &Config, reader: &mut Reader<'_>) -> Result<Self, CodecFailure> {
        let (block, axes) = (block_size(reader.i32()?)?, reader.i32()?);
        // Flags, padding, capacity.
        reader.bytes(12)?;
        let (constant, linear) = (reader.f32()?, reader.f32()?);
        reader.bytes(16)?;
        let _bound = reader.f64()?;
        if reader.flag()? {
            return Err(unsupported(NAME, "a mean"));
        }
        reader.bytes(T::SIZE)?;
        let with_coefficients = reader.size()?;
        let numbers = huffman::decode(reader, blocks_of(&config.shape, block))?;
        let choice = |number| match number {
            0 => Some(Choice::First),
            1 => Some(Choice::Regression),
            2 => Some(Choice::Second),
            _ => None,
        };
        let choices = numbers.into_iter().map(choice).collect::<Option<_>>().ok_or_else(cut_off)?;
        let regression = match with_coefficients {
            0 => Regression::None,
            count => Regression::parse_volume(reader, count, (linear, constant))?,
        };
        let quantizer = Quantizer::parse(reader)?;
        let along = match axes {
            3 => vec![0, 1, 2],
            2 => vec![0, 2],
            _ => vec![2],
        };
        Ok(Self { block, along, choices, regression, quantizer })
    }

    /// Restores the values block by block, the last axis fastest.
    fn run(mut self, shape: &[usize], codes: Vec<i32>) -> Result<Vec<T>, CodecFailure> {
        let strides = strides(shape);
        let first = Lorenzo::new(false, &self.along, &strides);
        // In planes of a volume, the second order sums along the other axis first.
        let swapped: Vec<usize> = self.along.iter().rev().copied().collect();
        let is_plane = shape.len() == 3 && self.along.len() == 2;
        let second = Lorenzo::new(true, if is_plane { &swapped } else { &self.along }, &strides);
        let mut values = vec![T::default(); codes.len()];
        let mut codes = codes.into_iter();
        let choices = std::mem::take(&mut self.choices);
        for (number, choice) in choices.into_iter().enumerate() {
            let (start, size) = extent(number, shape, self.block);
            let mut choice = choice;
            if choice == Choice::Regression {
                // Blocks without extent have no slope.
                if shape.len() != 3 && size.contains(&1) {
                    choice = Choice::First;
                } else {
                    self.regression.next_block()?;
                }
            }
            let mut within = vec![0; shape.len()];
            loop {
                let index: Vec<usize> =
                    start.iter().zip(&within).map(|(start, within)| start + within).collect();
                let position: usize = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                let predicted = match choice {
                    Choice::First => first.predict(&values, &index, position),
                    Choice::Second => second.predict(&values, &index, position),
                    Choice::Regression => self.regression.predict(&within),
                };
                let code = codes.next().ok_or_else(cut_off)?;
                *values.get_mut(position).ok_or_else(cut_off)? = self.quantizer.recover(predicted, code)?;
                if !advance(&mut within, &size) {
                    break;
                }
            }
        }
        Ok(values)
    }
}

/// Returns start and size of a block.
fn extent(mut number: usize, shape: &[usize], block: usize) -> (Vec<usize>, Vec<usize>) {
    let mut start = vec![0; shape.len()];
    let mut extent = start.clone();
    for ((start, extent), size) in start.iter_mut().zip(&mut extent).zip(shape).rev() {
        let count = size.div_ceil(block);
        *start = number % count * block;
        *extent = block.min(size - *start);
        number /= count;
    }
    (start, extent)
}

/// Returns the distance in values between neighbours along each axis.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides: Vec<usize> =
        shape.iter().rev().scan(1, |stride, size| Some(std::mem::replace(stride, *stride * size))).collect();
    strides.reverse();
    strides
}

/// Moves to the next index of a block, the last axis fastest; `false` at the end.
pub(crate) fn advance(index: &mut [usize], size: &[usize]) -> bool {
    for (at, size) in index.iter_mut().zip(size).rev() {
        *at += 1;
        if *at < *size {
            return true;
        }
        *at = 0;
    }
    false
}

// Linear functions of the position in a block (`SZ3/predictor/RegressionPredictor.hpp`, `MetaRegressionPredictor.hpp`).

/// Coefficients of the blocks: a slope for each axis and a constant, each the difference to the one before.
pub(super) enum Regression<T> {
    /// Quantized in the type of the values.
    General { constant: Quantizer<T>, linear: Quantizer<T>, codes: std::vec::IntoIter<i32>, current: Vec<T> },
    /// Volumes: quantized as 32-bit floats.
    Volume { coefficients: std::vec::IntoIter<[f32; 4]>, current: [f32; 4] },
    /// No block uses them.
    None,
}

/// The radius of the quantizer of coefficients of volumes.
const RADIUS: i32 = 32768;

impl<T: Number> Regression<T> {
    /// Parses the predictor of arrays of so many axes.
    pub(super) fn parse(reader: &mut Reader<'_>, axes: usize) -> Result<Self, CodecFailure> {
        let _kind = reader.flag()?;
        let count = reader.size()?;
        if count == 0 {
            return Ok(Self::None);
        }
        let (constant, linear) = (Quantizer::parse(reader)?, Quantizer::parse(reader)?);
        let codes = huffman::decode(reader, bounded(count, reader)?)?.into_iter();
        Ok(Self::General { constant, linear, codes, current: vec![T::default(); axes + 1] })
    }

    /// Parses the coefficients of `count` blocks of a volume, given the bounds of their errors.
    pub(super) fn parse_volume(
        reader: &mut Reader<'_>,
        count: usize,
        (linear, constant): (f32, f32),
    ) -> Result<Self, CodecFailure> {
        let exact = reader.size()?;
        let mut exact = reader.values::<f32>(exact)?;
        let codes = huffman::decode(reader, bounded(count.checked_mul(4).ok_or_else(cut_off)?, reader)?)?;
        let bounds = [linear, linear, linear, constant].map(|bound| T::from_f64(bound.into()).to_f64());
        let mut current = [0.0_f32; 4];
        let mut coefficients = Vec::with_capacity(count);
        for codes in codes.as_chunks::<4>().0 {
            for ((value, code), bound) in current.iter_mut().zip(codes).zip(bounds) {
                *value = match code {
                    0 => exact.next().ok_or_else(cut_off)?,
                    code => {
                        let bins = code.wrapping_sub(RADIUS).wrapping_mul(2);
                        f32::from_f64(f64::from(*value) + f64::from(bins) * bound)
                    }
                };
            }
            coefficients.push(current);
        }
        Ok(Self::Volume { coefficients: coefficients.into_iter(), current })
    }

    /// Moves to the next block that uses coefficients.
    pub(super) fn next_block(&mut self) -> Result<(), CodecFailure> {
        match self {
            Self::General { constant, linear, codes, current } => {
                let (last, slopes) = current.split_last_mut().ok_or_else(cut_off)?;
                for slope in slopes {
                    *slope = linear.recover(*slope, codes.next().ok_or_else(cut_off)?)?;
                }
                *last = constant.recover(*last, codes.next().ok_or_else(cut_off)?)?;
            }
            Self::Volume { coefficients, current } => *current = coefficients.next().ok_or_else(cut_off)?,
            Self::None => return Err(cut_off()),
        }
        Ok(())
    }

    /// Predicts the value at this position of the block.
    #[expect(clippy::cast_precision_loss, reason = "positions are small")]
    pub(super) fn predict(&self, position: &[usize]) -> T {
        match self {
            Self::General { current, .. } => {
                let terms = position.iter().zip(current);
                let sum = terms.fold(T::default(), |sum, (at, slope)| sum.plus_product(*at, *slope));
                T::combine(&[(1, sum), (1, current.last().copied().unwrap_or_default())], 1)
            }
            Self::Volume { current: [a, b, c, constant], .. } => match position {
                [x, y, z] => T::from_f64((a * *x as f32 + b * *y as f32 + c * *z as f32 + constant).into()),
                _ => T::default(),
            },
            Self::None => T::default(),
        }
    }
}

/// Refuses more codes than there are bits, unless they are all alike.
fn bounded(count: usize, reader: &Reader<'_>) -> Result<usize, CodecFailure> {
    Some(count).filter(|count| *count / 8 <= reader.rest().len().saturating_mul(64)).ok_or_else(cut_off)
}

// Lorenzo predictors: the value that makes a finite difference of first or second order along all axes zero. Values outside
// the array count as zero (`SZ3/predictor/LorenzoPredictor.hpp`, `MetaLorenzoPredictor.hpp`).

/// Values before the predicted one: factors and distances along each axis.
pub(crate) struct Lorenzo {
    terms: Vec<Term>,
}

struct Term {
    factor: i8,
    distance: Vec<usize>,
    /// Distance in values.
    offset: usize,
}

impl Lorenzo {
    /// Returns the predictor of this order along `along` of the axes, given the distances in values between neighbours
    /// along each axis. The order of the terms is that of the library, which decides how sums are rounded.
    pub(crate) fn new(second_order: bool, along: &[usize], strides: &[usize]) -> Self {
        let weights: &[i8] = if second_order && along.len() < 4 { &[1, -2, 1] } else { &[1, -1] };
        let mut terms: Vec<Term> = (1..weights.len().pow(u32::try_from(along.len()).unwrap_or(0)))
            .map(|number| term(number, weights, along, strides))
            .collect();
        if weights.len() == 2 && along.len() == 3 {
            terms.sort_by_key(|term| term.distance.iter().sum::<usize>());
        }
        Self { terms }
    }

    /// Predicts the value with this index and position.
    pub(crate) fn predict<T: Number>(&self, values: &[T], index: &[usize], position: usize) -> T {
        let mut known = [(0, T::default()); 26];
        for (known, term) in known.iter_mut().zip(&self.terms) {
            let is_inside = index.iter().zip(&term.distance).all(|(at, distance)| at >= distance);
            let value = if is_inside { values.get(position - term.offset).copied() } else { None };
            *known = (term.factor, value.unwrap_or_default());
        }
        T::combine(known.get(..self.terms.len()).unwrap_or_default(), 1)
    }
}

/// Returns the term whose distances are the digits of `number`, the last axis least significant.
fn term(mut number: usize, weights: &[i8], along: &[usize], strides: &[usize]) -> Term {
    let mut distance = vec![0; strides.len()];
    let mut factor = -1;
    for axis in along.iter().rev() {
        let digit = number % weights.len();
        number /= weights.len();
        factor *= weights.get(digit).copied().unwrap_or(0);
        if let Some(distance) = distance.get_mut(*axis) {
            *distance = digit;
        }
    }
    let offset = distance.iter().zip(strides).map(|(distance, stride)| distance * stride).sum();
    Term { factor, distance, offset }
}
