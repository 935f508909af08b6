//! Arithmetic as C++ does it on each type of numbers.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "conversions of C++ and of x86 processors"
)]

use super::{NAME, cut_off, huffman::Reader};
use crate::{CodecFailure, corrupt, unsupported};

/// A type of numbers that SZ3 compresses.
pub(crate) trait Number: Copy + Default {
    /// Bytes of a number.
    const SIZE: usize;

    fn from_le_slice(bytes: &[u8]) -> Option<Self>;
    fn push_le_bytes(self, out: &mut Vec<u8>);
    fn to_f64(self) -> f64;
    /// Converts as compilers for x86 do: towards zero, and modulo the size of the type.
    fn from_f64(value: f64) -> Self;
    /// Returns the sum of factors times numbers, from the first term on, divided by `divisor`.
    fn combine(terms: &[(i8, Self)], divisor: u8) -> Self;
    /// Returns `self + position * slope`.
    fn plus_product(self, position: usize, slope: Self) -> Self;
}

/// Members of [`Number`] that are the same for all types.
macro_rules! bytes_of_numbers {
    () => {
        const SIZE: usize = size_of::<Self>();

        fn from_le_slice(bytes: &[u8]) -> Option<Self> {
            bytes.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
        }

        fn push_le_bytes(self, out: &mut Vec<u8>) {
            out.extend(self.to_le_bytes());
        }
    };
}

macro_rules! float {
    ($type:ty) => {
        impl Number for $type {
            bytes_of_numbers!();

            fn to_f64(self) -> f64 {
                self.into()
            }

            fn from_f64(value: f64) -> Self {
                value as Self
            }

            fn combine(terms: &[(i8, Self)], divisor: u8) -> Self {
                let products = terms.iter().map(|(factor, value)| Self::from(*factor) * value);
                products.reduce(|sum, product| sum + product).unwrap_or_default() / Self::from(divisor)
            }

            fn plus_product(self, position: usize, slope: Self) -> Self {
                self + position as Self * slope
            }
        }
    };
}

float!(f32);
float!(f64);

/// Integers: `$wide` is the type to which C++ promotes them, `$convert` how x86 converts numbers to them.
macro_rules! integer {
    ($type:ty, $wide:ty, $convert:expr) => {
        impl Number for $type {
            bytes_of_numbers!();

            #[allow(clippy::cast_lossless, reason = "one line for all types")]
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                $convert(value) as Self
            }

            #[allow(trivial_numeric_casts, clippy::cast_lossless, reason = "one line for all types")]
            fn combine(terms: &[(i8, Self)], divisor: u8) -> Self {
                let products =
                    terms.iter().map(|(factor, value)| (*factor as $wide).wrapping_mul(*value as $wide));
                let sum = products.fold(0, <$wide>::wrapping_add);
                (sum / divisor.max(1) as $wide) as Self
            }

            fn plus_product(self, position: usize, slope: Self) -> Self {
                self.wrapping_add((position as Self).wrapping_mul(slope))
            }
        }
    };
}

integer!(i8, i32, to_i32);
integer!(u8, i32, to_i32);
integer!(i16, i32, to_i32);
integer!(u16, i32, to_i32);
integer!(i32, i32, to_i32);
integer!(u32, u32, to_i64);
integer!(i64, i64, to_i64);
integer!(u64, u64, to_u64);

/// Instruction `cvttsd2si` with a register of 32 bits.
fn to_i32(value: f64) -> i32 {
    if value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0 {
        value as i32
    } else {
        i32::MIN
    }
}

/// Instruction `cvttsd2si` with a register of 64 bits.
fn to_i64(value: f64) -> i64 {
    if value >= i64::MIN as f64 && value < TWO_63 { value as i64 } else { i64::MIN }
}

fn to_u64(value: f64) -> u64 {
    if value >= TWO_63 { to_i64(value - TWO_63) as u64 ^ 1 << 63 } else { to_i64(value) as u64 }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

// The configuration at the end of a chunk (`SZ3/utils/Config.hpp`).

/// How values are predicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Algorithm {
    /// From neighbours at distances that halve from level to level.
    Interpolation,
    /// From neighbours before them, or by a linear function, block by block.
    Blocks,
}

/// What decoding needs of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// Slowest axis first.
    pub(super) shape: Vec<usize>,
    pub(super) algorithm: Algorithm,
    /// Whether the frame holds the values themselves.
    pub(super) is_lossless: bool,
    pub(super) lorenzo: bool,
    pub(super) lorenzo2: bool,
    pub(super) regression: bool,
}

impl Config {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, CodecFailure> {
        let mut reader = Reader::new(bytes);
        let [axes] = reader.array()?;
        if !(1..=4).contains(&axes) {
            return Err(corrupt(NAME, format!("{axes} axes")));
        }
        let shape = (0..axes).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
        let _elements = reader.size()?;
        let [algorithm, _mode] = reader.array()?;
        let (error_bound, _relative) = (reader.f64()?, reader.f64()?);
        let [lorenzo, lorenzo2, regression, regression2] = reader.array()?.map(|flag: u8| flag != 0);
        // Interpolation and its direction, its block size, codecs, bins, block size, two that are unused.
        reader.bytes(2 + 4 + 2 + 4 * 4)?;
        let uses_threads = reader.flag()?;
        let is_lossless = error_bound == 0.0;
        let algorithm = match algorithm {
            _ if is_lossless => Algorithm::Blocks,
            0 => Algorithm::Blocks,
            2 => Algorithm::Interpolation,
            other => return Err(unsupported(NAME, format!("algorithm {other}"))),
        };
        if uses_threads {
            return Err(unsupported(NAME, "chunks in parts for several threads"));
        }
        if regression2 && algorithm == Algorithm::Blocks && !is_lossless {
            return Err(unsupported(NAME, "regression of second order"));
        }
        if shape.contains(&0) {
            return Err(cut_off());
        }
        Ok(Self { shape, algorithm, is_lossless, lorenzo, lorenzo2, regression })
    }

    pub(super) fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size))
    }
}

// Quantized errors of predictions (`SZ3/quantizer/IntegerQuantizer.hpp`).
//
// ```text
// 1  kind   8  error bound   4  radius   8  number of values without a prediction   these values
// ```

/// Restores values from predictions.
pub(super) struct Quantizer<T> {
    /// Half the width of a bin.
    pub(super) bound: f64,
    /// The code of an error of zero.
    radius: i32,
    exact: std::vec::IntoIter<T>,
}

impl<T: Number> Quantizer<T> {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, CodecFailure> {
        let [kind] = reader.array()?;
        if kind != 2 {
            return Err(corrupt(NAME, format!("a quantizer of kind {kind}")));
        }
        let (bound, radius, count) = (reader.f64()?, reader.i32()?, reader.size()?);
        Ok(Self { bound, radius, exact: reader.values(count)? })
    }

    /// Returns the value with this code; 0 stands for the next value that is stored as it is.
    pub(super) fn recover(&mut self, predicted: T, code: i32) -> Result<T, CodecFailure> {
        match code {
            0 => self.exact.next().ok_or_else(cut_off),
            _ => {
                let bins = code.wrapping_sub(self.radius).wrapping_mul(2);
                Ok(T::from_f64(predicted.to_f64() + f64::from(bins) * self.bound))
            }
        }
    }
}
