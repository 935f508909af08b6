//! Whole reference files. Their form was opened with fsspec 2026.9, zarr-python 3.4.2, xarray 2026.9 and kerchunk 0.2.10.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize_references::{EmitError, Format, Sink, is_valid_name, write, write_files};
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Group, Hierarchy, Lengths, Node,
    References, Source, SourceId, ZarrFormat,
};

fn array(shape: &[u64], chunk: &[u64], chunks: ChunkManifest) -> Array {
    Array {
        shape: shape.to_vec(),
        data_type: DataType::Int32,
        chunk_grid: ChunkGrid::Regular(chunk.to_vec()),
        fill_value: Some(FillValue::zero(&DataType::Int32)),
        codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }],
        dimension_names: ["y", "x"].iter().take(shape.len()).map(|name| Some((*name).to_owned())).collect(),
        attributes: Map::new(),
        chunks,
    }
}

fn column(source: u32, positions: Option<Vec<u64>>, offsets: &[u64], lengths: Lengths) -> References {
    let (positions, offsets) = (positions.map(Into::into), offsets.to_vec().into());
    References { source: SourceId(source), positions, offsets, lengths }
}

/// Two sources, a chunk inline, one missing, a scalar, a group.
fn sample(format: ZarrFormat) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(format);
    hierarchy.sources = ["file:///a \"b\".nc", "s3://b/k.nc"]
        .iter()
        .map(|url| Source { url: (*url).to_owned(), ..Source::default() })
        .collect();
    let mut chunks =
        ChunkManifest::of(column(0, Some(vec![0, 4]), &[100, 200], Lengths::Each(vec![7, 8].into())));
    chunks.references.push(column(1, Some(vec![2]), &[1 << 40], Lengths::Uniform(24)));
    chunks.inline = BTreeMap::from([(1, Bytes::from_static(b"plain")), (5, Bytes::from_static(&[0, 255]))]);
    let mut inner = Group::default();
    inner.attributes.insert("title".to_owned(), "é".into());
    let scalar = ChunkManifest::of(column(0, None, &[4], Lengths::Uniform(4)));
    inner.children.insert("s".to_owned(), Node::Array(Box::new(array(&[], &[], scalar))));
    let children = &mut hierarchy.root.children;
    children.insert("g".to_owned(), Node::Group(inner));
    children.insert("v".to_owned(), Node::Array(Box::new(array(&[4, 9], &[2, 3], chunks))));
    hierarchy
}

fn emit(hierarchy: &Hierarchy, format: Format) -> Result<Vec<u8>, EmitError> {
    let mut out = Vec::new();
    write(hierarchy, format, &mut out).map(|()| out)
}

fn refs(format: Format) -> Map<String, Value> {
    let bytes = emit(&sample(format.zarr_format()), format).unwrap();
    let mut document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(document["version"], 1);
    document["refs"].as_object_mut().map(std::mem::take).unwrap()
}

fn text(value: &Value) -> Value {
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

#[test]
fn kerchunk_references() {
    let refs = refs(Format::KERCHUNK_JSON);
    let keys: Vec<_> = refs.keys().map(String::as_str).collect();
    let expected = [
        ".zattrs",
        ".zgroup",
        ".zmetadata",
        "g/.zattrs",
        "g/.zgroup",
        "g/s/.zarray",
        "g/s/.zattrs",
        "g/s/0",
        "v/.zarray",
        "v/.zattrs",
        "v/0.0",
        "v/0.1",
        "v/0.2",
        "v/1.1",
        "v/1.2",
    ];
    assert_eq!(keys, expected);
    assert_eq!(refs["v/0.0"], json!(["file:///a \"b\".nc", 100, 7]));
    assert_eq!(refs["v/0.1"], json!("plain"));
    assert_eq!(refs["v/0.2"], json!(["s3://b/k.nc", 1u64 << 40, 24]));
    assert_eq!(refs["v/1.1"], json!(["file:///a \"b\".nc", 200, 8]));
    assert_eq!(refs["v/1.2"], json!("base64:AP8="));
    assert_eq!(refs["g/s/0"], json!(["file:///a \"b\".nc", 4, 4]));
    assert_eq!(text(&refs["v/.zattrs"]), json!({"_ARRAY_DIMENSIONS": ["y", "x"]}));
    assert_eq!(text(&refs["g/s/.zattrs"]), json!({"_ARRAY_DIMENSIONS": []}));
    let consolidated = text(&refs[".zmetadata"]);
    for key in [".zgroup", "g/.zattrs", "g/s/.zarray", "v/.zarray"] {
        assert_eq!(consolidated["metadata"][key], text(&refs[key]), "{key}");
    }
}

#[test]
fn zarr3_references() {
    let refs = refs(Format::ZARR3_JSON);
    let keys: Vec<_> = refs.keys().map(String::as_str).collect();
    let expected = [
        "g/s/c",
        "g/s/zarr.json",
        "g/zarr.json",
        "v/c/0/0",
        "v/c/0/1",
        "v/c/0/2",
        "v/c/1/1",
        "v/c/1/2",
        "v/zarr.json",
        "zarr.json",
    ];
    assert_eq!(keys, expected);
    let root = text(&refs["zarr.json"]);
    assert_eq!(root["consolidated_metadata"]["metadata"]["g/s"], text(&refs["g/s/zarr.json"]));
    assert_eq!(text(&refs["g/zarr.json"])["attributes"]["title"], "é");
    assert_eq!(text(&refs["v/zarr.json"])["dimension_names"], json!(["y", "x"]));
}

#[test]
fn the_same_hierarchy_gives_the_same_bytes() {
    let once = emit(&sample(ZarrFormat::V3), Format::ZARR3_JSON).unwrap();
    assert_eq!(once, emit(&sample(ZarrFormat::V3), Format::ZARR3_JSON).unwrap());
}

/// Keys by plain division, for comparison with the odometer.
fn key(mut position: u64, counts: &[u64]) -> String {
    let mut coordinates: Vec<String> = counts
        .iter()
        .rev()
        .map(|n| {
            let coordinate = position % n;
            position /= n;
            coordinate.to_string()
        })
        .collect();
    coordinates.reverse();
    coordinates.join(".")
}

#[test]
fn keys_of_many_chunks_with_gaps_over_several_buffers() {
    let counts = [7, 40, 50];
    let positions: Vec<u64> = (0..14_000).filter(|n| n % 7 != 3 && !(300..5000).contains(n)).collect();
    let offsets: Vec<u64> = positions.iter().map(|n| n * 11).collect();
    let mut hierarchy = sample(ZarrFormat::V2);
    let chunks = ChunkManifest::of(column(1, Some(positions.clone()), &offsets, Lengths::Uniform(4)));
    hierarchy
        .root
        .children
        .insert("v".to_owned(), Node::Array(Box::new(array(&[7, 40, 50], &[1, 1, 1], chunks))));
    let bytes = emit(&hierarchy, Format::KERCHUNK_JSON).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    for position in &positions {
        let reference = &document["refs"][format!("v/{}", key(*position, &counts))];
        assert_eq!(*reference, json!(["s3://b/k.nc", position * 11, 4]), "{position}");
    }
    assert!(bytes.len() > 1 << 17);
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let mut hierarchy = sample(ZarrFormat::V2);
    assert!(matches!(emit(&hierarchy, Format::ZARR3_JSON), Err(EmitError::Format { .. })));
    hierarchy.array_mut("v").unwrap().chunks.inline.insert(6, Bytes::new());
    assert_eq!(
        emit(&hierarchy, Format::KERCHUNK_JSON).unwrap_err().to_string(),
        "array /v: chunk 6 is outside its grid of [2, 3] chunks"
    );
    hierarchy.array_mut("v").unwrap().chunks.inline.clear();
    hierarchy.sources.pop();
    assert_eq!(
        emit(&hierarchy, Format::KERCHUNK_JSON).unwrap_err().to_string(),
        "array /v: chunk 2 refers to source 1 of 1"
    );
    hierarchy.array_mut("v").unwrap().codecs.push(Codec::Hdf5Nbit(vec![]));
    assert_eq!(
        emit(&hierarchy, Format::KERCHUNK_JSON).unwrap_err().to_string(),
        "array /v: the HDF5 filter nbit has no equivalent in Zarr v2"
    );
    hierarchy.root.children.insert("..".to_owned(), Node::Group(Group::default()));
    assert!(matches!(emit(&hierarchy, Format::KERCHUNK_JSON), Err(EmitError::Name { .. })));
}

#[test]
fn names_that_clients_do_not_find() {
    for name in ["", ".", "..", "a/b", "a\\b", ".zarray", "zarr.json", ".zmetadata"] {
        assert!(!is_valid_name(name), "{name:?}");
    }
    for name in ["a b", "a%20b", "ü😀", "a::b", "...", "[x]*?#", "c", "0", "a\"\n"] {
        assert!(is_valid_name(name), "{name:?}");
    }
}

/// Files in memory, in the order in which they were put.
#[derive(Default)]
struct Files(Vec<(String, Vec<u8>)>);

impl Sink for Files {
    fn create(&mut self, key: &str) -> std::io::Result<Box<dyn std::io::Write + Send + '_>> {
        assert!(self.0.iter().all(|(other, _)| other != key), "{key} twice");
        self.0.push((key.to_owned(), Vec::new()));
        Ok(Box::new(&mut self.0.last_mut().unwrap().1))
    }
}

#[test]
fn a_folder_shows_what_is_whole_and_refuses_the_rest() {
    let mut hierarchy = sample(ZarrFormat::V3);
    let mut whole = array(&[4, 9], &[2, 3], ChunkManifest::default());
    whole.chunks.inline =
        BTreeMap::from([(0, Bytes::from_static(b"one")), (5, Bytes::from_static(&[0, 255]))]);
    hierarchy.root.children.insert("w".to_owned(), Node::Array(Box::new(whole)));
    let mut files = Files::default();
    write_files(&hierarchy, Format::ZARR3, &mut files).unwrap();
    let names: Vec<_> = files.0.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "g/zarr.json",
        "g/s/zarr.json",
        "v/zarr.json",
        "w/zarr.json",
        "w/c/0/0",
        "w/c/1/2",
        "references.json",
        "zarr.json",
    ];
    assert_eq!(names, expected);
    let file = |name: &str| &files.0.iter().find(|(key, _)| key == name).unwrap().1;
    let json = |name: &str| serde_json::from_slice::<Value>(file(name)).unwrap();
    assert_eq!(file("w/c/1/2"), &[0, 255]);
    assert_eq!(json("v/zarr.json")["virtual_references"]["must_understand"], true);
    assert_eq!(json("v/zarr.json")["storage_transformers"][0]["name"], "virtual_references");
    assert!(json("w/zarr.json").get("virtual_references").is_none());
    let consolidated = &json("zarr.json")["consolidated_metadata"]["metadata"];
    assert_eq!(consolidated.as_object().unwrap().keys().collect::<Vec<_>>(), ["g", "w"]);
    assert_eq!(file("references.json"), &emit(&hierarchy, Format::ZARR3_JSON).unwrap());
    assert!(matches!(emit(&hierarchy, Format::ZARR3), Err(EmitError::Files { several: true })));
}

#[test]
fn parquet_has_the_metadata_in_one_file_and_chunks_by_record() {
    let mut hierarchy = sample(ZarrFormat::V2);
    let late = ChunkManifest::of(column(0, Some(vec![7]), &[9], Lengths::Uniform(4)));
    hierarchy.root.children.insert("w".to_owned(), Node::Array(Box::new(array(&[20], &[1], late))));
    let parquet = |record_size: u32| {
        let mut files = Files::default();
        let format = Format::KERCHUNK_PARQUET.with_record_size(record_size.try_into().unwrap());
        write_files(&hierarchy, format, &mut files).map(|()| files.0)
    };
    let files = parquet(2).unwrap();
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    let v = ["g/s/refs.0.parq", "v/refs.0.parq", "v/refs.1.parq", "v/refs.2.parq"];
    // Nothing but empty files leads to the first chunk of w; behind it none are written.
    let w = ["w/refs.0.parq", "w/refs.1.parq", "w/refs.2.parq", "w/refs.3.parq"];
    assert_eq!(names, [&v[..], &w, &[".zmetadata"]].concat());
    assert!(files[..8].iter().all(|(_, bytes)| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")));
    let document: Value = serde_json::from_slice(&files[8].1).unwrap();
    assert_eq!(document["record_size"], 2);
    assert_eq!(document["metadata"]["v/.zarray"]["shape"], json!([4, 9]));
    let keys: Vec<_> = document["metadata"].as_object().unwrap().keys().cloned().collect();
    let expected =
        ".zattrs .zgroup g/.zattrs g/.zgroup g/s/.zarray g/s/.zattrs v/.zarray v/.zattrs w/.zarray w/.zattrs";
    assert_eq!(keys.join(" "), expected);
    assert_eq!(files, parquet(2).unwrap());
    assert_eq!(parquet(100).unwrap().len(), 4);
    assert!(matches!(parquet(1_000_001), Err(EmitError::RecordSize { .. })));
    hierarchy.root.children.insert(".zoo".to_owned(), Node::Group(Group::default()));
    let format = Format::KERCHUNK_PARQUET;
    let error = write_files(&hierarchy, format, &mut Files::default()).unwrap_err();
    assert!(error.to_string().starts_with("node /.zoo: "), "{error}");
}
