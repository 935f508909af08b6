//! Data types and scalars in metadata documents, by the notation of NumPy (v2) and the Zarr v3 specification.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use virtualize_zarr::{
    Array, ChunkManifest, Codec, DataType, Endian, Field, FillValue, Group, Hierarchy, Lengths, Node,
    References, Source, SourceId, TimeUnit, ZarrFormat,
    node::{name, parent},
    readers::Reader,
};

fn v2(dtype: &Value) -> Option<(DataType, Vec<Codec>)> {
    let filters = if dtype == "|O" { json!([{"id": "vlen-bytes"}]) } else { Value::Null };
    let document = json!({
        "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": dtype, "fill_value": null, "order": "C", "filters": filters, "compressor": null,
    });
    Array::from_zarray(&document, &Value::Null).ok().map(|read| (read.array.data_type, read.array.codecs))
}

fn v3_document(data_type: &Value, fill_value: &Value) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": data_type, "fill_value": fill_value, "codecs": ["bytes"],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": {"name": "default"},
    })
}

fn v3(data_type: &Value) -> Option<DataType> {
    let zero = match data_type.get("name").unwrap_or(data_type).as_str() {
        Some("struct" | "structured") => json!("AAAAAAA="),
        Some(name) if name.starts_with("complex") => json!([0.0, 0.0]),
        _ => json!(0),
    };
    Array::from_zarr_json(&v3_document(data_type, &zero)).ok().map(|read| read.array.data_type)
}

fn plain_types() -> Vec<(&'static str, &'static str, DataType)> {
    vec![
        ("|b1", "bool", DataType::Bool),
        ("|i1", "int8", DataType::Int8),
        ("<i2", "int16", DataType::Int16),
        ("<i4", "int32", DataType::Int32),
        ("<i8", "int64", DataType::Int64),
        ("|u1", "uint8", DataType::UInt8),
        ("<u2", "uint16", DataType::UInt16),
        ("<u4", "uint32", DataType::UInt32),
        ("<u8", "uint64", DataType::UInt64),
        ("<f2", "float16", DataType::Float16),
        ("<f4", "float32", DataType::Float32),
        ("<f8", "float64", DataType::Float64),
        ("<c8", "complex64", DataType::Complex64),
        ("<c16", "complex128", DataType::Complex128),
        ("|V3", "r24", DataType::RawBytes(3)),
        ("|O", "variable_length_bytes", DataType::VariableBytes),
    ]
}

#[test]
fn names_of_types() {
    for (numpy, name, data_type) in plain_types() {
        assert_eq!(v2(&json!(numpy)).unwrap().0, data_type, "{numpy}");
        assert_eq!(v3(&json!(name)), Some(data_type.clone()), "{name}");
        if name != "variable_length_bytes" {
            assert_eq!(v3(&json!({"name": name})), Some(data_type.clone()), "{name}");
            assert_eq!(v3(&json!({"name": name, "configuration": {}})), None, "{name} has no configuration");
        }
        if numpy.starts_with('<') {
            let (big, codecs) = v2(&json!(numpy.replace('<', ">"))).unwrap();
            assert_eq!((big, codecs), (data_type, vec![Codec::Bytes { endian: Some(Endian::Big) }]));
        }
    }
    assert_eq!(v2(&json!("|S5")).unwrap().0, DataType::FixedBytes(5));
    assert_eq!(
        v3(&json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}})),
        Some(DataType::FixedBytes(5))
    );
    assert_eq!(
        v3(&json!({"name": "raw_bytes", "configuration": {"length_bytes": 7}})),
        Some(DataType::RawBytes(7))
    );
    for (numpy, endian) in [("<U5", Endian::Little), (">U5", Endian::Big)] {
        let expected = (DataType::FixedText(5), vec![Codec::Bytes { endian: Some(endian) }]);
        assert_eq!(v2(&json!(numpy)), Some(expected), "{numpy}");
    }
    for (numpy, unit, name, factor) in [
        ("8[ns]", "[ns]", "ns", 1),
        ("8[10s]", "[10s]", "s", 10),
        ("8", "", "generic", 1),
        ("8[us]", "[us]", "μs", 1),
    ] {
        let time = TimeUnit::new(name, factor).unwrap();
        for (kind, name_v3, data_type) in [
            ("M", "numpy.datetime64", DataType::DateTime(time)),
            ("m", "numpy.timedelta64", DataType::TimeDelta(time)),
        ] {
            let big = v2(&json!(format!(">{kind}{numpy}")));
            assert_eq!(big, Some((data_type.clone(), vec![Codec::Bytes { endian: Some(Endian::Big) }])));
            let document = json!({"name": name_v3, "configuration": {"unit": name, "scale_factor": factor}});
            assert_eq!(v3(&document), Some(data_type.clone()));
            assert_eq!(
                data_type.to_string(),
                format!("{}64{unit}", if kind == "M" { "datetime" } else { "timedelta" })
            );
            assert_eq!(data_type.to_v2(Endian::Little).unwrap(), format!("<{kind}8{unit}"));
            assert_eq!(v3(&data_type.to_v3().unwrap()), Some(data_type));
        }
    }
    for wrong in
        ["<M4[s]", "<M8[x]", "<M8[0s]", "<M8[2147483648s]", "<M8[ns", "<M8ns", "<M8[2generic]", "<i8[s]"]
    {
        assert_eq!(v2(&json!(wrong)), None, "{wrong}");
    }
    let utf32 =
        |length: u32| v3(&json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": length}}));
    assert_eq!(utf32(20), Some(DataType::FixedText(5)));
    assert_eq!(utf32(1 << 24), Some(DataType::FixedText(1 << 22)), "the longest");
    assert_eq!([0, 18, (1 << 24) + 4].map(utf32), [None, None, None]);
    assert_eq!(v3(&json!("string")), Some(DataType::String));
    assert_eq!(v3(&json!("bytes")), Some(DataType::VariableBytes));
    for wrong in ["r7", "r0", "r134217736", "r", "int24", "complex32"] {
        assert_eq!(v3(&json!(wrong)), None, "{wrong}");
    }
    assert_eq!(v3(&json!("r134217728")), Some(DataType::RawBytes(1 << 24)), "the longest");
    for wrong in ["|V0", "|S0", "i4", "=i4", "<i3", "<f16", "|S16777217", "<U0", "<U4194305", ""] {
        assert_eq!(v2(&json!(wrong)), None, "{wrong}");
    }
}

fn field(name: &str, data_type: DataType, endian: Endian, shape: Vec<u64>) -> Field {
    Field { name: name.to_owned(), data_type, endian, shape }
}

/// `np.dtype([("a", ">i2"), ("b", "<f4", (2, 3)), ("c", [("d", "u1")])]).descr`.
#[test]
fn structures_of_numpy() {
    let dtype = json!([["a", ">i2"], ["b", "<f4", [2, 3]], ["c", [["d", "|u1"]]]]);
    let inner = DataType::Struct(vec![field("d", DataType::UInt8, Endian::Little, vec![])]);
    let expected = DataType::Struct(vec![
        field("a", DataType::Int16, Endian::Big, vec![]),
        field("b", DataType::Float32, Endian::Little, vec![2, 3]),
        field("c", inner, Endian::Little, vec![]),
    ]);
    assert_eq!(v2(&dtype).unwrap().0, expected);
    assert_eq!(expected.size(), Some(2 + 24 + 1));
    assert!(expected.mixes_byte_orders());
    for wrong in [
        json!([["a"]]),
        json!([["a", "<i2", [2], 3]]),
        json!([[1, "<i2"]]),
        json!([["a", "<i2", ["x"]]]),
        json!([]),
    ] {
        assert_eq!(v2(&wrong), None, "{wrong}");
    }
}

#[test]
fn structures_have_one_byte_order_in_v3() {
    let inner = DataType::Struct(vec![field("d", DataType::Int32, Endian::Big, vec![])]);
    let mixed = DataType::Struct(vec![
        field("a", DataType::Int16, Endian::Little, vec![]),
        field("c", inner, Endian::Little, vec![]),
    ]);
    assert!(mixed.mixes_byte_orders());
    let turned = mixed.in_byte_order(Endian::Big);
    let inner = DataType::Struct(vec![field("d", DataType::Int32, Endian::Big, vec![])]);
    assert_eq!(
        turned,
        DataType::Struct(vec![
            field("a", DataType::Int16, Endian::Big, vec![]),
            field("c", inner, Endian::Big, vec![])
        ])
    );
    assert!(!turned.mixes_byte_orders());
    assert!(!DataType::Int32.mixes_byte_orders());
    for fields in [
        json!([{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "int8"}]),
        json!([["a", "int32"], ["b", "int8"]]),
    ] {
        let expected = DataType::Struct(vec![
            field("a", DataType::Int32, Endian::Little, vec![]),
            field("b", DataType::Int8, Endian::Little, vec![]),
        ]);
        for name in ["struct", "structured"] {
            let document = json!({"name": name, "configuration": {"fields": fields}});
            assert_eq!(v3(&document), Some(expected.clone()), "{document}");
        }
    }
    for wrong in [json!([]), json!([["a", "int32", 3]]), json!([{"name": "a"}])] {
        assert_eq!(v3(&json!({"name": "struct", "configuration": {"fields": wrong}})), None, "{wrong}");
    }
}

#[test]
fn sizes_of_what_byte_order_reverses() {
    let expected = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 4, 8, 1, 1];
    for ((_, name, data_type), size) in plain_types().into_iter().zip(expected) {
        assert_eq!(data_type.number_size(), size, "{name}");
    }
}

/// Scalars as zarr-python, kerchunk and others write them; `None` where zarr-python refuses them.
#[test]
fn scalars_of_documents() {
    let pair = DataType::Struct(vec![
        field("a", DataType::Int16, Endian::Little, vec![]),
        field("b", DataType::UInt8, Endian::Little, vec![]),
    ]);
    let time = DataType::DateTime(TimeUnit::new("ns", 1).unwrap());
    let rows: Vec<(DataType, Value, Option<&[u8]>)> = vec![
        (DataType::Bool, json!(true), Some(&[1])),
        (DataType::Bool, json!(1), Some(&[1])),
        (DataType::Bool, json!(0), Some(&[0])),
        (DataType::Bool, json!(2), None),
        (DataType::Int16, json!(-2), Some(&[0xfe, 0xff])),
        (DataType::Int16, json!(7.0), Some(&[7, 0])),
        (DataType::Int16, json!(7.5), None),
        (DataType::Int16, json!(40000), None),
        (DataType::UInt64, json!(9007199254740992.0), None),
        (DataType::UInt64, json!(9007199254740991.0), Some(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0])),
        (DataType::UInt64, json!(u64::MAX), Some(&[0xff; 8])),
        (DataType::Float16, json!(1.5), Some(&[0x00, 0x3e])),
        (DataType::Float32, json!("NaN"), Some(&[0, 0, 0xc0, 0x7f])),
        (DataType::Float64, json!("-Infinity"), Some(&[0, 0, 0, 0, 0, 0, 0xf0, 0xff])),
        (DataType::Float32, json!("0x7fc00001"), Some(&[1, 0, 0xc0, 0x7f])),
        (DataType::Float32, json!("0x7fc0"), None),
        (DataType::Complex64, json!([1.0, -1.0]), Some(&[0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf])),
        (DataType::Complex64, json!([1.0]), None),
        (DataType::FixedBytes(3), json!("YWI="), Some(b"ab\0")),
        (DataType::FixedBytes(3), json!("YWJjZA=="), None),
        (DataType::FixedText(2), json!("é"), Some(&[0xe9, 0, 0, 0, 0, 0, 0, 0])),
        (DataType::FixedText(2), json!("a\u{10ffff}c"), Some(&[b'a', 0, 0, 0, 0xff, 0xff, 0x10, 0])),
        (DataType::FixedText(1), json!(0), Some(&[0; 4])),
        (DataType::FixedText(1), json!(1), None),
        (time.clone(), json!("NaT"), Some(&[0, 0, 0, 0, 0, 0, 0, 0x80])),
        (time.clone(), json!(-2), Some(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        (time, json!("2020"), None),
        (DataType::RawBytes(2), json!("YWI="), Some(b"ab")),
        (DataType::RawBytes(3), json!("YWI="), None),
        (DataType::RawBytes(3), json!(0), Some(&[0, 0, 0])),
        (DataType::RawBytes(3), json!(1), None),
        (pair.clone(), json!({"a": 258, "b": 3}), Some(&[2, 1, 3])),
        (pair.clone(), json!({"a": 258}), None),
        (pair, json!(0), Some(&[0, 0, 0])),
    ];
    for (data_type, json, expected) in rows {
        let found = FillValue::from_json(&json, &data_type).ok();
        assert_eq!(
            found,
            expected.map(|bytes| FillValue::Fixed(bytes.to_vec().into())),
            "{json} as {data_type}"
        );
    }
    assert_eq!(FillValue::from_json(&json!(0), &DataType::String).unwrap(), FillValue::Text(String::new()));
    assert!(FillValue::from_json(&json!(1), &DataType::String).is_err());
    assert_eq!(
        FillValue::from_json(&json!("YQ=="), &DataType::VariableBytes).unwrap(),
        FillValue::Variable(b"a".to_vec().into())
    );
}

#[test]
fn documents_of_groups_and_dimensions() {
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}});
    let group = Group::from_document(&document, ZarrFormat::V3);
    assert_eq!(group.attributes["a"], 1);
    assert_eq!(group.to_zarr_json()["attributes"], json!({"a": 1}));
    assert_eq!(group.to_zattrs(), json!({"a": 1}));
    let mut document = v3_document(&json!("int8"), &json!(0));
    document["dimension_names"] = json!(["x"]);
    assert_eq!(Array::from_zarr_json(&document).unwrap().array.dimension_names, [Some("x".to_owned())]);
    document["dimension_names"] = json!([null]);
    assert_eq!(Array::from_zarr_json(&document).unwrap().array.dimension_names, [None]);
    document["dimension_names"] = json!(["x", "y"]);
    assert_eq!(Array::from_zarr_json(&document).unwrap().array.dimension_names, [None], "too many");
}

#[test]
fn paths_and_hierarchies() {
    assert_eq!((parent("a/b/c"), name("a/b/c"), parent("a"), name(""), name("a")), ("a/b", "c", "", "", "a"));
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    hierarchy.sources.push(Source { url: "file:///a".to_owned(), ..Source::default() });
    assert_eq!(hierarchy.source(SourceId(0)).unwrap().url, "file:///a");
    assert_eq!(hierarchy.source(SourceId(1)), None);
    hierarchy.root.make_group("a/b").unwrap();
    assert!(matches!(hierarchy.node("a/b"), Some(Node::Group(_))));
}

#[test]
fn manifests_are_empty_without_chunks() {
    let references = |offsets: Vec<u64>| References {
        source: SourceId(0),
        positions: None,
        lengths: Lengths::Uniform(4),
        offsets: offsets.into(),
    };
    assert!(references(vec![]).is_empty() && !references(vec![1]).is_empty());
    assert!(ChunkManifest::default().is_empty());
    assert!(!ChunkManifest::of(references(vec![1])).is_empty());
    let mut inline = ChunkManifest::default();
    inline.inline.insert(0, vec![1].into());
    assert!(!inline.is_empty());
}

#[test]
fn readers_have_their_names() {
    let names: Vec<_> = Reader::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["zarr-python", "zarrs", "zarrita", "gdal", "virtualize"]);
}
