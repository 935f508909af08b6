//! Arithmetic of the codecs `scale_offset` and `cast_value` (zarr-extensions, `codecs/scale_offset` and
//! `codecs/cast_value`): encoding, decoding, fill values, and the validity of a chain.
//!
//! No value passes through a type that cannot hold it: integers are exact to 64 bits, and floating-point numbers are
//! rounded once.

mod real;
mod steps;

pub(crate) use real::binary16;

use bytes::Bytes;
use serde_json::Value;

use crate::{Codec, DataType, Endian, FillValue};
use real::Real;
use steps::{Cast, ScaleOffset};

/// A chain, number, or fill value that the two codecs cannot handle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub enum ArithmeticError {
    /// A chain that the specifications forbid, or bytes that are not whole elements.
    Chain(String),
    /// A floating-point type that has too few digits for an integer type.
    Mantissa(String),
    /// A number outside the range of the type.
    OutOfRange(String),
    /// NaN or an infinity, which integer types lack.
    NotFinite(String),
    /// A division of integers with a remainder.
    Remainder(String),
    /// A fill value that would change when encoded and decoded.
    FillValue(String),
}

/// The codecs `scale_offset` and `cast_value` of a chain, compiled into steps.
#[derive(Clone, Debug)]
pub struct Arithmetic {
    array: DataType,
    stored: DataType,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    ScaleOffset(ScaleOffset),
    Cast { cast: Box<Cast>, from: Side, to: Side },
}

/// A type on one side of a step.
#[derive(Clone, PartialEq, Debug)]
struct Side {
    data_type: DataType,
    real: Real,
}

impl Arithmetic {
    /// Compiles the steps of a chain, in the order of encoding, for an array of the given type.
    ///
    /// # Errors
    /// Chains that the specifications forbid: types other than real numbers, scalars that do not belong to their type,
    /// a scale of 0, wrapping to floating-point numbers. And a step after a codec that leaves no numbers.
    pub fn new(data_type: &DataType, codecs: &[Codec]) -> Result<Self, ArithmeticError> {
        let mut chain = Self { array: data_type.clone(), stored: data_type.clone(), steps: Vec::new() };
        let mut before: Option<&Codec> = None;
        for codec in codecs {
            match (codec, before) {
                (Codec::Transpose { .. }, _) => {}
                (step, Some(other)) if step.is_arithmetic() => {
                    let (step, before) = (name(step), other.describe());
                    let problem = format!("{step} follows {before}, which leaves no numbers");
                    return Err(ArithmeticError::Chain(problem));
                }
                (step, None) if step.is_arithmetic() => chain.push(step)?,
                (other, _) => before = before.or(Some(other)),
            }
        }
        Ok(chain)
    }

    fn push(&mut self, codec: &Codec) -> Result<(), ArithmeticError> {
        let from = Side::new(name(codec), &self.stored)?;
        let step = match codec {
            Codec::CastValue { data_type, rounding, out_of_range, scalar_map } => {
                let to = Side::new(name(codec), data_type)?;
                let cast = Box::new(Cast::new(&from, &to, *rounding, *out_of_range, scalar_map)?);
                self.stored = data_type.clone();
                Step::Cast { cast, from, to }
            }
            Codec::ScaleOffset { offset, scale } => {
                Step::ScaleOffset(ScaleOffset::new(&from, offset.as_ref(), scale.as_ref())?)
            }
            _ => return Ok(()),
        };
        self.steps.push(step);
        Ok(())
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the type of stored elements, after all steps.
    pub fn stored_type(&self) -> &DataType {
        &self.stored
    }

    /// Encodes elements of the array's type, in C order or any other.
    ///
    /// # Errors
    /// Numbers that a step cannot represent, and bytes that are not whole elements.
    pub fn encode(&self, bytes: &[u8], endian: Endian) -> Result<Vec<u8>, ArithmeticError> {
        let each = |element| self.steps.iter().try_fold(element, |element, step| step.encode(element));
        self.run((&self.array, &self.stored), bytes, endian, each)
    }

    /// Decodes elements of the stored type.
    ///
    /// # Errors
    /// Numbers that a step cannot represent, and bytes that are not whole elements.
    pub fn decode(&self, bytes: &[u8], endian: Endian) -> Result<Vec<u8>, ArithmeticError> {
        let each = |element| self.steps.iter().rev().try_fold(element, |element, step| step.decode(element));
        self.run((&self.stored, &self.array), bytes, endian, each)
    }

    fn run(
        &self,
        (from, to): (&DataType, &DataType),
        bytes: &[u8],
        endian: Endian,
        each: impl Fn(u64) -> Result<u64, ArithmeticError>,
    ) -> Result<Vec<u8>, ArithmeticError> {
        if self.is_empty() {
            return Ok(bytes.to_vec());
        }
        let (source, target) = (Side::new("arithmetic", from)?, Side::new("arithmetic", to)?);
        let elements = bytes.chunks_exact(source.real.size());
        if !elements.remainder().is_empty() {
            return Err(not_whole(bytes.len(), from));
        }
        let mut out = Vec::with_capacity(elements.len().saturating_mul(target.real.size()));
        for element in elements {
            target.real.write(each(Real::read(element, endian))?, endian, &mut out);
        }
        Ok(out)
    }

    /// Encodes a scalar of the array's type, such as the fill value.
    ///
    /// # Errors
    /// As [`Arithmetic::encode`].
    pub fn encode_scalar(&self, scalar: &FillValue) -> Result<FillValue, ArithmeticError> {
        fixed(scalar, &self.array, |bytes| self.encode(bytes, Endian::Little))
    }

    /// Decodes a scalar of the stored type.
    ///
    /// # Errors
    /// As [`Arithmetic::decode`].
    pub fn decode_scalar(&self, scalar: &FillValue) -> Result<FillValue, ArithmeticError> {
        fixed(scalar, &self.stored, |bytes| self.decode(bytes, Endian::Little))
    }

    /// Checks that an array may be written: its fill value survives encoding and decoding, and no cast between integers
    /// and floating-point numbers loses digits in either direction. (The specification allows the latter, and
    /// zarr-python reads such arrays.)
    ///
    /// # Errors
    /// Arrays that violate either.
    pub fn check(&self, fill: &FillValue) -> Result<(), ArithmeticError> {
        self.steps.iter().try_for_each(Step::check_mantissa)?;
        if self.is_empty() {
            return Ok(());
        }
        let back = self.decode_scalar(&self.encode_scalar(fill)?)?;
        let side = Side::new("arithmetic", &self.array)?;
        let (one, other) = (side.element(fill), side.element(&back));
        if side.real.same(one, other) || side.real.is_nan(one) && side.real.is_nan(other) {
            return Ok(());
        }
        let [fill, back] = [one, other].map(|element| side.real.describe(element));
        Err(ArithmeticError::FillValue(format!(
            "fill value {fill} of {} is decoded as {back}",
            side.data_type
        )))
    }
}

impl Step {
    fn encode(&self, element: u64) -> Result<u64, ArithmeticError> {
        match self {
            Self::ScaleOffset(step) => step.encode(element),
            Self::Cast { cast, .. } => cast.encode(element),
        }
    }

    fn decode(&self, element: u64) -> Result<u64, ArithmeticError> {
        match self {
            Self::ScaleOffset(step) => step.decode(element),
            Self::Cast { cast, .. } => cast.decode(element),
        }
    }

    fn check_mantissa(&self) -> Result<(), ArithmeticError> {
        let Self::Cast { from, to, .. } = self else { return Ok(()) };
        let ((Real::Integer { bits, signed }, Real::Float(format), integer, float)
        | (Real::Float(format), Real::Integer { bits, signed }, float, integer)) =
            (from.real, to.real, from, to)
        else {
            return Ok(());
        };
        if bits - u32::from(signed) <= format.precision() {
            return Ok(());
        }
        let (float, integer) = (&float.data_type, &integer.data_type);
        Err(ArithmeticError::Mantissa(format!("cast_value: {float} does not hold every {integer}")))
    }
}

impl Side {
    fn new(codec: &'static str, data_type: &DataType) -> Result<Self, ArithmeticError> {
        let real = Real::of(data_type).ok_or_else(|| {
            let problem = format!("{codec} works on integers and floating-point numbers, not on {data_type}");
            ArithmeticError::Chain(problem)
        })?;
        Ok(Self { data_type: data_type.clone(), real })
    }

    fn scalar(&self, parameter: &'static str, json: &Value) -> Result<u64, ArithmeticError> {
        let problem = || format!("{parameter} {json} is not a scalar of {}", self.data_type);
        self.real.scalar(json).ok_or_else(|| ArithmeticError::Chain(problem()))
    }

    fn element(&self, scalar: &FillValue) -> u64 {
        match scalar {
            FillValue::Fixed(bytes) => Real::read(bytes, Endian::Little),
            FillValue::Text(_) | FillValue::Variable(_) => 0,
        }
    }
}

/// Applies `each` to the bytes of a scalar.
fn fixed(
    scalar: &FillValue,
    data_type: &DataType,
    each: impl Fn(&[u8]) -> Result<Vec<u8>, ArithmeticError>,
) -> Result<FillValue, ArithmeticError> {
    match scalar {
        FillValue::Fixed(bytes) if data_type.size() == Some(bytes.len() as u64) => {
            Ok(FillValue::Fixed(Bytes::from(each(bytes)?)))
        }
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => Err(not_whole(bytes.len(), data_type)),
        FillValue::Text(text) => Err(not_whole(text.len(), data_type)),
    }
}

fn not_whole(found: usize, data_type: &DataType) -> ArithmeticError {
    ArithmeticError::Chain(format!("{found} bytes are not a whole number of elements of {data_type}"))
}

fn name(codec: &Codec) -> &'static str {
    match codec {
        Codec::CastValue { .. } => "cast_value",
        _ => "scale_offset",
    }
}
