use bytes::Bytes;
use virtualize_bytes::{Budget, Limits};
use virtualize_hdf5::model::{ByteOrder, CharacterSet, Dataset, Datatype, Member, StringPadding};
use virtualize_zarr::{Array, ChunkEntry, DataType, FillValue, Source, ZarrFormat};

use super::{dataset, file, float32, half_missing, int};
use crate::hdf5::heap::*;
use crate::hdf5::{OtherFiles, map_file_among};
use crate::{MapOptions, Mapped};

fn text() -> Datatype {
    let (padding, charset) = (StringPadding::NullTerminated, CharacterSet::Utf8);
    Datatype::VariableString { size: 16, padding, charset }
}

fn sequence(base: Datatype) -> Datatype {
    Datatype::Sequence { size: 16, base: Box::new(base) }
}

/// A number and text, with a gap of four bytes.
fn numbered() -> Datatype {
    let member = |name: &str, offset, datatype| Member { name: name.to_owned(), offset, datatype };
    Datatype::Compound { size: 24, members: vec![member("n", 0, int(4, true)), member("s", 8, text())] }
}

/// A stored element of [`numbered`].
fn element(number: u8) -> Vec<u8> {
    [vec![number, 0, 0, 0, 9, 9, 9, 9], vec![1; 16]].concat()
}

fn options() -> MapOptions {
    MapOptions { format: ZarrFormat::V3, ragged: true, ..MapOptions::default() }
}

/// Maps a dataset `x` and others, given its elements and their values.
fn mapped(data: Dataset, others: Vec<(&str, Dataset)>, options: &MapOptions, values: &HeapValues) -> Mapped {
    let file = file(std::iter::once(("x", data)).chain(others).collect());
    let source = Source { url: "file:///a.h5".to_owned(), ..Source::default() };
    let budget = Budget::of_file(&Limits::default(), 0);
    let mut others = OtherFiles::default();
    let tasks = heap_tasks(&file, &source, &others, options, &budget);
    others.flattened = tasks
        .into_iter()
        .map(|(key, task)| (key, task.and_then(|task| flatten(&task, values, &budget))))
        .collect();
    map_file_among(&file, source, &others, options, &budget)
}

fn array<'a>(mapped: &'a Mapped, path: &str) -> &'a Array {
    mapped.hierarchy.array(path).unwrap_or_else(|| panic!("{:?}", mapped.report.diagnostics))
}

/// Returns the bytes of the only chunk.
fn chunk(mapped: &Mapped, path: &str) -> Vec<u8> {
    match array(mapped, path).chunks.get(0) {
        Some(ChunkEntry::Inline(bytes)) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn values(elements: Vec<Vec<u8>>, values: &[&'static [u8]]) -> HeapValues {
    let values = values.iter().map(|value| Bytes::from_static(value)).collect();
    HeapValues { elements: elements.concat(), values: vec![values] }
}

#[test]
fn text_of_structures_is_padded_to_the_longest() {
    let elements = vec![element(1), element(2), element(0)];
    let found = values(elements, &[b"ab\0cd", "ä!".as_bytes(), b""]);
    let mapped = mapped(dataset(numbered(), &[2]), Vec::new(), &options(), &found);
    let DataType::Struct(fields) = &array(&mapped, "x").data_type else { panic!() };
    assert_eq!(fields[1].data_type, DataType::FixedBytes(3));
    assert_eq!(chunk(&mapped, "x"), b"\x01\0\0\0ab\0\x02\0\0\0\xc3\xa4!");
}

/// The fill value is the last element, and may be the longest.
#[test]
fn fill_values_are_converted_like_elements() {
    let data = half_missing(numbered(), &element(7));
    let elements = vec![element(1), element(2), element(7), element(7), element(7)];
    let found = values(elements, &[b"a", b"", b"fill", b"fill", b"fill"]);
    let mapped = mapped(data, Vec::new(), &options(), &found);
    let fill = FillValue::Fixed(Bytes::from_static(b"\x07\0\0\0fill"));
    assert_eq!(array(&mapped, "x").fill_value, Some(fill));
    assert_eq!(&chunk(&mapped, "x")[16..], b"\x07\0\0\0fill\x07\0\0\0fill");
}

#[test]
fn sequences_become_items_and_row_sizes() {
    let data = dataset(sequence(float32(ByteOrder::Big)), &[3]);
    let found = values(vec![vec![1; 16]; 4], &[b"abcdefgh", b"", b"ijkl", b""]);
    let taken = dataset(int(4, true), &[2]);
    let others = vec![("x_row_size", taken.clone()), ("x_sample", taken)];
    let mapped = mapped(data, others, &options(), &found);
    assert_eq!(chunk(&mapped, "x"), b"abcdefghijkl");
    let items = array(&mapped, "x");
    assert_eq!((items.shape.as_slice(), &items.data_type), (&[3][..], &DataType::Float32));
    assert_eq!(items.dimension_names, [Some("x_sample_".to_owned())]);
    let sizes = array(&mapped, "x_row_size_");
    assert_eq!((sizes.shape.as_slice(), &sizes.data_type), (&[3][..], &DataType::Int64));
    assert_eq!(sizes.attributes["sample_dimension"], "x_sample_");
    assert_eq!(chunk(&mapped, "x_row_size_"), [2, 0, 1].map(i64::to_le_bytes).concat());
}

#[test]
fn what_exceeds_the_inline_limit_is_omitted() {
    let options = MapOptions { inline_limit: 48, ..options() };
    let found = values(vec![vec![1; 16]; 3], &[&[0; 28], &[0; 24], b""]);
    let mapped = mapped(dataset(sequence(int(4, true)), &[2]), Vec::new(), &options, &found);
    let [diagnostic] = mapped.report.diagnostics.as_slice() else { panic!("{mapped:?}") };
    assert!(diagnostic.message.contains("inlining 52 bytes exceeds the limit"), "{diagnostic:?}");
    assert!(diagnostic.remedy.is_some());
    let found = values(vec![element(1), element(2), element(0)], &[&[b'x'; 20], b"", b""]);
    let mapped = super::heap::mapped(dataset(numbered(), &[2]), Vec::new(), &options, &found);
    assert!(mapped.hierarchy.array("x").is_none(), "3 elements of 24 bytes");
}

#[test]
fn what_cannot_be_mapped_is_not_read() {
    let region = Datatype::Reference { size: 12, kind: virtualize_hdf5::model::ReferenceKind::Region };
    let members = vec![
        Member { name: "r".to_owned(), offset: 0, datatype: region },
        Member { name: "s".to_owned(), offset: 12, datatype: text() },
    ];
    let structure = Datatype::Compound { size: 28, members };
    for datatype in [structure, sequence(sequence(int(4, true))), sequence(numbered())] {
        let file = file(vec![("x", dataset(datatype, &[2]))]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let tasks = heap_tasks(&file, &Source::default(), &OtherFiles::default(), &options(), &budget);
        assert!(tasks.is_empty(), "{tasks:?}");
    }
}

/// Writers leave pointers to memory in fill values. They matter only if something reads as the fill value.
#[test]
fn unused_fill_values_are_not_followed() {
    let fill = |data: Dataset| {
        let file = file(vec![("x", data)]);
        let budget = Budget::of_file(&Limits::default(), 0);
        let tasks = heap_tasks(&file, &Source::default(), &OtherFiles::default(), &options(), &budget);
        tasks.into_iter().next().unwrap().1.unwrap().fill
    };
    let mut whole = dataset(numbered(), &[2]);
    whole.fill.value = virtualize_hdf5::model::FillValue::User(element(7).into());
    assert_eq!(fill(whole)[..], [vec![7, 0, 0, 0, 9, 9, 9, 9], vec![0; 16]].concat());
    assert_eq!(fill(half_missing(numbered(), &element(7)))[..], element(7));
}
