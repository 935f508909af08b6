//! Files whose sizes, limits and names are just enough, or just not.

use bytes::Bytes;
use virtualize_netcdf3::model::{Attribute, DataType as Stored, Dimension, Version};
use virtualize_remedy::Code;
use virtualize_zarr::DataType;

use super::{array, attribute, chunks, codes, file, mapped, v3, variable};
use crate::netcdf3::weight;
use crate::{ChunkContent, MapOptions, NumpyType, SourceValue};

/// The last byte of the data is the last of the file.
#[test]
fn data_that_end_with_the_file_are_whole() {
    let one = file(vec![variable("a", Stored::Int, &[1], 100)], (0, 0));
    let whole = mapped(&one, 112, &v3());
    assert_eq!((chunks(&whole, "a").1, codes(&whole)), (vec![(0, 100, 12)], vec![]));
    let cut = mapped(&one, 111, &v3());
    assert_eq!((chunks(&cut, "a").1, codes(&cut)[0]), (vec![], ("/a", Code::FileTruncated)));
    let limit = |inline_limit| mapped(&one, 111, &MapOptions { inline_limit, ..v3() });
    assert!(limit(12).hierarchy.array("a").is_some() && limit(11).hierarchy.array("a").is_none());
}

/// Records 2 and 3 are missing: 2 chunks of 6 bytes, which the limits allow or not.
#[test]
fn missing_records_are_made_within_both_limits() {
    let mut variables =
        vec![variable("a", Stored::Short, &[0, 1], 100), variable("b", Stored::Byte, &[0], 106)];
    variables[0].attributes = vec![attribute("_FillValue", Stored::Short, &[0, 5])];
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

/// A header without a number of records: the file has as many as are whole.
#[test]
fn a_file_that_ends_within_a_record_is_reported() {
    let noted = |size, is_streamed| {
        let mut file = file(vec![variable("a", Stored::Short, &[0, 1], 100)], (2, 6));
        file.records.is_streamed = is_streamed;
        codes(&mapped(&file, size, &v3())) == [("/", Code::FileTruncated)]
    };
    assert!(noted(113, true));
    assert!(!noted(112, true), "two whole records");
    assert!(!noted(113, false), "the header states their number");
}

/// xarray decodes the bounds of times with the units of the times, so they stay packed like these.
#[test]
fn bounds_of_times_are_times() {
    let text = |name, text: &'static str| attribute(name, Stored::Char, text.as_bytes());
    let packed = |name| {
        let mut one = variable(name, Stored::Short, &[1], 100);
        one.attributes = vec![attribute(
            "scale_factor",
            Stored::Double,
            &[0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a],
        )];
        one
    };
    let mut time = variable("time", Stored::Double, &[1], 100);
    time.attributes = vec![text("units", "days since 2000-01-01"), text("bounds", "time_bounds")];
    let mut speed = variable("speed", Stored::Double, &[1], 100);
    speed.attributes = vec![text("units", "m s-1"), text("bounds", "speed_bounds")];
    let file = file(vec![time, speed, packed("time_bounds"), packed("speed_bounds")], (0, 0));
    let mapped = mapped(&file, 1000, &MapOptions { unpack: true, ..v3() });
    assert_eq!(array(&mapped, "time_bounds").data_type, DataType::Int16);
    assert_eq!(array(&mapped, "speed_bounds").data_type, DataType::Float64);
    assert_eq!(codes(&mapped), [("/time_bounds", Code::NotUnpacked)]);
}

#[test]
fn renamed_dimensions_avoid_names_that_exist() {
    let mut file = file(vec![variable("a", Stored::Byte, &[1, 2], 100)], (0, 0));
    file.dimensions[0] = Dimension { name: "x_50000".to_owned(), length: Some(7) };
    file.dimensions[2].name = "x".to_owned();
    let mapped = mapped(&file, 1 << 20, &v3());
    assert_eq!(array(&mapped, "a").dimension_names, ["x", "x_50000_"].map(|name| Some(name.to_owned())));
}

#[test]
fn reports_describe_types_and_places() {
    let mut file = file(
        vec![variable("fixed", Stored::UByte, &[1], 100), variable("records", Stored::Double, &[0], 104)],
        (3, 8),
    );
    let layout = |file: &_, name| {
        let report = mapped(file, 1 << 20, &v3()).report.arrays[name].clone();
        (report.source_type, report.source_layout)
    };
    let words = |data_type: &str, layout: &str| (data_type.to_owned(), layout.to_owned());
    assert_eq!(layout(&file, "fixed"), words("NC_UBYTE", "CDF-1, contiguous"));
    assert_eq!(layout(&file, "records"), words("NC_DOUBLE", "CDF-1, records, contiguous"));
    (file.version, file.records.stride) = (Version::Data64, 16);
    let others = "CDF-5, records, alternating with those of other variables";
    assert_eq!(layout(&file, "records"), words("NC_DOUBLE", others));
}

#[test]
fn source_attributes_keep_shapes_and_texts() {
    let mut one = variable("v", Stored::Char, &[1], 100);
    one.attributes = vec![
        attribute("several", Stored::Short, &[0, 1, 0, 2]),
        attribute("letter", Stored::Char, b"x"),
        attribute("_FillValue", Stored::Char, b"no"),
    ];
    let file = file(vec![one], (0, 0));
    let report = mapped(&file, 1000, &MapOptions { source_attributes: true, ..v3() }).report;
    let kept: Vec<_> = report.attributes["v"].iter().map(|one| one.value.clone()).collect();
    let data_type = NumpyType::Plain("<i2".to_owned());
    let numbers = SourceValue::Fixed { data_type, shape: Some(vec![2]), bytes: vec![1, 0, 2, 0] };
    assert_eq!(kept, [numbers, SourceValue::Json("x".into()), SourceValue::Json("no".into())]);
}

/// Each number becomes a JSON value, a text stays one.
#[test]
fn attributes_take_memory_for_each_value() {
    let taken = |data_type, bytes: usize| {
        let values = Bytes::from(vec![0; bytes]);
        weight(&Attribute { name: "name".to_owned(), data_type, values })
    };
    for bytes in [0, 1000, 100_000] {
        let length = bytes as u64;
        assert!((length..length + 1000).contains(&taken(Stored::Char, bytes)), "{bytes}");
        assert!((length * 8..length * 32 + 1000).contains(&taken(Stored::Short, bytes)), "{bytes}");
    }
}
