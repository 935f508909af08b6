//! Encoding of the model as metadata. The expected JSON was opened, and the data behind it decoded, with zarr-python
//! 3.4.2, numcodecs 0.17.1 and imagecodecs 2026.10.10.

use bytes::Bytes;
use serde_json::{Value, json};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, Conversion, DataType, Endian, Field, FillValue, OutOfRange,
    Rounding, ScalarMap, TiffScheme, TimeUnit, ZarrFormat,
};

fn fixed(bytes: &[u8]) -> FillValue {
    FillValue::Fixed(Bytes::copy_from_slice(bytes))
}

fn array(data_type: DataType, codecs: Vec<Codec>) -> Array {
    Array {
        shape: vec![4, 6],
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(vec![2, 3]),
        codecs,
        dimension_names: vec![Some("y".into()), None],
        attributes: serde_json::Map::new(),
        chunks: ChunkManifest::default(),
    }
}

fn bytes(endian: Endian) -> Codec {
    Codec::Bytes { endian: Some(endian) }
}

#[test]
fn fill_values_of_every_type() {
    use DataType::*;
    let seconds = TimeUnit::new("s", 1).unwrap();
    let cases: Vec<(DataType, FillValue, Value, Value)> = vec![
        (Bool, fixed(&[1]), json!(true), json!(true)),
        (Int8, fixed(&[0x80]), json!(-128), json!(-128)),
        (UInt64, fixed(&[0xff; 8]), json!(u64::MAX), json!(u64::MAX)),
        (Int64, fixed(&i64::MIN.to_le_bytes()), json!(i64::MIN), json!(i64::MIN)),
        (Float32, fixed(&0.1f32.to_le_bytes()), json!(0.10000000149011612), json!(0.10000000149011612)),
        (Float32, fixed(&f32::NEG_INFINITY.to_le_bytes()), json!("-Infinity"), json!("-Infinity")),
        (Float64, fixed(&f64::NAN.to_bits().to_le_bytes()), json!("NaN"), json!("NaN")),
        (Float32, fixed(&0xffc0_0000u32.to_le_bytes()), json!("NaN"), json!("0xffc00000")),
        (Float64, fixed(&0x7ff0_0000_0000_0001u64.to_le_bytes()), json!("NaN"), json!("0x7ff0000000000001")),
        (Float16, fixed(&[0, 0x7e]), json!("NaN"), json!("NaN")),
        (Complex64, fixed(&[0, 0, 128, 63, 0, 0, 192, 127]), json!([1.0, "NaN"]), json!([1.0, "NaN"])),
        (RawBytes(3), fixed(b"abc"), json!("YWJj"), json!("YWJj")),
        (FixedBytes(3), fixed(b"ab\0"), json!("YWIA"), json!("YWIA")),
        (FixedText(2), fixed(&[0xe9, 0, 0, 0, 0, 0, 0, 0]), json!("é"), json!("é")),
        (DateTime(seconds), fixed(&i64::MIN.to_le_bytes()), json!(i64::MIN), json!(i64::MIN)),
        (TimeDelta(seconds), fixed(&[7, 0, 0, 0, 0, 0, 0, 0]), json!(7), json!(7)),
        (FixedText(2), fixed(&[0; 8]), json!(""), json!("")),
        (String, FillValue::Text("é".into()), json!("é"), json!("é")),
        (VariableBytes, FillValue::Variable(Bytes::from_static(b"z")), json!("eg=="), json!("eg==")),
    ];
    for (data_type, value, v2, v3) in cases {
        assert_eq!(value.to_json(&data_type, ZarrFormat::V2).unwrap(), v2, "{data_type}");
        assert_eq!(value.to_json(&data_type, ZarrFormat::V3).unwrap(), v3, "{data_type}");
    }
}

#[test]
fn negative_zero_keeps_its_sign() {
    let json = fixed(&(-0.0f64).to_le_bytes()).to_json(&DataType::Float64, ZarrFormat::V3).unwrap();
    assert_eq!(json.to_string(), "-0.0");
}

#[test]
fn a_fill_value_of_another_size_or_kind_is_refused() {
    let error = fixed(&[1, 2]).to_json(&DataType::Int32, ZarrFormat::V2).unwrap_err();
    assert_eq!(error.to_string(), "a fill value of 2 bytes does not fit data type int32");
    assert!(FillValue::Text("x".into()).to_json(&DataType::Int8, ZarrFormat::V3).is_err());
    assert!(fixed(b"x").to_json(&DataType::String, ZarrFormat::V3).is_err());
    for not_a_code_point in [0xd800u32, 0x11_0000] {
        let value = fixed(&not_a_code_point.to_le_bytes());
        assert!(value.to_json(&DataType::FixedText(1), ZarrFormat::V3).is_err());
    }
}

fn pair(endian: Endian) -> DataType {
    let field = |name: &str, data_type| Field { name: name.into(), data_type, endian, shape: vec![] };
    DataType::Struct(vec![field("a", DataType::Int16), field("b", DataType::Float32)])
}

#[test]
fn structures_are_base64_in_the_order_of_their_fields_in_v2_and_members_in_v3() {
    let value = fixed(&[1, 0, 0, 0, 128, 63]);
    assert_eq!(value.to_json(&pair(Endian::Little), ZarrFormat::V2).unwrap(), json!("AQAAAIA/"));
    assert_eq!(value.to_json(&pair(Endian::Big), ZarrFormat::V2).unwrap(), json!("AAE/gAAA"));
    assert_eq!(value.to_json(&pair(Endian::Big), ZarrFormat::V3).unwrap(), json!({"a": 1, "b": 1.0}));
    assert_eq!(pair(Endian::Big).to_v2(Endian::Little).unwrap(), json!([["a", ">i2"], ["b", ">f4"]]));
    let v3 = json!({"name": "struct", "configuration": {"fields": [
        {"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "float32"}]}});
    assert_eq!(pair(Endian::Big).to_v3().unwrap(), v3);
}

#[test]
fn a_structure_and_its_array_must_agree_on_byte_order_in_v3() {
    let agreed = array(pair(Endian::Big), vec![bytes(Endian::Big)]).to_zarr_json("x").unwrap();
    assert_eq!(agreed["codecs"], json!([{"name": "bytes", "configuration": {"endian": "big"}}]));
    assert!(array(pair(Endian::Big), vec![bytes(Endian::Little)]).to_zarr_json("x").is_err());
    let DataType::Struct(mut fields) = pair(Endian::Big) else { unreachable!() };
    fields[0].endian = Endian::Little;
    let mixed = array(DataType::Struct(fields), vec![bytes(Endian::Big)]);
    assert!(mixed.to_zarr_json("x").is_err());
    assert_eq!(mixed.to_zarray().unwrap()["dtype"], json!([["a", "<i2"], ["b", ">f4"]]));
}

#[test]
fn what_neither_format_says_is_an_error() {
    let field = |shape, data_type| Field { name: "f".into(), data_type, endian: Endian::Little, shape };
    for fields in [vec![field(vec![2], DataType::Int8)], vec![field(vec![], DataType::String)]] {
        let data_type = DataType::Struct(fields);
        assert!(data_type.to_v2(Endian::Little).is_err());
        assert!(data_type.to_v3().is_err());
    }
    assert!(DataType::FixedBytes(0).to_v2(Endian::Little).is_err());
    assert!(DataType::FixedText(0).to_v3().is_err());
    assert!(DataType::RawBytes(0).to_v3().is_err());
    let tiff = Codec::Tiff(TiffScheme::Next { width: 4 });
    for codec in
        [Codec::Hdf5Nbit(vec![]), Codec::Hdf5ScaleOffset(vec![]), Codec::Hdf5Bitshuffle(vec![]), tiff]
    {
        assert!(codec.is_internal());
        assert!(codec.to_v2().is_err());
        assert!(codec.to_v3().is_err());
    }
}

#[test]
fn data_types_of_v2_have_a_byte_order_where_it_matters() {
    assert_eq!(DataType::UInt16.to_v2(Endian::Big).unwrap(), json!(">u2"));
    assert_eq!(DataType::Complex128.to_v2(Endian::Little).unwrap(), json!("<c16"));
    assert_eq!(DataType::Bool.to_v2(Endian::Big).unwrap(), json!("|b1"));
    assert_eq!(DataType::FixedBytes(7).to_v2(Endian::Big).unwrap(), json!("|S7"));
    assert_eq!(DataType::FixedText(7).to_v2(Endian::Little).unwrap(), json!("<U7"));
    assert_eq!(DataType::FixedText(7).to_v2(Endian::Big).unwrap(), json!(">U7"));
    let utf32 = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 28}});
    assert_eq!(DataType::FixedText(7).to_v3().unwrap(), utf32);
    let text = array(DataType::FixedText(7), vec![bytes(Endian::Big)]).to_zarr_json("x").unwrap();
    assert_eq!(text["codecs"], json!([{"name": "bytes", "configuration": {"endian": "big"}}]));
    let raw = json!({"name": "raw_bytes", "configuration": {"length_bytes": 3}});
    assert_eq!(DataType::RawBytes(3).to_v3().unwrap(), raw);
}

#[test]
fn hdf5_pipelines() {
    let codecs = vec![
        bytes(Endian::Big),
        Codec::Shuffle { element_size: 4 },
        Codec::Zlib { level: 4 },
        Codec::Fletcher32,
    ];
    let array = array(DataType::Int32, codecs);
    let zarray = array.to_zarray().unwrap();
    assert_eq!(zarray["dtype"], json!(">i4"));
    assert_eq!(zarray["compressor"], Value::Null);
    let filters =
        json!([{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}, {"id": "fletcher32"}]);
    assert_eq!(zarray["filters"], filters);
    let v3 = json!([
        {"name": "bytes", "configuration": {"endian": "big"}},
        {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
        {"name": "numcodecs.zlib", "configuration": {"level": 4}},
        {"name": "numcodecs.fletcher32", "configuration": {}},
    ]);
    assert_eq!(array.to_zarr_json("x").unwrap()["codecs"], v3);
}

#[test]
fn the_last_codec_is_the_compressor_of_v2_where_it_compresses() {
    let zarray =
        array(DataType::Int8, vec![bytes(Endian::Little), Codec::Shuffle { element_size: 1 }, Codec::Lzf]);
    let zarray = zarray.to_zarray().unwrap();
    assert_eq!(zarray["compressor"], json!({"id": "imagecodecs_lzf", "header": false}));
    assert_eq!(zarray["filters"], json!([{"id": "shuffle", "elementsize": 1}]));
}

#[test]
fn codecs_that_make_bytes_take_the_place_of_bytes() {
    let predictor = Codec::FloatPredictor { axis: 1, dtype: "<f4".into(), shape: vec![2, 3] };
    let array = array(DataType::Float32, vec![predictor, bytes(Endian::Little), Codec::Zlib { level: 6 }]);
    let v3 = json!([
        {"name": "imagecodecs_floatpred", "configuration": {"axis": 1, "dist": 1}},
        {"name": "numcodecs.zlib", "configuration": {"level": 6}},
    ]);
    assert_eq!(array.to_zarr_json("x").unwrap()["codecs"], v3);
    let zarray = array.to_zarray().unwrap();
    let filter =
        json!([{"id": "imagecodecs_floatpred", "shape": [2, 3], "dtype": "<f4", "axis": 1, "dist": 1}]);
    assert_eq!(zarray["filters"], filter);
    assert_eq!(zarray["compressor"], json!({"id": "zlib", "level": 6}));
}

#[test]
fn reversed_bytes_before_an_image_are_the_data_type_of_v2_and_a_codec_of_v3() {
    let lerc = Codec::Image { name: "imagecodecs_lerc", configuration: serde_json::Map::new() };
    let reversed = Codec::ReversedBytes { dtype: ">u2".into() };
    let array = array(DataType::UInt16, vec![reversed, lerc]);
    let zarray = array.to_zarray().unwrap();
    assert_eq!((&zarray["dtype"], &zarray["filters"]), (&json!(">u2"), &json!(null)));
    let document = array.to_zarr_json("x").unwrap();
    let astype = json!({"encode_dtype": ">u2", "decode_dtype": "<u2"});
    assert_eq!(document["codecs"][0], json!({"name": "numcodecs.astype", "configuration": astype}));
    assert_eq!(Array::from_zarray(&zarray, &json!({})).unwrap().array.codecs, array.codecs);
    assert_eq!(Array::from_zarr_json(&document).unwrap().array.codecs, array.codecs);
}

#[test]
fn reversed_bits_move_before_bytes_in_v3_or_are_refused() {
    let plain = array(DataType::UInt16, vec![bytes(Endian::Little), Codec::BitOrder]);
    let v3 =
        json!([{"name": "imagecodecs_bitorder"}, {"name": "bytes", "configuration": {"endian": "little"}}]);
    assert_eq!(plain.to_zarr_json("x").unwrap()["codecs"], v3);
    let packed = array(DataType::UInt16, vec![bytes(Endian::Little), Codec::Lzw, Codec::BitOrder]);
    assert_eq!(
        packed.to_zarr_json("x").unwrap_err().to_string(),
        "a reversed bit order has no equivalent in Zarr v3"
    );
    let filters = json!([{"id": "imagecodecs_lzw"}, {"id": "imagecodecs_bitorder"}]);
    assert_eq!(packed.to_zarray().unwrap()["filters"], filters);
}

#[test]
fn transpositions_in_v2_are_c_or_f_order() {
    let with = |order: Vec<usize>| array(DataType::Int8, vec![Codec::Transpose { order }]).to_zarray();
    assert_eq!(with(vec![1, 0]).unwrap()["order"], json!("F"));
    assert_eq!(with(vec![0, 1]).unwrap()["order"], json!("C"));
    assert!(with(vec![1, 2, 0]).is_err());
}

#[test]
fn axes_without_a_name_get_one_that_no_other_array_has() {
    let array = array(DataType::Int8, vec![bytes(Endian::Little)]);
    assert_eq!(array.to_zattrs("t")["_ARRAY_DIMENSIONS"], json!(["y", "t_dim_1"]));
    assert_eq!(array.to_zarr_json("t").unwrap()["dimension_names"], json!(["y", "t_dim_1"]));
}

#[test]
fn szip_takes_the_client_data_of_the_file() {
    let codec = Codec::Hdf5Szip(vec![141, 8, 32, 100]);
    let configuration = json!({"options_mask": 141, "pixels_per_block": 8, "bits_per_pixel": 32,
        "pixels_per_scanline": 100, "header": true});
    assert_eq!(codec.to_v3().unwrap(), json!({"name": "imagecodecs_szip", "configuration": configuration}));
    assert!(Codec::Hdf5Szip(vec![141, 8]).to_v2().is_err());
}

#[test]
fn lzf_decodes_eightfold_and_no_more() {
    assert!(Codec::clients_decode(&[Codec::Lzf], 9, 72));
    assert!(!Codec::clients_decode(&[Codec::Lzf], 9, 73));
    assert!(Codec::clients_decode(&[Codec::PackBits], 9, 7300));
    // The checksum is part of what is stored.
    let checked = [bytes(Endian::Little), Codec::Lzf, Codec::Fletcher32];
    assert!(Codec::clients_decode(&checked, 13, 72));
    assert!(!Codec::clients_decode(&checked, 12, 72));
}

#[test]
fn numbers_become_scalars_exactly_or_say_so() {
    use Conversion::{Exact, Impossible, Rounded};
    let int = |data_type, n| FillValue::from_i128(&data_type, n);
    let real = |data_type, n| FillValue::from_f64(&data_type, n);
    assert_eq!(int(DataType::UInt8, 255), Exact(fixed(&[255])));
    assert_eq!(int(DataType::UInt8, 256), Impossible);
    assert_eq!(int(DataType::Int8, -129), Impossible);
    assert_eq!(int(DataType::Int64, i128::from(i64::MIN)), Exact(fixed(&i64::MIN.to_le_bytes())));
    assert_eq!(int(DataType::Float32, 16_777_217), Rounded(fixed(&16_777_216f32.to_le_bytes())));
    assert_eq!(
        int(DataType::Float64, (1 << 53) + 1),
        Rounded(fixed(&9_007_199_254_740_992f64.to_le_bytes()))
    );
    assert_eq!(int(DataType::Bool, 2), Impossible);
    assert_eq!(real(DataType::Int16, -9999.0), Exact(fixed(&(-9999i16).to_le_bytes())));
    assert_eq!(real(DataType::Int16, 0.5), Impossible);
    assert_eq!(real(DataType::UInt64, f64::NAN), Impossible);
    assert_eq!(real(DataType::UInt64, 18_446_744_073_709_551_616.0), Impossible);
    assert_eq!(real(DataType::Float16, 65504.0), Exact(fixed(&[0xff, 0x7b])));
    assert_eq!(real(DataType::Float16, 70000.0), Impossible);
    assert_eq!(real(DataType::Float32, 0.1), Rounded(fixed(&0.1f32.to_le_bytes())));
    assert_eq!(real(DataType::Float32, 1e39), Impossible);
    assert_eq!(real(DataType::Float32, f64::NEG_INFINITY), Exact(fixed(&f32::NEG_INFINITY.to_le_bytes())));
    assert_eq!(real(DataType::Complex64, 1.0), Exact(fixed(&[0, 0, 128, 63, 0, 0, 0, 0])));
    assert_eq!(real(DataType::String, 1.0), Impossible);
    assert_eq!(fixed(&[0xff, 0xff]).to_i128(&DataType::Int16), Some(-1));
    assert_eq!(fixed(&[0xff, 0xff]).to_i128(&DataType::UInt16), Some(65535));
    assert_eq!(fixed(&2.5f64.to_le_bytes()).to_i128(&DataType::Float64), None);
    assert_eq!(fixed(&2.5f64.to_le_bytes()).to_f64(&DataType::Float64), Some(2.5));
}

#[test]
fn casts_say_only_what_is_not_the_default() {
    let plain = Codec::CastValue {
        data_type: DataType::UInt8,
        rounding: Rounding::NearestEven,
        out_of_range: None,
        scalar_map: ScalarMap::default(),
    };
    assert_eq!(
        plain.to_v3().unwrap(),
        json!({"name": "cast_value", "configuration": {"data_type": "uint8"}})
    );
    assert_eq!(plain.to_v2().unwrap_err().to_string(), "a cast to uint8 has no equivalent in Zarr v2");
    let nan = fixed(&0x7fc0_0001u32.to_le_bytes());
    let sentinel = fixed(&i64::MIN.to_le_bytes());
    let scalar_map = ScalarMap::both_ways((&DataType::Float32, &nan), (&DataType::Int64, &sentinel)).unwrap();
    let full = Codec::CastValue {
        data_type: DataType::Int64,
        rounding: Rounding::TowardsZero,
        out_of_range: Some(OutOfRange::Wrap),
        scalar_map,
    };
    let configuration = json!({
        "data_type": "int64",
        "rounding": "towards-zero",
        "out_of_range": "wrap",
        "scalar_map": {"encode": [["0x7fc00001", i64::MIN]], "decode": [[i64::MIN, "0x7fc00001"]]},
    });
    assert_eq!(full.to_v3().unwrap(), json!({"name": "cast_value", "configuration": configuration}));
}

#[test]
fn codecs_after_a_cast_have_its_type() {
    let cast = |data_type| Codec::CastValue {
        data_type,
        rounding: Rounding::NearestEven,
        out_of_range: None,
        scalar_map: ScalarMap::default(),
    };
    let codecs = |data_type| {
        let chain = vec![cast(data_type), Codec::Bytes { endian: None }];
        array(DataType::Float32, chain).to_zarr_json("x").unwrap()["codecs"][1].clone()
    };
    assert_eq!(codecs(DataType::UInt8), json!({"name": "bytes"}));
    assert_eq!(codecs(DataType::Int16), json!({"name": "bytes", "configuration": {"endian": "little"}}));
}

/// Examples of the specification (zarr-extensions, chunk-grids/rectilinear).
#[test]
fn repeated_edges_of_rectilinear_grids_are_counted() {
    let mut array = array(DataType::UInt8, vec![Codec::Bytes { endian: None }]);
    array.shape = vec![6, 6, 6];
    array.chunk_grid = ChunkGrid::Rectilinear(vec![vec![2, 2, 2], vec![1, 1, 1, 3], vec![6]]);
    let document = array.to_zarr_json("a").unwrap();
    assert_eq!(
        document["chunk_grid"]["configuration"],
        json!({"kind": "inline", "chunk_shapes": [[[2, 3]], [[1, 3], 3], [6]]})
    );
}
