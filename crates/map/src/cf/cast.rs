//! Conversion of attribute values to scalars of an array's type, exact or refused.

use bytes::Bytes;
use half::f16;
use virtualize_zarr::{DataType, FillValue};

use super::CfValue;
use crate::{Error, Result};

/// Converts an element to a scalar of the type.
///
/// # Errors
/// The conversion would change the value. Such a sentinel masks nothing in xarray either: it compares binary32 data with a
/// binary64 1e20 as binary64.
pub(super) fn cast(element: &CfValue, data_type: &DataType) -> Result<FillValue> {
    let bytes = match (element, data_type) {
        (CfValue::Text(text), DataType::String) => return Ok(FillValue::Text(text.clone())),
        (CfValue::Text(text), DataType::FixedBytes(n)) => fixed(text.as_bytes(), *n),
        (CfValue::Bytes(bytes), DataType::FixedBytes(n) | DataType::RawBytes(n)) => fixed(bytes, *n),
        (CfValue::Integer(value), data_type) => integer(*value, data_type),
        (CfValue::Float(value), data_type) if data_type.is_integer() => {
            whole(*value).and_then(|value| integer(value, data_type))
        }
        (CfValue::Float(value), data_type) => number(*value, data_type),
        (CfValue::Complex(real, imaginary), DataType::Complex64 | DataType::Complex128) => {
            complex(*real, *imaginary, data_type)
        }
        _ => None,
    };
    bytes.map(|bytes| FillValue::Fixed(Bytes::from(bytes))).ok_or_else(|| inexact(element, data_type))
}

fn inexact(element: &CfValue, data_type: &DataType) -> Error {
    Error::Inexact { value: show(element), data_type: data_type.clone() }
}

/// Returns the stored number by which xarray masks if `_Unsigned` changes the sign of the type: NumPy keeps the low bits of
/// an integer and truncates a float.
///
/// # Errors
/// NumPy's conversion of the value is undefined.
pub(super) fn wrapped(element: &CfValue, data_type: &DataType) -> Result<FillValue> {
    let size = data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let value = match element {
        CfValue::Integer(value) => Some(*value),
        // NumPy converts floats to small types through signed 32-bit integers.
        CfValue::Float(value) => whole(value.trunc()).filter(|value| match size {
            8 => i64::try_from(*value).is_ok(),
            _ => i32::try_from(*value).is_ok(),
        }),
        _ => None,
    };
    let bytes = value.and_then(|value| value.to_le_bytes().get(..size).map(Bytes::copy_from_slice));
    bytes.map(FillValue::Fixed).ok_or_else(|| inexact(element, data_type))
}

/// Whether a number is one past the largest of a 64-bit type. xarray masks in binary64, in which the largest values of the
/// type are rounded to it.
pub(super) fn is_rounded_end(value: f64, data_type: &DataType) -> bool {
    match data_type {
        DataType::Int64 => value == 9_223_372_036_854_775_808.0,
        DataType::UInt64 => value == 18_446_744_073_709_551_616.0,
        _ => false,
    }
}

fn fixed(bytes: &[u8], size: u32) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok()?;
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut padded = bytes.get(..end)?.to_vec();
    if padded.len() > size {
        return None;
    }
    padded.resize(size, 0);
    Some(padded)
}

fn whole(value: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "2^64 bounds what any array type holds")]
    if value.fract() == 0.0 && value.abs() <= 18_446_744_073_709_551_616.0 {
        Some(value as i128)
    } else {
        None
    }
}

fn integer(value: i128, data_type: &DataType) -> Option<Vec<u8>> {
    match FillValue::from_i128(data_type, value).exact()? {
        FillValue::Fixed(bytes) => Some(bytes.to_vec()),
        FillValue::Text(_) | FillValue::Variable(_) => None,
    }
}

fn number(value: f64, data_type: &DataType) -> Option<Vec<u8>> {
    let same = |near: f64| near == value || (near.is_nan() && value.is_nan());
    match data_type {
        DataType::Float64 => Some(value.to_le_bytes().to_vec()),
        DataType::Float32 => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the next line asks whether it lost anything"
            )]
            let near = value as f32;
            same(near.into()).then(|| near.to_le_bytes().to_vec())
        }
        DataType::Float16 => {
            let near = f16::from_f64(value);
            same(near.into()).then(|| near.to_le_bytes().to_vec())
        }
        DataType::Complex64 | DataType::Complex128 => complex(value, 0.0, data_type),
        _ => None,
    }
}

fn complex(real: f64, imaginary: f64, data_type: &DataType) -> Option<Vec<u8>> {
    let part = if *data_type == DataType::Complex64 { DataType::Float32 } else { DataType::Float64 };
    Some([number(real, &part)?, number(imaginary, &part)?].concat())
}

/// Formats a value of an attribute for messages.
pub(super) fn show(element: &CfValue) -> String {
    match element {
        CfValue::Integer(value) => value.to_string(),
        CfValue::Float(value) => format!("{value:?}"),
        CfValue::Complex(real, imaginary) => format!("{real}+{imaginary}i"),
        CfValue::Text(text) => format!("{text:?}"),
        CfValue::Bytes(bytes) => format!("{} bytes", bytes.len()),
        CfValue::Other(description) => description.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(element: CfValue, data_type: DataType) -> Option<Vec<u8>> {
        match cast(&element, &data_type) {
            Ok(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn exact_values_are_cast_and_others_refused() {
        assert_eq!(bytes(CfValue::Float(-9999.0), DataType::Int16), Some((-9999i16).to_le_bytes().to_vec()));
        assert_eq!(bytes(CfValue::Integer(-1), DataType::UInt8), None);
        assert_eq!(bytes(CfValue::Float(1.5), DataType::Int16), None);
        assert_eq!(bytes(CfValue::Float(f64::NAN), DataType::Int16), None);
        assert_eq!(bytes(CfValue::Float(1e300), DataType::UInt64), None);
        assert_eq!(bytes(CfValue::Integer(u64::MAX.into()), DataType::UInt64), Some(vec![255; 8]));
        assert_eq!(bytes(CfValue::Integer((1 << 24) + 1), DataType::Float32), None);
    }

    /// xarray 2026.9 does not mask binary32 data by a binary64 `_FillValue` of 1e20, which no binary32 equals.
    #[test]
    fn floats_that_another_width_cannot_hold_are_refused() {
        assert_eq!(bytes(CfValue::Float(1e20), DataType::Float32), None);
        assert!(bytes(CfValue::Float(f64::from(1e20f32)), DataType::Float32).is_some());
        assert!(bytes(CfValue::Float(f64::NAN), DataType::Float32).is_some());
        assert!(bytes(CfValue::Float(f64::NEG_INFINITY), DataType::Float16).is_some());
    }

    /// `np.array(np.int32(70000), "i2")` and the like, of NumPy 2.5.
    #[test]
    fn scalars_are_wrapped_where_the_sign_changes() {
        let low = |element, data_type| match wrapped(&element, &data_type) {
            Ok(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        assert_eq!(low(CfValue::Integer(255), DataType::Int8), Some(vec![255]));
        assert_eq!(low(CfValue::Integer(70000), DataType::Int16), Some(4464i16.to_le_bytes().to_vec()));
        assert_eq!(low(CfValue::Float(65535.0), DataType::Int16), Some(vec![255, 255]));
        assert_eq!(low(CfValue::Float(-1.5), DataType::UInt16), Some(vec![255, 255]));
        assert_eq!(low(CfValue::Float(4e9), DataType::Int32), None);
        assert_eq!(low(CfValue::Float(f64::NAN), DataType::Int32), None);
    }
}
