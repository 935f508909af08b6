//! The rules on attributes of one array. Expected values are what xarray 2026.9 and NumPy 2.5 show, unless stated otherwise.

use Element::{Bytes as Raw, Complex, Float, Integer, Text};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize_hdf5::model::Element;
use virtualize_zarr::{
    Arithmetic, Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, ZarrFormat,
};

use super::fill::{cast, is_rounded_end, wrapped};
use super::{
    CfAttribute, CfAttributes, FillPlan, FillQuestion, check_factors, netcdf_default_fill, widened_packing,
    write_sentinels,
};
use crate::cf::packing::UnpackRefusal;
use crate::{ArrayReport, FillPolicy};

fn attribute(name: &str, data_type: DataType, values: &[Element]) -> CfAttribute {
    CfAttribute { name: name.to_owned(), data_type: Some(data_type), values: values.to_vec() }
}

fn attributes(all: Vec<CfAttribute>) -> CfAttributes {
    all.into_iter().collect()
}

fn fixed(bytes: &[u8]) -> FillValue {
    FillValue::Fixed(Bytes::copy_from_slice(bytes))
}

fn question<'a>(
    format: ZarrFormat,
    data_type: &'a DataType,
    zero: &'a FillValue,
    attributes: &'a CfAttributes,
) -> FillQuestion<'a> {
    FillQuestion {
        format,
        data_type,
        policy: FillPolicy("test"),
        origin: "header".to_owned(),
        header: zero,
        missing_reads: zero,
        attributes,
        missing: true,
        constant_chunks_allowed: false,
    }
}

fn decide(format: ZarrFormat, data_type: &DataType, attributes: &CfAttributes) -> FillPlan {
    question(format, data_type, &FillValue::zero(data_type), attributes).decide()
}

#[test]
fn unsigned_is_read_as_text_and_other_attributes_are_not_kept() {
    let shown = |text: &str| {
        let one = attributes(vec![
            attribute("history", DataType::String, &[]),
            attribute("_Unsigned", DataType::String, &[Text(text.to_owned())]),
        ]);
        assert_eq!(one.get("history"), None);
        (one.shown_type(&DataType::Int16), one.shown_type(&DataType::UInt16))
    };
    assert_eq!(shown("true"), (DataType::UInt16, DataType::UInt16));
    assert_eq!(shown("false"), (DataType::Int16, DataType::Int16));
    assert_eq!(shown("True"), (DataType::Int16, DataType::UInt16));
}

#[test]
fn elements_become_scalars_of_every_kind_of_type() {
    let half = half::f16::from_f64(0.5).to_le_bytes();
    for (element, data_type, expected) in [
        (Text("ab".to_owned()), DataType::String, Some(FillValue::Text("ab".to_owned()))),
        (Text("ab".to_owned()), DataType::FixedBytes(3), Some(fixed(b"ab\0"))),
        (Text("abc".to_owned()), DataType::FixedBytes(3), Some(fixed(b"abc"))),
        (Text("abc\0\0".to_owned()), DataType::FixedBytes(3), Some(fixed(b"abc"))),
        (Text("abcd".to_owned()), DataType::FixedBytes(3), None),
        (Raw(b"ab".to_vec()), DataType::FixedBytes(2), Some(fixed(b"ab"))),
        (Raw(b"a".to_vec()), DataType::RawBytes(2), Some(fixed(b"a\0"))),
        (Text("1".to_owned()), DataType::Int8, None),
        (Integer(1), DataType::Bool, Some(fixed(&[1]))),
        (Integer(2), DataType::Bool, None),
        (Integer(-3), DataType::Float16, Some(fixed(&half::f16::from_f64(-3.0).to_le_bytes()))),
        (Integer(1 << 24), DataType::Float32, Some(fixed(&16_777_216_f32.to_le_bytes()))),
        (Integer((1 << 53) + 1), DataType::Float64, None),
        (Integer(2), DataType::Complex64, Some(fixed(&[0, 0, 0, 0x40, 0, 0, 0, 0]))),
        (Float(0.5), DataType::Float16, Some(fixed(&half))),
        (Float(0.1), DataType::Float64, Some(fixed(&0.1_f64.to_le_bytes()))),
        (Float(0.1), DataType::Complex64, None),
        (Float(2.0), DataType::Complex64, Some(fixed(&[0, 0, 0, 0x40, 0, 0, 0, 0]))),
        (Complex(0.0, 2.0), DataType::Complex64, Some(fixed(&[0, 0, 0, 0, 0, 0, 0, 0x40]))),
        (Complex(0.0, 2.0), DataType::Float64, None),
    ] {
        assert_eq!(cast(&element, &data_type).ok(), expected, "{element:?} as {data_type}");
    }
    let refused = cast(&Integer(300), &DataType::UInt8).unwrap_err().to_string();
    assert!(refused.contains("300"), "{refused}");
}

/// `np.float64(4e9).astype("i8")`; smaller types are converted through 32-bit integers.
#[test]
fn floats_of_another_sign_are_truncated() {
    let four = fixed(&4_000_000_000_i64.to_le_bytes());
    assert_eq!(wrapped(&Float(4e9), &DataType::Int64).ok(), Some(four));
    assert!(wrapped(&Float(4e9), &DataType::Int16).is_err());
}

/// `np.int64(2**63 - 1) == np.float64(2**63)` is true: both are compared in binary64.
#[test]
fn one_past_the_end_of_64_bits_masks_the_largest_number() {
    let ends = [9_223_372_036_854_775_808.0, 18_446_744_073_709_551_616.0];
    let of = |data_type| ends.map(|end| is_rounded_end(end, &data_type));
    assert_eq!(of(DataType::Int64), [true, false]);
    assert_eq!(of(DataType::UInt64), [false, true]);
    assert_eq!(of(DataType::Float64), [false, false]);
}

/// Returns what is written of a `missing_value`, and the codes of the remarks.
fn missing(data_type: &DataType, source: Vec<CfAttribute>) -> (Option<Value>, Vec<String>) {
    let source = attributes(source);
    let plan = decide(ZarrFormat::V3, data_type, &source);
    let mut written = Map::new();
    let remarks = write_sentinels(&source, data_type, &plan, &mut written);
    let remarks = remarks.into_iter().map(|(_, code, text)| format!("{} {text}", code.as_str())).collect();
    (written.remove("missing_value"), remarks)
}

#[test]
fn missing_values_are_plain_numbers_of_the_type() {
    let of = |data_type: DataType, values: &[Element]| {
        missing(&data_type, vec![attribute("missing_value", DataType::Float64, values)])
    };
    let past = 9_223_372_036_854_775_808.0;
    for (data_type, values, expected) in [
        (DataType::Int16, vec![Integer(-1), Float(5.0)], Some(json!([-1, 5]))),
        (DataType::Int64, vec![Float(past)], Some(json!(past))),
        (DataType::Int64, vec![Integer(1 << 63)], Some(json!(past))),
        (DataType::String, vec![Text("none".to_owned())], Some(json!("none"))),
        (DataType::Float32, vec![Float(f64::NAN)], Some(json!("NaN"))),
        (DataType::Float32, vec![Float(f64::NAN), Float(1.0)], Some(json!(1.0))),
    ] {
        assert_eq!(of(data_type.clone(), &values), (expected, vec![]), "{values:?} for {data_type}");
    }
    let (written, remarks) = of(DataType::Complex64, &[Complex(1.0, 2.0)]);
    assert_eq!((written, remarks.len()), (None, 1));
    assert!(remarks[0].starts_with("missing-value-dropped missing_value 1+2i"), "{remarks:?}");
    let (written, remarks) = of(DataType::UInt8, &[Float(-1.5), Text("x".to_owned()), Raw(vec![1; 3])]);
    assert_eq!(written, None);
    for (remark, shown) in remarks.iter().zip(["-1.5", "\"x\"", "3 bytes"]) {
        assert!(
            remark.starts_with(&format!("missing-value-dropped missing_value {shown} is dropped")),
            "{remark}"
        );
    }
}

/// One `_FillValue` masks by itself; xarray takes none of several, so they go on as `missing_value`.
#[test]
fn only_several_fill_values_go_on_as_missing_value() {
    let fill = |values: &[Element]| vec![attribute("_FillValue", DataType::Int16, values)];
    assert_eq!(missing(&DataType::Int16, fill(&[Integer(7)])).0, None);
    assert_eq!(missing(&DataType::Int16, fill(&[Integer(7), Integer(8)])).0, Some(json!([7, 8])));
}

/// With `_Unsigned`, NetCDF stores 255 as -1, and `_FillValue` has the stored sign or the other one.
#[test]
fn a_fill_value_of_the_other_sign_is_wrapped() {
    let source = attributes(vec![
        attribute("_Unsigned", DataType::String, &[Text("true".to_owned())]),
        attribute("_FillValue", DataType::Int16, &[Integer(255)]),
    ]);
    let plan = decide(ZarrFormat::V3, &DataType::Int8, &source);
    assert_eq!(plan.decision.sentinel, Some(fixed(&[255])));
}

/// h5netcdf shows text of one byte as bytes, by which xarray masks; longer text masks nothing.
#[test]
fn text_of_one_byte_masks_in_v2() {
    let sentinel = |size: u32, text: &str| {
        let source =
            attributes(vec![attribute("_FillValue", DataType::FixedBytes(size), &[Text(text.to_owned())])]);
        let plan = decide(ZarrFormat::V2, &DataType::FixedBytes(size), &source);
        (plan.decision.fill_value, plan.attribute)
    };
    assert_eq!(sentinel(2, "ab"), (None, Some(json!("ab"))));
    assert_eq!(sentinel(1, "a"), (Some(fixed(b"\0")), None));
}

#[test]
fn sentinels_of_v2_are_text_or_numbers_of_plain_types() {
    let of = |data_type: DataType, value: Element| {
        let source = attributes(vec![attribute("_FillValue", data_type.clone(), &[value])]);
        let plan = decide(ZarrFormat::V2, &data_type, &source);
        (plan.decision.fill_value, plan.attribute, plan.warnings.len())
    };
    assert_eq!(of(DataType::String, Text("none".to_owned())), (None, Some(json!("none")), 0));
    assert_eq!(of(DataType::Int16, Integer(7)), (None, Some(json!(7)), 0));
    assert_eq!(of(DataType::RawBytes(1), Raw(vec![7])), (None, None, 1));
    let complex = of(DataType::Complex64, Complex(1.0, 2.0));
    assert_eq!(complex, (Some(fixed(&[0; 8])), None, 1), "JSON has no complex numbers");
}

#[test]
fn the_report_shows_the_fill_value_of_the_file() {
    let none = CfAttributes::default();
    for (data_type, header, shown) in [
        (DataType::Int16, fixed(&7_i16.to_le_bytes()), "7"),
        (DataType::String, FillValue::Text("a".to_owned()), "\"a\""),
        (DataType::VariableBytes, FillValue::Variable(Bytes::from_static(b"abc")), "3 bytes"),
    ] {
        let plan = question(ZarrFormat::V3, &data_type, &header, &none).decide();
        assert_eq!(plan.decision.sources[0].text, shown);
    }
}

/// The types are those of `decoded_type` in `test_unpack.py`, which compares all combinations with xarray.
#[test]
fn factors_whose_types_json_does_not_keep_are_named() {
    use DataType::{Float16, Float32, Float64, Int16, Int32, Int64};
    let says = |stored: DataType, scale: Option<DataType>, offset: Option<DataType>| {
        let value = |data_type: &DataType| if data_type.is_float() { Float(0.5) } else { Integer(2) };
        let factors = [("scale_factor", scale), ("add_offset", offset)];
        let factors = factors.into_iter().filter_map(|(name, data_type)| Some((name, data_type?)));
        let source: Vec<_> =
            factors.map(|(name, data_type)| one(name, data_type.clone(), value(&data_type))).collect();
        let written = source.iter().map(|one| (one.name.clone(), json!(1))).collect();
        widened_packing(&attributes(source), &stored, &written).is_some()
    };
    for (stored, scale, offset, expected) in [
        (Int16, Some(Float32), None, true),
        (Int16, Some(Float64), None, false),
        (Int16, Some(Float32), Some(Float32), true),
        (Int32, Some(Float32), Some(Float32), false),
        (Int64, Some(Float32), Some(Float32), true),
        (Int16, Some(Float32), Some(Float64), false),
        (Int16, None, Some(Float32), false),
        (Int16, Some(Float16), Some(Float16), false),
        (Int16, Some(Float16), None, true),
        (Int16, Some(Int16), None, true),
        (Int16, Some(Int64), None, false),
        (Int16, Some(Int16), Some(Int16), false),
        (Int16, None, None, false),
    ] {
        let case = format!("{stored} {scale:?} {offset:?}");
        assert_eq!(says(stored, scale, offset), expected, "{case}");
    }
    let longer = CfAttribute { name: "scale_factor".to_owned(), data_type: None, values: vec![Float(0.5)] };
    let written = Map::from_iter([("scale_factor".to_owned(), json!(0.5))]);
    assert!(widened_packing(&attributes(vec![longer]), &Int16, &written).is_some(), "a long double");
    let source = attributes(vec![one("scale_factor", Float32, Float(0.5))]);
    assert_eq!(widened_packing(&source, &Int16, &Map::new()), None, "unpacked by codecs");
}

#[test]
fn factors_that_json_cannot_represent_are_refused() {
    let check = |value: Element| {
        let source = attributes(vec![attribute("add_offset", DataType::Float64, &[Float(1.0), value])]);
        check_factors(&source).map_err(|error| error.to_string())
    };
    for value in [Float(2.0), Integer(2), Element::Text("a".to_owned())] {
        assert_eq!(check(value), Ok(()));
    }
    for value in
        [Float(f64::NAN), Float(f64::INFINITY), Element::Unknown("long double"), Element::Complex(2.0, 0.0)]
    {
        assert!(check(value).unwrap_err().contains("add_offset"));
    }
}

// ---- unpacking

fn unpacked(stored: DataType, source: Vec<CfAttribute>, is_time: bool) -> Result<Array, UnpackRefusal> {
    let mut array = Array {
        shape: vec![4],
        fill_value: Some(FillValue::zero(&stored)),
        data_type: stored,
        chunk_grid: ChunkGrid::Regular(vec![4]),
        codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }],
        dimension_names: vec![None],
        attributes: Map::new(),
        chunks: ChunkManifest::default(),
    };
    crate::cf::unpack(&attributes(source), is_time, &mut array, &mut ArrayReport::default())?;
    Ok(array)
}

fn one(name: &str, data_type: DataType, value: Element) -> CfAttribute {
    attribute(name, data_type, &[value])
}

/// `_choose_float_dtype`: the type of the factors decides, and integers of two bytes fit in float32.
#[test]
fn numbers_are_unpacked_to_the_type_of_xarray() {
    let single = || one("scale_factor", DataType::Float32, Float(0.5));
    let double = || one("scale_factor", DataType::Float64, Float(0.5));
    let integer = || one("add_offset", DataType::Int32, Integer(2));
    for (source, expected) in [
        (vec![single()], Some(DataType::Float32)),
        (vec![double()], Some(DataType::Float64)),
        (vec![double(), integer()], Some(DataType::Float64)),
        (vec![one("_FillValue", DataType::Int16, Integer(7))], Some(DataType::Float32)),
        (vec![one("_Unsigned", DataType::String, Text("true".to_owned()))], Some(DataType::UInt16)),
        (vec![one("scale_factor", DataType::String, Text("2".to_owned()))], None),
        (vec![one("add_offset", DataType::Float32, Integer(2))], None),
        (vec![attribute("scale_factor", DataType::Float64, &[Float(1.0), Float(2.0)])], None),
    ] {
        let shown = format!("{source:?}");
        let found = unpacked(DataType::Int16, source, false).ok().map(|array| array.data_type);
        assert_eq!(found, expected, "{shown}");
    }
    let wide = unpacked(DataType::Int8, vec![one("_FillValue", DataType::Int16, Integer(300))], false);
    assert_eq!(wide.map(|array| array.data_type), Ok(DataType::Int8), "300 masks nothing");
    let text = unpacked(DataType::String, vec![double()], false).map(|array| array.codecs.len());
    assert_eq!(text, Ok(1), "text is not unpacked");
    let factor = unpacked(DataType::Float32, vec![double()], false).map(|array| array.data_type);
    assert_eq!(factor, Ok(DataType::Float64));
}

/// 0.1 is not a power of two, so that a quotient differs from the product in its last bit, which dates would show.
#[test]
fn times_are_unpacked_only_exactly() {
    let tenth = || one("scale_factor", DataType::Float64, Float(0.1));
    let days = one("units", DataType::String, Text("days since 2000-01-01".to_owned()));
    let metres = one("units", DataType::String, Text("m".to_owned()));
    assert_eq!(unpacked(DataType::Int16, vec![tenth(), days], false), Err(UnpackRefusal::Times));
    assert!(unpacked(DataType::Int16, vec![tenth(), metres], false).is_ok());
    assert_eq!(unpacked(DataType::Int16, vec![tenth()], true), Err(UnpackRefusal::Times));
}

/// xarray masks by all of them; the codec maps one number to NaN.
#[test]
fn numbers_that_mean_no_data_are_counted_once() {
    let fill = |value: Element| one("_FillValue", DataType::Float64, value);
    let missing = |value: Element| one("missing_value", DataType::Float64, value);
    for (stored, source, expected) in [
        (DataType::Int16, vec![fill(Integer(7)), missing(Integer(7))], Ok(())),
        (
            DataType::Int16,
            vec![fill(Integer(7)), missing(Integer(8))],
            Err(UnpackRefusal::SeveralSentinels(2)),
        ),
        (DataType::Float64, vec![fill(Float(0.0)), missing(Float(-0.0))], Ok(())),
        (
            DataType::Float64,
            vec![fill(Float(1.0)), missing(Float(2.0))],
            Err(UnpackRefusal::SeveralSentinels(2)),
        ),
        (DataType::Float64, vec![fill(Float(f64::NAN)), missing(Float(1.0))], Ok(())),
    ] {
        let shown = format!("{source:?}");
        assert_eq!(unpacked(stored, source, false).map(|_| ()), expected, "{shown}");
    }
    let signed = vec![
        one("_Unsigned", DataType::String, Text("true".to_owned())),
        one("_FillValue", DataType::Int8, Integer(-1)),
        one("missing_value", DataType::UInt8, Integer(255)),
    ];
    assert!(unpacked(DataType::Int8, signed, false).is_ok(), "-1 is stored as 255 is");
}

/// `xr.decode_cf` of the int16 numbers 7 and 30: 7 is masked, and 30 becomes 30 * 0.1 + 1 in the type of the factors.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "xarray computes in 32 bits")]
fn unpacked_numbers_are_those_of_xarray() {
    let packed = |data_type: DataType, factor: f64| {
        vec![
            one("scale_factor", data_type.clone(), Float(factor)),
            one("add_offset", data_type, Float(1.0)),
            one("_FillValue", DataType::Int16, Integer(7)),
        ]
    };
    let decoded = |source: Vec<CfAttribute>| {
        let array = unpacked(DataType::Int16, source, false).unwrap();
        let arithmetic = Arithmetic::new(&array.data_type, &array.codecs).unwrap();
        let element = |number: i16| fixed(&number.to_le_bytes());
        [7, 30].map(|number| {
            arithmetic.decode_scalar(&element(number)).unwrap().to_f64(&array.data_type).unwrap()
        })
    };
    let single = decoded(packed(DataType::Float32, f64::from(0.1_f32)));
    assert!(single[0].is_nan());
    assert_eq!(single[1] as f32, 30.0 * 0.1_f32 + 1.0);
    let double = decoded(packed(DataType::Float64, 0.1));
    assert!(double[0].is_nan() && (double[1] - 4.0).abs() < 1e-15);
}

/// `netCDF4.default_fillvals` of netCDF4-python 1.7, as bytes of NumPy.
#[test]
fn default_fill_values_are_those_of_netcdf_c() {
    let bytes = |data_type| match netcdf_default_fill(&data_type) {
        Some((_, FillValue::Fixed(bytes))) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(bytes(DataType::Float32), [0, 0, 0xf0, 0x7c]);
    assert_eq!(bytes(DataType::Float64), [0, 0, 0, 0, 0, 0, 0x9e, 0x47]);
    assert_eq!(bytes(DataType::Int8), (-127_i8).to_le_bytes());
    assert_eq!(bytes(DataType::Int16), (-32_767_i16).to_le_bytes());
    assert_eq!(bytes(DataType::Int32), (-2_147_483_647_i32).to_le_bytes());
    assert_eq!(bytes(DataType::Int64), (-9_223_372_036_854_775_806_i64).to_le_bytes());
    assert_eq!(bytes(DataType::UInt8), [255]);
    assert_eq!(bytes(DataType::UInt16), [255; 2]);
    assert_eq!(bytes(DataType::UInt32), [255; 4]);
    assert_eq!(bytes(DataType::UInt64), 18_446_744_073_709_551_614_u64.to_le_bytes());
}
