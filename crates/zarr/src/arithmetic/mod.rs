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
use steps::Cast;
use steps::ScaleOffset;

/// A chain, number, or fill value that the two codecs cannot handle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArithmeticError {
    /// A data type other than integers and floating-point numbers.
    #[error("{codec} works on integers and floating-point numbers, not on {data_type}")]
    Type {
        /// The codec.
        codec: &'static str,
        /// The type.
        data_type: DataType,
    },
    /// A codec before it leaves no numbers.
    #[error("{codec} follows {before}, which leaves no numbers")]
    Place {
        /// The codec.
        codec: &'static str,
        /// The codec before it.
        before: String,
    },
    /// A parameter that is not a scalar of the type.
    #[error("{parameter} {value} is not a scalar of {data_type}")]
    Scalar {
        /// Codec and name of the parameter.
        parameter: &'static str,
        /// The value, as JSON.
        value: String,
        /// The type.
        data_type: DataType,
    },
    /// `scale` is 0 in the array's type, by which decoding would divide.
    #[error("scale_offset: scale is 0 as {data_type}")]
    ScaleOfZero {
        /// The type.
        data_type: DataType,
    },
    /// Wrapping, which is modulo 2ⁿ, with a target that is not an integer type.
    #[error("cast_value: out_of_range wrap is for integers, not for {data_type}")]
    Wrap {
        /// The target type.
        data_type: DataType,
    },
    /// A floating-point type that has too few digits for an integer type.
    #[error("cast_value: {float} does not hold every {integer}")]
    Mantissa {
        /// The floating-point type.
        float: DataType,
        /// The integer type.
        integer: DataType,
    },
    /// A number outside the range of the type.
    #[error("{codec}: {value} is out of the range of {data_type}")]
    OutOfRange {
        /// The codec.
        codec: &'static str,
        /// The number.
        value: String,
        /// The type.
        data_type: DataType,
    },
    /// NaN or an infinity, which integer types lack.
    #[error("cast_value: {value} is not representable as {data_type}, and scalar_map has no entry for it")]
    NotFinite {
        /// NaN, Infinity or -Infinity.
        value: String,
        /// The type.
        data_type: DataType,
    },
    /// A division of integers with a remainder.
    #[error("scale_offset: {value} / {scale} is not an integer")]
    Remainder {
        /// Stored number.
        value: i128,
        /// Divisor.
        scale: i128,
    },
    /// A fill value that would change when encoded and decoded.
    #[error("fill value {fill} of {data_type} is decoded as {back}")]
    FillValue {
        /// The fill value.
        fill: String,
        /// The value after encoding and decoding.
        back: String,
        /// The type of the array.
        data_type: DataType,
    },
    /// Bytes that are not a whole number of elements.
    #[error("{found} bytes are not a whole number of elements of {data_type}")]
    Length {
        /// Number of bytes.
        found: usize,
        /// The type.
        data_type: DataType,
    },
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
                    return Err(ArithmeticError::Place { codec: name(step), before: other.describe() });
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
            return Err(ArithmeticError::Length { found: bytes.len(), data_type: from.clone() });
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
        Err(ArithmeticError::FillValue {
            fill: side.real.describe(one),
            back: side.real.describe(other),
            data_type: side.data_type,
        })
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
        Err(ArithmeticError::Mantissa { float: float.data_type.clone(), integer: integer.data_type.clone() })
    }
}

impl Side {
    fn new(codec: &'static str, data_type: &DataType) -> Result<Self, ArithmeticError> {
        match Real::of(data_type) {
            Some(real) => Ok(Self { data_type: data_type.clone(), real }),
            None => Err(ArithmeticError::Type { codec, data_type: data_type.clone() }),
        }
    }

    fn scalar(&self, parameter: &'static str, json: &Value) -> Result<u64, ArithmeticError> {
        self.real.scalar(json).ok_or_else(|| ArithmeticError::Scalar {
            parameter,
            value: json.to_string(),
            data_type: self.data_type.clone(),
        })
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
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => {
            Err(ArithmeticError::Length { found: bytes.len(), data_type: data_type.clone() })
        }
        FillValue::Text(text) => {
            Err(ArithmeticError::Length { found: text.len(), data_type: data_type.clone() })
        }
    }
}

fn name(codec: &Codec) -> &'static str {
    match codec {
        Codec::CastValue { .. } => "cast_value",
        _ => "scale_offset",
    }
}
