//! Whole files, built as models. Expected values are what netCDF4-python 1.7 and xarray 2026.9 show for such files, tried by
//! hand, unless said otherwise.

mod edges;
mod values;

use bytes::Bytes;
use serde_json::json;
use virtualize_bytes::{Budget, ByteRange, Limits};
use virtualize_netcdf3::model::{Attribute, DataType as Stored, Dimension, File, Records, Variable, Version};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Endian, FillValue, Reference, Source, ZarrFormat};

use super::{map_file, map_file_within};
use crate::{ChunkContent, MapOptions, Mapped, NumpyType, PieceBytes, SourceValue};

/// A file with the dimensions `t` (records), `x` of length 3 and `y` of length 50,000.
pub(super) fn file(variables: Vec<Variable>, records: (u64, u64)) -> File {
    let dimension = |name: &str, length| Dimension { name: name.to_owned(), length };
    File {
        version: Version::Classic,
        dimensions: vec![dimension("t", None), dimension("x", Some(3)), dimension("y", Some(50_000))],
        attributes: Vec::new(),
        variables,
        records: Records { count: records.0, stride: records.1, is_streamed: false },
    }
}

pub(super) fn variable(name: &str, data_type: Stored, dimensions: &[usize], begin: u64) -> Variable {
    let length = |id: &usize| [1, 3, 50_000][*id];
    Variable {
        name: name.to_owned(),
        dimensions: dimensions.to_vec(),
        attributes: Vec::new(),
        data_type,
        begin,
        size: dimensions.iter().map(length).product::<u64>() * data_type.size(),
        is_record: dimensions.first() == Some(&0),
    }
}

pub(super) fn attribute(name: &str, data_type: Stored, values: &'static [u8]) -> Attribute {
    Attribute { name: name.to_owned(), data_type, values: Bytes::from_static(values) }
}

pub(super) fn mapped(file: &File, size: u64, options: &MapOptions) -> Mapped {
    map_file(file, Source { size, ..Source::default() }, options)
}

pub(super) fn v3() -> MapOptions {
    MapOptions { format: ZarrFormat::V3, ..MapOptions::default() }
}

pub(super) fn array<'a>(mapped: &'a Mapped, path: &str) -> &'a Array {
    mapped.hierarchy.array(path).unwrap()
}

/// Returns the chunk shape, and (position, offset, length) of each reference.
pub(super) fn chunks(mapped: &Mapped, path: &str) -> (Vec<u64>, Vec<(u64, u64, u64)>) {
    let array = array(mapped, path);
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { panic!("{:?}", array.chunk_grid) };
    let references = array.chunks.references.iter().flat_map(|column| column.iter());
    let place = |(at, Reference { offset, length, .. })| (at, offset, length);
    (shape.clone(), references.map(place).collect())
}

pub(super) fn codes(mapped: &Mapped) -> Vec<(&str, Code)> {
    mapped.report.diagnostics.iter().map(|one| (one.path.as_str(), one.code)).collect()
}

#[test]
fn alternating_records_are_chunks() {
    let variables =
        vec![variable("a", Stored::Short, &[0, 1], 100), variable("t", Stored::Double, &[0], 108)];
    let mapped = mapped(&file(variables, (3, 16)), 148, &v3());
    assert_eq!(chunks(&mapped, "a"), (vec![1, 3], vec![(0, 100, 6), (1, 116, 6), (2, 132, 6)]));
    assert_eq!(chunks(&mapped, "t"), (vec![1], vec![(0, 108, 8), (1, 124, 8), (2, 140, 8)]));
    let a = array(&mapped, "a");
    assert_eq!((a.shape.as_slice(), &a.data_type), (&[3, 3][..], &DataType::Int16));
    assert_eq!(a.codecs, [Codec::Bytes { endian: Some(Endian::Big) }]);
    assert_eq!(a.dimension_names, [Some("t".to_owned()), Some("x".to_owned())]);
    assert_eq!(codes(&mapped), []);
}

#[test]
fn records_of_a_single_variable_are_chunks_if_they_are_large() {
    let small = file(vec![variable("a", Stored::Short, &[0, 1], 100)], (100_000, 6));
    assert_eq!(chunks(&mapped(&small, 1 << 20, &v3()), "a"), (vec![100_000, 3], vec![(0, 100, 600_000)]));
    let large = file(vec![variable("a", Stored::Short, &[0, 2], 100)], (2, 100_000));
    let places = vec![(0, 100, 100_000), (1, 100_100, 100_000)];
    assert_eq!(chunks(&mapped(&large, 1 << 20, &v3()), "a"), (vec![1, 50_000], places));
}

#[test]
fn contiguous_data_are_split_on_request() {
    let options = MapOptions { split_contiguous: Some(12), ..v3() };
    let one = file(vec![variable("a", Stored::Short, &[0, 1], 100)], (4, 6));
    let places = vec![(0, 100, 12), (1, 112, 12)];
    assert_eq!(chunks(&mapped(&one, 1 << 20, &options), "a"), (vec![2, 3], places));
    let fixed = file(vec![variable("a", Stored::Int, &[2], 100)], (0, 0));
    let options = MapOptions { split_contiguous: Some(100_000), ..v3() };
    let places = vec![(0, 100, 100_000), (1, 100_100, 100_000)];
    assert_eq!(chunks(&mapped(&fixed, 1 << 20, &options), "a"), (vec![25_000], places));
}

/// netCDF-C reads zeros past the end of the file.
#[test]
fn a_short_file_reads_as_zero() {
    let variables =
        || vec![variable("a", Stored::Short, &[0, 1], 100), variable("b", Stored::Byte, &[0], 108)];
    let mapped = mapped(&file(variables(), (4, 12)), 127, &v3());
    assert_eq!(chunks(&mapped, "a").1, [(0, 100, 6), (1, 112, 6)]);
    assert_eq!(chunks(&mapped, "b").1, [(0, 108, 1), (1, 120, 1)]);
    assert!(codes(&mapped).contains(&("/a", Code::FileTruncated)));
    assert!(codes(&mapped).contains(&("/b", Code::FileTruncated)));
    // Three bytes of the third record exist, and nothing of the fourth.
    let tasks: Vec<_> = mapped.tasks.iter().filter(|task| task.array == "a").collect();
    let [missing, part] = tasks.as_slice() else { panic!("{tasks:?}") };
    assert_eq!((missing.positions.as_slice(), part.positions.as_slice()), (&[3][..], &[2][..]));
    let ChunkContent::Assemble { shape, background, pieces } = &part.content else { panic!("{part:?}") };
    assert_eq!((shape.as_slice(), background.as_ref()), (&[6][..], &[0][..]));
    assert_eq!(pieces[0].bytes, PieceBytes::At(ByteRange::new(124, 3)));
}

#[test]
fn records_that_no_file_has_take_no_memory() {
    let variables = vec![variable("a", Stored::Short, &[0, 1], 100), variable("b", Stored::Byte, &[0], 108)];
    let file = file(variables, (u64::from(u32::MAX) - 1, 12));
    for format in [ZarrFormat::V2, ZarrFormat::V3] {
        let mapped = mapped(&file, 124, &MapOptions { format, ..MapOptions::default() });
        assert_eq!(array(&mapped, "a").shape, [u64::from(u32::MAX) - 1, 3]);
        assert_eq!(chunks(&mapped, "a").1.len(), 2);
        let zero = FillValue::Fixed(Bytes::from_static(&[0, 0]));
        assert_eq!(array(&mapped, "a").fill_value, (format == ZarrFormat::V3).then_some(zero));
        assert!(mapped.tasks.is_empty());
    }
}

#[test]
fn the_records_of_a_short_file_are_chunks() {
    let file = file(vec![variable("a", Stored::Short, &[0, 1], 100)], (u64::from(u32::MAX) - 1, 6));
    let mapped = mapped(&file, 112, &v3());
    assert_eq!(chunks(&mapped, "a"), (vec![1, 3], vec![(0, 100, 6), (1, 106, 6)]));
}

#[test]
fn a_cut_chunk_past_the_inline_limit_is_left_out() {
    let options = MapOptions { inline_limit: 1000, ..v3() };
    let mapped = mapped(&file(vec![variable("a", Stored::Int, &[2], 100)], (0, 0)), 5000, &options);
    assert!(mapped.hierarchy.array("a").is_none());
    assert_eq!(codes(&mapped), [("/a", Code::ArrayLeftOut)]);
}

#[test]
fn missing_chunks_read_as_the_fill_value_of_netcdf() {
    let mut declared = variable("declared", Stored::Short, &[1], 100);
    declared.attributes = vec![attribute("_FillValue", Stored::Short, &[0xff, 0x9d])];
    let mut other = variable("other", Stored::Short, &[1], 108);
    other.attributes = vec![attribute("_FillValue", Stored::Int, &[0xff, 0xff, 0xff, 0x9d])];
    let file = file(vec![declared, other], (0, 0));
    let little = |number: i16| Some(FillValue::Fixed(Bytes::copy_from_slice(&number.to_le_bytes())));
    let in_v3 = mapped(&file, 1 << 20, &v3());
    assert_eq!(array(&in_v3, "declared").fill_value, little(-99));
    // netCDF-C ignores the attribute if it has another type; xarray masks by it.
    assert_eq!(array(&in_v3, "other").fill_value, little(-32_767));
    for path in ["declared", "other"] {
        assert_eq!(array(&in_v3, path).attributes["_FillValue"], json!(-99));
    }
    let in_v2 = mapped(&file, 1 << 20, &MapOptions::default());
    assert_eq!(array(&in_v2, "declared").fill_value, little(-99));
    assert_eq!(array(&in_v2, "other").fill_value, None);
    assert_eq!(array(&in_v2, "other").attributes["_FillValue"], json!(-99));
}

#[test]
fn attributes_have_the_values_that_netcdf4_python_shows() {
    let mut one = variable("v", Stored::Byte, &[1], 100);
    one.attributes = vec![
        attribute("one", Stored::Short, &[0xff, 0xfe]),
        attribute("several", Stored::Float, &[0x3f, 0, 0, 0, 0x7f, 0xc0, 0, 0]),
        attribute("none", Stored::Int, &[]),
        attribute("text", Stored::Char, b"a\0b\0"),
        attribute("large", Stored::UInt64, &[0xff; 8]),
        attribute("one", Stored::Byte, &[7]),
        attribute("_ARRAY_DIMENSIONS", Stored::Byte, &[7]),
    ];
    let mapped = mapped(&file(vec![one], (0, 0)), 1 << 20, &v3());
    let expected = json!({"one": -2, "several": [0.5, "NaN"], "none": [], "text": "ab", "large": u64::MAX});
    assert_eq!(json!(array(&mapped, "v").attributes), expected);
    assert_eq!(codes(&mapped), [("/v", Code::NameCollision), ("/v", Code::AttributeLeftOut)]);
}

/// `xarray.open_dataset(engine="netcdf4")` shows `np.int16(-2)`, `array([0.5], dtype=float32)`, "ab" and `b"z"`.
#[test]
fn attributes_keep_their_types_on_request() {
    let mut one = variable("v", Stored::Char, &[1], 100);
    one.attributes = vec![
        attribute("one", Stored::Short, &[0xff, 0xfe]),
        attribute("text", Stored::Char, b"ab\0"),
        attribute("_FillValue", Stored::Char, b"z"),
        attribute("one", Stored::Char, b"again"),
    ];
    let file = file(vec![one], (0, 0));
    assert!(mapped(&file, 1 << 20, &v3()).report.attributes.is_empty());
    let report = mapped(&file, 1 << 20, &MapOptions { source_attributes: true, ..v3() }).report;
    let kept: Vec<_> =
        report.attributes["v"].iter().map(|one| (one.name.as_str(), one.value.clone())).collect();
    let number = SourceValue::Fixed {
        data_type: NumpyType::Plain("<i2".to_owned()),
        shape: Some(vec![1]),
        bytes: vec![0xfe, 0xff],
    };
    let character = SourceValue::Fixed {
        data_type: NumpyType::Plain("|S1".to_owned()),
        shape: Some(vec![1]),
        bytes: vec![b'z'],
    };
    let text = SourceValue::Json("ab".into());
    assert_eq!(kept, [("one", number), ("text", text), ("_FillValue", character)]);
    assert_eq!(report.unlimited[""], ["t"]);
}

#[test]
fn dimensions_of_one_name_and_two_lengths_are_told_apart() {
    let mut file = file(vec![variable("a", Stored::Byte, &[1, 2], 100)], (0, 0));
    file.dimensions[2].name = "x".to_owned();
    let mapped = mapped(&file, 1 << 20, &v3());
    let names = ["x", "x_50000"].map(|name| Some(name.to_owned()));
    assert_eq!(array(&mapped, "a").dimension_names, names);
    assert_eq!(codes(&mapped), [("/", Code::DimensionRenamed)]);
}

#[test]
fn references_are_charged_before_they_are_listed() {
    let name = "long ".repeat(200);
    let variables = vec![variable(&name, Stored::Byte, &[0], 100), variable("b", Stored::Byte, &[0], 104)];
    let (file, size) = (file(variables, (10_000_000, 8)), 80_000_100);
    let limits = Limits { metadata_bytes: 1 << 20, ..Limits::default() };
    let budget = Budget::of_file(&limits, size);
    let mapped = map_file_within(&file, Source { size, ..Source::default() }, &v3(), &budget);
    assert!(codes(&mapped).contains(&("/", Code::TooLarge)));
}

/// netCDF4-python shows the last of two variables. The file ends within the first, of which a chunk would be made.
#[test]
fn chunks_of_a_hidden_variable_are_not_made() {
    let variables = vec![variable("a", Stored::Int, &[2], 100), variable("a", Stored::Byte, &[1], 4)];
    let mapped = mapped(&file(variables, (0, 0)), 5000, &v3());
    assert_eq!(chunks(&mapped, "a"), (vec![3], vec![(0, 4, 3)]));
    assert!(mapped.tasks.is_empty(), "{:?}", mapped.tasks);
    assert_eq!(codes(&mapped), [("/a", Code::NameCollision)]);
}

/// netCDF-C 4.10 ignores such attributes: `NC_FILL_SHORT` is -32767.
#[test]
fn a_fill_value_of_another_type_or_number_is_ignored() {
    let fill = |data_type, values| {
        let mut one = variable("a", Stored::Short, &[1], 100);
        one.attributes = vec![attribute("_FillValue", data_type, values)];
        array(&mapped(&file(vec![one], (0, 0)), 200, &v3()), "a").fill_value.clone()
    };
    let of = |value: i16| Some(FillValue::Fixed(Bytes::copy_from_slice(&value.to_le_bytes())));
    assert_eq!(fill(Stored::Short, &[0, 5]), of(5));
    assert_eq!(fill(Stored::Short, &[0, 5, 0, 6]), of(-32767));
    assert_eq!(fill(Stored::Char, b"ab"), of(-32767));
}
