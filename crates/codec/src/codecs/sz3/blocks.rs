//! Prediction block by block (`SZ3/frontend/SZGeneralFrontend.hpp`, and for volumes `SZFastFrontend.hpp`).
//!
//! ```text
//! general   8  size of each axis   4  size of a block   predictors, choices of the blocks   quantizer, code
//! volumes   44 parameters   8  error bound   1 + number  mean   8  blocks with coefficients
//!           choices of the blocks, coefficients, quantizer, code
//! ```

use super::{
    NAME, config::Config, cut_off, huffman, lorenzo::Lorenzo, number::Number, quantizer::Quantizer,
    reader::Reader, regression::Regression, unsupported,
};
use crate::{CodecFailure, corrupt};

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
            return Err(unsupported("a mean"));
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
        let mut strides: Vec<usize> = shape
            .iter()
            .rev()
            .scan(1, |stride, size| Some(std::mem::replace(stride, *stride * size)))
            .collect();
        strides.reverse();
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
