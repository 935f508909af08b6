use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use virtualize::ArrayValues;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Hierarchy, Node, ZarrFormat,
};

use super::*;
use crate::{Along, Item, Layout, Member};

mod differences;
mod meaning;
mod roles;
mod stored;

/// An array of axes: name, length and chunk size of each.
fn array(data_type: DataType, axes: &[(&str, u64, u64)], attributes: Value) -> Array {
    Array {
        shape: axes.iter().map(|axis| axis.1).collect(),
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(axes.iter().map(|axis| axis.2).collect()),
        codecs: vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Zlib { level: 4 }],
        dimension_names: axes.iter().map(|axis| Some(axis.0.to_owned())).collect(),
        attributes: attributes.as_object().unwrap().clone(),
        chunks: ChunkManifest::default(),
    }
}

/// Days of temperatures on a grid, from a day on.
pub(crate) fn member(day: i64, days: u64) -> Member {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let t2m = array(
        DataType::Int16,
        &[("time", days, 1), ("lat", 3, 3), ("lon", 4, 4)],
        json!({"scale_factor": 0.01, "add_offset": 273.0, "units": "K", "history": format!("made on {day}")}),
    );
    let time = array(DataType::Int64, &[("time", days, days)], json!({"units": "days since 2000-01-01"}));
    let lat = array(DataType::Float32, &[("lat", 3, 3)], json!({"units": "degrees_north"}));
    for (name, array) in [("t2m", t2m), ("time", time), ("lat", lat)] {
        hierarchy.root.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    }
    let numbers = (0..days).flat_map(|n| (day + i64::try_from(n).unwrap()).to_le_bytes()).collect();
    let values = ArrayValues { shape: vec![days], data_type: DataType::Int64, bytes: numbers };
    Member {
        item: Item { url: format!("file:///{day}.nc"), size: Some(100), ..Item::default() },
        hierarchy,
        values: [("time".to_owned(), values)].into(),
        digests: [("lat".to_owned(), format!("{} 90, 0", "a".repeat(64)))].into(),
        grids: BTreeMap::new(),
        given: BTreeMap::new(),
        omitted: BTreeSet::new(),
    }
}

/// Nothing is so short that it would be copied.
pub(crate) fn layout() -> Layout {
    Layout { inline_limit: 0, ..Layout::along(vec![Along::Concat("time".to_owned())]) }
}

fn reported(left: &Member, right: &Member, layout: &Layout) -> Vec<String> {
    let (left, right) = (Signature::of(left, layout), Signature::of(right, layout));
    let found = differences(&left, &right);
    assert_eq!(found.is_empty(), left.digest() == right.digest(), "digests and differences say the same");
    let back: Signature = serde_json::from_str(&serde_json::to_string(&left).unwrap()).unwrap();
    assert_eq!((back.digest(), &back), (left.digest(), &left));
    found.iter().map(ToString::to_string).collect()
}

/// Returns the differences reported for a changed file.
fn changed(change: impl FnOnce(&mut Member)) -> Vec<String> {
    let mut other = member(31, 28);
    change(&mut other);
    reported(&member(0, 31), &other, &layout())
}

pub(crate) fn attribute(member: &mut Member, path: &str, name: &str, value: Value) {
    member.hierarchy.array_mut(path).unwrap().attributes.insert(name.to_owned(), value);
}

#[test]
fn months_of_one_archive_agree() {
    assert_eq!(changed(|_| {}), [""; 0]);
    let level = |member: &mut Member| {
        let t2m = member.hierarchy.array_mut("t2m").unwrap();
        t2m.codecs = vec![Codec::Bytes { endian: Some(Endian::Little) }, Codec::Zlib { level: 9 }];
    };
    assert_eq!(changed(level), [""; 0], "the level of a compressor is nothing to its reader");
    assert_eq!(
        changed(|member| attribute(member, "t2m", "add_offset", json!(273))),
        [""; 0],
        "numbers are numbers"
    );
    let since = json!("hours since 1900-01-01 00:00:0.0");
    assert_eq!(changed(|member| attribute(member, "time", "units", since)), [""; 0], "times are converted");
    assert_eq!(changed(|member| attribute(member, "time", "calendar", json!("gregorian"))), [""; 0]);
    let lat = |member: &mut Member| member.hierarchy.array_mut("lat").unwrap().codecs.truncate(1);
    assert_eq!(changed(lat), [""; 0], "what is taken from the first file may be stored in any way in others");
}

#[test]
fn what_values_depend_on_must_agree() {
    let packing = |of, value| move |member: &mut Member| attribute(member, of, "scale_factor", value);
    assert_eq!(changed(packing("t2m", json!(0.02))), [""; 0], "it becomes a variable");
    let none = |member: &mut Member| {
        member.hierarchy.array_mut("t2m").unwrap().attributes.remove("add_offset");
    };
    assert_eq!(changed(none), [""; 0]);
    assert_eq!(
        changed(packing("t2m", json!("0.02"))),
        ["/t2m: attribute add_offset: none → 273", "/t2m: attribute scale_factor: none → \"0.02\""],
        "it is not a number"
    );
    assert_eq!(changed(packing("lat", json!(0.5))), ["/lat: attribute scale_factor: none → 0.5"]);
    assert_eq!(
        changed(|member| attribute(member, "t2m", "units", json!("degC"))),
        ["/t2m: attribute units: \"K\" → \"degC\""]
    );
    assert_eq!(
        changed(|member| attribute(member, "time", "calendar", json!("noleap"))),
        ["/time: attribute calendar: \"standard\" → \"noleap\""]
    );
    assert_eq!(
        changed(|member| attribute(member, "time", "units", json!("months since 2000-01-01"))),
        [
            "/time: attribute calendar: \"standard\" → none",
            "/time: attribute units: \"<unit> since <date>\" → \"months since 2000-01-01\""
        ]
    );
    // xarray's spelling of -999.0.
    assert_eq!(
        changed(|member| attribute(member, "lat", "_FillValue", json!("AAAAAAA4j8A="))),
        ["/lat: attribute _FillValue: none → -999"]
    );
}

#[test]
fn what_is_stored_must_agree() {
    let array = |change: fn(&mut Array)| changed(|member| change(member.hierarchy.array_mut("t2m").unwrap()));
    assert_eq!(
        array(|t2m| t2m.chunk_grid = ChunkGrid::Regular(vec![28, 3, 2])),
        ["/t2m: chunk shape: (1, 3, 4) → (28, 3, 2)"]
    );
    assert_eq!(
        array(|t2m| t2m.codecs.insert(1, Codec::Shuffle { element_size: 2 })),
        ["/t2m: codecs: bytes (little-endian), zlib → bytes (little-endian), shuffle (2 bytes), zlib"]
    );
    assert_eq!(
        array(|t2m| t2m.codecs = vec![Codec::Bytes { endian: Some(Endian::Big) }, Codec::Zlib { level: 4 }]),
        ["/t2m: byte order: little-endian → big-endian"]
    );
    let plain = |chunk: u64| {
        move |member: &mut Member| {
            let t2m = member.hierarchy.array_mut("t2m").unwrap();
            t2m.codecs.truncate(1);
            t2m.chunk_grid = ChunkGrid::Regular(vec![chunk, 3, 4]);
        }
    };
    let (mut one, mut other) = (member(0, 31), member(31, 28));
    plain(31)(&mut one);
    plain(28)(&mut other);
    assert_eq!(reported(&one, &other, &layout()), [""; 0], "plain elements can be cut");
    assert_eq!(array(|t2m| t2m.data_type = DataType::UInt16), ["/t2m: data type: int16 → uint16"]);
    assert_eq!(array(|t2m| t2m.fill_value = None), ["/t2m: fill value: 0 → none"]);
    assert_eq!(
        array(|t2m| {
            t2m.dimension_names.swap(1, 2);
            t2m.shape = vec![28, 4, 3];
        }),
        ["/t2m: dimensions: (time, lat 3, lon 4) → (time, lon 4, lat 3)"]
    );
    assert_eq!(array(|t2m| t2m.shape[2] = 8), ["/t2m: sizes: (time, lat 3, lon 4) → (time, lat 3, lon 8)"]);
}

#[test]
fn arrays_without_the_dimensions_are_compared_by_value() {
    let flipped = |member: &mut Member| {
        drop(member.digests.insert("lat".to_owned(), format!("{} 0, 90", "b".repeat(64))))
    };
    assert_eq!(changed(flipped), ["/lat: values: 90, 0 → 0, 90"]);
    assert_eq!(changed(|member| member.digests.clear()).len(), 1, "what was not read is equal to nothing");
    let (one, mut other) = (member(0, 31), member(31, 28));
    flipped(&mut other);
    let assumed = Layout { assume_equal: BTreeSet::from(["lat".to_owned()]), ..layout() };
    assert_eq!(reported(&one, &other, &assumed), [""; 0]);
}

#[test]
fn arrays_that_some_files_lack() {
    let lacking = |member: &mut Member| drop(member.hierarchy.root.children.remove("t2m"));
    assert_eq!(changed(lacking), ["/t2m: array: int16 (time, lat 3, lon 4) → none"]);
    let optional = Layout { optional: BTreeSet::from(["t2m".to_owned()]), ..layout() };
    let (one, mut without) = (member(0, 31), member(31, 28));
    lacking(&mut without);
    assert_eq!(reported(&one, &without, &optional), [""; 0]);
}

#[test]
fn coordinate_reference_systems_and_grids_must_agree() {
    let image = |code: &str, transform: Value, wkt: &str| {
        let mut member = member(0, 1);
        let attributes = json!({"proj:code": code, "spatial:transform": transform, "spatial:dimensions": ["y", "x"], "spatial:bbox": transform});
        member.hierarchy.root.attributes = attributes.as_object().unwrap().clone();
        let crs = array(
            DataType::Int64,
            &[],
            json!({"crs_wkt": wkt, "GeoTransform": "1.0 30.0 0.0 2.0 0.0 -30.0", "long_name": code}),
        );
        member.hierarchy.root.children = [("crs".to_owned(), Node::Array(Box::new(crs)))].into();
        member.digests = [("crs".to_owned(), "c".repeat(64))].into();
        member
    };
    let one = image("EPSG:32633", json!([30.0, 0, 1.0, 0, -30.0, 2.0]), "a");
    let moved = image("EPSG:32633", json!([30.0, 0, 7.0, 0, -30.0, 9.0]), "a");
    let stack = Layout::along(vec![Along::Stack("time".to_owned())]);
    assert_eq!(
        reported(&one, &moved, &stack),
        ["/: attribute spatial:transform: [30,0,1,0,-30,2] → [30,0,7,0,-30,9]"]
    );
    let mosaic = Layout::along(vec![Along::Concat("x".to_owned())]);
    assert_eq!(reported(&one, &moved, &mosaic), [""; 0]);
    let coarser = image("EPSG:32634", json!([60.0, 0, 1.0, 0, -60.0, 2.0]), "b");
    let found = reported(&one, &coarser, &mosaic);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], "/: attribute proj:code: \"EPSG:32633\" → \"EPSG:32634\"");
    assert_eq!(found[2], "/crs: attribute crs_wkt: \"a\" → \"b\"");
}
