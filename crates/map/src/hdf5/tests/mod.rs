//! Whole files, built as models. Expected values are what xarray 2026.9 (engine h5netcdf) and h5py 3.16 show for such
//! files, tried by hand, unless stated otherwise.

mod budget;
mod classic;
mod content;
mod dimensions;
mod heap;
mod limits;
mod padding;
mod skipped;
mod types;
mod virtual_datasets;
mod weight;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use virtualize_bytes::{Address, ByteRange};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, ChunkIndexKind, ChunkSizes, ChunkTable, Chunked, Dataset, Dataspace, Datatype,
    Element, File, FillMessage, FillTime, FillValue as StoredFill, Filter, Float, Group, Integer, Layout,
    Link, LinkTarget, Member, Object,
};
use virtualize_zarr::{
    Array, Codec, DataType, Endian, FillValue, Reference, Source, SourceId, StoredInteger, ZarrFormat,
};

use super::map_file;
use crate::{ChunkContent, ElementPart, ElementTransform, MapOptions, Mapped};

pub(super) fn int(size: u32, signed: bool) -> Datatype {
    let precision = u16::try_from(size * 8).unwrap();
    Datatype::Integer(Integer { size, order: ByteOrder::Little, signed, bit_offset: 0, precision })
}

pub(super) fn float32(order: ByteOrder) -> Datatype {
    Datatype::Float(Float {
        size: 4,
        order,
        bit_offset: 0,
        precision: 32,
        sign_location: 31,
        exponent_location: 23,
        exponent_size: 8,
        mantissa_location: 0,
        mantissa_size: 23,
        exponent_bias: 127,
        normalization: 2,
    })
}

pub(super) fn simple(shape: &[u64]) -> Dataspace {
    Dataspace::Simple { shape: shape.to_vec(), max_shape: None }
}

pub(super) fn attribute(name: &str, datatype: Datatype, elements: Vec<Element>) -> Attribute {
    let dataspace = simple(&[elements.len() as u64]);
    Attribute { name: name.to_owned(), datatype, dataspace, elements }
}

pub(super) fn text(name: &str, value: &str) -> Attribute {
    let datatype = Datatype::String {
        size: 64,
        padding: virtualize_hdf5::model::StringPadding::NullTerminated,
        charset: virtualize_hdf5::model::CharacterSet::Ascii,
    };
    Attribute {
        dataspace: Dataspace::Scalar,
        ..attribute(name, datatype, vec![Element::Text(value.to_owned())])
    }
}

/// A contiguous dataset at byte 4096.
pub(super) fn dataset(datatype: Datatype, shape: &[u64]) -> Dataset {
    let bytes = shape.iter().product::<u64>() * datatype.size();
    Dataset {
        datatype,
        committed_datatype: None,
        dataspace: simple(shape),
        dimensions: None,
        fill: FillMessage {
            version: Some(3),
            write_time: FillTime::IfSet,
            allocation_time: 2,
            value: StoredFill::Default,
        },
        filters: Vec::new(),
        layout: Layout::Contiguous(Some(ByteRange::new(4096, bytes))),
        attributes: Vec::new(),
        unreadable_attributes: Vec::new(),
    }
}

/// Chunks of two elements, of which the first alone is allocated.
pub(super) fn half_missing(datatype: Datatype, fill: &[u8]) -> Dataset {
    let mut sparse = dataset(datatype, &[4]);
    sparse.fill.value = StoredFill::User(Bytes::copy_from_slice(fill));
    sparse.layout = Layout::Chunked(chunked(&[2], &[2], Some(vec![0]), &[8]));
    sparse
}

pub(super) fn chunked(chunk: &[u64], grid: &[u64], positions: Option<Vec<u64>>, sizes: &[u32]) -> Chunked {
    Chunked {
        chunk_shape: chunk.to_vec(),
        index: ChunkIndexKind::BTree1,
        unfiltered_edges: false,
        chunks: ChunkTable {
            grid: grid.to_vec(),
            positions: positions.map(Into::into),
            addresses: (0..sizes.len() as u64).map(|n| 1000 + 100 * n).collect::<Vec<_>>().into(),
            sizes: ChunkSizes::Each(sizes.to_vec().into()),
            filter_masks: BTreeMap::new(),
        },
    }
}

pub(super) fn filter(id: u16, parameters: &[u32]) -> Filter {
    Filter { id, name: None, optional: false, parameters: parameters.to_vec() }
}

pub(super) fn file(datasets: Vec<(&str, Dataset)>) -> File {
    let mut objects = BTreeMap::new();
    let mut root = Group::default();
    for (n, (name, dataset)) in (1u64..).zip(datasets) {
        root.links.push(Link { name: name.to_owned(), target: LinkTarget::Hard(Address(n)) });
        objects.insert(Address(n), Object::Dataset(Box::new(dataset)));
    }
    objects.insert(Address(0), Object::Group(root));
    File { superblock_version: 2, ..File::of_objects(objects) }
}

pub(super) fn map(file: &File, format: ZarrFormat) -> Mapped {
    let source = Source { url: "file:///data/f.h5".to_owned(), size: 1 << 20, ..Source::default() };
    map_file(file, source, &MapOptions { format, ..MapOptions::default() })
}

pub(super) fn one(dataset: Dataset, format: ZarrFormat) -> (Array, Mapped) {
    let mapped = map(&file(vec![("v", dataset)]), format);
    (mapped.hierarchy.array("v").expect("the array is mapped").clone(), mapped)
}

pub(super) fn refused(dataset: Dataset, format: ZarrFormat) -> String {
    let mapped = map(&file(vec![("v", dataset)]), format);
    assert!(mapped.hierarchy.array("v").is_none());
    mapped.report.arrays["v"].omitted.clone().expect("a reason")
}

pub(super) fn codes(mapped: &Mapped) -> Vec<&'static str> {
    mapped.report.diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect()
}

fn scalar(bytes: &[u8]) -> Option<FillValue> {
    Some(FillValue::Fixed(Bytes::copy_from_slice(bytes)))
}

// ---- fill values

/// xarray 2026.9 on Zarr v2: null reads as zero, and a plain `_FillValue` masks.
#[test]
fn v2_says_null_and_a_plain_sentinel_where_header_and_sentinel_differ() {
    let mut data = half_missing(int(4, true), &[0; 4]);
    data.attributes.push(attribute("_FillValue", int(2, true), vec![Element::Integer(-1)]));
    let (array, mapped) = one(data, ZarrFormat::V2);
    assert_eq!(array.fill_value, None);
    assert_eq!(array.attributes["_FillValue"], json!(-1));
    assert!(mapped.tasks.is_empty());
}

#[test]
fn v2_says_the_sentinel_where_it_is_the_header_s_value() {
    let mut data = half_missing(int(4, true), &(-1i32).to_le_bytes());
    data.attributes.push(attribute("_FillValue", int(4, true), vec![Element::Integer(-1)]));
    let (array, mapped) = one(data, ZarrFormat::V2);
    assert_eq!(array.fill_value, scalar(&[255; 4]));
    assert!(!array.attributes.contains_key("_FillValue"), "xarray takes it from fill_value");
    assert!(mapped.tasks.is_empty());
}

/// The header's 7 must read as 7 and not be masked: v2 has no word for that.
#[test]
fn v2_writes_missing_chunks_that_must_not_be_masked() {
    let (array, mapped) = one(half_missing(int(4, true), &7i32.to_le_bytes()), ZarrFormat::V2);
    assert_eq!(array.fill_value, None);
    let [task] = mapped.tasks.as_slice() else { panic!("{:?}", mapped.tasks) };
    assert_eq!(task.positions, [1]);
    let ChunkContent::Assemble { shape, background, pieces } = &task.content else { panic!() };
    assert_eq!((shape.as_slice(), background.as_ref(), pieces.len()), (&[2][..], &[7, 0, 0, 0][..], 0));
}

#[test]
fn v2_warns_where_there_are_too_many_missing_chunks_to_write() {
    let source = Source { url: "file:///f.h5".to_owned(), ..Source::default() };
    let options = MapOptions { constant_chunk_limit: 0, ..MapOptions::default() };
    let data = half_missing(int(4, true), &7i32.to_le_bytes());
    let mapped = map_file(&file(vec![("v", data)]), source, &options);
    assert_eq!(mapped.hierarchy.array("v").unwrap().fill_value, scalar(&7i32.to_le_bytes()));
    assert_eq!(codes(&mapped), ["fill-value-masked"]);
}

/// JSON has no NaN; as `fill_value` xarray takes it for the mask, which NaN is anyway.
#[test]
fn v2_says_nan_as_fill_value() {
    let mut data = dataset(float32(ByteOrder::Little), &[4]);
    data.attributes.push(attribute("_FillValue", float32(ByteOrder::Little), vec![Element::Float(f64::NAN)]));
    let (array, _) = one(data, ZarrFormat::V2);
    assert_eq!(array.fill_value, scalar(&f32::NAN.to_le_bytes()));
}

#[test]
fn v3_says_both_header_and_sentinel() {
    let mut data = half_missing(float32(ByteOrder::Big), &1f32.to_be_bytes());
    data.attributes.push(attribute("_FillValue", float32(ByteOrder::Big), vec![Element::Float(-9999.0)]));
    let (array, mapped) = one(data, ZarrFormat::V3);
    assert_eq!(array.fill_value, scalar(&1f32.to_le_bytes()), "little-endian in the model");
    assert_eq!(array.attributes["_FillValue"], json!("AAAAAICHw8A="));
    assert_eq!(array.codecs, [Codec::Bytes { endian: Some(Endian::Big) }]);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn a_sentinel_that_the_type_cannot_hold_is_dropped_with_a_warning() {
    let mut data = dataset(int(1, false), &[4]);
    data.attributes.push(attribute("_FillValue", int(2, true), vec![Element::Integer(-9999)]));
    data.attributes.push(attribute(
        "missing_value",
        int(2, true),
        vec![Element::Integer(-9999), Element::Integer(3)],
    ));
    let (array, mapped) = one(data, ZarrFormat::V3);
    assert!(!array.attributes.contains_key("_FillValue"));
    assert_eq!(array.attributes["missing_value"], json!(3));
    assert_eq!(codes(&mapped), ["fill-value-dropped", "missing-value-dropped"]);
}

/// xarray masks by several values of `missing_value`, which is what it does by those of `_FillValue` on the original.
#[test]
fn several_sentinels_go_on_as_missing_value() {
    let mut data = dataset(int(2, true), &[4]);
    data.attributes.push(attribute(
        "_FillValue",
        int(2, true),
        vec![Element::Integer(0), Element::Integer(42)],
    ));
    let (array, mapped) = one(data, ZarrFormat::V3);
    assert_eq!(Value::Object(array.attributes), json!({"missing_value": [0, 42]}));
    assert_eq!(codes(&mapped), ["fill-value-dropped"]);
}

/// h5py reads a compound of `r` and `i` as a complex number.
#[test]
fn complex_sentinels() {
    let f4 = || float32(ByteOrder::Little);
    let complex = compound(8, &[("r", 0, f4()), ("i", 4, f4())]);
    let mut data = dataset(complex.clone(), &[4]);
    let value = Element::Compound(vec![("r".into(), Element::Float(1.0)), ("i".into(), Element::Float(0.0))]);
    data.attributes.push(attribute("_FillValue", complex, vec![value]));
    let (array, _) = one(data, ZarrFormat::V3);
    assert_eq!(array.attributes["_FillValue"], json!(["AAAAAAAA8D8=", "AAAAAAAAAAA="]));
}

/// `FillValueCoder.decode` raises for byte strings, and the dataset would not open.
#[test]
fn v3_drops_sentinels_that_xarray_refuses() {
    let mut data = dataset(text("", "").datatype, &[4]);
    data.attributes.push(text("_FillValue", "none"));
    let (array, mapped) = one(data.clone(), ZarrFormat::V3);
    assert!(!array.attributes.contains_key("_FillValue"));
    assert!(codes(&mapped).contains(&"fill-value-dropped"));
    let (array, mapped) = one(data, ZarrFormat::V2);
    assert_eq!(array.attributes["_FillValue"], json!("none"));
    assert_eq!(codes(&mapped), ["chunks-inlined"]);
}

#[test]
fn a_fill_value_of_the_wrong_size_refuses_the_array() {
    let why = refused(half_missing(int(4, true), &[1, 2]), ZarrFormat::V2);
    assert_eq!(why, "fill value message: 2 bytes, an element has 4");
}

#[test]
fn undefined_and_default_are_zero() {
    for value in [StoredFill::Undefined, StoredFill::Default] {
        let mut data = half_missing(int(4, true), &[]);
        data.fill.value = value;
        let (array, _) = one(data, ZarrFormat::V3);
        assert_eq!(array.fill_value, scalar(&[0; 4]));
    }
}

// ---- types

#[test]
fn reduced_precision_is_inlined_by_value() {
    let narrow = Integer { size: 4, order: ByteOrder::Big, signed: true, bit_offset: 3, precision: 12 };
    let mut data = dataset(Datatype::Integer(narrow), &[4]);
    data.fill.value = StoredFill::User(Bytes::from_static(&[0, 0, 0, 0b1111_1000]));
    let (array, mapped) = one(data, ZarrFormat::V3);
    assert_eq!((array.data_type, array.fill_value), (DataType::Int32, scalar(&31i32.to_le_bytes())));
    let ChunkContent::Assemble { pieces, .. } = &mapped.tasks[0].content else { panic!() };
    assert!(matches!(
        pieces[0].transform,
        ElementTransform::Integer { stored: StoredInteger { size: 4, precision: 12, .. }, .. }
    ));
}

#[test]
fn floats_of_other_formats_are_refused_by_their_fields() {
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let long = virtualize_hdf5::model::Float { size: 17, ..float };
    let outside = virtualize_hdf5::model::Float { sign_location: 32, ..float };
    let vax = virtualize_hdf5::model::Float { order: ByteOrder::Vax, exponent_bias: 129, ..float };
    let set = virtualize_hdf5::model::Float { normalization: 1, ..float };
    for odd in [long, outside, vax, set] {
        let why = refused(dataset(Datatype::Float(odd), &[4]), ZarrFormat::V2);
        assert!(why.contains(&format!("{} mantissa bits", odd.mantissa_size)), "{why}");
    }
}

/// Formats without an IEEE 754 format that has all their values.
#[test]
fn floats_of_wider_formats_become_64_bit_floats() {
    let Datatype::Float(float) = float32(ByteOrder::Little) else { panic!() };
    let long = virtualize_hdf5::model::Float { size: 16, mantissa_size: 63, ..float };
    let biased = virtualize_hdf5::model::Float { exponent_bias: 2000, ..float };
    for odd in [long, biased] {
        let (array, mapped) = one(dataset(Datatype::Float(odd), &[4]), ZarrFormat::V3);
        assert_eq!((array.data_type, mapped.tasks.len()), (DataType::Float64, 1));
    }
}

pub(super) fn compound(size: u32, members: &[(&str, u32, Datatype)]) -> Datatype {
    let member = |(name, offset, datatype): &(&str, u32, Datatype)| Member {
        name: (*name).to_owned(),
        offset: *offset,
        datatype: datatype.clone(),
    };
    Datatype::Compound { size, members: members.iter().map(member).collect() }
}

/// zarr-python 3.4 has one byte order for all members of a v3 `struct`.
#[test]
fn members_of_both_byte_orders_get_one_in_zarr_v3() {
    let mixed = compound(6, &[("a", 0, int(2, true)), ("b", 2, float32(ByteOrder::Big))]);
    let (array, mapped) = one(dataset(mixed.clone(), &[4]), ZarrFormat::V3);
    assert_eq!(array.codecs, [Codec::Bytes { endian: Some(Endian::Little) }]);
    let ChunkContent::Assemble { pieces, .. } = &mapped.tasks[0].content else { panic!() };
    assert_eq!(pieces[0].transform.apply(&[1, 2, 3, 4, 5, 6], 6), Some(vec![1, 2, 6, 5, 4, 3]));
    let (_, mapped) = one(dataset(mixed, &[4]), ZarrFormat::V2);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn compounds_become_complex_structures_or_are_packed() {
    let f4 = || float32(ByteOrder::Little);
    let (array, _) = one(dataset(compound(8, &[("r", 0, f4()), ("i", 4, f4())]), &[4]), ZarrFormat::V2);
    assert_eq!(array.data_type, DataType::Complex64);
    let packed = compound(6, &[("a", 0, int(2, true)), ("b", 2, f4())]);
    let (array, mapped) = one(dataset(packed, &[4]), ZarrFormat::V2);
    assert!(matches!(array.data_type, DataType::Struct(fields) if fields.len() == 2));
    assert!(mapped.tasks.is_empty());
    let padded = compound(12, &[("a", 0, int(2, true)), ("b", 4, f4())]);
    let (_, mapped) = one(dataset(padded, &[4]), ZarrFormat::V2);
    let ChunkContent::Assemble { pieces, .. } = &mapped.tasks[0].content else { panic!() };
    let part = |from, to, size| ElementPart { from, to, size, transform: ElementTransform::None };
    let parts = [part(0, 0, 2), part(4, 2, 4)].into();
    assert_eq!(pieces[0].transform, ElementTransform::Repack { stored_size: 12, parts });
}

#[test]
fn array_types_append_their_axes() {
    let pair = Datatype::Array { base: Box::new(int(2, true)), shape: vec![2, 3] };
    let (array, _) = one(dataset(pair, &[4]), ZarrFormat::V2);
    assert_eq!((array.shape, array.data_type), (vec![4, 2, 3], DataType::Int16));
    assert_eq!(array.chunks.references[0].get(0).unwrap().1.length, 48);
}

#[test]
fn booleans_and_flags() {
    let base = Box::new(int(1, true));
    let members = vec![("FALSE".to_owned(), vec![0]), ("TRUE".to_owned(), vec![1])];
    let (array, _) = one(dataset(Datatype::Enum { base: base.clone(), members }, &[4]), ZarrFormat::V2);
    assert_eq!(array.data_type, DataType::Bool);
    let members = vec![("land".to_owned(), vec![0]), ("sea".to_owned(), vec![0xff])];
    let (array, _) = one(dataset(Datatype::Enum { base, members }, &[4]), ZarrFormat::V2);
    assert_eq!(array.data_type, DataType::Int8);
    assert_eq!(array.attributes["flag_values"], json!([0, -1]));
    assert_eq!(array.attributes["flag_meanings"], json!("land sea"));
}

/// h5py 3.16 writes `datetime64[s]` so; xarray decodes integers with such units to the same times.
#[test]
fn opaque_data_of_numpy_keep_their_meaning() {
    let opaque = |size, tag: &str| dataset(Datatype::Opaque { size, tag: tag.to_owned() }, &[4]);
    let (array, _) = one(opaque(8, "NUMPY:<M8[s]"), ZarrFormat::V2);
    assert_eq!(array.data_type, DataType::Int64);
    assert_eq!(array.attributes["units"], json!("seconds since 1970-01-01"));
    assert_eq!(one(opaque(21, "NUMPY:|S21"), ZarrFormat::V2).0.data_type, DataType::FixedBytes(21));
    assert_eq!(one(opaque(21, "other"), ZarrFormat::V2).0.data_type, DataType::RawBytes(21));
}

/// h5py 3.16 and xarray read zeros for chunks that the writer declared as never filled, whatever the fill value is.
#[test]
fn chunks_that_are_never_filled_read_as_zero() {
    let mut data = half_missing(int(4, true), &7i32.to_le_bytes());
    data.fill.write_time = FillTime::Never;
    let (array, mapped) = one(data.clone(), ZarrFormat::V2);
    assert_eq!((array.fill_value, mapped.tasks.len()), (None, 0));
    let (array, mapped) = one(data, ZarrFormat::V3);
    assert_eq!(array.fill_value, scalar(&7i32.to_le_bytes()));
    let ChunkContent::Assemble { background, .. } = &mapped.tasks[0].content else { panic!() };
    assert_eq!(background.as_ref(), [0; 4]);
}

// ---- layouts and filters

#[test]
fn deflate_levels_of_libhdf5() {
    for (parameters, is_known) in
        [(&[0][..], true), (&[9], true), (&[10], false), (&[6, 0], false), (&[], false)]
    {
        let mut data = deflated(&[]);
        data.filters = vec![filter(1, parameters)];
        let mapped = map(&file(vec![("a", data)]), ZarrFormat::V2);
        assert_eq!(mapped.hierarchy.array("a").is_some(), is_known, "{parameters:?}");
    }
}

fn deflated(masks: &[(u64, u32)]) -> Dataset {
    let mut data = dataset(int(4, true), &[4]);
    data.filters = vec![filter(2, &[4]), filter(1, &[6])];
    let mut layout = chunked(&[2], &[2], None, &[9, 8]);
    layout.chunks.filter_masks = masks.iter().copied().collect();
    data.layout = Layout::Chunked(layout);
    data
}

#[test]
fn filtered_chunks_are_referred_to() {
    let (array, mapped) = one(deflated(&[]), ZarrFormat::V2);
    let bytes = Codec::Bytes { endian: Some(Endian::Little) };
    assert_eq!(array.codecs, [bytes, Codec::Shuffle { element_size: 4 }, Codec::Zlib { level: 6 }]);
    let second = Reference { source: SourceId(0), offset: 1100, length: 8 };
    assert_eq!(array.chunks.references[0].find(1), Some(second));
    assert!(mapped.tasks.is_empty());
}

#[test]
fn a_chunk_that_skipped_a_filter_is_made_inline() {
    let (array, mapped) = one(deflated(&[(1, 0b10)]), ZarrFormat::V2);
    assert_eq!(array.codecs.len(), 3);
    let [task] = mapped.tasks.as_slice() else { panic!() };
    assert_eq!(task.positions, [1]);
    let ChunkContent::Assemble { pieces, .. } = &task.content else { panic!() };
    assert_eq!(pieces[0].codecs, [Codec::Shuffle { element_size: 4 }]);
}

#[test]
fn a_filter_that_all_chunks_skipped_is_not_a_codec() {
    let (array, mapped) = one(deflated(&[(0, 0b10), (1, 0b10)]), ZarrFormat::V2);
    assert_eq!(array.codecs.len(), 2);
    assert!(mapped.tasks.is_empty());
}

#[test]
fn unfiltered_edges_are_made_inline() {
    let mut data = deflated(&[]);
    data.dataspace = simple(&[3]);
    if let Layout::Chunked(layout) = &mut data.layout {
        layout.unfiltered_edges = true;
    }
    let (_, mapped) = one(data, ZarrFormat::V2);
    assert_eq!(mapped.tasks.iter().flat_map(|task| &task.positions).collect::<Vec<_>>(), [&1]);
    let ChunkContent::Assemble { pieces, .. } = &mapped.tasks[0].content else { panic!() };
    assert!(pieces[0].codecs.is_empty());
}

#[test]
fn filters_that_only_we_decode_are_inlined_within_the_limit() {
    let mut data = deflated(&[]);
    data.filters = vec![filter(5, &[8, 0, 4, 1, 4, 0, 12, 0])];
    let (array, mapped) = one(data.clone(), ZarrFormat::V2);
    assert_eq!((array.codecs.len(), mapped.tasks.len()), (1, 2));
    assert!(array.chunks.is_empty());
    let source = Source { url: "file:///f.h5".to_owned(), ..Source::default() };
    let options = MapOptions { inline_limit: 8, ..MapOptions::default() };
    let mapped = map_file(&file(vec![("v", data)]), source, &options);
    assert!(mapped.report.arrays["v"].omitted.as_ref().unwrap().contains("nbit"));
}

#[test]
fn unknown_filters_are_refused_by_name() {
    let mut data = deflated(&[]);
    data.filters = vec![Filter { name: Some("mystery".to_owned()), ..filter(4711, &[]) }];
    assert!(refused(data, ZarrFormat::V2).contains("mystery (4711)"));
}

#[test]
fn external_files_of_whole_rows_are_referred_to() {
    let mut data = dataset(int(2, true), &[4, 2]);
    let segment = |file: &str, offset| virtualize_hdf5::model::ExternalSegment {
        file: file.to_owned(),
        offset,
        size: Some(8),
    };
    data.layout = Layout::External(vec![segment("a.raw", 0), segment("b.raw", 16)]);
    let (array, mapped) = one(data, ZarrFormat::V2);
    let urls: Vec<_> = mapped.hierarchy.sources.iter().map(|source| source.url.as_str()).collect();
    assert_eq!(urls, ["file:///data/f.h5", "file:///data/a.raw", "file:///data/b.raw"]);
    assert_eq!(array.chunk_grid, virtualize_zarr::ChunkGrid::Regular(vec![2, 2]));
    let second = Reference { source: SourceId(2), offset: 16, length: 8 };
    assert_eq!(array.chunks.references[1].find(1), Some(second));
}

#[test]
fn storage_past_the_end_of_the_file_is_refused() {
    let mut data = dataset(int(4, true), &[4]);
    data.layout = Layout::Contiguous(Some(ByteRange::new((1 << 20) - 8, 16)));
    assert!(refused(data, ZarrFormat::V2).contains("past the end"));
}

// ---- attributes, dimensions, links

/// h5netcdf hides the bookkeeping, and shows a list of one as what it holds.
#[test]
fn attributes_as_h5netcdf_shows_them() {
    let mut data = dataset(int(4, true), &[4]);
    data.attributes = vec![
        text("CLASS", "DIMENSION_SCALE"),
        text("units", "K"),
        attribute("one", int(8, true), vec![Element::Integer(i64::MIN.into())]),
        attribute(
            "two",
            float32(ByteOrder::Little),
            vec![Element::Float(f64::INFINITY), Element::Float(0.5)],
        ),
        attribute(
            "time",
            Datatype::Time { size: 4, order: ByteOrder::Little },
            vec![Element::Unknown("time")],
        ),
    ];
    let mut grid = attribute("grid", int(4, true), (0..4).map(Element::Integer).collect());
    grid.dataspace = simple(&[2, 2]);
    data.attributes.push(grid);
    let (array, mapped) = one(data, ZarrFormat::V2);
    let expected = json!({
        "units": "K", "one": i64::MIN, "two": ["Infinity", 0.5], "grid": [[0, 1], [2, 3]],
    });
    assert_eq!(Value::Object(array.attributes), expected);
    assert_eq!(codes(&mapped), ["attribute-omitted"]);
}

/// xarray unpacks to float32 on the original, to float64 here.
#[test]
fn packing_in_binary32_is_reported_to_widen() {
    let mut data = dataset(int(2, true), &[4]);
    let scale = attribute("scale_factor", float32(ByteOrder::Little), vec![Element::Float(0.5)]);
    data.attributes.push(scale);
    let (array, mapped) = one(data, ZarrFormat::V2);
    assert_eq!(array.attributes["scale_factor"], json!(0.5));
    assert_eq!(codes(&mapped), ["packing-widened"]);
}

fn dimensions(mapped: &Mapped, path: &str) -> Vec<String> {
    mapped.hierarchy.array(path).unwrap().dimension_names.iter().flatten().cloned().collect()
}

#[test]
fn scales_name_axes_and_dimensions_without_a_variable_are_not_arrays() {
    let mut x = dataset(int(4, true), &[4]);
    x.attributes = vec![text("CLASS", "DIMENSION_SCALE")];
    let mut y = dataset(int(4, true), &[3]);
    y.attributes = vec![
        text("CLASS", "DIMENSION_SCALE"),
        text("NAME", "This is a netCDF dimension but not a netCDF variable.         3"),
    ];
    let mut v = dataset(int(4, true), &[3, 4]);
    let sequence = Datatype::Sequence { size: 16, base: Box::new(int(8, false)) };
    let label = |address| Element::List(vec![Element::Object(Some(Address(address)))]);
    v.attributes = vec![attribute("DIMENSION_LIST", sequence, vec![label(2), label(1)])];
    let mapped = map(&file(vec![("x", x), ("y", y), ("_nc4_non_coord_y", v)]), ZarrFormat::V2);
    assert_eq!(dimensions(&mapped, "y"), ["y", "x"]);
    assert_eq!(dimensions(&mapped, "x"), ["x"]);
    assert_eq!(mapped.hierarchy.arrays().len(), 2);
}

/// `xr.open_dataset(engine="h5netcdf")` of the same datasets: (phony_dim_0, phony_dim_1) and (phony_dim_1, phony_dim_2).
#[test]
fn axes_without_a_scale_get_phony_dimensions() {
    let data = |shape: &[u64]| dataset(int(4, true), shape);
    let mapped = map(&file(vec![("a", data(&[3, 4])), ("b", data(&[4, 4]))]), ZarrFormat::V2);
    assert_eq!(dimensions(&mapped, "a"), ["phony_dim_0", "phony_dim_1"]);
    assert_eq!(dimensions(&mapped, "b"), ["phony_dim_1", "phony_dim_2"]);
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let mut file = file(vec![("v", dataset(int(4, true), &[4]))]);
    let soft =
        |name: &str, path: &str| Link { name: name.to_owned(), target: LinkTarget::Soft(path.to_owned()) };
    let hard =
        |name: &str, address| Link { name: name.to_owned(), target: LinkTarget::Hard(Address(address)) };
    let group =
        Group { links: vec![hard("up", 0), hard("w", 1), soft("gone", "no/where")], ..Group::default() };
    file.objects.insert(Address(9), Object::Group(group));
    let Some(Object::Group(root)) = file.objects.get_mut(&Address(0)) else { panic!() };
    root.links.extend([hard("g", 9), soft("s", "/g/w"), soft("loop", "loop"), hard("..", 1)]);
    let mapped = map(&file, ZarrFormat::V2);
    let paths: Vec<_> = mapped.hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["g/w", "s", "v"]);
    let mut codes = codes(&mapped);
    codes.sort_unstable();
    assert_eq!(codes, ["link-cycle", "link-omitted", "link-omitted", "node-omitted"]);
}

/// libhdf5 opens no dataset whose layout it cannot read.
#[test]
fn datasets_without_elements_need_a_layout() {
    let null = Dataset { dataspace: Dataspace::Null, ..dataset(int(2, true), &[]) };
    assert_eq!(one(null.clone(), ZarrFormat::V3).0.shape, [0]);
    for dataspace in [Dataspace::Null, simple(&[0])] {
        let layout = Layout::Unreadable(virtualize_hdf5::Error::NotHdf5);
        refused(Dataset { dataspace, layout, ..null.clone() }, ZarrFormat::V3);
    }
}
