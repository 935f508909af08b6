use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use half::f16;
use serde_json::{Map, Number, Value};

use crate::arithmetic::binary16;
use crate::{DataType, Endian, Field, ZarrFormat};

/// A scalar of a data type, exact to the bit: a fill value or a sentinel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FillValue {
    /// The [`DataType::size`] bytes of one element. Each number is little-endian: each member of a structure, each half
    /// of a complex number.
    Fixed(Bytes),
    /// A scalar of [`crate::DataType::String`].
    Text(String),
    /// A scalar of [`crate::DataType::VariableBytes`].
    Variable(Bytes),
}

/// Outcome of the conversion of a number to a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// The same number.
    Exact(FillValue),
    /// The nearest number of the type (floating-point types only).
    Rounded(FillValue),
    /// The type has no such number: out of range, a fraction or NaN for an integer, or not a numeric type.
    Impossible,
}

/// A fill value that is not an element of its type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a fill value of {found} does not fit data type {data_type}")]
pub struct FillValueError {
    /// The type.
    pub data_type: String,
    /// What was found, such as "3 bytes".
    pub found: String,
}

impl Conversion {
    /// Returns the scalar, exact or rounded.
    pub fn value(self) -> Option<FillValue> {
        match self {
            Self::Exact(value) | Self::Rounded(value) => Some(value),
            Self::Impossible => None,
        }
    }

    /// Returns the scalar if it is exact.
    pub fn exact(self) -> Option<FillValue> {
        match self {
            Self::Exact(value) => Some(value),
            Self::Rounded(_) | Self::Impossible => None,
        }
    }
}

impl FillValue {
    /// Returns the type's zero: all bytes 0, NaT, or an empty text or byte string.
    pub fn zero(data_type: &DataType) -> Self {
        match data_type {
            DataType::String => Self::Text(String::new()),
            DataType::VariableBytes => Self::Variable(Bytes::new()),
            DataType::DateTime(_) | DataType::TimeDelta(_) => {
                Self::Fixed(Bytes::copy_from_slice(&i64::MIN.to_le_bytes()))
            }
            fixed => Self::Fixed(vec![0; usize_of(fixed.size().unwrap_or(0))].into()),
        }
    }

    /// Converts an integer to a type.
    pub fn from_i128(data_type: &DataType, number: i128) -> Conversion {
        let bytes = number.to_le_bytes();
        match data_type {
            DataType::Bool if number == 0 || number == 1 => exact(bytes.get(..1)),
            integer if integer.is_integer() => {
                if !integer_range(integer).contains(&number) {
                    return Conversion::Impossible;
                }
                exact(bytes.get(..usize_of(integer.size().unwrap_or(0))))
            }
            float if float.is_float() || float.is_complex() => {
                #[expect(clippy::cast_precision_loss, reason = "the comparison below finds the loss")]
                let rounded = number as f64;
                #[expect(clippy::cast_possible_truncation, reason = "saturates; compared with the original")]
                let same = rounded as i128 == number;
                match Self::from_f64(float, rounded) {
                    Conversion::Exact(value) if !same => Conversion::Rounded(value),
                    other => other,
                }
            }
            _ => Conversion::Impossible,
        }
    }

    /// Converts a floating-point number to a type. The imaginary part of a complex number is 0. NaN becomes the quiet
    /// NaN without sign and payload.
    pub fn from_f64(data_type: &DataType, number: f64) -> Conversion {
        if let Some(half) = complex_half(data_type) {
            return with_imaginary(Self::from_f64(&half, number), &half);
        }
        match data_type {
            DataType::Float16 => {
                let bits = binary16(number);
                float(number, f16::from_bits(bits).to_f64(), &bits.to_le_bytes())
            }
            DataType::Float32 => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rounds to nearest, which is what is wanted"
                )]
                let bits = if number.is_nan() { 0x7fc0_0000 } else { (number as f32).to_bits() };
                float(number, f64::from(f32::from_bits(bits)), &bits.to_le_bytes())
            }
            DataType::Float64 => {
                let bits = if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() };
                float(number, f64::from_bits(bits), &bits.to_le_bytes())
            }
            _ => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "only whole numbers within range get here"
                )]
                let whole =
                    (number.trunc() == number && number.abs() < 2f64.powi(65)).then_some(number as i128);
                whole.map_or(Conversion::Impossible, |whole| Self::from_i128(data_type, whole))
            }
        }
    }

    /// Returns the scalar as an integer, if it is a whole number.
    pub fn to_i128(&self, data_type: &DataType) -> Option<i128> {
        let Self::Fixed(bytes) = self else { return None };
        if data_type.size()? != bytes.len() as u64 {
            return None;
        }
        if data_type.is_integer() || *data_type == DataType::Bool {
            let negative = data_type.is_signed_integer() && bytes.last().is_some_and(|last| last & 0x80 != 0);
            let mut wide = [if negative { 0xff } else { 0 }; 16];
            wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
            return Some(i128::from_le_bytes(wide));
        }
        let number = self.to_f64(data_type).filter(|n| n.trunc() == *n && n.abs() < 2f64.powi(126))?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
        Some(number as i128)
    }

    /// Returns the scalar as binary64, if it is a real number. Only integers of more than 53 bits are rounded.
    pub fn to_f64(&self, data_type: &DataType) -> Option<f64> {
        let Self::Fixed(bytes) = self else { return None };
        Some(match data_type {
            DataType::Float16 => f16::from_le_bytes(bytes.as_ref().try_into().ok()?).to_f64(),
            DataType::Float32 => f32::from_le_bytes(bytes.as_ref().try_into().ok()?).into(),
            DataType::Float64 => f64::from_le_bytes(bytes.as_ref().try_into().ok()?),
            integer if integer.is_integer() => {
                #[expect(clippy::cast_precision_loss, reason = "integers of more than 53 bits are rounded")]
                let number = self.to_i128(integer)? as f64;
                number
            }
            _ => return None,
        })
    }

    /// Returns the bytes of a stored element with numbers in the given byte order (members of structures in their own);
    /// `None` for scalars of variable length.
    pub fn to_stored(&self, data_type: &DataType, endian: Endian) -> Option<Vec<u8>> {
        match self {
            Self::Fixed(bytes) => in_byte_order(bytes, data_type, endian),
            Self::Text(_) | Self::Variable(_) => None,
        }
    }

    /// Returns `fill_value` of an array's metadata, as zarr-python 3.4 parses it.
    ///
    /// # Errors
    /// A value that is not an element of the type.
    pub fn to_json(&self, data_type: &DataType, format: ZarrFormat) -> Result<Value, FillValueError> {
        let wrong = |found: String| FillValueError { data_type: data_type.to_string(), found };
        match (self, data_type) {
            (Self::Text(text), DataType::String) => Ok(text.as_str().into()),
            (Self::Variable(bytes), DataType::VariableBytes) => Ok(BASE64_STANDARD.encode(bytes).into()),
            (Self::Fixed(bytes), _) if data_type.size() == Some(bytes.len() as u64) => {
                fixed_json(bytes, data_type, format).ok_or_else(|| wrong(format!("{} bytes", bytes.len())))
            }
            (Self::Fixed(bytes), _) => Err(wrong(format!("{} bytes", bytes.len()))),
            (Self::Text(_), _) => Err(wrong("text".to_owned())),
            (Self::Variable(_), _) => Err(wrong("a byte string of any length".to_owned())),
        }
    }
}

fn fixed_json(bytes: &[u8], data_type: &DataType, format: ZarrFormat) -> Option<Value> {
    if let Some(half) = complex_half(data_type) {
        let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
        return Some(vec![fixed_json(real, &half, format)?, fixed_json(imaginary, &half, format)?].into());
    }
    let scalar = || FillValue::Fixed(Bytes::copy_from_slice(bytes));
    match data_type {
        DataType::Bool => Some((bytes != [0]).into()),
        integer if integer.is_integer() => {
            let number = scalar().to_i128(integer)?;
            i64::try_from(number).map(Value::from).or_else(|_| u64::try_from(number).map(Value::from)).ok()
        }
        DataType::DateTime(_) | DataType::TimeDelta(_) => fixed_json(bytes, &DataType::Int64, format),
        float if float.is_float() => Some(float_json(scalar().to_f64(float)?, bytes, format)),
        DataType::FixedText(_) => {
            let code_point = |bytes: &[u8; 4]| char::from_u32(u32::from_le_bytes(*bytes));
            let text: Option<String> = bytes.as_chunks().0.iter().map(code_point).collect();
            Some(text?.trim_end_matches('\0').into())
        }
        DataType::Struct(fields) if format == ZarrFormat::V3 => {
            let mut members = Map::new();
            each_field(bytes, fields, |field, part| {
                members.insert(field.name.clone(), fixed_json(part, &field.data_type, format)?);
                Some(())
            })?;
            Some(members.into())
        }
        _ => Some(BASE64_STANDARD.encode(in_byte_order(bytes, data_type, Endian::Little)?).into()),
    }
}

/// Encodes numbers by value, NaN and infinities by name, and NaNs with a payload by their bits (v3 only).
fn float_json(number: f64, bytes: &[u8], format: ZarrFormat) -> Value {
    if let Some(number) = Number::from_f64(number) {
        return number.into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let plain = matches!(bytes, [0, 0x7e] | [0, 0, 0xc0, 0x7f] | [0, 0, 0, 0, 0, 0, 0xf8, 0x7f]);
    if plain || format == ZarrFormat::V2 {
        return "NaN".into();
    }
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")).into()
}

/// Calls `each` with the bytes of each field.
fn each_field(
    mut bytes: &[u8],
    fields: &[Field],
    mut each: impl FnMut(&Field, &[u8]) -> Option<()>,
) -> Option<()> {
    for field in fields {
        let (part, rest) = bytes.split_at_checked(usize::try_from(field.size()?).ok()?)?;
        each(field, part)?;
        bytes = rest;
    }
    Some(())
}

/// Converts little-endian elements to a byte order (members of structures to their own), and back, as the conversion is
/// its own inverse. `None` for elements without a fixed size.
pub fn in_byte_order(bytes: &[u8], data_type: &DataType, endian: Endian) -> Option<Vec<u8>> {
    if let DataType::Struct(fields) = data_type {
        let mut converted = Vec::with_capacity(bytes.len());
        let size = usize::try_from(data_type.size()?).ok()?;
        for element in bytes.chunks(size.max(1)) {
            each_field(element, fields, |field, part| {
                converted.extend(in_byte_order(part, &field.data_type, field.endian)?);
                Some(())
            })?;
        }
        return Some(converted);
    }
    let mut converted = bytes.to_vec();
    if endian == Endian::Big {
        let size = usize::try_from(data_type.number_size()).ok()?;
        converted.chunks_mut(size.max(1)).for_each(<[u8]>::reverse);
    }
    Some(converted)
}

pub(crate) fn complex_half(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Complex64 => Some(DataType::Float32),
        DataType::Complex128 => Some(DataType::Float64),
        _ => None,
    }
}

fn with_imaginary(real: Conversion, half: &DataType) -> Conversion {
    let extend = |value| match value {
        FillValue::Fixed(bytes) => {
            let mut both = bytes.to_vec();
            both.resize(both.len() + usize_of(half.size().unwrap_or(0)), 0);
            FillValue::Fixed(both.into())
        }
        other => other,
    };
    match real {
        Conversion::Exact(value) => Conversion::Exact(extend(value)),
        Conversion::Rounded(value) => Conversion::Rounded(extend(value)),
        Conversion::Impossible => Conversion::Impossible,
    }
}

fn exact(bytes: Option<&[u8]>) -> Conversion {
    bytes.map_or(Conversion::Impossible, |bytes| {
        Conversion::Exact(FillValue::Fixed(Bytes::copy_from_slice(bytes)))
    })
}

fn float(wanted: f64, got: f64, bytes: &[u8]) -> Conversion {
    let value = FillValue::Fixed(Bytes::copy_from_slice(bytes));
    if wanted == got || (wanted.is_nan() && got.is_nan()) {
        Conversion::Exact(value)
    } else if got.is_infinite() {
        Conversion::Impossible
    } else {
        Conversion::Rounded(value)
    }
}

fn integer_range(data_type: &DataType) -> std::ops::RangeInclusive<i128> {
    let bits = u32::try_from(data_type.size().unwrap_or(0) * 8).unwrap_or(0);
    if data_type.is_signed_integer() {
        -(1i128 << (bits - 1))..=(1i128 << (bits - 1)) - 1
    } else {
        0..=(1i128 << bits) - 1
    }
}

fn usize_of(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
