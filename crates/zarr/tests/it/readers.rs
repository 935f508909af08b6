//! Rules of reader compatibility. The interop test `test_readers.py` verifies them with the readers themselves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde_json::Map;
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Lengths, References, SourceId,
    TimeUnit,
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

/// An array whose second chunk is missing, so that readers show the fill value.
fn sparse(data_type: DataType, fill_value: Option<FillValue>) -> Array {
    let mut array = array(data_type, Vec::new());
    array.fill_value = fill_value;
    array.chunks.references[0].offsets = vec![0].into();
    array
}

fn zero(data_type: DataType) -> Array {
    sparse(data_type.clone(), Some(FillValue::zero(&data_type)))
}

fn null(data_type: DataType) -> Array {
    sparse(data_type, None)
}

/// The fill value is a quiet NaN of a 16-bit or 32-bit float.
fn nan(data_type: DataType, payload: u32) -> Array {
    let quiet = if data_type == DataType::Float16 { 0x7e00 } else { 0x7fc0_0000 };
    let size = usize::try_from(data_type.size().unwrap()).unwrap();
    let bytes = (quiet | payload).to_le_bytes()[..size].to_vec();
    sparse(data_type, Some(FillValue::Fixed(bytes.into())))
}

fn whole(array: Array) -> Array {
    Array { chunks: self::array(array.data_type.clone(), Vec::new()).chunks, ..array }
}

/// What `test_readers.py` finds with the readers themselves.
#[test]
fn data_types_and_fill_values_are_refused() {
    use DataType::{Complex64, DateTime, FixedBytes, FixedText, Float16, Float32, Int32, RawBytes, UInt64};
    use Reader::{Gdal, Zarrita, Zarrs};
    let seconds = TimeUnit::new("s", 1).unwrap();
    let cases = [
        (Zarrs, zero(FixedText(3)), V2, ""),
        (Zarrs, null(FixedText(3)), V2, "fill value null"),
        (Zarrs, zero(FixedText(3)), V3, ""),
        (Zarrs, zero(DateTime(seconds)), V2, "data type datetime64[s]"),
        (Zarrs, zero(DateTime(seconds)), V3, ""),
        (Zarrita, zero(FixedText(3)), V2, ""),
        (Zarrita, null(FixedText(3)), V2, "fill value null"),
        (Zarrita, whole(null(FixedText(3))), V2, ""),
        (Zarrita, zero(FixedText(3)), V3, "data type text of length 3"),
        (Zarrita, zero(DateTime(seconds)), V3, "data type datetime64[s]"),
        (Gdal, zero(FixedText(3)), V2, "data type"),
        (Zarrs, zero(RawBytes(3)), V2, ""),
        (Zarrs, zero(RawBytes(3)), V3, "data type r24"),
        (Zarrs, zero(FixedBytes(3)), V2, "data type"),
        (Zarrs, zero(Int32), V2, ""),
        (Zarrs, null(Int32), V2, ""),
        (Zarrs, null(Complex64), V2, "fill value null of complex64"),
        (Zarrs, zero(Complex64), V2, ""),
        (Zarrs, null(RawBytes(3)), V2, "fill value null"),
        (Zarrs, nan(Float16, 1), V3, "fill value"),
        (Zarrs, whole(nan(Float16, 1)), V3, ""),
        (Zarrs, nan(Float32, 1), V3, ""),
        (Zarrs, nan(Float16, 0), V3, ""),
        (Zarrita, zero(Complex64), V2, "data type complex64"),
        (Zarrita, zero(RawBytes(3)), V2, "data type"),
        (Zarrita, null(Int32), V2, ""),
        (Zarrita, null(UInt64), V2, "fill value null"),
        (Zarrita, whole(null(UInt64)), V2, ""),
        (Zarrita, zero(UInt64), V3, ""),
        (Zarrita, nan(Float32, 1), V3, "fill value"),
        (Zarrita, nan(Float32, 0), V3, ""),
        (Gdal, zero(RawBytes(3)), V2, "data type"),
        (Gdal, zero(Complex64), V2, "fill value"),
        (Gdal, null(Complex64), V2, ""),
        (Gdal, zero(Complex64), V3, ""),
        (Gdal, null(Int32), V2, ""),
        (Gdal, nan(Float16, 0), V2, "fill value"),
        (Gdal, zero(Float16), V2, ""),
        (Gdal, nan(Float32, 0), V2, ""),
        (Gdal, nan(Float16, 1), V3, "fill value"),
        (Gdal, nan(Float16, 0), V3, ""),
        (Gdal, nan(Float32, 1), V3, ""),
    ];
    for (reader, array, format, because) in cases {
        let found = of(reader, "a", &array, format);
        let is_right = match &found {
            Compatibility::No(found) => !because.is_empty() && found.starts_with(because),
            _ => because.is_empty(),
        };
        assert!(is_right, "{reader} {} {:?} {format:?}: {found:?}", array.data_type, array.fill_value);
    }
}

#[test]
fn texts_grids_and_checksums_are_refused() {
    use DataType::{Int32, String, UInt8, VariableBytes};
    use Reader::{Gdal, Zarrita, Zarrs};
    let text = |data_type: DataType| {
        let codec = if data_type == String { Codec::VlenUtf8 } else { Codec::VlenBytes };
        Array { codecs: vec![codec], ..null(data_type) }
    };
    assert_eq!(of(Zarrs, "a", &text(VariableBytes), V2), Compatibility::Yes);
    assert_eq!(of(Zarrs, "a", &text(String), V2), Compatibility::Yes);
    assert_eq!(no(Zarrita, &text(String), V2), "fill value null");
    for reader in [Zarrita, Gdal] {
        let empty = Array { shape: vec![0], ..zero(Int32) };
        assert_eq!(no(reader, &empty, V3), "no elements");
        let rectilinear = Array { chunk_grid: ChunkGrid::Rectilinear(vec![vec![3, 3]]), ..zero(Int32) };
        assert_eq!(no(reader, &rectilinear, V3), "chunk grid rectilinear");
    }
    let summed = |data_type: DataType, codecs: &[Codec]| {
        let mut array = array(data_type, codecs.to_vec());
        array.chunks.references[0].lengths = Lengths::Uniform(24);
        of(Zarrs, "a", &array, V2) == Compatibility::Yes
    };
    let zlib = Codec::Zlib { level: 1 };
    assert!(summed(Int32, &[Codec::Fletcher32]) && !summed(UInt8, &[Codec::Fletcher32]), "12 and 3 bytes");
    let five = Array { chunk_grid: ChunkGrid::Regular(vec![5]), ..array(UInt8, vec![Codec::Fletcher32]) };
    assert_ne!(of(Zarrs, "a", &five, V2), Compatibility::Yes);
    assert!(summed(UInt8, &[zlib.clone(), Codec::Fletcher32]), "24 stored bytes");
    assert!(!summed(Int32, &[zlib.clone(), Codec::Fletcher32, zlib]));
}

#[test]
fn codecs_of_the_package_need_the_package() {
    let own = array(DataType::Int32, vec![Codec::Lzf.own().unwrap()]);
    let bytes = array(DataType::Int32, vec![Codec::Zlib { level: 1 }]);
    let images = array(DataType::Int32, vec![Codec::Lzw]);
    for format in [V2, V3] {
        assert_eq!(no(Reader::ZarrPython, &own, format), "virtualize.lzf");
        assert_eq!(of(Reader::Virtualize, "a", &own, format), Compatibility::Yes);
        assert_eq!(of(Reader::Virtualize, "a", &bytes, format), Compatibility::Yes);
        let imagecodecs = Compatibility::Needs(vec![Need::Imagecodecs]);
        assert_eq!(of(Reader::Virtualize, "a", &images, format), imagecodecs);
    }
    let unknown = |name: &str| Codec::Foreign {
        entry: serde_json::json!({"name": name}),
        format: V3,
        kind: virtualize_zarr::CodecKind::BytesToBytes,
    };
    let foreign = array(DataType::Int32, vec![unknown("made.up")]);
    assert_eq!(no(Reader::ZarrPython, &foreign, V3), "made.up");
    let image = array(DataType::Int32, vec![unknown("zlib")]);
    assert_eq!(no(Reader::ZarrPython, &image, V3), "zlib", "without the prefix of numcodecs");
}

/// GDAL decodes one compressor in Zarr v2, and core codecs in v3.
#[test]
fn gdal_knows_one_compressor() {
    let of =
        |codecs: &[Codec], format| of(Reader::Gdal, "a", &array(DataType::Int32, codecs.to_vec()), format);
    let zlib = Codec::Zlib { level: 1 };
    assert_eq!(of(std::slice::from_ref(&zlib), V2), Compatibility::Yes);
    assert_eq!(of(&[Codec::Gzip { level: 1 }], V3), Compatibility::Yes);
    assert_eq!(of(&[zlib.clone(), zlib], V2), Compatibility::No("zlib".to_owned()));
    let turned = |order: &[usize]| {
        let mut array = array(DataType::Int32, Vec::new());
        array.shape = vec![6; order.len()];
        array.chunk_grid = ChunkGrid::Regular(vec![6; order.len()]);
        array.dimension_names = vec![None; order.len()];
        array.codecs.insert(0, Codec::Transpose { order: order.to_vec() });
        all("a", &array, V3)[3].1.clone()
    };
    assert_eq!(turned(&[1, 0]), Compatibility::Yes);
    assert_eq!(turned(&[0, 2, 1]), Compatibility::Yes);
    let because = "transpose of more than two axes in turn".to_owned();
    assert_eq!(turned(&[1, 2, 0]), Compatibility::No(because));
}

#[test]
fn setups_and_clients_are_listed() {
    use virtualize_zarr::readers::{Client, ReaderSetup};
    let hierarchy = |codec: Codec| {
        let mut hierarchy = virtualize_zarr::Hierarchy::new(V3);
        let node = virtualize_zarr::Node::Array(Box::new(array(DataType::Int32, vec![codec])));
        hierarchy.root.children.insert("a".to_owned(), node);
        ReaderSetup::of(&hierarchy)
    };
    let package = hierarchy(Codec::Lzf.own().unwrap());
    assert!(!package.is_empty() && hierarchy(Codec::Gzip { level: 1 }).hint().is_none());
    assert_eq!(package.hint().unwrap(), "to read this with xarray or zarr-python: pip install virtualize");
    let mut both = package;
    both.merge(hierarchy(Codec::Lzw));
    assert_eq!(both.install().unwrap(), "pip install imagecodecs virtualize");
    assert!(both.python().unwrap().starts_with("import imagecodecs.zarr; "));
    let client: Client = "Zarr-Python+imagecodecs".parse().unwrap();
    assert_eq!(client.to_string(), "zarr-python+numcodecs+imagecodecs");
    let error = "xarray".parse::<Client>().unwrap_err().to_string();
    assert!(error.starts_with("expected virtualize, zarr-python, zarrs, zarrita or gdal"), "{error}");
}
