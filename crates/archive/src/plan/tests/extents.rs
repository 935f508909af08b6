//! Extents of files that were read.

use crate::plan::extent::{Direction, Extent};
use crate::values::time_value;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use virtualize::ArrayValues;
use virtualize::zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, FillValue, Hierarchy, Node, ZarrFormat,
};

use super::super::{FileExtent, coordinates};
use crate::{Along, Item, Layout, Member, error::CombineError, values::Scalar};

/// An array, its values if they were read.
struct Read(Array, Option<Vec<u8>>);

fn array(data_type: DataType, shape: &[u64], dimensions: &[&str], attributes: Value) -> Array {
    Array {
        shape: shape.to_vec(),
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(shape.to_vec()),
        codecs: vec![Codec::Bytes { endian: None }],
        dimension_names: dimensions.iter().map(|name| Some((*name).to_owned())).collect(),
        attributes: attributes.as_object().unwrap().clone(),
        chunks: ChunkManifest::default(),
    }
}

/// A coordinate along `time`.
fn time(data_type: DataType, bytes: Vec<u8>, attributes: Value) -> Read {
    let length = bytes.len() as u64 / data_type.size().unwrap();
    Read(array(data_type, &[length], &["time"], attributes), Some(bytes))
}

fn ints(values: &[i64], attributes: Value) -> Read {
    time(DataType::Int64, values.iter().flat_map(|n| n.to_le_bytes()).collect(), attributes)
}

fn floats(values: &[f64], attributes: Value) -> Read {
    time(DataType::Float64, values.iter().flat_map(|n| n.to_le_bytes()).collect(), attributes)
}

fn file<'a>(arrays: impl IntoIterator<Item = (&'a str, Read)>) -> Member {
    let (mut hierarchy, mut values) = (Hierarchy::new(ZarrFormat::V3), BTreeMap::new());
    for (path, Read(array, bytes)) in arrays {
        let (data_type, shape) = (array.data_type.clone(), array.shape.clone());
        let read = bytes.map(|bytes| ArrayValues { shape, data_type, bytes: Bytes::from(bytes) });
        values.extend(read.map(|read| (path.to_owned(), read)));
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group = hierarchy.root.make_group(group).unwrap();
        group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    }
    let item = Item { url: "a.nc".to_owned(), ..Item::default() };
    Member {
        item,
        hierarchy,
        values,
        digests: BTreeMap::new(),
        grids: BTreeMap::new(),
        given: BTreeMap::new(),
        omitted: std::collections::BTreeSet::new(),
    }
}

fn concat() -> Layout {
    Layout::along(vec![Along::Concat("time".to_owned())])
}

fn stack() -> Layout {
    Layout::along(vec![Along::Stack("time".to_owned())])
}

fn extent(member: &Member, layout: &Layout) -> Result<Extent, String> {
    match FileExtent::of(member, layout) {
        Ok(extent) => Ok(extent.0[0].clone()),
        Err(CombineError::Subject { problem, subject, .. }) if subject == "a.nc" => Err(problem.to_string()),
        Err(error) => panic!("{error}"),
    }
}

/// Size, first and last coordinate, direction.
type Brief = (u64, Option<(String, String, Direction)>);

fn brief(extent: &Extent) -> Brief {
    let range = extent.range.as_ref();
    (extent.size, range.map(|range| (range.first.to_string(), range.last.to_string(), range.direction)))
}

#[test]
fn coordinates_have_ends_and_a_direction() {
    let is = |size, first: &str, last: &str, direction| {
        (size, Some((first.to_owned(), last.to_owned(), direction)))
    };
    let of = |read| brief(&extent(&file([("time", read)]), &concat()).unwrap());
    let none = || json!({});
    for (values, expected) in [
        (&[3, 4, 5][..], is(3, "3", "5", Direction::Increasing)),
        (&[5, 4, 3], is(3, "5", "3", Direction::Decreasing)),
        (&[-7], is(1, "-7", "-7", Direction::Single)),
        (&[3, 3], is(2, "3", "3", Direction::Neither)),
        (&[3, 5, 4], is(3, "3", "4", Direction::Neither)),
        (&[3, 1, 4], is(3, "3", "4", Direction::Neither)),
        (&[5, 6, 6], is(3, "5", "6", Direction::Neither)),
        (&[6, 5, 5], is(3, "6", "5", Direction::Neither)),
    ] {
        assert_eq!(of(ints(values, none())), expected, "{values:?}");
    }
    // Missing ones count as elements, and have no place.
    assert_eq!(of(floats(&[1.0, f64::NAN, 2.5], none())), is(3, "1", "2.5", Direction::Increasing));
    assert_eq!(of(floats(&[f64::NAN, 2.5], none())), is(2, "2.5", "2.5", Direction::Single));
    assert_eq!(of(floats(&[f64::NAN], none())), (1, None));
    assert_eq!(of(ints(&[9, -1, 7], json!({"_FillValue": -1}))), is(3, "9", "7", Direction::Decreasing));
    let text = time(DataType::FixedBytes(2), b"aab\0bb".to_vec(), none());
    assert_eq!(of(text), is(3, "\"aa\"", "\"bb\"", Direction::Increasing));
    // Types without an order.
    assert_eq!(of(time(DataType::RawBytes(2), vec![1, 2], none())), (1, None));
}

/// Equal coordinates have equal hashes, whatever their types and units; others at the same ends do not.
#[test]
fn hashes_distinguish_coordinates() {
    let of = |read| extent(&file([("time", read)]), &concat()).unwrap().range.unwrap().digest;
    let none = || json!({});
    // FNV-1a of the decimal texts, each of which a zero byte ends.
    assert_eq!(of(ints(&[3, 4, 5], none())), 7_700_818_281_057_764_431);
    assert_eq!(of(floats(&[1.5, f64::NAN, 3.0], none())), 15_065_390_343_629_896_802);
    let short = time(DataType::Int16, vec![3, 0, 4, 0, 5, 0], none());
    assert_eq!(of(floats(&[3.0, 4.0, 5.0], none())), of(short));
    let days = json!({"units": "days since 2000-01-02"});
    let hours = json!({"units": "hours since 2000-01-01", "calendar": "standard"});
    assert_eq!(of(ints(&[0, 1, 3], days.clone())), of(floats(&[24.0, 48.0, 96.0], hours.clone())));
    let all = [
        ints(&[0, 1, 3], days.clone()),
        ints(&[0, 2, 3], days),
        ints(&[24, 96], hours),
        ints(&[0, 1, 3], json!({"units": "months since 2000-01-02"})),
        ints(&[0, 13], none()),
        ints(&[3, 1, 0], none()),
        floats(&[0.0, f64::NAN, 1.0, 3.0], none()),
    ];
    let hashes: std::collections::BTreeSet<u64> = all.into_iter().map(of).collect();
    assert_eq!(hashes.len(), 7);
}

#[test]
fn units_come_with_the_coordinate() {
    let of = |attributes| {
        let range = extent(&file([("time", ints(&[1], attributes))]), &concat()).unwrap().range.unwrap();
        (range.units().map(str::to_owned), range.calendar().map(str::to_owned))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(of(json!({"units": "m", "calendar": "noleap"})), (text("m"), text("noleap")));
    assert_eq!(of(json!({"units": 1, "calendar": "noleap"})), (None, text("noleap")));
    assert_eq!(of(json!({})), (None, None));
}

/// The array that stands for a dimension: its coordinate, in the highest group.
#[test]
fn the_coordinate_is_that_of_the_highest_group() {
    let data = |length| Read(array(DataType::Int16, &[2, length], &["x", "time"], json!({})), None);
    let of = |member: Member| brief(&extent(&member, &concat()).unwrap()).1.map(|range| range.0);
    let found =
        of(file([("a", data(1)), ("b/time", ints(&[1], json!({}))), ("time", ints(&[2], json!({})))]));
    assert_eq!(found.as_deref(), Some("2"));
    let found = of(file([
        ("a", data(1)),
        ("b/c/time", ints(&[1], json!({}))),
        ("d/time", ints(&[2], json!({}))),
        ("e/time", ints(&[3], json!({}))),
    ]));
    assert_eq!(found.as_deref(), Some("2"));
    // Without a coordinate, any array tells the length.
    let bare = extent(&file([("b", data(5)), ("c", data(6))]), &concat()).unwrap();
    assert_eq!(brief(&bare), (5, None));
    // An array of that name with other dimensions is not a coordinate.
    let other = Read(array(DataType::Int16, &[2, 3], &["x", "time"], json!({})), Some(vec![0; 12]));
    assert_eq!(brief(&extent(&file([("time", other)]), &concat()).unwrap()), (3, None));
}

#[test]
fn coordinates_from_names_come_before_those_of_the_file() {
    let mut member = file([("time", ints(&[1, 2], json!({})))]);
    member.given.insert("time".to_owned(), json!(2.5));
    let is = |text: &str| Some((text.to_owned(), text.to_owned(), Direction::Single));
    assert_eq!(brief(&extent(&member, &concat()).unwrap()), (2, is("2.5")));
    member.given.insert("time".to_owned(), time_value(86_400));
    let found = extent(&member, &concat()).unwrap();
    assert_eq!(brief(&found), (2, is("86400")));
    let range = found.range.unwrap();
    let units = (range.units(), range.calendar());
    assert_eq!(units, (Some("seconds since 1970-01-01"), Some("proleptic_gregorian")));
    member.given.insert("time".to_owned(), json!([1]));
    let problem = "coordinate time is [1], which is not a single value";
    assert_eq!(extent(&member, &concat()), Err(problem.to_owned()));
}

#[test]
fn files_without_the_dimension_or_its_values_are_refused() {
    let read = |length, data_type| Read(array(data_type, &[length], &["time"], json!({})), None);
    let of = |member: Member| extent(&member, &concat());
    let unread = || Err("the values of time were not read".to_owned());
    assert_eq!(of(file([("time", read(2, DataType::Int16))])), unread());
    let text = of(file([("time", read(2, DataType::String))]));
    assert_eq!(text, Err("the values of time, which are of variable length, were not read".to_owned()));
    // Without elements there is nothing to read.
    assert_eq!(of(file([("time", read(0, DataType::Int16))])), Ok(Extent { size: 0, range: None }));
    let x = |name| Read(array(DataType::Int16, &[1, 1], &[name, "x"], json!({})), None);
    let existing = "; did you mean \"times\"? existing dimensions: a, times, x";
    let problem = format!("no array has a dimension time{existing}");
    assert_eq!(of(file([("v", x("times")), ("g/w", x("a"))])), Err(problem));
}

#[test]
fn new_dimensions_take_their_coordinate_from_one_value() {
    let single = |shape: &[u64], dimensions: &[&str], bytes: usize| {
        Read(array(DataType::Int8, shape, dimensions, json!({})), Some(vec![7; bytes]))
    };
    let of = |member: &Member| extent(member, &stack()).map(|found| brief(&found));
    let seven = Ok((1, Some(("7".to_owned(), "7".to_owned(), Direction::Single))));
    let exists = Err("arrays already have a dimension time".to_owned());
    assert_eq!(of(&file([])), Ok((1, None)));
    assert_eq!(of(&file([("time", single(&[], &[], 1))])), seven);
    assert_eq!(of(&file([("time", single(&[1], &["time"], 1))])), seven);
    assert_eq!(of(&file([("time", single(&[2], &["time"], 2))])), exists);
    assert_eq!(of(&file([("time", single(&[1, 1], &["time", "x"], 1))])), exists);
    assert_eq!(of(&file([("v", single(&[1], &["time"], 1))])), exists);
    assert_eq!(of(&file([("g/time", single(&[1], &["time"], 1))])), exists);
    let unread = file([("time", Read(array(DataType::Int8, &[], &[], json!({})), None))]);
    assert_eq!(of(&unread), Err("the values of time were not read".to_owned()));
    let mut given = file([]);
    given.given.insert("time".to_owned(), json!(7));
    assert_eq!(of(&given), seven);
    let mut both = file([("time", single(&[], &[], 1))]);
    both.given = given.given;
    let twice = "coordinate time is defined both by an array and by another source";
    assert_eq!(of(&both), Err(twice.to_owned()));
}

#[test]
fn all_coordinates_of_a_file() {
    let of =
        |member: &Member| coordinates(&member.hierarchy, "time", |path, _| member.values.get(path).cloned());
    let whole = [1, 2].map(Scalar::Int).to_vec();
    assert_eq!(of(&file([("time", ints(&[1, 2], json!({})))])), Some(whole));
    assert_eq!(of(&file([("time", ints(&[1, 2], json!({"missing_value": 2})))])), None);
    assert_eq!(of(&file([("time", floats(&[1.0, f64::NAN], json!({})))])), None);
    assert_eq!(of(&file([("v", ints(&[1, 2], json!({})))])), None, "no coordinate");
    assert_eq!(of(&file([])), None);
    assert_eq!(of(&file([("time", time(DataType::RawBytes(1), vec![1], json!({})))])), None);
}
