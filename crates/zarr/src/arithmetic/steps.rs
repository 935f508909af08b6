//! `cast_value`: conversion of numbers to another type.

use std::ops::{Add, Div, Mul, Sub};

use half::f16;
use serde_json::Value;

use super::{
    ArithmeticError, Side,
    real::{Binary, Float, Format, Real},
};
use crate::{DataType, OutOfRange, Rounding, ScalarMap};

/// The codec between two types.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    encode: OneWay,
    decode: OneWay,
}

/// Conversion from one type to another.
#[derive(Clone, Debug)]
struct OneWay {
    from: Real,
    to: Real,
    to_name: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    map: Vec<Entry>,
}

/// An entry of the scalar map.
#[derive(Clone, Copy, Debug)]
struct Entry {
    from: u64,
    /// Whether `from` is "NaN", which matches all NaNs.
    any_nan: bool,
    to: u64,
}

impl Cast {
    /// Compiles the codec between the array's type and the stored type.
    pub(super) fn new(
        array: &Side,
        stored: &Side,
        rounding: Rounding,
        out_of_range: Option<OutOfRange>,
        scalar_map: &ScalarMap,
    ) -> Result<Self, ArithmeticError> {
        if out_of_range == Some(OutOfRange::Wrap) && matches!(stored.real, Real::Float(_)) {
            let problem = format!("out_of_range wrap is for integers, not for {}", stored.data_type);
            return Err(ArithmeticError::Chain(format!("cast_value: {problem}")));
        }
        let one_way = |from: &Side, to: &Side, entries: &[(Value, Value)]| {
            let map = entries.iter().map(|entry| Entry::new(from, to, entry)).collect::<Result<_, _>>()?;
            let to_name = to.data_type.clone();
            Ok(OneWay { from: from.real, to: to.real, to_name, rounding, out_of_range, map })
        };
        Ok(Self {
            encode: one_way(array, stored, &scalar_map.encode)?,
            decode: one_way(stored, array, &scalar_map.decode)?,
        })
    }

    pub(super) fn encode(&self, element: u64) -> Result<u64, ArithmeticError> {
        self.encode.cast(element)
    }

    pub(super) fn decode(&self, element: u64) -> Result<u64, ArithmeticError> {
        self.decode.cast(element)
    }
}

impl Entry {
    fn new(from: &Side, to: &Side, (source, target): &(Value, Value)) -> Result<Self, ArithmeticError> {
        let any_nan = source == "NaN";
        Ok(Self {
            from: from.scalar("cast_value: scalar_map", source)?,
            any_nan,
            to: to.scalar("cast_value: scalar_map", target)?,
        })
    }

    fn matches(&self, real: Real, element: u64) -> bool {
        real.same(self.from, element) || self.any_nan && real.is_nan(element)
    }
}

impl OneWay {
    fn cast(&self, element: u64) -> Result<u64, ArithmeticError> {
        if let Some(entry) = self.map.iter().find(|entry| entry.matches(self.from, element)) {
            return Ok(entry.to);
        }
        if self.from == self.to {
            return Ok(element);
        }
        match self.to {
            Real::Integer { .. } => self.integer(element),
            Real::Float(format) => self.float(format, element),
        }
    }

    fn integer(&self, element: u64) -> Result<u64, ArithmeticError> {
        let Float::Finite(binary) = self.from.split(element) else {
            let problem = format!("{} is not representable as {}", self.from.describe(element), self.to_name);
            let problem = format!("cast_value: {problem}, and scalar_map has no entry for it");
            return Err(ArithmeticError::NotFinite(problem));
        };
        let whole = binary.whole(self.rounding);
        let (least, greatest) = self.to.range();
        match (self.to.exactly(whole), self.out_of_range) {
            (Some(exact), _) => Ok(exact),
            (None, Some(OutOfRange::Clamp)) => Ok(self.to.modulo(whole.clamp(least, greatest))),
            (None, Some(OutOfRange::Wrap)) => Ok(self.to.modulo(whole)),
            (None, None) => Err(self.out_of_range(element)),
        }
    }

    fn float(&self, format: Format, element: u64) -> Result<u64, ArithmeticError> {
        let binary @ Binary { negative, .. } = match self.from.split(element) {
            Float::Finite(binary) => binary,
            Float::Infinite { negative } => return Ok(format.infinity(negative)),
            Float::Nan { negative, payload } => return Ok(format.nan(negative, payload)),
        };
        match format.round(binary, self.rounding) {
            Some(rounded) => Ok(rounded),
            None if self.out_of_range == Some(OutOfRange::Clamp) => Ok(format.infinity(negative)),
            None => Err(self.out_of_range(element)),
        }
    }

    fn out_of_range(&self, element: u64) -> ArithmeticError {
        let (value, data_type) = (self.from.describe(element), &self.to_name);
        ArithmeticError::OutOfRange(format!("cast_value: {value} is out of the range of {data_type}"))
    }
}

// `scale_offset`: (x − offset) · scale, in the arithmetic of one type.

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
            return Err(ArithmeticError::Chain(format!("scale_offset: scale is 0 as {}", side.data_type)));
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
                    let problem = format!("scale_offset: {value} / {scale} is not an integer");
                    return Err(ArithmeticError::Remainder(problem));
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
        let data_type = &self.side.data_type;
        Err(ArithmeticError::OutOfRange(format!("scale_offset: {value} is out of the range of {data_type}")))
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
