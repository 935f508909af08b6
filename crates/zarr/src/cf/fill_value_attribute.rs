//! The `_FillValue` attribute of Zarr v3 arrays, in the encoding of xarray's `FillValueCoder`.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::{DataType, FillValue, ZarrFormat, fill_value::complex_half};

/// Encodes a sentinel: booleans and integers as they are, floats as the Base64 of the little-endian binary64, complex
/// numbers as a list of two such.
///
/// Returns `None` for text, byte strings, raw bytes and structures: xarray's decoder raises for these, and an attribute
/// that keeps a dataset from being opened is worse than none.
pub fn encode(value: &FillValue, data_type: &DataType) -> Option<Value> {
    if let (Some(half), FillValue::Fixed(bytes)) = (complex_half(data_type), value) {
        let middle = bytes.len() / 2;
        let parts = [bytes.slice(..middle), bytes.slice(middle..)];
        return parts.into_iter().map(|part| encode(&FillValue::Fixed(part), &half)).collect();
    }
    if data_type.is_float() {
        return value.to_f64(data_type).map(|number| BASE64_STANDARD.encode(number.to_le_bytes()).into());
    }
    let is_number = data_type.is_integer() || *data_type == DataType::Bool;
    is_number.then(|| value.to_json(data_type, ZarrFormat::V3).ok()).flatten()
}

/// Decodes what [`encode`] encodes, and plain JSON values. Returns `None` if the type cannot represent the value exactly: xarray
/// compares elements with the number as it is encoded, and would mask nothing.
pub fn decode(value: &Value, data_type: &DataType) -> Option<FillValue> {
    if let (Some(half), Some([real, imaginary])) =
        (complex_half(data_type), value.as_array().map(Vec::as_slice))
    {
        return match (decode(real, &half)?, decode(imaginary, &half)?) {
            (FillValue::Fixed(real), FillValue::Fixed(imaginary)) => {
                Some(FillValue::Fixed([real, imaginary].concat().into()))
            }
            _ => None,
        };
    }
    let encoded = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
    let number = encoded.and_then(|bytes| bytes.try_into().ok()).map(f64::from_le_bytes);
    match number.or_else(|| value.as_f64()) {
        Some(number) if data_type.is_float() => FillValue::from_f64(data_type, number).exact(),
        _ => FillValue::from_json(value, data_type).ok(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn fixed(bytes: &[u8]) -> FillValue {
        FillValue::Fixed(Bytes::copy_from_slice(bytes))
    }

    /// Expected values: `xarray.backends.zarr.FillValueCoder.encode` of xarray 2026.9.
    #[test]
    fn sentinels_are_encoded_as_xarray_decodes_them() {
        let complex = [1f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        for (data_type, bytes, expected) in [
            (DataType::Float32, &f32::MAX.to_le_bytes()[..], json!("AAAA4P//70c=")),
            (DataType::Float32, &(-9999f32).to_le_bytes(), json!("AAAAAICHw8A=")),
            (DataType::Float64, &f64::NAN.to_le_bytes(), json!("AAAAAAAA+H8=")),
            (DataType::Int16, &(-32768i16).to_le_bytes(), json!(-32768)),
            (DataType::UInt64, &u64::MAX.to_le_bytes(), json!(18446744073709551615u64)),
            (DataType::Bool, &[1], json!(true)),
            (DataType::Complex64, &complex, json!(["AAAAAAAA8D8=", "AAAAAAAAAMA="])),
        ] {
            let encoded = encode(&fixed(bytes), &data_type).unwrap();
            assert_eq!(encoded, expected, "{data_type}");
            assert_eq!(decode(&encoded, &data_type), Some(fixed(bytes)), "{data_type}");
        }
    }

    /// `FillValueCoder.decode("…", "S3")` raises ValueError in xarray 2026.9.
    #[test]
    fn types_that_xarray_refuses_are_not_encoded() {
        assert_eq!(encode(&FillValue::Text("none".into()), &DataType::String), None);
        assert_eq!(encode(&fixed(b"abc"), &DataType::FixedBytes(3)), None);
        assert_eq!(encode(&fixed(&[0; 2]), &DataType::Int32), None, "too short");
        assert_eq!(decode(&json!("AAAAAICHw8A="), &DataType::Int16), None, "only floats are Base64");
    }

    /// xarray 2026.9 masks no element of type float32 with `_FillValue` 0.1, nor an infinity with 1e40.
    #[test]
    fn numbers_that_the_type_cannot_represent_are_not_rounded() {
        for (number, data_type) in
            [(0.1, DataType::Float32), (1e40, DataType::Float32), (1e20, DataType::Float16)]
        {
            let encoded = encode(&fixed(&f64::to_le_bytes(number)), &DataType::Float64).unwrap();
            assert_eq!(decode(&encoded, &data_type), None);
            assert_eq!(decode(&json!(number), &data_type), None);
        }
    }
}
