//! Reading of references, ours and the examples of kerchunk's specification.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use virtualize_references::{Format, write};
use virtualize_references::{PendingChunks, ReferenceSet, ReferencesError, from_json, translate};
use virtualize_zarr::{ChunkEntry, FillValue, Reference, SourceId, ZarrFormat};

fn zarray(shape: Value, chunks: Value) -> String {
    json!({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i2", "fill_value": -1, "order": "C",
        "filters": null, "compressor": {"id": "zlib", "level": 4}})
    .to_string()
}

fn read(document: &Value) -> Result<ReferenceSet, ReferencesError> {
    from_json(document.to_string().as_bytes())
}

fn refs(more: Value) -> Value {
    let mut refs = json!({".zgroup": "{\"zarr_format\": 2}", "g/a/.zarray": zarray(json!([4, 6]), json!([2, 3])),
        "g/a/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}});
    refs.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    refs
}

/// Returns the URL, offset and length of a chunk.
fn place(set: &ReferenceSet, position: u64) -> (String, u64, u64) {
    match set.hierarchy.array("g/a").unwrap().chunks.get(position) {
        Some(ChunkEntry::Reference(Reference { source, offset, length })) => {
            (set.hierarchy.source(source).unwrap().url.clone(), offset, length)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_versions_say_the_same() {
    let entries = json!({"g/a/0.0": ["s3://b/k", 100, 10], "g/a/1.1": ["s3://b/k", 50, 20], "g/a/0.1": "base64:AAEC",
        "g/a/1.0": "text"});
    let zero = read(&refs(entries.clone())).unwrap();
    let one = read(&json!({"refs": refs(entries), "version": 1})).unwrap();
    assert_eq!(zero, one);
    let array = zero.hierarchy.array("g/a").unwrap();
    assert_eq!(array.dimension_names, [Some("y".to_owned()), Some("x".to_owned())]);
    assert_eq!(array.fill_value.as_ref().and_then(|fill| fill.to_i128(&array.data_type)), Some(-1));
    assert_eq!(place(&zero, 0), ("s3://b/k".to_owned(), 100, 10));
    assert_eq!(place(&zero, 3), ("s3://b/k".to_owned(), 50, 20));
    assert_eq!(
        array.chunks.inline.iter().map(|(at, bytes)| (*at, &bytes[..])).collect::<Vec<_>>(),
        [(1, &b"\0\x01\x02"[..]), (2, b"text")]
    );
}

/// The example of kerchunk's specification.
#[test]
fn templates_and_generators_are_rendered() {
    let document = json!({
        "version": 1,
        "templates": {"u": "server.domain/path", "f": "{{c}}"},
        "gen": [{"key": "g/a/1.{{i}}", "url": "http://{{u}}_{{i}}", "offset": "{{(i + 1) * 1000}}", "length": "1000",
            "dimensions": {"i": {"stop": 2}}}],
        "refs": refs(json!({"g/a/0.0": ["http://{{u}}", 10000, 100], "g/a/0.1": ["http://{{f(c='text')}}"]})),
    });
    let set = read(&document).unwrap();
    assert_eq!(place(&set, 0), ("http://server.domain/path".to_owned(), 10000, 100));
    assert_eq!(place(&set, 1), ("http://text".to_owned(), 0, 0));
    assert_eq!((set.whole_files.len(), set.whole_files[0].position), (1, 1));
    assert_eq!(place(&set, 2), ("http://server.domain/path_0".to_owned(), 1000, 1000));
    assert_eq!(place(&set, 3), ("http://server.domain/path_1".to_owned(), 2000, 1000));
}

#[test]
fn what_is_written_is_read_back() {
    let entries = json!({"g/a/0.0": ["file:///a \"b\".nc", 100, 10], "g/a/1.0": ["s3://c", 5, 6], "g/a/1.1": "base64:AAEC"});
    let set = read(&refs(entries)).unwrap();
    for format in [Format::KERCHUNK_JSON, Format::ZARR3_JSON] {
        let translation = translate(set.hierarchy.clone(), format.zarr_format());
        assert_eq!((translation.omitted, translation.changed), (vec![], vec![]));
        let mut text = Vec::new();
        write(&translation.hierarchy, format, &mut text).unwrap();
        let again = from_json(&text).unwrap();
        assert_eq!(again.hierarchy, translation.hierarchy);
        let back = translate(again.hierarchy, ZarrFormat::V2);
        assert_eq!(back.hierarchy, set.hierarchy);
    }
}

/// In Zarr v3 the sentinel is an attribute, while missing chunks still read as the fill value.
#[test]
fn a_sentinel_changes_its_place() {
    let set = read(&refs(json!({"g/a/0.0": ["s3://c", 5, 6]}))).unwrap();
    let v3 = translate(set.hierarchy, ZarrFormat::V3).hierarchy;
    let array = v3.array("g/a").unwrap();
    assert_eq!(array.attributes["_FillValue"], -1);
    let other = FillValue::from_i128(&array.data_type, 7).exact().unwrap();
    let mut both = v3.clone();
    both.array_mut("g/a").unwrap().fill_value = Some(other.clone());
    let back = translate(both, ZarrFormat::V2);
    let array = back.hierarchy.array("g/a").unwrap();
    assert_eq!((&array.fill_value, &array.attributes["_FillValue"]), (&None, &json!(-1)));
    assert_eq!(back.pending, [("g/a".to_owned(), PendingChunks::Fill(other))], "v2 has no place for the 7");
}

/// xarray ignores the attribute `_FillValue` of a Zarr v2 array unless its `fill_value` is null.
#[test]
fn the_fill_value_of_zarr_v2_takes_precedence_over_the_attribute() {
    for (fill_value, attribute, expected, is_changed) in [
        (json!(-1), json!(7), json!(-1), true),
        (json!(-1), json!(-1), json!(-1), false),
        (json!(-1), json!("text"), json!(-1), true),
        (json!(null), json!(7), json!(7), false),
    ] {
        let mut document = refs(json!({}));
        let array = zarray(json!([4, 6]), json!([2, 3]));
        document["g/a/.zarray"] =
            array.replace("\"fill_value\":-1", &format!("\"fill_value\":{fill_value}")).into();
        document["g/a/.zattrs"] = json!({"_FillValue": attribute});
        let v3 = translate(read(&document).unwrap().hierarchy, ZarrFormat::V3);
        assert_eq!(v3.hierarchy.array("g/a").unwrap().attributes["_FillValue"], expected);
        assert_eq!(!v3.changed.is_empty(), is_changed);
    }
}

#[test]
fn invalid_references_are_named() {
    for (document, expected) in [
        (json!([]), "not a set of references"),
        (json!({"version": 2, "refs": {}}), "version 2"),
        (json!({}), "neither .zgroup"),
        (refs(json!({"g/a/0.0": ["s3://b", 1]})), "g/a/0.0: another list, expected [url]"),
        (refs(json!({"g/a/0.0": ["s3://b", 1, 2, 3]})), "g/a/0.0: another list, expected [url]"),
        (refs(json!({"g/a/0.0": []})), "g/a/0.0: another list, expected [url]"),
        (refs(json!({"g/a/0.0": ["s3://b", -1, 5]})), "g/a/0.0: invalid value: integer `-1`, expected u64"),
        (refs(json!({"g/a/0.0": 5})), "g/a/0.0: invalid type: integer `5`, expected text, [url] or"),
        (refs(json!({"g/a/0.0": "base64:!"})), "base64"),
        (refs(json!({"x/.zarray": "{}"})), "x/.zarray: zarr_format"),
        (refs(json!({"x/.zarray": ["s3://b", 0, 5]})), "metadata is stored in another file"),
        (
            json!({"refs": refs(json!({"x/.zarray": ["{{u}}", 0, 5]})), "templates": {"u": "x"}}),
            "metadata is stored in another file",
        ),
        (refs(json!({".zarray": zarray(json!([1]), json!([1]))})), "inside an array"),
        (refs(json!({"g/a/b/.zarray": zarray(json!([1]), json!([1]))})), "inside an array"),
        (json!({"refs": refs(json!({"g/a/0.0": ["{{u"]})), "templates": {"u": "x"}}), "g/a/0.0"),
        (
            json!({"refs": refs(json!({})), "gen": [{"key": "k{{i}}", "url": "u", "dimensions": {"i": {"stop": 9_000_000_000_u64}}}]}),
            "gen",
        ),
    ] {
        let error = read(&document).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n{document}");
    }
}

#[test]
fn an_array_at_the_root_gets_a_name() {
    let (shape, chunks) = (json!([4, 6]), json!([2, 3]));
    let v3 = json!({"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int16", "fill_value": -1,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default"}, "codecs": ["bytes"], "attributes": {"units": "K"}});
    for document in [
        json!({".zarray": zarray(shape, chunks), ".zattrs": {"units": "K"}, "0.0": ["s3://b/k", 1, 2], "1.1": "text", "x": "y"}),
        json!({"zarr.json": v3, "c/0/0": ["s3://b/k", 1, 2], "c/1/1": "text", "x": "y"}),
    ] {
        let set = read(&document).unwrap();
        let array = set.hierarchy.array("data").unwrap();
        assert_eq!(array.attributes["units"], "K");
        let expected = Reference { source: SourceId(0), offset: 1, length: 2 };
        assert_eq!(array.chunks.get(0), Some(ChunkEntry::Reference(expected)));
        assert!(matches!(array.chunks.get(3), Some(ChunkEntry::Inline(bytes)) if bytes == "text"));
        assert_eq!((array.chunks.len(), set.hierarchy.arrays().len()), (2, 1));
        assert_eq!(set.ignored, ["x"]);
    }
}

#[test]
fn keys_that_belong_to_no_array_are_reported() {
    let set = read(&refs(json!({"g/a/9.0": ["s3://b", 1, 2], "readme.txt": "hello", "g/a/0": "x"}))).unwrap();
    assert_eq!(set.ignored, ["g/a/0", "g/a/9.0", "readme.txt"]);
    assert_eq!(set.hierarchy.sources, []);
    assert_eq!(set.hierarchy.source(SourceId(0)), None);
}

/// kerchunk writes text of variable length as Python objects in JSON, which NumPy has no type for and no other client
/// reads.
#[test]
fn arrays_of_types_without_a_place_are_omitted() {
    let mut object: Value = serde_json::from_str(&zarray(json!([2]), json!([2]))).unwrap();
    object["dtype"] = json!("|O");
    object["filters"] = json!([{"id": "json2"}]);
    let set = read(&refs(json!({"o/.zarray": object.to_string(), "o/0": "[]", "g/a/0.0": ["s3://b", 1, 2]})))
        .unwrap();
    assert_eq!(set.omitted.keys().collect::<Vec<_>>(), ["o"]);
    assert!(set.omitted["o"].contains("vlen-utf8"), "{:?}", set.omitted);
    assert_eq!(set.ignored, Vec::<String>::new());
    assert_eq!(set.hierarchy.arrays().len(), 1);
    let root = read(&json!({".zarray": object.to_string(), "0": "[]", "x": "y"})).unwrap();
    assert_eq!(root.omitted.keys().collect::<Vec<_>>(), ["data"]);
    assert_eq!((root.hierarchy.arrays().len(), root.ignored.len()), (0, 0));
}

/// Returns what chunks of all arrays contain, in words.
fn contents(set: &ReferenceSet) -> Vec<String> {
    let entry = |entry| match entry {
        ChunkEntry::Inline(bytes) => format!("{bytes:?}"),
        ChunkEntry::Reference(Reference { source, offset, length }) => {
            format!("{} {offset} {length}", set.hierarchy.source(source).unwrap().url)
        }
    };
    let arrays = set.hierarchy.arrays().into_iter();
    arrays
        .flat_map(|(path, array)| {
            array
                .chunks
                .iter()
                .map(move |(at, found)| format!("{path} {at} {}", entry(found)))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Chunks may precede the array that they belong to, and templates the references or follow them.
#[test]
fn the_order_of_keys_is_free() {
    let v3 = json!({"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "int16", "fill_value": -1,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": ["bytes"], "attributes": {"units": "K"}});
    let v2 = json!({"g/b/.zarray": zarray(json!([4]), json!([1])), "g/b/3": ["{{u}}/b", 5, 6], "g/b/0": "text",
        "g/a/0.0": ["s3://b/k", 1, 2], "g/a/0.1": ["s3://b/l", 3, 4], "g/a/1.1": ["s3://b/k"], "g/a/7.7": "x",
        "readme": "hello"});
    let v3 = json!({"zarr.json": {"zarr_format": 3, "node_type": "group"}, "g/a/zarr.json": v3,
        "g/a/c/0/0": ["{{u}}/k", 1, 2], "g/a/c/1/1": ["s3://b/l", 3, 4], "g/b/zarr.json": v3, "g/b/c/0/1": "text"});
    for (entries, plain) in [(refs(v2), false), (v3, true)] {
        let mut entries: Vec<_> = entries.as_object().unwrap().clone().into_iter().collect();
        if plain {
            entries.retain(|(key, _)| !key.ends_with("c/0/0"));
        }
        let mut first = None;
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            random.shuffle(&mut entries);
            let members = |entries: &[(String, Value)]| {
                entries
                    .iter()
                    .map(|(key, value)| format!("{}: {value}", json!(key)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let mut whole = vec![
                format!("\"refs\": {{{}}}", members(&entries)),
                "\"version\": 1".to_owned(),
                "\"templates\": {\"u\": \"s3://b\"}".to_owned(),
            ];
            random.shuffle(&mut whole);
            let set = from_json(format!("{{{}}}", whole.join(", ")).as_bytes()).unwrap();
            let mut ignored = set.ignored.clone();
            ignored.sort_unstable();
            let found = (contents(&set), ignored, set.whole_files.len(), set.hierarchy.arrays().len());
            assert_eq!(found.1, if plain { vec![] } else { vec!["g/a/7.7", "readme"] });
            assert_eq!(found.0.len(), if plain { 2 } else { 5 });
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "seed {seed}");
            let attributes = &set.hierarchy.array("g/a").unwrap().attributes;
            assert_eq!(attributes["units"], "K");
            if plain {
                let zero = from_json(format!("{{{}}}", members(&entries)).as_bytes()).unwrap();
                assert_eq!(contents(&zero), found.0);
            }
        }
    }
}
