//! Whole NetCDF classic files, built as models. Expected values are what netCDF4-python 1.7 and xarray 2026.9 show for such
//! files, tried by hand, unless stated otherwise.

use bytes::Bytes;
use serde_json::json;
use virtualize_bytes::{Budget, ByteRange, Limits};
use virtualize_hdf5::model::{
    Attribute, ByteOrder, Classic, Dataset, Datatype, Dimension, Element, File, FillMessage, FillTime,
    FillValue as StoredFill, Layout, Object,
};
use virtualize_remedy::Code;
use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, Endian, FillValue, Reference, Source, ZarrFormat};

use super::{attribute, dataset, float32, int, text};
use crate::hdf5::{OtherFiles, map_file, map_file_among};
use crate::{ChunkContent, MapOptions, Mapped, NumpyType, PieceBytes, SourceValue};

/// A file with the dimensions `t` (records), `x` of length 3 and `y` of length 50,000.
fn file(variables: Vec<(&str, Dataset)>, (records, stride): (u64, u64)) -> File {
    let mut file = super::file(variables);
    for object in file.objects.values_mut() {
        if let Object::Dataset(dataset) = object
            && let Layout::Records(_) = dataset.layout
            && let virtualize_hdf5::model::Dataspace::Simple { shape, .. } = &mut dataset.dataspace
        {
            shape[0] = records;
        }
    }
    let dimension =
        |(name, length): (&str, _)| Dimension { name: name.to_owned(), length, is_record: name == "t" };
    let dimensions = [("t", records), ("x", 3), ("y", 50_000)].map(dimension).to_vec();
    file.classic = Some(Classic { dimensions, records, stride, is_streamed: false });
    file
}

fn variable(datatype: Datatype, dimensions: &[usize], begin: u64) -> Dataset {
    let shape: Vec<u64> = dimensions.iter().map(|id| [1, 3, 50_000][*id]).collect();
    let range = ByteRange::new(begin, shape.iter().product::<u64>() * datatype.size());
    let is_record = dimensions.first() == Some(&0);
    Dataset {
        dimensions: Some(dimensions.to_vec()),
        layout: if is_record { Layout::Records(range) } else { Layout::Contiguous(Some(range)) },
        fill: fill(StoredFill::NetcdfDefault),
        ..dataset(datatype, &shape)
    }
}

fn fill(value: StoredFill) -> FillMessage {
    FillMessage { version: None, write_time: FillTime::Never, allocation_time: 0, value }
}

/// A big-endian integer.
fn big(size: u32, signed: bool) -> Datatype {
    match int(size, signed) {
        Datatype::Integer(number) => {
            Datatype::Integer(virtualize_hdf5::model::Integer { order: ByteOrder::Big, ..number })
        }
        other => panic!("{other:?}"),
    }
}

fn short() -> Datatype {
    big(2, true)
}

fn byte() -> Datatype {
    big(1, true)
}

fn number(name: &str, value: i128) -> Attribute {
    attribute(name, int(2, true), vec![Element::Integer(value)])
}

fn mapped(file: &File, size: u64, options: &MapOptions) -> Mapped {
    map_file(file, Source { size, ..Source::default() }, options)
}

fn v3() -> MapOptions {
    MapOptions { format: ZarrFormat::V3, ..MapOptions::default() }
}

fn array<'a>(mapped: &'a Mapped, path: &str) -> &'a Array {
    mapped.hierarchy.array(path).unwrap()
}

/// Returns the chunk shape, and (position, offset, length) of each reference.
fn chunks(mapped: &Mapped, path: &str) -> (Vec<u64>, Vec<(u64, u64, u64)>) {
    let array = array(mapped, path);
    let ChunkGrid::Regular(shape) = &array.chunk_grid else { panic!("{:?}", array.chunk_grid) };
    let references = array.chunks.references.iter().flat_map(|column| column.iter());
    let place = |(at, Reference { offset, length, .. })| (at, offset, length);
    (shape.clone(), references.map(place).collect())
}

fn codes(mapped: &Mapped) -> Vec<(&str, Code)> {
    mapped.report.diagnostics.iter().map(|one| (one.path.as_str(), one.code)).collect()
}

#[test]
fn alternating_records_are_chunks() {
    let variables = vec![("a", variable(short(), &[0, 1], 100)), ("t", variable(big(8, true), &[0], 108))];
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
    let small = file(vec![("a", variable(short(), &[0, 1], 100))], (100_000, 6));
    assert_eq!(chunks(&mapped(&small, 1 << 20, &v3()), "a"), (vec![100_000, 3], vec![(0, 100, 600_000)]));
    let large = file(vec![("a", variable(short(), &[0, 2], 100))], (2, 100_000));
    let places = vec![(0, 100, 100_000), (1, 100_100, 100_000)];
    assert_eq!(chunks(&mapped(&large, 1 << 20, &v3()), "a"), (vec![1, 50_000], places));
}

#[test]
fn contiguous_data_are_split_on_request() {
    let options = MapOptions { split_contiguous: Some(12), ..v3() };
    let one = file(vec![("a", variable(short(), &[0, 1], 100))], (4, 6));
    let places = vec![(0, 100, 12), (1, 112, 12)];
    assert_eq!(chunks(&mapped(&one, 1 << 20, &options), "a"), (vec![2, 3], places));
    let fixed = file(vec![("a", variable(big(4, true), &[2], 100))], (0, 0));
    let options = MapOptions { split_contiguous: Some(100_000), ..v3() };
    let places = vec![(0, 100, 100_000), (1, 100_100, 100_000)];
    assert_eq!(chunks(&mapped(&fixed, 1 << 20, &options), "a"), (vec![25_000], places));
}

/// netCDF-C reads zeros past the end of the file.
#[test]
fn a_short_file_reads_as_zero() {
    let variables = || vec![("a", variable(short(), &[0, 1], 100)), ("b", variable(byte(), &[0], 108))];
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
    assert_eq!((shape.as_slice(), background.as_ref()), (&[1, 6][..], &[0][..]));
    assert_eq!(pieces[0].bytes, PieceBytes::At(ByteRange::new(124, 3)));
}

#[test]
fn records_that_no_file_has_take_no_memory() {
    let variables = vec![("a", variable(short(), &[0, 1], 100)), ("b", variable(byte(), &[0], 108))];
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
    let file = file(vec![("a", variable(short(), &[0, 1], 100))], (u64::from(u32::MAX) - 1, 6));
    let mapped = mapped(&file, 112, &v3());
    assert_eq!(chunks(&mapped, "a"), (vec![1, 3], vec![(0, 100, 6), (1, 106, 6)]));
}

#[test]
fn a_cut_chunk_past_the_inline_limit_is_omitted() {
    let options = MapOptions { inline_limit: 1000, ..v3() };
    let mapped = mapped(&file(vec![("a", variable(big(4, true), &[2], 100))], (0, 0)), 5000, &options);
    assert!(mapped.hierarchy.array("a").is_none());
    assert_eq!(codes(&mapped), [("/a", Code::ArrayOmitted)]);
}

#[test]
fn missing_chunks_read_as_the_fill_value_of_netcdf() {
    let mut declared = variable(short(), &[1], 100);
    declared.fill = fill(StoredFill::User(Bytes::from_static(&[0xff, 0x9d])));
    // netCDF-C ignores an attribute of another type; xarray masks by it.
    let mut other = variable(short(), &[1], 108);
    (declared.attributes, other.attributes) =
        (vec![number("_FillValue", -99)], vec![number("_FillValue", -99)]);
    let file = file(vec![("declared", declared), ("other", other)], (0, 0));
    let little = |number: i16| Some(FillValue::Fixed(Bytes::copy_from_slice(&number.to_le_bytes())));
    let in_v3 = mapped(&file, 1 << 20, &v3());
    let declaration = |path: &str| {
        let fill = in_v3.report.arrays[path].fill.clone().unwrap();
        (fill.policy.0, fill.sources[0].origin.clone())
    };
    assert_eq!(declaration("declared"), ("netcdf-fill", "fill value of the variable".to_owned()));
    assert_eq!(declaration("other"), ("netcdf-fill", "default fill value, NC_FILL_SHORT".to_owned()));
    assert_eq!(array(&in_v3, "declared").fill_value, little(-99));
    assert_eq!(array(&in_v3, "other").fill_value, little(-32_767));
    for path in ["declared", "other"] {
        assert_eq!(array(&in_v3, path).attributes["_FillValue"], json!(-99));
    }
    let in_v2 = mapped(&file, 1 << 20, &MapOptions::default());
    assert_eq!(array(&in_v2, "declared").fill_value, little(-99));
    assert_eq!(array(&in_v2, "other").fill_value, None);
    assert_eq!(array(&in_v2, "other").attributes["_FillValue"], json!(-99));
}

/// Names that HDF5 reserves mean nothing in NetCDF classic. netCDF4-python shows the first of two attributes.
#[test]
fn all_attributes_are_returned_and_the_first_of_a_name() {
    let mut one = variable(byte(), &[1], 100);
    one.attributes = vec![
        text("NAME", "This is a netCDF dimension but not a netCDF variable."),
        text("CLASS", "DIMENSION_SCALE"),
        number("one", -2),
        number("one", 7),
        number("_ARRAY_DIMENSIONS", 7),
    ];
    let expected = json!({
        "NAME": "This is a netCDF dimension but not a netCDF variable.", "CLASS": "DIMENSION_SCALE", "one": -2,
    });
    let file = file(vec![("_nc4_non_coord_v", one)], (0, 0));
    let mapped = mapped(&file, 1 << 20, &MapOptions { source_attributes: true, ..v3() });
    assert_eq!(json!(array(&mapped, "_nc4_non_coord_v").attributes), expected);
    assert_eq!(array(&mapped, "_nc4_non_coord_v").dimension_names, [Some("x".to_owned())]);
    let (path, kept) = ("/_nc4_non_coord_v", &mapped.report.attributes["_nc4_non_coord_v"]);
    assert_eq!(codes(&mapped), [(path, Code::NameCollision), (path, Code::AttributeOmitted)]);
    let number = SourceValue::Fixed {
        data_type: NumpyType::Plain("<i2".to_owned()),
        shape: Some(vec![1]),
        bytes: vec![0xfe, 0xff],
    };
    let one: Vec<_> = kept.iter().filter(|one| one.name == "one").collect();
    assert_eq!((one.len(), &one[0].value), (1, &number));
    assert_eq!(mapped.report.unlimited[""], ["t"]);
}

#[test]
fn dimensions_of_one_name_and_two_lengths_are_distinguished() {
    let mut file = file(vec![("a", variable(byte(), &[1, 2], 100))], (0, 0));
    file.classic.as_mut().unwrap().dimensions[2].name = "x".to_owned();
    let mapped = mapped(&file, 1 << 20, &v3());
    let names = ["x_3", "x"].map(|name| Some(name.to_owned()));
    assert_eq!(array(&mapped, "a").dimension_names, names);
    assert_eq!(codes(&mapped), [("/a", Code::DimensionRenamed)]);
}

#[test]
fn references_are_charged_before_they_are_listed() {
    let name = "long ".repeat(200);
    let variables = vec![(name.as_str(), variable(byte(), &[0], 100)), ("b", variable(byte(), &[0], 104))];
    let (file, size) = (file(variables, (10_000_000, 8)), 80_000_100);
    let limits = Limits { metadata_bytes: 1 << 20, ..Limits::default() };
    let budget = Budget::of_file(&limits, size);
    let mapped =
        map_file_among(&file, Source { size, ..Source::default() }, &OtherFiles::default(), &v3(), &budget);
    assert!(codes(&mapped).contains(&("/", Code::TooLarge)));
}

/// netCDF4-python shows the last of two variables. The file ends within the first, of which a chunk would be made.
#[test]
fn chunks_of_a_hidden_variable_are_not_made() {
    let variables = vec![("a", variable(big(4, true), &[2], 100)), ("a", variable(byte(), &[1], 4))];
    let mapped = mapped(&file(variables, (0, 0)), 5000, &v3());
    assert_eq!(chunks(&mapped, "a"), (vec![3], vec![(0, 4, 3)]));
    assert!(mapped.tasks.is_empty(), "{:?}", mapped.tasks);
    assert_eq!(codes(&mapped).last(), Some(&("/a", Code::NameCollision)));
}

/// The last byte of the data is the last of the file.
#[test]
fn data_that_end_with_the_file_are_whole() {
    let one = file(vec![("a", variable(big(4, true), &[1], 100))], (0, 0));
    let whole = mapped(&one, 112, &v3());
    assert_eq!((chunks(&whole, "a").1, codes(&whole)), (vec![(0, 100, 12)], vec![]));
    let cut = mapped(&one, 111, &v3());
    assert_eq!((chunks(&cut, "a").1, codes(&cut)[0]), (vec![], ("/a", Code::FileTruncated)));
    let limit = |inline_limit| mapped(&one, 111, &MapOptions { inline_limit, ..v3() });
    assert!(limit(12).hierarchy.array("a").is_some() && limit(11).hierarchy.array("a").is_none());
}

/// A header without a number of records: the file has as many as are whole.
#[test]
fn a_file_that_ends_within_a_record_is_reported() {
    let noted = |size, is_streamed| {
        let mut file = file(vec![("a", variable(short(), &[0, 1], 100))], (2, 6));
        file.classic.as_mut().unwrap().is_streamed = is_streamed;
        codes(&mapped(&file, size, &v3())) == [("/", Code::FileTruncated)]
    };
    assert!(noted(113, true));
    assert!(!noted(112, true), "two whole records");
    assert!(!noted(113, false), "the header states their number");
}

/// Records 2 and 3 are missing: 2 chunks of 6 bytes, which the limits allow or not.
#[test]
fn missing_records_are_made_within_both_limits() {
    let mut variables = vec![("a", variable(short(), &[0, 1], 100)), ("b", variable(byte(), &[0], 106))];
    variables[0].1.fill = fill(StoredFill::User(Bytes::from_static(&[0, 5])));
    let made = |constant_chunk_limit, inline_limit| {
        let options = MapOptions { constant_chunk_limit, inline_limit, ..v3() };
        let mapped = mapped(&file(variables.clone(), (4, 8)), 115, &options);
        let of_a = mapped.tasks.into_iter().filter(|task| task.array == "a");
        of_a.map(|task| match task.content {
            ChunkContent::Assemble { shape, background, .. } => (task.positions, shape, background.len()),
            other => panic!("{other:?}"),
        })
        .collect::<Vec<_>>()
    };
    let constant = (vec![2, 3], vec![1, 3], 2);
    assert_eq!(made(2, 12), [constant]);
    assert_eq!(made(1, 12), [], "too many chunks");
    assert_eq!(made(2, 11), [], "too many bytes");
}

#[test]
fn reports_describe_types_and_places() {
    let variables = || {
        vec![
            ("fixed", variable(big(1, false), &[1], 100)),
            ("records", variable(float32(ByteOrder::Big), &[0], 104)),
        ]
    };
    let layout = |stride, name| {
        let report = mapped(&file(variables(), (3, stride)), 1 << 20, &v3()).report.arrays[name].clone();
        (report.source_type, report.source_layout)
    };
    let words = |data_type: &str, layout: &str| (data_type.to_owned(), layout.to_owned());
    let float = "big-endian 32-bit float";
    assert_eq!(layout(4, "fixed"), words("unsigned 8-bit integer", "contiguous"));
    assert_eq!(layout(4, "records"), words(float, "records, contiguous"));
    assert_eq!(layout(16, "records"), words(float, "records, alternating with those of other variables"));
}
