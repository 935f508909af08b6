//! `scale_offset`: (x − offset) · scale, in the arithmetic of one type.

use std::ops::{Add, Div, Mul, Sub};

use half::f16;
use serde_json::Value;

use super::float::Format;
use super::real::Real;
use super::{ArithmeticError, Side};

/// The codec for one type.
#[derive(Clone, Debug)]
pub(super) struct ScaleOffset {
    side: Side,
    offset: u64,
    scale: u64,
}

#[derive(Clone, Copy)]
enum Direction {
    Encode,
    Decode,
}

impl ScaleOffset {
    pub(super) fn new(
        side: &Side,
        offset: Option<&Value>,
        scale: Option<&Value>,
    ) -> Result<Self, ArithmeticError> {
        let offset = side.scalar("scale_offset: offset", offset.unwrap_or(&0.into()))?;
        let scale = side.scalar("scale_offset: scale", scale.unwrap_or(&1.into()))?;
        if side.real.same(scale, 0) {
            return Err(ArithmeticError::ScaleOfZero { data_type: side.data_type.clone() });
        }
        Ok(Self { side: side.clone(), offset, scale })
    }

    pub(super) fn encode(&self, element: u64) -> Result<u64, ArithmeticError> {
        match self.side.real {
            Real::Float(format) => Ok(self.float(format, element, Direction::Encode)),
            Real::Integer { .. } => {
                let [value, offset, scale] = self.integers(element);
                let difference = self.within(value - offset)?;
                let product = self.within(difference * scale)?;
                Ok(self.side.real.modulo(product))
            }
        }
    }

    pub(super) fn decode(&self, element: u64) -> Result<u64, ArithmeticError> {
        match self.side.real {
            Real::Float(format) => Ok(self.float(format, element, Direction::Decode)),
            Real::Integer { .. } => {
                let [value, offset, scale] = self.integers(element);
                if value % scale != 0 {
                    return Err(ArithmeticError::Remainder { value, scale });
                }
                let quotient = self.within(value / scale)?;
                let sum = self.within(quotient + offset)?;
                Ok(self.side.real.modulo(sum))
            }
        }
    }

    /// Returns value, offset and scale. Each has at most 64 bits, so no operation on them overflows 128.
    fn integers(&self, element: u64) -> [i128; 3] {
        [element, self.offset, self.scale].map(|bits| self.side.real.integer(bits))
    }

    /// Checks that an intermediate value is one of the type, as the specification requires.
    fn within(&self, value: i128) -> Result<i128, ArithmeticError> {
        let (least, greatest) = self.side.real.range();
        if (least..=greatest).contains(&value) {
            return Ok(value);
        }
        Err(ArithmeticError::OutOfRange {
            codec: "scale_offset",
            value: value.to_string(),
            data_type: self.side.data_type.clone(),
        })
    }

    /// Computes in the type: every operation rounds to it (IEEE 754), and overflow becomes infinity.
    fn float(&self, format: Format, element: u64, direction: Direction) -> u64 {
        let operands = [element, self.offset, self.scale];
        match format {
            Format::BINARY64 => compute(direction, operands.map(f64::from_bits)).to_bits(),
            Format::BINARY32 => {
                compute(direction, operands.map(|bits| f32::from_bits(low(bits)))).to_bits().into()
            }
            _ => compute(direction, operands.map(|bits| f16::from_bits(low(bits)))).to_bits().into(),
        }
    }
}

fn compute<T>(direction: Direction, [value, offset, scale]: [T; 3]) -> T
where
    T: Sub<Output = T> + Mul<Output = T> + Div<Output = T> + Add<Output = T>,
{
    match direction {
        Direction::Encode => (value - offset) * scale,
        Direction::Decode => value / scale + offset,
    }
}

/// Returns the lower bits of an element.
fn low<T: TryFrom<u64> + Default>(bits: u64) -> T {
    T::try_from(bits).unwrap_or_default()
}
