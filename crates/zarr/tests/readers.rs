//! Rules of reader compatibility. The interop test `test_readers.py` verifies them with the readers themselves.

#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::Map;
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Lengths, References, SourceId,
    ZarrFormat::{self, V2, V3},
    readers::{ChunkFacts, Compatibility, Need, Reader, compatibility},
};

fn array(data_type: DataType, codecs: Vec<Codec>) -> Array {
    let bytes = Codec::Bytes { endian: Some(Endian::Little) };
    Array {
        shape: vec![6],
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(vec![3]),
        codecs: [vec![bytes], codecs].concat(),
        dimension_names: vec![Some("x".to_owned())],
        attributes: Map::new(),
        chunks: ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: vec![0, 100].into(),
            lengths: Lengths::Each(vec![24, 25].into()),
        }),
    }
}

fn all(path: &str, array: &Array, format: ZarrFormat) -> Vec<(Reader, Compatibility)> {
    compatibility(path, array, ChunkFacts::of(array), format)
}

fn of(reader: Reader, path: &str, array: &Array, format: ZarrFormat) -> Compatibility {
    all(path, array, format).into_iter().find(|(other, _)| *other == reader).unwrap().1
}

fn no(reader: Reader, array: &Array, format: ZarrFormat) -> String {
    match of(reader, "a", array, format) {
        Compatibility::No(because) => because,
        other => format!("{other:?}"),
    }
}

#[test]
fn the_first_codec_that_is_lacking_is_named() {
    let array = array(DataType::Int32, vec![Codec::Zlib { level: 1 }, Codec::Lzw]);
    let found = all("a", &array, V3);
    assert_eq!(
        found[0],
        (Reader::ZarrPython, Compatibility::Needs(vec![Need::Numcodecs, Need::Imagecodecs]))
    );
    assert_eq!(found[1], (Reader::Zarrs, Compatibility::No("imagecodecs_lzw".to_owned())));
    assert_eq!(found[3], (Reader::Gdal, Compatibility::No("numcodecs.zlib".to_owned())));
}

#[test]
fn a_checksum_over_an_odd_number_of_bytes() {
    let mut array = array(DataType::Int32, vec![Codec::Zlib { level: 1 }, Codec::Fletcher32]);
    assert_eq!(no(Reader::Zarrs, &array, V2), "fletcher32 over an odd number of bytes");
    array.chunks.references[0].lengths = Lengths::Uniform(24);
    assert_eq!(of(Reader::Zarrs, "a", &array, V2), Compatibility::Yes);
}

#[test]
fn fill_values_count_where_chunks_are_missing() {
    let mut array = array(DataType::UInt64, Vec::new());
    array.fill_value = FillValue::from_i128(&DataType::UInt64, i128::from(u64::MAX)).exact();
    assert!(all("a", &array, V3).iter().all(|(_, found)| *found == Compatibility::Yes));
    array.chunks.references[0].offsets = vec![0].into();
    assert_eq!(no(Reader::Zarrita, &array, V3), "fill value 18446744073709551615");
    assert_eq!(no(Reader::Gdal, &array, V3), "fill value 18446744073709551615");
    assert_eq!(of(Reader::Zarrs, "a", &array, V3), Compatibility::Yes);
    array.fill_value = FillValue::from_i128(&DataType::UInt64, 1 << 62).exact();
    assert_eq!(of(Reader::Zarrita, "a", &array, V3), Compatibility::Yes, "a number of JavaScript");
}

#[test]
fn zarrita_takes_the_element_size_for_that_of_the_type() {
    let array = array(DataType::Int32, vec![Codec::Shuffle { element_size: 2 }]);
    assert_eq!(no(Reader::Zarrita, &array, V2), "shuffle of another element size than the array's");
    assert_eq!(of(Reader::Zarrita, "a", &array_of_4(), V2), Compatibility::Yes);
}

fn array_of_4() -> Array {
    array(DataType::Int32, vec![Codec::Shuffle { element_size: 4 }])
}
