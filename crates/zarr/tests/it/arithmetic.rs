//! `scale_offset` and `cast_value` by their specifications (zarr-extensions); expected values are those of its text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use bytes::Bytes;
use serde_json::{Value, json};
use virtualize_zarr::{
    Arithmetic, Array, ChunkGrid, ChunkManifest, Codec, Conversion, DataType, Endian, FillValue, OutOfRange,
    Rounding, ScalarMap,
};

fn cast(data_type: DataType) -> Codec {
    with(data_type, Rounding::default(), None, &[], &[])
}

fn with(
    data_type: DataType,
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    encode: &[(Value, Value)],
    decode: &[(Value, Value)],
) -> Codec {
    let scalar_map = ScalarMap { encode: encode.to_vec(), decode: decode.to_vec() };
    Codec::CastValue { data_type, rounding, out_of_range, scalar_map }
}

fn scale_offset(offset: Value, scale: Value) -> Codec {
    Codec::ScaleOffset { offset: Some(offset), scale: Some(scale) }
}

fn chain(data_type: &DataType, codecs: &[Codec]) -> Arithmetic {
    Arithmetic::new(data_type, codecs).unwrap()
}

fn refused(data_type: &DataType, codec: Codec) -> String {
    Arithmetic::new(data_type, &[codec]).unwrap_err().to_string()
}

fn encode(codec: Codec, number: f64) -> Result<Vec<u8>, String> {
    let encoded = chain(&DataType::Float64, &[codec]).encode(&number.to_le_bytes(), Endian::Little);
    encoded.map_err(|error| error.to_string())
}

fn scalar(data_type: &DataType, number: f64) -> FillValue {
    match FillValue::from_f64(data_type, number) {
        Conversion::Exact(value) | Conversion::Rounded(value) => value,
        Conversion::Impossible => panic!("{number} as {data_type}"),
    }
}

/// "Given an input scalar of 128.0 and an output data type of int8 …"
#[test]
fn out_of_range_as_in_the_specification() {
    let int8 = |mode| with(DataType::Int8, Rounding::default(), mode, &[], &[]);
    assert_eq!(encode(int8(None), 128.0).unwrap_err(), "cast_value: 128.0 is out of the range of int8");
    assert_eq!(encode(int8(Some(OutOfRange::Clamp)), 128.0), Ok(vec![127]));
    assert_eq!(encode(int8(Some(OutOfRange::Wrap)), 128.0), Ok(vec![0x80]));
    let int16 =
        |number| encode(with(DataType::Int16, Rounding::default(), Some(OutOfRange::Wrap), &[], &[]), number);
    assert_eq!(int16(32768.0), Ok((-32768_i16).to_le_bytes().to_vec()));
    assert_eq!(int16(32769.0), Ok((-32767_i16).to_le_bytes().to_vec()));
    assert_eq!(int16(-32769.0), Ok(32767_i16.to_le_bytes().to_vec()));
}

/// "The example below demonstrates a codec configuration that models NumPy's behavior."
#[test]
fn numpy_as_in_the_specification() {
    let map = [(json!("NaN"), json!(0)), (json!("+Infinity"), json!(0)), (json!("-Infinity"), json!(0))];
    let codec = || with(DataType::UInt8, Rounding::TowardsZero, Some(OutOfRange::Wrap), &map, &[]);
    let cases =
        [(f64::NAN, 0), (f64::INFINITY, 0), (f64::NEG_INFINITY, 0), (1.9, 1), (256.5, 0), (-1.0, 255)];
    for (number, expected) in cases {
        assert_eq!(encode(codec(), number), Ok(vec![expected]), "{number}");
    }
}

#[test]
fn infinities_and_nan_are_not_integers_unless_mapped() {
    for mode in [None, Some(OutOfRange::Clamp), Some(OutOfRange::Wrap)] {
        let codec = || with(DataType::Int32, Rounding::default(), mode, &[], &[]);
        for (number, name) in
            [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")]
        {
            let expected = format!(
                "cast_value: {name} is not representable as int32, and scalar_map has no entry for it"
            );
            assert_eq!(encode(codec(), number), Err(expected));
        }
    }
}

#[test]
fn floats_past_the_range_are_infinite_when_clamped() {
    let half = |mode| with(DataType::Float16, Rounding::default(), mode, &[], &[]);
    assert_eq!(encode(half(Some(OutOfRange::Clamp)), -1e9), Ok(vec![0, 0xfc]));
    assert!(encode(half(None), -1e9).is_err());
    assert_eq!(encode(half(None), f64::INFINITY), Ok(vec![0, 0x7c]));
    assert_eq!(encode(half(None), -0.0), Ok(vec![0, 0x80]));
    assert_eq!(
        refused(&DataType::Float64, half(Some(OutOfRange::Wrap))),
        "cast_value: out_of_range wrap is for integers, not for float16"
    );
}

#[test]
fn the_first_entry_of_a_scalar_map_holds() {
    let map = [(json!(1), json!(7)), (json!(1), json!(8)), (json!("NaN"), json!(9)), (json!(0), json!(5))];
    let codec = || with(DataType::UInt8, Rounding::default(), None, &map, &[]);
    assert_eq!(encode(codec(), 1.0), Ok(vec![7]));
    assert_eq!(encode(codec(), f64::from_bits(0xfff8_0000_0000_0123)), Ok(vec![9]), "any NaN");
    assert_eq!(encode(codec(), -0.0), Ok(vec![5]));
    assert_eq!(encode(codec(), 2.0), Ok(vec![2]));
}

#[test]
fn nans_with_a_payload_are_distinguished_and_written_to_the_bit() {
    let map = [(json!("0x7ff8000000000001"), json!(1)), (json!("NaN"), json!(2))];
    let back = [(json!(1), json!("0x7ff8000000000001")), (json!(2), json!("0xfff0000000000001"))];
    let arithmetic =
        chain(&DataType::Float64, &[with(DataType::UInt8, Rounding::default(), None, &map, &back)]);
    let nans = [0x7ff8_0000_0000_0001_u64, 0x7ff8_0000_0000_0002].map(u64::to_be_bytes).concat();
    assert_eq!(arithmetic.encode(&nans, Endian::Big), Ok(vec![1, 2]));
    let decoded = arithmetic.decode(&[1, 2], Endian::Big).unwrap();
    assert_eq!(decoded, [0x7ff8_0000_0000_0001_u64, 0xfff0_0000_0000_0001].map(u64::to_be_bytes).concat());
}

#[test]
fn integers_of_64_bits_are_exact() {
    let map = [(json!(u64::MAX), json!(i64::MIN))];
    let codec = with(DataType::Int64, Rounding::default(), None, &map, &[]);
    let arithmetic = chain(&DataType::UInt64, &[codec]);
    let numbers = [(1 << 53) + 1, i64::MAX.unsigned_abs(), u64::MAX];
    let encoded = arithmetic.encode(&numbers.map(u64::to_le_bytes).concat(), Endian::Little).unwrap();
    assert_eq!(encoded, [(1 << 53) + 1, i64::MAX, i64::MIN].map(i64::to_le_bytes).concat());
    assert!(arithmetic.encode(&(1_u64 << 63).to_le_bytes(), Endian::Little).is_err());
}

/// 2⁶³ − 1 is the largest int64; as float64 it would be 2⁶³.
#[test]
fn the_ends_of_64_bits_are_seen_from_floats() {
    let int64 = |mode| with(DataType::Int64, Rounding::default(), mode, &[], &[]);
    let end = 2f64.powi(63);
    assert!(encode(int64(None), end).is_err());
    assert_eq!(encode(int64(None), -end), Ok(i64::MIN.to_le_bytes().to_vec()));
    assert_eq!(encode(int64(Some(OutOfRange::Clamp)), end), Ok(i64::MAX.to_le_bytes().to_vec()));
    assert_eq!(
        encode(int64(Some(OutOfRange::Wrap)), end + 2048.0),
        Ok((i64::MIN + 2048).to_le_bytes().to_vec())
    );
    assert_eq!(encode(int64(Some(OutOfRange::Wrap)), 1e300), Ok(vec![0; 8]));
}

/// The example of the specification: float32, offset 5, scale 0.1.
#[test]
fn scale_offset_calculates_in_the_type_of_the_array() {
    let arithmetic = chain(&DataType::Float32, &[scale_offset(json!(5), json!(0.1))]);
    let encoded = arithmetic.encode(&25.5_f32.to_le_bytes(), Endian::Little).unwrap();
    assert_eq!(encoded, ((25.5_f32 - 5.0) * 0.1).to_le_bytes());
    let decoded = arithmetic.decode(&encoded, Endian::Little).unwrap();
    assert_eq!(decoded, ((25.5_f32 - 5.0) * 0.1 / 0.1 + 5.0).to_le_bytes());
}

#[test]
fn scale_offset_of_integers_is_exact_or_an_error() {
    let arithmetic = chain(&DataType::Int8, &[scale_offset(json!(10), json!(2))]);
    let encode = |number: i8| arithmetic.encode(&number.to_le_bytes(), Endian::Little);
    let decode = |number: i8| arithmetic.decode(&number.to_le_bytes(), Endian::Little);
    assert_eq!(encode(15), Ok(vec![10]));
    assert_eq!(decode(10), Ok(vec![15]));
    assert_eq!(encode(-120).unwrap_err().to_string(), "scale_offset: -130 is out of the range of int8");
    assert_eq!(encode(100).unwrap_err().to_string(), "scale_offset: 180 is out of the range of int8");
    assert_eq!(decode(11).unwrap_err().to_string(), "scale_offset: 11 / 2 is not an integer");
    let wide = chain(&DataType::UInt64, &[scale_offset(json!(0), json!(u64::MAX))]);
    assert_eq!(wide.encode(&1_u64.to_le_bytes(), Endian::Little), Ok(vec![0xff; 8]));
    assert!(wide.encode(&2_u64.to_le_bytes(), Endian::Little).is_err());
}

#[test]
fn parameters_are_scalars_of_their_type() {
    let error = |offset, scale| refused(&DataType::UInt8, scale_offset(offset, scale));
    assert_eq!(error(json!(-1), json!(1)), "scale_offset: offset -1 is not a scalar of uint8");
    assert_eq!(error(json!(0), json!(0.5)), "scale_offset: scale 0.5 is not a scalar of uint8");
    assert_eq!(error(json!(0), json!(0)), "scale_offset: scale is 0 as uint8");
    assert_eq!(
        refused(&DataType::Float32, scale_offset(json!(0), json!(1e-60))),
        "scale_offset: scale is 0 as float32"
    );
    assert_eq!(
        refused(&DataType::Float32, scale_offset(json!(1e39), json!(1))),
        "scale_offset: offset 1e+39 is not a scalar of float32"
    );
    let error = |from: Value, to: Value| {
        let map = with(DataType::UInt8, Rounding::default(), None, &[(from, to)], &[]);
        refused(&DataType::Float32, map)
    };
    assert_eq!(error(json!("NaN"), json!("NaN")), "cast_value: scalar_map \"NaN\" is not a scalar of uint8");
    assert_eq!(
        error(json!("0x7fc0"), json!(0)),
        "cast_value: scalar_map \"0x7fc0\" is not a scalar of float32"
    );
    assert_eq!(error(json!(1), json!(256)), "cast_value: scalar_map 256 is not a scalar of uint8");
}

#[test]
fn only_numbers_are_calculated_with() {
    let expected = "cast_value works on integers and floating-point numbers, not on bool";
    assert_eq!(refused(&DataType::Bool, cast(DataType::UInt8)), expected);
    assert_eq!(refused(&DataType::UInt8, cast(DataType::Bool)), expected);
    let complex = refused(&DataType::Complex64, scale_offset(json!(0), json!(1)));
    assert_eq!(complex, "scale_offset works on integers and floating-point numbers, not on complex64");
    let late = Arithmetic::new(&DataType::UInt8, &[Codec::Bytes { endian: None }, cast(DataType::Int8)]);
    assert_eq!(late.unwrap_err().to_string(), "cast_value follows a byte order, which leaves no numbers");
    assert!(chain(&DataType::String, &[Codec::VlenUtf8]).is_empty());
}

/// CF packing: int16 with scale_factor 0.1, add_offset 10 and -32768 for "no data", as float64.
#[test]
fn a_packed_chain_goes_both_ways_and_carries_its_fill_value() {
    let encode = [(json!("NaN"), json!(-32768))];
    let decode = [(json!(-32768), json!("NaN"))];
    let codecs = [
        scale_offset(json!(10), json!(10)),
        Codec::Transpose { order: vec![1, 0] },
        with(DataType::Int16, Rounding::default(), None, &encode, &decode),
        Codec::Bytes { endian: Some(Endian::Big) },
    ];
    let arithmetic = chain(&DataType::Float64, &codecs);
    assert_eq!(arithmetic.stored_type(), &DataType::Int16);
    let stored = [-32768_i16, 0, 5].map(i16::to_be_bytes).concat();
    let decoded = arithmetic.decode(&stored, Endian::Big).unwrap();
    assert_eq!(decoded, [f64::NAN, 10.0, 10.5].map(f64::to_be_bytes).concat());
    assert_eq!(arithmetic.encode(&decoded, Endian::Big), Ok(stored));
    let sentinel = FillValue::Fixed(Bytes::copy_from_slice(&(-32768_i16).to_le_bytes()));
    let nan = scalar(&DataType::Float64, f64::NAN);
    assert_eq!(arithmetic.decode_scalar(&sentinel).unwrap(), nan);
    assert_eq!(arithmetic.encode_scalar(&nan).unwrap(), sentinel);
    arithmetic.check(&nan).unwrap();
}

#[test]
fn fill_values_must_round_trip() {
    let arithmetic = chain(&DataType::Float32, &[cast(DataType::Int8)]);
    let check =
        |number| arithmetic.check(&scalar(&DataType::Float32, number)).map_err(|error| error.to_string());
    assert_eq!(check(3.0), Ok(()));
    assert_eq!(check(-0.0), Ok(()));
    assert_eq!(check(2.5), Err("fill value 2.5 of float32 is decoded as 2.0".to_owned()));
    assert_eq!(check(1000.0), Err("cast_value: 1000.0 is out of the range of int8".to_owned()));
    assert!(check(f64::NAN).is_err());
}

#[test]
fn mantissas_have_to_hold_the_integers() {
    let check = |array: DataType, stored: DataType| {
        let checked = chain(&array, &[cast(stored)]).check(&FillValue::zero(&array));
        checked.map_err(|error| error.to_string())
    };
    assert_eq!(check(DataType::Float32, DataType::Int16), Ok(()));
    assert_eq!(check(DataType::Float64, DataType::UInt32), Ok(()));
    assert_eq!(check(DataType::UInt8, DataType::Float16), Ok(()));
    assert_eq!(
        check(DataType::Float32, DataType::Int32),
        Err("cast_value: float32 does not hold every int32".to_owned())
    );
    assert_eq!(
        check(DataType::Int64, DataType::Float64),
        Err("cast_value: float64 does not hold every int64".to_owned())
    );
    assert_eq!(check(DataType::Int64, DataType::UInt8), Ok(()));
}

#[test]
fn no_metadata_is_written_for_what_cannot_be_calculated() {
    let array = |data_type: DataType, fill: f64| Array {
        shape: vec![4],
        fill_value: Some(scalar(&data_type, fill)),
        data_type,
        chunk_grid: ChunkGrid::Regular(vec![4]),
        codecs: vec![cast(DataType::Int8), Codec::Bytes { endian: None }],
        dimension_names: vec![None],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest::default(),
    };
    let error = |array: Array| array.to_zarr_json("x").unwrap_err().to_string();
    assert!(array(DataType::Float32, 1.0).to_zarr_json("x").is_ok());
    assert_eq!(error(array(DataType::Float32, 0.25)), "fill value 0.25 of float32 is decoded as 0.0");
    assert!(error(array(DataType::Bool, 0.0)).starts_with("cast_value works on"));
}

/// Just past halfway between 1 and the next binary16, and halfway once it is a binary32.
#[test]
fn scalars_are_rounded_once() {
    let number = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    let expected = FillValue::Fixed(Bytes::copy_from_slice(&0x3c01_u16.to_le_bytes()));
    assert_eq!(FillValue::from_f64(&DataType::Float16, number), Conversion::Rounded(expected));
}

/// NaN is encoded as 0, and nothing decodes 0 to NaN.
#[test]
fn a_fill_value_that_does_not_round_trip_is_refused() {
    let one_way = with(DataType::Int16, Rounding::default(), None, &[(json!("NaN"), json!(0))], &[]);
    let arithmetic = chain(&DataType::Float32, &[one_way]);
    assert!(arithmetic.check(&scalar(&DataType::Float32, f64::NAN)).is_err());
    assert!(arithmetic.check(&scalar(&DataType::Float32, 1.0)).is_ok());
}

#[test]
fn scalars_have_the_size_of_their_type() {
    let arithmetic = chain(&DataType::Float32, &[cast(DataType::UInt16)]);
    let encoded = arithmetic.encode_scalar(&scalar(&DataType::Float32, 513.0)).unwrap();
    assert_eq!(encoded, scalar(&DataType::UInt16, 513.0));
    for wrong in [FillValue::Fixed(vec![0; 8].into()), FillValue::Text("513".to_owned())] {
        assert!(arithmetic.encode_scalar(&wrong).is_err(), "{wrong:?}");
    }
}

/// JSON does not distinguish 5 from 5.0, but -5.5 is not an integer.
#[test]
fn whole_numbers_are_integers_with_or_without_a_fraction_of_zero() {
    let offset = |number: Value| Arithmetic::new(&DataType::Int16, &[scale_offset(number, json!(1))]).is_ok();
    let found = [json!(5), json!(5.0), json!(-5.0), json!(5.5), json!(-5.5)].map(offset);
    assert_eq!(found, [true, true, true, false, false]);
}
