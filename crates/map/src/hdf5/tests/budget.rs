//! The mapping of a file takes at least the memory of its result from the budget, so that the limit of the budget holds.

use virtualize_bytes::{Address, Budget, Limits};
use virtualize_hdf5::model::{
    Attribute, Dataset, Datatype, Element, File, Group, Layout, Link, LinkTarget, Member, Object, Selection,
};
use virtualize_zarr::{Node, Source, ZarrFormat};

use super::{attribute, chunked, dataset, file, filter, int, text};
use crate::hdf5::{OtherFile, OtherFiles, map_file_among};
use crate::{InlineTask, MapOptions, Piece};

/// Bytes of a JSON value.
const VALUE: u64 = size_of::<serde_json::Value>() as u64;

fn taken(file: &File) -> u64 {
    let budget = Budget::of_file(&Limits::default(), 1 << 30);
    let before = budget.left();
    let source = Source { url: "file:///f.h5".to_owned(), ..Source::default() };
    let options = MapOptions { source_attributes: true, format: ZarrFormat::V3, ..MapOptions::default() };
    map_file_among(file, source, &OtherFiles::default(), &options, &budget);
    before - budget.left()
}

fn with_attribute(attribute: Attribute) -> Dataset {
    Dataset { attributes: vec![attribute], ..dataset(int(4, true), &[2]) }
}

fn regions(selection: Selection) -> Dataset {
    let region = Datatype::Reference { size: 12, kind: virtualize_hdf5::model::ReferenceKind::Region };
    with_attribute(attribute("a", region, vec![Element::Region(Address(1), selection)]))
}

fn enumeration(count: u16) -> Datatype {
    let member = |n: u16| (format!("name{n}"), n.to_le_bytes().to_vec());
    Datatype::Enum { base: Box::new(int(2, false)), members: (0..count).map(member).collect() }
}

fn structure(count: u32) -> Datatype {
    let member = |n: u32| Member { name: format!("m{n}"), offset: 4 * n, datatype: int(4, true) };
    Datatype::Compound { size: 4 * count, members: (0..count).map(member).collect() }
}

/// Chunks of one element, stored as they are or by a filter that only we decode.
fn chunks(count: u64, is_made: bool) -> Dataset {
    let mut data = dataset(int(4, true), &[count]);
    data.layout = Layout::Chunked(chunked(&[1], &[count], None, &vec![4; usize::try_from(count).unwrap()]));
    if is_made {
        data.filters = vec![filter(5, &[8, 0, 1, 1, 4, 0, 12, 0])];
    }
    data
}

#[test]
fn at_least_the_result_is_charged() {
    let names = |count: u64| "n".repeat(usize::try_from(count).unwrap());
    let blocks = |count: usize| Selection::Blocks(vec![(vec![0, 1], vec![2, 3]); count]);
    let points = |count: usize| Selection::Points(vec![vec![0, 1]; count]);
    let array_of = |base| Datatype::Array { base: Box::new(base), shape: vec![1] };
    let task = (size_of::<InlineTask>() + size_of::<Piece>()) as u64;
    let cases: [(&str, Dataset, u64); 9] = [
        ("text", with_attribute(text("a", &names(100_000))), 200_000),
        ("name of an attribute", with_attribute(text(&names(100_000), "a")), 200_000),
        ("points, lists of two numbers", regions(points(1000)), 1000 * 3 * VALUE),
        ("blocks, two lists of two numbers", regions(blocks(1000)), 1000 * 7 * VALUE),
        ("names and values of an enumeration", dataset(enumeration(1000), &[2]), 1000 * 2 * VALUE),
        ("an array of it", dataset(array_of(enumeration(1000)), &[2]), 1000 * 2 * VALUE),
        ("members", dataset(structure(1000), &[2]), 1000 * size_of::<virtualize_zarr::Field>() as u64),
        ("offsets and lengths of chunks", chunks(10_000, false), 10_000 * 12),
        ("chunks that are made", chunks(10_000, true), 10_000 * task),
    ];
    let least = taken(&file(vec![("x", dataset(int(4, true), &[2]))]));
    for (what, data, needed) in cases {
        let taken = taken(&file(vec![("x", data)])) - least;
        assert!(taken >= needed && taken <= 64 * needed, "{what}: {taken} bytes for {needed}");
    }
}

#[test]
fn groups_are_charged_with_their_paths() {
    let groups = |count: u64, name: &str| {
        let mut file = file(Vec::new());
        let link = |n: u64| Link { name: format!("{name}{n:05}"), target: LinkTarget::Hard(Address(n)) };
        let root = Group { links: (1..=count).map(link).collect(), ..Group::default() };
        file.objects.insert(Address(0), Object::Group(root));
        file.objects.extend((1..=count).map(|n| (Address(n), Object::Group(Group::default()))));
        taken(&file)
    };
    let one = (groups(2001, "") - groups(1, "")) / 2000;
    assert!(one >= size_of::<Node>() as u64 && one <= 64 * size_of::<Node>() as u64, "{one} bytes");
    let longer = (groups(2001, &"n".repeat(100)) - groups(2001, "")) / 2001;
    assert!((200..=1600).contains(&longer), "{longer} bytes for a path and a name of 100");
}

/// Twice as many objects take twice as much: nothing is searched for each of them.
fn assert_linear(what: &str, taken: impl Fn(u64) -> u64) {
    let (some, twice) = (taken(1000), taken(2000));
    assert!(
        twice <= some.saturating_mul(2) + some / 8,
        "{what}: {some} bytes, and {twice} for twice as many"
    );
}

#[test]
fn dimensions_are_charged_once() {
    let datasets = |count: u64, data: &dyn Fn(u64) -> Dataset| {
        let names: Vec<String> = (0..count).map(|n| format!("v{n:05}")).collect();
        taken(&file(names.iter().map(String::as_str).zip((0..count).map(data)).collect()))
    };
    assert_linear("lengths", |count| datasets(count, &|n| dataset(int(4, true), &[n + 1])));
    // The variables along the scale v00000, which lists them.
    let sequence = || Datatype::Sequence { size: 16, base: Box::new(int(8, false)) };
    let label = || Element::List(vec![Element::Object(Some(Address(1)))]);
    assert_linear("users", |count| {
        let users = vec![Element::Integer(0); usize::try_from(count).unwrap()];
        let scale = [text("CLASS", "DIMENSION_SCALE"), attribute("REFERENCE_LIST", int(4, true), users)];
        let labels = attribute("DIMENSION_LIST", sequence(), vec![label()]);
        datasets(count, &|n| Dataset {
            attributes: if n == 0 { scale.to_vec() } else { vec![labels.clone()] },
            ..dataset(int(4, true), &[2])
        })
    });
}

#[test]
fn links_into_one_file_are_charged_by_their_targets() {
    assert_linear("links", |count| {
        let names: Vec<String> = (0..count).map(|n| format!("v{n:05}")).collect();
        let data = names.iter().map(|name| (name.as_str(), dataset(int(4, true), &[2]))).collect();
        let source =
            |name: &str| Source { url: format!("file:///{name}"), size: 1 << 30, ..Source::default() };
        let other = OtherFile::Read(Box::new(file(data)), source("other.h5"));
        let others =
            OtherFiles { files: [("file:///other.h5".to_owned(), other)].into(), ..OtherFiles::default() };
        let target = |name: &String| LinkTarget::External { file: "other.h5".to_owned(), path: name.clone() };
        let links = names.iter().map(|name| Link { name: name.clone(), target: target(name) }).collect();
        let mut main = file(Vec::new());
        main.objects.insert(Address(0), Object::Group(Group { links, ..Group::default() }));
        let budget = Budget::of_file(&Limits::default(), 1 << 30);
        let before = budget.left();
        let options = MapOptions { follow_external: true, ..MapOptions::default() };
        let mapped = map_file_among(&main, source("main.h5"), &others, &options, &budget);
        assert_eq!(mapped.hierarchy.arrays().len() as u64, count);
        before - budget.left()
    });
}
