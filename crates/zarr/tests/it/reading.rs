//! Parsing of metadata documents, ours and those of other tools.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use virtualize_zarr::{Array, ChunkGrid, Codec, CodecKind, DataType, Endian, FillValue, ZarrFormat};

/// Every data type with scalars at the ends of its range, encoded and parsed in both formats.
#[test]
fn scalars_round_trip_bit_by_bit() {
    let patterns = [0x00, 0x01, 0x7f, 0x80, 0xff, 0x3c];
    let types = [
        DataType::Bool,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Complex64,
        DataType::Complex128,
        DataType::RawBytes(3),
        DataType::FixedBytes(5),
    ];
    for data_type in types {
        let size = usize::try_from(data_type.size().unwrap()).unwrap();
        for pattern in patterns {
            for last in patterns {
                let mut bytes = vec![pattern; size];
                bytes[size - 1] = last;
                if data_type == DataType::Bool {
                    bytes = vec![pattern & 1];
                }
                let value = FillValue::Fixed(bytes.into());
                let json = value.to_json(&data_type, ZarrFormat::V3).unwrap();
                let back = FillValue::from_json(&json, &data_type).unwrap();
                assert_eq!(back, value, "{data_type} {json}");
            }
        }
    }
}

fn zarray(dtype: Value, filters: Value, compressor: Value) -> Value {
    json!({
        "zarr_format": 2, "shape": [10, 20], "chunks": [5, 10], "dtype": dtype, "fill_value": null, "order": "C",
        "filters": filters, "compressor": compressor, "dimension_separator": ".",
    })
}

fn codecs(document: &Value) -> Vec<Codec> {
    Array::from_zarray(document, &Value::Null).unwrap().array.codecs
}

/// Documents as kerchunk and zarr-python write them.
#[test]
fn documents_of_other_tools_are_read() {
    let document =
        zarray(json!("<i2"), json!([{"id": "shuffle", "elementsize": 2}]), json!({"id": "zlib", "level": 4}));
    let expected = [
        Codec::Bytes { endian: Some(Endian::Little) },
        Codec::Shuffle { element_size: 2 },
        Codec::Zlib { level: 4 },
    ];
    assert_eq!(codecs(&document), expected);
    let document = zarray(
        json!(">f4"),
        Value::Null,
        json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}),
    );
    let blosc = Codec::Blosc { cname: "lz4", clevel: 5, shuffle: 1, typesize: 4, blocksize: 0 };
    assert_eq!(codecs(&document), [Codec::Bytes { endian: Some(Endian::Big) }, blosc]);
    let document = zarray(json!("|O"), json!([{"id": "vlen-utf8"}]), Value::Null);
    assert_eq!(codecs(&document), [Codec::VlenUtf8]);
    let mut document = zarray(json!("|u1"), Value::Null, Value::Null);
    document["order"] = json!("F");
    assert_eq!(codecs(&document), [Codec::Transpose { order: vec![1, 0] }, Codec::Bytes { endian: None }]);
}

#[test]
fn codecs_of_other_tools_stay_as_they_are() {
    let filter = json!({"id": "of_my_own", "scale": 10, "offset": 0, "dtype": "<f8", "astype": "<i2"});
    let grib = json!({"id": "grib", "var": "t"});
    let document = zarray(json!("<f8"), json!([filter]), grib.clone());
    let array = Array::from_zarray(&document, &Value::Null).unwrap().array;
    let foreign = |entry, kind| Codec::Foreign { entry, format: ZarrFormat::V2, kind };
    assert_eq!(
        array.codecs,
        [
            foreign(filter, CodecKind::ArrayToArray),
            Codec::Bytes { endian: Some(Endian::Little) },
            foreign(grib, CodecKind::BytesToBytes)
        ]
    );
    assert_eq!(array.to_zarray().unwrap(), document);
    assert!(array.to_zarr_json("a").is_err());
}

#[test]
fn members_that_are_wrong_are_named() {
    let good = zarray(json!("<i2"), Value::Null, Value::Null);
    for (member, value) in [
        ("shape", json!([1, -1])),
        ("shape", json!("x")),
        ("chunks", json!([1])),
        ("dtype", json!("<M8[x]")),
        ("dtype", json!([])),
        ("dtype", json!("|S99999999999")),
        ("fill_value", json!(1e9)),
        ("fill_value", json!({})),
        ("order", json!("K")),
        ("filters", json!({})),
        ("zarr_format", json!(3)),
        ("dimension_separator", json!("-")),
    ] {
        let mut document = good.clone();
        document[member] = value;
        let error = Array::from_zarray(&document, &Value::Null).unwrap_err();
        assert_eq!(error.member, member);
    }
    for nonsense in [json!(null), json!([]), json!("x"), json!({"zarr_format": 3, "node_type": "array"})] {
        assert!(Array::from_zarray(&nonsense, &nonsense).is_err());
        assert!(Array::from_zarr_json(&nonsense).is_err());
    }
}

#[test]
fn grids_have_edges_with_counts() {
    let document = |grid: Value| {
        json!({
            "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "int8", "fill_value": 0,
            "chunk_grid": grid, "chunk_key_encoding": {"name": "v2"}, "codecs": ["bytes"], "attributes": {"a": 1},
        })
    };
    let edges = |edges: Value| json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": edges}});
    let read = Array::from_zarr_json(&document(edges(json!([[[4, 2], 2]])))).unwrap();
    assert_eq!(read.array.chunk_grid, ChunkGrid::Rectilinear(vec![vec![4, 4, 2]]));
    assert_eq!((read.separator, read.starts_with_c), ('.', false));
    assert!(Array::from_zarr_json(&document(edges(json!([[[4, 99_999_999_999_u64]]])))).is_err());
    assert!(Array::from_zarr_json(&document(json!({"name": "hilbert"}))).is_err());
}

/// NumPy: `np.float32(1e300)`, `np.float16(70000)` and `np.float16(2049)`.
#[test]
fn fill_values_are_rounded_to_the_nearest_float() {
    let of = |number: Value, data_type: &DataType| match FillValue::from_json(&number, data_type).unwrap() {
        FillValue::Fixed(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(json!(1e300), &DataType::Float32), f32::INFINITY.to_le_bytes());
    assert_eq!(of(json!(70000), &DataType::Float16), [0x00, 0x7c]);
    assert_eq!(of(json!(2049), &DataType::Float16), [0x00, 0x68]);
    assert_eq!(of(json!("NaN"), &DataType::Float16), [0x00, 0x7e]);
}

#[test]
fn documents_of_another_kind_are_refused() {
    let document = |node_type: &str, zarr_format: u64, edges: Value| {
        json!({
            "node_type": node_type, "zarr_format": zarr_format, "shape": [5], "data_type": "int16", "fill_value": 0,
            "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [edges]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        })
    };
    let parsed =
        |document: &Value| Array::from_zarr_json(document).map(|parsed| parsed.array.chunk_grid).ok();
    let grid = |edges: &[u64]| Some(ChunkGrid::Rectilinear(vec![edges.to_vec()]));
    assert_eq!(parsed(&document("array", 3, json!([[2, 2], 1]))), grid(&[2, 2, 1]));
    assert_eq!(parsed(&document("array", 3, json!(3))), grid(&[3, 3]));
    assert_eq!(parsed(&document("array", 3, json!([5, 0]))), None);
    assert_eq!(parsed(&document("array", 2, json!([5]))), None);
    assert_eq!(parsed(&document("group", 3, json!([5]))), None);
}

/// An order has no effect on a single axis. Members of structures have the byte order of the array in Zarr v3, inner ones too.
#[test]
fn orders_of_axes_and_bytes() {
    let mut one = zarray(json!("<i2"), Value::Null, Value::Null);
    (one["shape"], one["chunks"], one["order"]) = (json!([10]), json!([5]), json!("F"));
    assert_eq!(codecs(&one), [Codec::Bytes { endian: Some(Endian::Little) }]);
    let field = |name: &str, data_type| virtualize_zarr::Field {
        name: name.to_owned(),
        data_type,
        endian: Endian::Little,
        shape: Vec::new(),
    };
    let nested = DataType::Struct(vec![field("a", DataType::Struct(vec![field("b", DataType::Int16)]))]);
    let DataType::Struct(outer) = nested.in_byte_order(Endian::Big) else { panic!() };
    let DataType::Struct(inner) = &outer[0].data_type else { panic!() };
    assert_eq!((outer[0].endian, inner[0].endian), (Endian::Big, Endian::Big));
    for (many, is_read) in [(63, true), (64, false)] {
        let filters = vec![json!({"id": "shuffle", "elementsize": 2}); many];
        let document = zarray(json!("<i2"), filters.into(), Value::Null);
        assert_eq!(Array::from_zarray(&document, &Value::Null).is_ok(), is_read, "{many} filters");
    }
}

/// zarr-python writes differences of the elements' own type without `astype`.
#[test]
fn differences_without_astype_are_of_the_elements_type() {
    let mut document = zarray(json!("<i4"), json!([{"id": "delta", "dtype": "<i4"}]), Value::Null);
    let short = codecs(&document);
    assert!(!short.iter().any(|codec| matches!(codec, Codec::Foreign { .. })), "{short:?}");
    document["filters"][0]["astype"] = json!("<i4");
    assert_eq!(short, codecs(&document));
    document["filters"][0]["astype"] = json!("<i2");
    assert!(codecs(&document).iter().any(|codec| matches!(codec, Codec::Foreign { .. })));
}

/// An array → array codec behind `bytes` cannot be expressed in Zarr v3.
#[test]
fn orders_of_codecs_that_v3_forbids() {
    let delta = json!({"id": "delta", "dtype": "<i4", "astype": "<i4"});
    let array = |filters| {
        Array::from_zarray(&zarray(json!("<i4"), filters, Value::Null), &Value::Null).unwrap().array
    };
    let forbidden = array(json!([{"id": "fletcher32"}, delta]));
    assert!(forbidden.to_zarray().is_ok());
    assert!(forbidden.to_zarr_json("a").is_err());
    assert!(array(json!([delta, {"id": "fletcher32"}])).to_zarr_json("a").is_ok());
}
