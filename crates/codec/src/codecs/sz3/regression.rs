//! Linear functions of the position in a block (`SZ3/predictor/RegressionPredictor.hpp`, `MetaRegressionPredictor.hpp`).

use super::{cut_off, huffman, number::Number, quantizer::Quantizer, reader::Reader};
use crate::CodecFailure;

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
        let mut exact = reader.values::<f32>()?.into_iter();
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
