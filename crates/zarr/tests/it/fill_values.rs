//! Conversion of numbers to scalars and back. Expected values are those of NumPy 2.5 (`np.array(number, dtype).tobytes()`).

#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use serde_json::json;
use virtualize_zarr::{Conversion, DataType, Endian, FillValue, ZarrFormat};

fn fixed(bytes: &[u8]) -> FillValue {
    FillValue::Fixed(Bytes::copy_from_slice(bytes))
}

#[test]
fn integers_within_the_range_of_a_type_are_exact() {
    use DataType::{Bool, Float32, Int8, Int64, UInt16, UInt64};
    let (i64s, u64s) = ((i128::from(i64::MIN), i128::from(i64::MAX)), (0, i128::from(u64::MAX)));
    for (data_type, (least, greatest)) in
        [(Bool, (0, 1)), (Int8, (-128, 127)), (UInt16, (0, 65535)), (Int64, i64s), (UInt64, u64s)]
    {
        for (number, is_exact) in [(least, true), (greatest, true), (least - 1, false), (greatest + 1, false)]
        {
            let found = FillValue::from_i128(&data_type, number);
            let expected =
                found.clone().exact().is_some_and(|value| value.to_i128(&data_type) == Some(number));
            assert_eq!(expected, is_exact, "{number} as {data_type}");
            assert_eq!(found == Conversion::Impossible, !is_exact, "{number} as {data_type}");
        }
    }
    assert_eq!(FillValue::from_i128(&Float32, 1), Conversion::Exact(fixed(&1_f32.to_le_bytes())));
    let near = fixed(&16_777_216_f32.to_le_bytes());
    assert_eq!(FillValue::from_i128(&Float32, (1 << 24) + 1), Conversion::Rounded(near));
    let near = fixed(&2_f64.powi(60).to_le_bytes());
    assert_eq!(FillValue::from_i128(&DataType::Float64, (1 << 60) + 1), Conversion::Rounded(near));
}

#[test]
fn complex_numbers_have_two_halves() {
    let one = |half: &[u8]| Conversion::Exact(fixed(&[half, &vec![0; half.len()]].concat()));
    assert_eq!(FillValue::from_f64(&DataType::Complex64, 1.0), one(&1_f32.to_le_bytes()));
    assert_eq!(FillValue::from_f64(&DataType::Complex128, 1.0), one(&1_f64.to_le_bytes()));
}

#[test]
fn scalars_are_numbers_where_their_type_has_them() {
    let double = |number: f64| fixed(&number.to_le_bytes());
    for (value, data_type, integer, float) in [
        (double(5.0), DataType::Float64, Some(5), Some(5.0)),
        (double(0.5), DataType::Float64, None, Some(0.5)),
        (double(1e300), DataType::Float64, None, Some(1e300)),
        (double(f64::INFINITY), DataType::Float64, None, Some(f64::INFINITY)),
        (fixed(&[255, 255]), DataType::Int16, Some(-1), Some(-1.0)),
        (fixed(&[255, 255]), DataType::UInt16, Some(65535), Some(65535.0)),
        (fixed(&[1]), DataType::Bool, Some(1), None),
        (fixed(&[1, 0]), DataType::Int32, None, None),
        (FillValue::Text("1".to_owned()), DataType::String, None, None),
    ] {
        assert_eq!(value.to_i128(&data_type), integer, "{value:?} as {data_type}");
        assert_eq!(value.to_f64(&data_type), float, "{value:?} as {data_type}");
    }
}

#[test]
fn stored_bytes_have_the_order_of_the_array() {
    let value = fixed(&[1, 2]);
    assert_eq!(value.to_stored(&DataType::Int16, Endian::Little), Some(vec![1, 2]));
    assert_eq!(value.to_stored(&DataType::Int16, Endian::Big), Some(vec![2, 1]));
    assert_eq!(FillValue::Text(String::new()).to_stored(&DataType::String, Endian::Little), None);
}

/// Zarr v3 specification, "fill value": "Infinity" and "-Infinity".
#[test]
fn infinities_have_names() {
    for (number, name) in [(f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")] {
        let value = fixed(&number.to_le_bytes());
        assert_eq!(value.to_json(&DataType::Float64, ZarrFormat::V3).unwrap(), json!(name));
    }
}
