//! How arrays vary along dimensions, and which of them are read and copied.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use virtualize::zarr::{
    Array, ChunkGrid, Codec, DataType, FillValue, Hierarchy, Node, ReferencesBuilder, SourceId, ZarrFormat,
};

use super::array;
use crate::compat::{
    roles::{DimRole, bounds_of, is_copied, length_along, may_be_copied, roles, time_arrays, wanted},
    signature::{decode_alike, grid_mappings, is_moved},
};
use crate::{Along, Layout};

/// A hierarchy of arrays by path.
fn hierarchy<'a>(arrays: impl IntoIterator<Item = (&'a str, Array)>) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    for (path, array) in arrays {
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group = hierarchy.root.make_group(group).unwrap();
        group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    }
    hierarchy
}

/// 16-bit numbers over axes of one length; the dimensions are separated by blanks.
fn numbers(dimensions: &str, length: u64, attributes: Value) -> Array {
    let axes: Vec<_> = dimensions.split_whitespace().map(|name| (name, length, 1)).collect();
    array(DataType::Int16, &axes, attributes)
}

fn stack(name: &str) -> Along {
    Along::Stack(name.to_owned())
}

fn concat(name: &str) -> Along {
    Along::Concat(name.to_owned())
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn attributes(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The role of each array along the only dimension, by path.
fn along(hierarchy: &Hierarchy, layout: &Layout) -> Vec<(String, DimRole)> {
    roles(hierarchy, layout).into_iter().map(|(path, roles)| (path, roles[0])).collect()
}

#[test]
fn arrays_grow_along_an_existing_dimension() {
    let file = hierarchy([
        ("u", numbers("time x", 3, json!({}))),
        ("v", numbers("x time", 3, json!({}))),
        ("x", numbers("x", 3, json!({}))),
        ("height", numbers("", 1, json!({}))),
        ("level", numbers("", 1, json!({}))),
    ]);
    let layout = Layout { concat_vars: names(["height"]), ..Layout::along(vec![concat("time")]) };
    let expected = [
        ("height", DimRole::Broadcast),
        ("level", DimRole::Invariant),
        ("u", DimRole::Axis(0)),
        ("v", DimRole::Axis(1)),
        ("x", DimRole::Invariant),
    ];
    assert_eq!(along(&file, &layout), expected.map(|(path, role)| (path.to_owned(), role)));
}

/// A file with data, coordinates of dimensions, and arrays that attributes of arrays and groups name.
fn described() -> Hierarchy {
    let described = json!({
        "coordinates": "lat2d\tlon2d,\nheight", "grid_mapping": "crs: x", "cell_measures": "area: cells",
        "formula_terms": "a: hya", "bounds": 7, "comment": "remark",
    });
    let mut file = hierarchy([
        ("run", numbers("", 1, json!({}))),
        ("t", numbers("y x", 2, described)),
        ("x", numbers("x", 2, json!({"bounds": "/x_bnds"}))),
        ("x_bnds", numbers("x two", 2, json!({}))),
        ("y", numbers("x", 2, json!({}))),
        ("remark", numbers("", 1, json!({}))),
        ("single", numbers("one", 1, json!({}))),
        ("equal", numbers("y x", 2, json!({}))),
        ("forced", numbers("forced", 2, json!({}))),
        ("of_root", numbers("", 1, json!({}))),
        ("of_group", numbers("", 1, json!({}))),
        ("g/of_group", numbers("", 1, json!({}))),
        ("g/h/of_root", numbers("", 1, json!({}))),
        ("g/run", numbers("", 1, json!({}))),
        ("g/t", numbers("y x", 2, json!({"coordinates": "above", "climatology": "nowhere"}))),
        ("above", numbers("", 1, json!({}))),
        ("nowhere2", numbers("", 1, json!({}))),
    ]);
    for name in ["lat2d", "lon2d", "height", "crs", "cells", "hya"] {
        file.root.children.insert(name.to_owned(), Node::Array(Box::new(numbers("y x", 2, json!({})))));
    }
    file.root.attributes = attributes(&json!({"coordinates": "of_root"}));
    file.root.group_mut("g").unwrap().attributes = attributes(&json!({"coordinates": "of_group"}));
    file
}

/// xarray makes coordinates of the arrays that these attributes name (`decode_coords="all"`), and combines no coordinates
/// along a new dimension (`coords="minimal"`).
#[test]
fn coordinates_do_not_get_a_new_dimension() {
    let file = described();
    let layout = Layout {
        assume_equal: names(["equal"]),
        concat_vars: names(["forced"]),
        ..Layout::along(vec![stack("run")])
    };
    let found = along(&file, &layout);
    let of = |role| found.iter().filter(|one| one.1 == role).map(|one| one.0.as_str()).collect::<Vec<_>>();
    assert_eq!(of(DimRole::Coordinate), ["run"]);
    assert_eq!(
        of(DimRole::NewAxis),
        ["forced", "g/h/of_root", "g/run", "g/t", "nowhere2", "of_group", "remark", "single", "t", "y"]
    );
    assert_eq!(
        of(DimRole::Invariant),
        [
            "above",
            "cells",
            "crs",
            "equal",
            "g/of_group",
            "height",
            "hya",
            "lat2d",
            "lon2d",
            "of_root",
            "x",
            "x_bnds"
        ]
    );
}

#[test]
fn a_coordinate_along_a_new_dimension_is_one_value() {
    let layout = Layout::along(vec![stack("run")]);
    let two = hierarchy([("run", numbers("x", 2, json!({})))]);
    assert_eq!(along(&two, &layout), [("run".to_owned(), DimRole::NewAxis)]);
    let one = hierarchy([("run", numbers("run", 1, json!({})))]);
    assert_eq!(along(&one, &layout), [("run".to_owned(), DimRole::Coordinate)]);
}

#[test]
fn a_file_is_as_long_as_its_longest_array() {
    let file = hierarchy([("a", numbers("x time", 3, json!({}))), ("g/b", numbers("time", 5, json!({})))]);
    for (along, length) in [(concat("time"), 5), (concat("x"), 3), (concat("y"), 0), (stack("time"), 1)] {
        assert_eq!(length_along(&file, &along), length, "{along:?}");
    }
}

#[test]
fn coordinates_small_arrays_of_times_and_their_bounds_are_times() {
    let days = |extra: Value| {
        let mut all = json!({"units": "days since 2000-01-01"});
        all.as_object_mut().unwrap().extend(attributes(&extra));
        all
    };
    let file = hierarchy([
        ("time", numbers("time", 100, days(json!({"bounds": "time_bnds"})))),
        ("time_bnds", numbers("time two", 100, json!({}))),
        ("small", numbers("time", 4, days(json!({"climatology": " period ", "bounds": "small"})))),
        ("period", numbers("time two", 4, json!({}))),
        ("large", numbers("time", 5, days(json!({"bounds": "large_bnds"})))),
        ("large_bnds", numbers("time two", 5, json!({}))),
        ("x", numbers("x", 4, json!({"units": "m", "bounds": "x_bnds"}))),
        ("x_bnds", numbers("x two", 4, json!({}))),
    ]);
    assert_eq!(time_arrays(&file, 8), names(["period", "small", "time", "time_bnds"]));
    let bounds = |path: &str| bounds_of(&file, path, file.array(path).unwrap());
    assert_eq!(bounds("small"), ["period"], "an array does not bound itself");
    assert_eq!(bounds("x"), ["x_bnds"]);
}

/// A grid mapping is named by an attribute (CF conventions, section 5.6), or by its own attributes.
#[test]
fn grid_mappings_are_named_or_described() {
    let file = hierarchy([
        ("plain", numbers("x", 2, json!({"grid_mapping": "crs_a"}))),
        ("extended", numbers("x", 2, json!({"grid_mapping": "crs_b: x y crs_c: lat"}))),
        ("crs_a", numbers("", 1, json!({}))),
        ("crs_b", numbers("", 1, json!({}))),
        ("crs_c", numbers("", 1, json!({}))),
        ("crs_d", numbers("", 1, json!({"grid_mapping_name": "latitude_longitude"}))),
        ("x", numbers("x", 2, json!({}))),
        ("y", numbers("y", 2, json!({}))),
        ("lat", numbers("lat", 2, json!({}))),
    ]);
    assert_eq!(grid_mappings(&file), names(["crs_a", "crs_b", "crs_c", "crs_d"]));
}

#[test]
fn images_are_moved_along_their_own_dimensions() {
    let image = |dimensions: Option<Value>| {
        let mut file = hierarchy([]);
        file.root.attributes.extend(dimensions.map(|names| ("spatial:dimensions".to_owned(), names)));
        file
    };
    let rows = json!(["row", "column"]);
    let cases = [
        (None, vec![concat("time")], false),
        (None, vec![concat("time"), concat("lon")], true),
        (None, vec![stack("y")], true),
        (Some(&rows), vec![concat("x")], false),
        (Some(&rows), vec![concat("row")], true),
        (Some(&rows), vec![], true),
    ];
    for (dimensions, along, expected) in cases {
        let layout = Layout::along(along);
        assert_eq!(
            is_moved(&image(dimensions.cloned()), &layout),
            expected,
            "{dimensions:?} {:?}",
            layout.along
        );
    }
}

/// Text of a variable length, inline or in the file.
fn text(dimensions: &str, is_inline: bool) -> Array {
    let axes: Vec<_> = dimensions.split_whitespace().map(|name| (name, 1, 1)).collect();
    let mut text = array(DataType::UInt8, &axes, json!({}));
    (text.data_type, text.fill_value) = (DataType::String, Some(FillValue::Text(String::new())));
    if is_inline {
        text.chunks.inline.insert(0, Bytes::from_static(b"12345678"));
    } else {
        let mut references = ReferencesBuilder::default();
        references.push(0, 0, 10);
        text.chunks.references = references.finish(SourceId(0));
    }
    text
}

#[test]
fn what_is_always_copied() {
    let x = || numbers("x", 3, json!({}));
    let cases = [
        ("v", x(), DimRole::Broadcast, false, true),
        ("v", x(), DimRole::Coordinate, false, true),
        ("x", x(), DimRole::Axis(0), false, true),
        ("v", x(), DimRole::Axis(0), true, true),
        ("v", x(), DimRole::Axis(0), false, false),
        ("x", x(), DimRole::Invariant, true, false),
        ("x", x(), DimRole::NewAxis, true, false),
        ("x", text("x", true), DimRole::Axis(0), false, true),
        ("x", text("x", false), DimRole::Axis(0), false, false),
    ];
    for (path, array, role, is_time, expected) in cases {
        let case = format!("{path} {role:?} {is_time}");
        assert_eq!(is_copied(path, &array, &[DimRole::Invariant, role], is_time), expected, "{case}");
    }
}

#[test]
fn what_is_read_in_case_that_it_has_to_be_copied() {
    let (first, both) = ([DimRole::Axis(0)], [DimRole::Axis(0), DimRole::Axis(1)]);
    // Shape, chunk shape, dimensions along which it grows, limit.
    let cases = [
        ([10, 4], [10, 4], &first[..], 80, true),
        ([10, 4], [10, 4], &first, 79, false),
        ([10, 4], [10, 4], &[DimRole::Invariant], 1000, false),
        ([10, 4], [10, 4], &[DimRole::Axis(7)], 1000, false),
        ([10, 4], [10, 4], &[], 1000, false),
        // Single elements along the axis that grows always fit: only tiny ones are read.
        ([10, 512], [1, 512], &first, 1 << 20, true),
        ([10, 513], [1, 513], &first, 1 << 20, false),
        ([10, 513], [2, 513], &first, 1 << 20, true),
        ([10, 513], [1, 1], &first, 1 << 20, false),
        ([600, 10], [1, 1], &first, 1 << 20, true),
        ([600, 10], [1, 1], &[DimRole::Axis(1)], 1 << 20, false),
        ([600, 600], [1, 1], &both, 1 << 20, true),
        ([600, 600], [2, 1], &both, 1 << 20, true),
    ];
    for (shape, chunk, roles, limit, expected) in cases {
        let axes = [("a", shape[0], chunk[0]), ("b", shape[1], chunk[1])];
        let array = array(DataType::Int16, &axes, json!({}));
        let layout = Layout { inline_limit: limit, ..Layout::default() };
        assert_eq!(may_be_copied(&array, roles, &layout), expected, "{shape:?} {chunk:?} {roles:?} {limit}");
    }
    let layout = |limit| Layout { inline_limit: limit, ..Layout::default() };
    assert!(may_be_copied(&text("a", true), &first, &layout(8)));
    assert!(!may_be_copied(&text("a", true), &first, &layout(7)));
    assert!(!may_be_copied(&text("a", false), &first, &layout(8)));
    let mut varying = numbers("a", 600, json!({}));
    varying.chunk_grid = ChunkGrid::Rectilinear(vec![vec![1; 600]]);
    varying.data_type = DataType::RawBytes(2000);
    assert!(may_be_copied(&varying, &first, &layout(2000 * 600)));
}

#[test]
fn wanted_are_values_that_are_copied_and_digests_of_what_must_be_equal() {
    let axes = [("time", 10, 10), ("x", 4, 4)];
    let file = hierarchy([
        ("small", array(DataType::Int16, &axes, json!({}))),
        ("large", array(DataType::Int32, &axes, json!({}))),
        ("time", numbers("time", 1000, json!({"bounds": "time_bnds", "units": "days since 2000-01-01"}))),
        ("time_bnds", numbers("time two", 1000, json!({}))),
        ("x", numbers("x", 4, json!({}))),
        ("equal", numbers("x", 4, json!({}))),
        ("height", numbers("", 1, json!({}))),
        ("text", text("x", false)),
        ("texts", text("time", false)),
    ]);
    let layout = |along| Layout {
        inline_limit: 80,
        assume_equal: names(["equal"]),
        concat_vars: names(["height"]),
        ..Layout::along(along)
    };
    let found = wanted(&file, &layout(vec![concat("time")]));
    assert_eq!(found.values, names(["height", "small", "time", "time_bnds"]));
    assert_eq!(found.digests, names(["text", "x"]));
    assert_eq!(wanted(&file, &layout(vec![])), crate::Wanted::default());
    // Along two dimensions, an array that lacks one of them is compared along that one.
    let found = wanted(&file, &layout(vec![concat("x"), concat("time")]));
    assert_eq!(found.values, names(["equal", "height", "small", "time", "time_bnds", "x"]));
    assert_eq!(found.digests, names(["text", "texts"]));
}

#[test]
fn chunks_that_any_reader_decodes_alike() {
    let with = |codec| {
        let mut array = numbers("x", 1, json!({}));
        array.codecs = vec![codec];
        array
    };
    let alike = |one, other| decode_alike(&with(one), &with(other));
    assert!(alike(Codec::Zlib { level: 1 }, Codec::Zlib { level: 1 }));
    assert!(alike(Codec::Zlib { level: 1 }, Codec::Zlib { level: 9 }));
    assert!(!alike(Codec::Zlib { level: 1 }, Codec::Gzip { level: 1 }));
}
