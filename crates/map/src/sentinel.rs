//! Scalars in attributes: the `_FillValue` attribute as xarray's `FillValueCoder` decodes it, and plain JSON numbers.

use base64::{Engine, prelude::BASE64_STANDARD};
use half::f16;
use serde_json::{Number, Value};
use virtualize_zarr::{DataType, FillValue};

/// A sentinel that no `_FillValue` attribute can express for xarray.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SentinelError {
    /// xarray refuses the whole dataset when an array of such a type has the attribute.
    #[error("xarray cannot decode _FillValue for arrays of type {0}")]
    Refused(String),
    /// The bytes are not one element of the type.
    #[error("a fill value of {found} bytes does not fit type {data_type}")]
    Size {
        /// The type.
        data_type: String,
        /// How many bytes there are.
        found: usize,
    },
}

/// The `_FillValue` attribute of a Zarr v3 array: booleans and integers as they are, floats as base64 of the
/// little-endian binary64, complex numbers as two such.
///
/// # Errors
/// Types for which xarray's decoder raises (text and byte strings of fixed or any length, raw bytes, structures): an
/// attribute that makes the dataset unopenable is worse than none.
pub fn encode_fill_value_attribute(data_type: &DataType, value: &FillValue) -> Result<Value, SentinelError> {
    match value {
        FillValue::Fixed(bytes) => encode_fixed(data_type, bytes),
        FillValue::Text(_) | FillValue::Variable(_) => Err(SentinelError::Refused(data_type.to_string())),
    }
}

fn encode_fixed(data_type: &DataType, bytes: &[u8]) -> Result<Value, SentinelError> {
    if data_type.is_complex() {
        let half = complex_part(data_type);
        let (real, imaginary) =
            bytes.split_at_checked(bytes.len() / 2).ok_or_else(|| size_error(data_type, bytes))?;
        return Ok(Value::from(vec![encode_fixed(&half, real)?, encode_fixed(&half, imaginary)?]));
    }
    if data_type.is_float() {
        let number = float_of(data_type, bytes).ok_or_else(|| size_error(data_type, bytes))?;
        return Ok(BASE64_STANDARD.encode(number.to_le_bytes()).into());
    }
    if data_type.is_integer() || *data_type == DataType::Bool {
        return number_json(data_type, bytes).ok_or_else(|| size_error(data_type, bytes));
    }
    Err(SentinelError::Refused(data_type.to_string()))
}

/// One element (little-endian) as plain JSON: integers exact to 64 bits, floats as the exact binary64 with the strings
/// "NaN", "Infinity", "-Infinity", booleans as such, complex numbers as a list of two. `None` for other types, and where
/// the bytes are not one element.
pub fn number_json(data_type: &DataType, bytes: &[u8]) -> Option<Value> {
    if data_type.is_complex() {
        let half = complex_part(data_type);
        let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
        return Some(vec![number_json(&half, real)?, number_json(&half, imaginary)?].into());
    }
    if data_type.is_float() {
        return float_of(data_type, bytes).map(float_json);
    }
    let number = integer_of(data_type, bytes)?;
    Some(match data_type {
        DataType::Bool => Value::Bool(number != 0),
        _ => integer_json(number),
    })
}

/// A float as JSON: a number, or one of the strings "NaN", "Infinity", "-Infinity".
pub fn float_json(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// An integer as JSON; past 64 bits the nearest float.
pub fn integer_json(value: i128) -> Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(signed), _) => signed.into(),
        (_, Ok(unsigned)) => unsigned.into(),
        _ => float_json(value as f64),
    }
}

/// The value of one little-endian integer or boolean; `None` for other types and sizes.
pub(crate) fn integer_of(data_type: &DataType, bytes: &[u8]) -> Option<i128> {
    let sized = |n: usize| bytes.len() == n && data_type.size() == Some(n as u64);
    if !(data_type.is_integer() || *data_type == DataType::Bool) || !sized(bytes.len()) {
        return None;
    }
    let mut wide = [0; 16];
    let fill = if data_type.is_signed_integer() && bytes.last()? & 0x80 != 0 { 0xff } else { 0 };
    wide.iter_mut()
        .zip(bytes.iter().copied().chain(std::iter::repeat(fill)))
        .for_each(|(to, from)| *to = from);
    Some(i128::from_le_bytes(wide))
}

/// The value of one little-endian float; `None` for other types and sizes.
pub(crate) fn float_of(data_type: &DataType, bytes: &[u8]) -> Option<f64> {
    Some(match data_type {
        DataType::Float16 => f16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
        DataType::Float32 => f32::from_le_bytes(bytes.try_into().ok()?).into(),
        DataType::Float64 => f64::from_le_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

fn complex_part(data_type: &DataType) -> DataType {
    if *data_type == DataType::Complex64 { DataType::Float32 } else { DataType::Float64 }
}

fn size_error(data_type: &DataType, bytes: &[u8]) -> SentinelError {
    SentinelError::Size { data_type: data_type.to_string(), found: bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::json;

    fn fixed(bytes: &[u8]) -> FillValue {
        FillValue::Fixed(Bytes::copy_from_slice(bytes))
    }

    /// Expected values: `xarray.backends.zarr.FillValueCoder.encode` of xarray 2026.9.
    #[test]
    fn sentinels_are_encoded_as_xarray_decodes_them() {
        let encode = |t: DataType, bytes: &[u8]| encode_fill_value_attribute(&t, &fixed(bytes));
        assert_eq!(encode(DataType::Float32, &f32::MAX.to_le_bytes()), Ok(json!("AAAA4P//70c=")));
        assert_eq!(encode(DataType::Float32, &(-9999f32).to_le_bytes()), Ok(json!("AAAAAICHw8A=")));
        assert_eq!(encode(DataType::Float64, &f64::NAN.to_le_bytes()), Ok(json!("AAAAAAAA+H8=")));
        assert_eq!(encode(DataType::Int16, &(-32768i16).to_le_bytes()), Ok(json!(-32768)));
        assert_eq!(encode(DataType::UInt64, &u64::MAX.to_le_bytes()), Ok(json!(18446744073709551615u64)));
        assert_eq!(encode(DataType::Bool, &[1]), Ok(json!(true)));
        let complex = [1f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        assert_eq!(encode(DataType::Complex64, &complex), Ok(json!(["AAAAAAAA8D8=", "AAAAAAAAAMA="])));
    }

    /// `FillValueCoder.decode("…", "S3")` raises ValueError in xarray 2026.9.
    #[test]
    fn types_that_xarray_refuses_are_refused() {
        let text = FillValue::Text("none".into());
        assert!(encode_fill_value_attribute(&DataType::String, &text).is_err());
        let refused = encode_fill_value_attribute(&DataType::FixedBytes(3), &fixed(b"abc"));
        assert!(matches!(refused, Err(SentinelError::Refused(_))), "{refused:?}");
        let short = encode_fill_value_attribute(&DataType::Int32, &fixed(&[0; 2]));
        assert!(matches!(short, Err(SentinelError::Size { found: 2, .. })), "{short:?}");
    }

    #[test]
    fn numbers_keep_their_value_to_the_last_bit() {
        assert_eq!(number_json(&DataType::Float32, &0.1f32.to_le_bytes()), Some(json!(0.10000000149011612)));
        assert_eq!(
            number_json(&DataType::Float64, &f64::NEG_INFINITY.to_le_bytes()),
            Some(json!("-Infinity"))
        );
        assert_eq!(number_json(&DataType::Int64, &i64::MIN.to_le_bytes()), Some(json!(i64::MIN)));
        assert_eq!(number_json(&DataType::Int8, &[0xff]), Some(json!(-1)));
        assert_eq!(number_json(&DataType::UInt8, &[0xff]), Some(json!(255)));
        assert_eq!(number_json(&DataType::UInt8, &[0xff, 0]), None);
    }
}
