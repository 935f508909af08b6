//! Problems that `validate` finds in references to an unchanged file.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use virtualize::{
    Options, ReadOptions, Sample, ValidationReport, VirtualStore, validate,
    zarr::{Array, Codec, DataType, FillValue, Hierarchy, Lengths, ZarrFormat},
};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hdf5/chunked.h5");
const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hdf5/types.h5");

fn array<'a>(hierarchy: &'a mut Hierarchy, path: &str) -> &'a mut Array {
    hierarchy.array_mut(path).unwrap()
}

/// Returns the offsets of the chunks of `temperature`.
fn offsets(hierarchy: &mut Hierarchy) -> &mut Vec<u64> {
    Arc::make_mut(&mut array(hierarchy, "temperature").chunks.references[0].offsets)
}

/// Changes the references of a file, and validates them against it.
async fn checked(file: &str, sample: Sample, change: impl FnOnce(&mut Hierarchy)) -> ValidationReport {
    let mut options = Options::default();
    options.map.format = ZarrFormat::V3;
    let mut hierarchy = virtualize::open(file, &options).await.unwrap().hierarchy;
    change(&mut hierarchy);
    validate(&VirtualStore::of(hierarchy, "test"), sample, &ReadOptions::default()).await.unwrap()
}

async fn problems(change: impl FnOnce(&mut Hierarchy)) -> Vec<String> {
    let report = checked(FILE, Sample::Full, change).await;
    report.sources.iter().chain(&report.arrays).flat_map(|one| one.listed.clone()).collect()
}

#[tokio::test]
async fn what_is_right_is_valid_and_counted() {
    let report = checked(FILE, Sample::Full, |_| {}).await;
    assert!(report.is_valid(), "{report:?}");
    let temperature = report.arrays.iter().find(|one| one.name == "temperature").unwrap();
    assert_eq!((temperature.chunks, temperature.decoded), (3, 3));
    let report = checked(FILE, Sample::Chunks(1), |_| {}).await;
    assert!(report.arrays.iter().all(|one| one.decoded == 1), "{report:?}");
    let report = checked(FILE, Sample::Chunks(0), |_| {}).await;
    assert!(report.is_valid() && report.arrays.iter().all(|one| one.decoded == 0));
}

/// An array without some of the rows of its source, as kerchunk writes unlimited dimensions of variables without chunks.
#[tokio::test]
async fn missing_rows() {
    let found = problems(|h| {
        let temperature = array(h, "temperature");
        temperature.shape[0] = 2;
        temperature.chunks.references.clear();
    });
    assert_eq!(found.await, ["shape [2, 6], a direct read of the source has [4, 6]"]);
}

#[tokio::test]
async fn chunks_outside_the_file() {
    for (offset, end) in [(8334, "8357"), (u64::MAX - 3, "18446744073709551615")] {
        let reported = problems(|h| offsets(h)[0] = offset).await.join("\n");
        assert!(
            reported
                .contains(&format!("chunk 0.0: bytes {offset} to {end} are outside the file of 8334 bytes"))
        );
    }
}

#[tokio::test]
async fn places_metadata_and_codecs_that_are_wrong() {
    let reported = problems(|h| offsets(h).swap(0, 1)).await.join("\n");
    assert!(
        reported.contains("chunk 0.0: [") && reported.contains("a direct read of the source has"),
        "{reported}"
    );
    let reported =
        problems(|h| array(h, "temperature").codecs.retain(|codec| !matches!(codec, Codec::Zlib { .. })));
    let reported = reported.await.join("\n");
    assert!(reported.contains("chunk 0.0: "), "{reported}");
    let reported = problems(|h| array(h, "temperature").data_type = DataType::Int32).await.join("\n");
    assert!(reported.contains("data type is int32, a direct read of the source says float32"), "{reported}");
    let zero = FillValue::zero(&DataType::Float32);
    let reported = problems(|h| array(h, "temperature").fill_value = Some(zero)).await.join("\n");
    assert!(reported.contains("fill value is 0.0, a direct read of the source says -9999.0"), "{reported}");
    let units = |h: &mut Hierarchy| {
        array(h, "temperature").attributes.insert("units".to_owned(), "m".into());
    };
    assert_eq!(problems(units).await, ["attribute units is \"m\", a direct read of the source says \"K\""]);
}

#[tokio::test]
async fn what_was_recorded_of_a_source() {
    for (changed, word) in
        [("size", "8334 bytes, recorded 9"), ("time", "modified at"), ("tag", "entity tag")]
    {
        let reported = problems(|h| match changed {
            "size" => h.sources[0].size = 9,
            "time" => h.sources[0].modified = Some(1_000_000_000_001),
            _ => h.sources[0].etag = Some("\"other\"".to_owned()),
        });
        let reported = reported.await;
        assert!(reported.len() == 1 && reported[0].contains(word), "{reported:?}");
    }
    // Icechunk records whole seconds, rounded up.
    let whole = |h: &mut Hierarchy| {
        let time = h.sources[0].modified.unwrap();
        h.sources[0].modified = Some((time + 999) / 1000 * 1000);
    };
    assert!(problems(whole).await.is_empty());
}

#[tokio::test]
async fn chunks_that_are_inline_are_compared_by_value() {
    let values = Bytes::from(vec![0; 24]);
    let put = |h: &mut Hierarchy| {
        let array = array(h, "temperature");
        array.codecs.retain(|codec| matches!(codec, Codec::Bytes { .. }));
        array.chunks.references.clear();
        array.chunks.inline.insert(0, values);
    };
    let reported = problems(put).await.join("\n");
    assert!(reported.contains("chunk 0.0: its values differ from those of a direct read"), "{reported}");
}

/// Text of variable length is compared as text, whichever compression is used.
#[tokio::test]
async fn text_is_compared_as_text() {
    let is_text = |array: &Array| array.data_type == DataType::String && !array.chunks.inline.is_empty();
    let mut name = String::new();
    let report = checked(TEXT, Sample::Full, |h| {
        let all = h.arrays();
        name = all.iter().find(|(_, array)| is_text(array)).unwrap().0.clone();
        let array = array(h, &name);
        array.codecs.push(Codec::Zlib { level: 1 });
        for bytes in array.chunks.inline.values_mut() {
            *bytes = virtualize_codec::encode(&[Codec::Zlib { level: 1 }], bytes).unwrap().into();
        }
    })
    .await;
    assert!(report.is_valid() && report.arrays.iter().any(|one| one.name == name && one.decoded > 0));
    for (at, word) in [(8, "its values differ"), (0, "elements, expected")] {
        let report = checked(TEXT, Sample::Full, |h| {
            for bytes in array(h, &name).chunks.inline.values_mut() {
                let mut changed = bytes.to_vec();
                changed[at] ^= 1;
                *bytes = changed.into();
            }
        })
        .await;
        let reported = &report.arrays.iter().find(|one| one.name == name).unwrap().listed;
        assert!(reported[0].contains(word), "{reported:?}");
    }
}

#[tokio::test]
async fn a_source_that_is_gone_and_one_of_no_format() {
    let report =
        checked(FILE, Sample::Full, |h| h.sources[0].url = "file:///nowhere/at/all.h5".to_owned()).await;
    assert!(!report.is_valid() && report.sources[0].chunks > 0 && report.sources[0].problems == 1);
    let readme = concat!("file://", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let report = checked(FILE, Sample::Chunks(0), |h| {
        h.sources[0] = virtualize::zarr::Source { url: readme.to_owned(), ..Default::default() };
        offsets(h).fill(0);
        array(h, "temperature").chunks.references[0].lengths = Lengths::Uniform(1);
    })
    .await;
    assert!(report.notes.iter().any(|note| note.contains("neither HDF5, NetCDF nor TIFF")), "{report:?}");
}
