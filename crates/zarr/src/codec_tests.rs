//! Every codec there is, written and read back in both formats.

use serde_json::{Value, json};

use super::*;
use crate::{Array, ChunkGrid, ChunkManifest, FillValue, client_codecs};

/// What a codec comes back as.
#[derive(Debug, PartialEq)]
enum Back {
    /// In both formats, as it was.
    Both,
    OnlyV2,
    OnlyV3,
    /// It has no name: chunks that went through it are made anew.
    Nowhere,
}

/// Codecs of every kind. Whoever adds one to [`Codec`] finds here that it needs an example.
fn examples() -> Vec<Codec> {
    let kind_of = |codec: &Codec| match codec {
        Codec::Transpose { .. } => 0,
        Codec::Delta { .. } => 1,
        Codec::FloatPredictor { .. } => 2,
        Codec::PackBitsOfIntegers { .. } => 3,
        Codec::ScaleOffset { .. } => 4,
        Codec::CastValue { .. } => 5,
        Codec::Bytes { .. } => 6,
        Codec::VlenUtf8 => 7,
        Codec::VlenBytes => 8,
        Codec::Image { .. } => 9,
        Codec::Blosc2Nd => 10,
        Codec::Gzip { .. } => 11,
        Codec::Zlib { .. } => 12,
        Codec::Zstd { .. } => 13,
        Codec::Blosc { .. } => 14,
        Codec::Shuffle { .. } => 15,
        Codec::Fletcher32 => 16,
        Codec::Bz2 { .. } => 17,
        Codec::Lzma { .. } => 18,
        Codec::Lzw => 19,
        Codec::PackBits => 20,
        Codec::Lzf => 21,
        Codec::BitOrder => 22,
        Codec::Hdf5Lz4 => 23,
        Codec::Hdf5Szip(_) => 24,
        Codec::Named { .. } => 25,
        Codec::Foreign { .. } => 26,
        Codec::Hdf5Nbit(_) => 27,
        Codec::Hdf5ScaleOffset(_) => 28,
        Codec::Hdf5Bitshuffle(_) => 29,
        Codec::Tiff(_) => 30,
        Codec::ReversedBytes { .. } => 31,
    };
    let mut all = vec![
        Codec::Transpose { order: vec![1, 0] },
        Codec::Delta { axis: -2, dtype: "<u2".into(), shape: vec![2, 3] },
        Codec::FloatPredictor { axis: -1, dtype: "<f4".into(), shape: vec![2, 3] },
        Codec::PackBitsOfIntegers { bits_per_sample: 12, run_length: 3, dtype: "<u2".into() },
        Codec::ReversedBytes { dtype: ">u2".into() },
        Codec::ScaleOffset { offset: Some(json!(5)), scale: None },
        Codec::CastValue {
            data_type: DataType::Int16,
            rounding: Rounding::TowardsZero,
            out_of_range: Some(OutOfRange::Clamp),
            scalar_map: ScalarMap { encode: vec![(json!("NaN"), json!(-1))], decode: Vec::new() },
        },
        Codec::Bytes { endian: Some(Endian::Little) },
        Codec::Bytes { endian: Some(Endian::Big) },
        Codec::VlenUtf8,
        Codec::VlenBytes,
        Codec::Blosc2Nd,
        Codec::Gzip { level: 9 },
        Codec::Zlib { level: 4 },
        Codec::Zstd { level: -5, checksum: false },
        Codec::Zstd { level: 22, checksum: true },
        Codec::Shuffle { element_size: 2 },
        Codec::Fletcher32,
        Codec::Bz2 { level: 9 },
        Codec::Lzma { format: 1 },
        Codec::Lzma { format: 2 },
        Codec::Lzw,
        Codec::PackBits,
        Codec::Lzf,
        Codec::BitOrder,
        Codec::Hdf5Lz4,
        Codec::Hdf5Szip(vec![141, 8, 32, 100]),
        Codec::Foreign {
            spelled: json!({"id": "of_my_own", "strength": 9}),
            format: ZarrFormat::V2,
            kind: ForeignKind::BytesToBytes,
        },
        Codec::Foreign {
            spelled: json!({"name": "of_my_own", "configuration": {}}),
            format: ZarrFormat::V3,
            kind: ForeignKind::BytesToBytes,
        },
        Codec::Hdf5Nbit(vec![8]),
        Codec::Hdf5ScaleOffset(vec![0]),
        Codec::Hdf5Bitshuffle(vec![0, 0, 2, 0, 2]),
        Codec::Tiff(TiffScheme::Next { width: 4 }),
        Codec::ReversedBytes { dtype: ">u2".into() },
    ];
    for cname in ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] {
        for shuffle in 0..3 {
            all.push(Codec::Blosc { cname, clevel: 5, shuffle, typesize: 2, blocksize: 0 });
        }
    }
    all.extend(client_codecs::examples());
    let kinds: std::collections::BTreeSet<i32> = all.iter().map(kind_of).collect();
    assert_eq!(kinds, (0..=31).collect(), "an example of every kind");
    all
}

fn expected(codec: &Codec) -> Back {
    match codec {
        Codec::Blosc2Nd | Codec::Foreign { format: ZarrFormat::V2, .. } => Back::OnlyV2,
        Codec::ScaleOffset { .. } | Codec::CastValue { .. } | Codec::Foreign { .. } => Back::OnlyV3,
        internal if internal.is_internal() => Back::Nowhere,
        _ => Back::Both,
    }
}

/// An array whose chain is valid with the codec in it.
fn array(codec: &Codec) -> Array {
    let data_type = match codec {
        Codec::FloatPredictor { .. } | Codec::CastValue { .. } | Codec::ScaleOffset { .. } => {
            DataType::Float32
        }
        Codec::VlenUtf8 => DataType::String,
        Codec::VlenBytes => DataType::VariableBytes,
        _ => DataType::UInt16,
    };
    let bytes = Codec::Bytes { endian: Some(Endian::Little) };
    let makes_bytes = codec.is_array_to_bytes()
        || matches!(codec, Codec::FloatPredictor { .. } | Codec::PackBitsOfIntegers { .. });
    let image = Codec::Image { name: "imagecodecs_lerc", configuration: Map::new() };
    let codecs = match codec {
        Codec::ReversedBytes { .. } => vec![codec.clone(), image],
        alone if makes_bytes => vec![alone.clone()],
        behind if behind.is_bytes_to_bytes() => vec![bytes, behind.clone()],
        before => vec![before.clone(), bytes],
    };
    Array {
        shape: vec![4, 6],
        fill_value: Some(FillValue::zero(&data_type)),
        data_type,
        chunk_grid: ChunkGrid::Regular(vec![2, 3]),
        codecs,
        dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
        attributes: Map::new(),
        chunks: ChunkManifest::default(),
    }
}

/// The chain without what a format says elsewhere, and without what `references::complete` adds again.
fn essence(codecs: &[Codec]) -> Vec<Codec> {
    let has_bytes = |codec: &Codec| matches!(codec, Codec::Bytes { .. });
    let replaces = codecs
        .iter()
        .any(|codec| matches!(codec, Codec::FloatPredictor { .. } | Codec::PackBitsOfIntegers { .. }));
    let mut chain: Vec<Codec> =
        codecs.iter().filter(|codec| !(replaces && has_bytes(codec))).cloned().collect();
    for codec in &mut chain {
        if let Codec::Delta { shape, .. } | Codec::FloatPredictor { shape, .. } = codec {
            shape.clear();
        }
        if let Codec::PackBitsOfIntegers { dtype, .. } = codec {
            dtype.clear();
        }
    }
    chain
}

#[test]
fn every_codec_that_is_written_is_read_back() {
    for codec in examples() {
        let array = array(&codec);
        let in_v2 = array.to_zarray().ok().map(|zarray| {
            let back = Array::from_zarray(&zarray, &Value::Null).unwrap().array;
            (essence(&back.codecs), back.data_type)
        });
        let in_v3 = array.to_zarr_json("a").ok().map(|document| {
            let back = Array::from_zarr_json(&document).unwrap().array;
            (essence(&back.codecs), back.data_type)
        });
        let is_same = |found: &(Vec<Codec>, DataType)| {
            assert_eq!(found.0, essence(&array.codecs), "{codec:?}");
            assert_eq!(found.1, array.data_type, "{codec:?}");
        };
        in_v2.iter().chain(&in_v3).for_each(is_same);
        let found = match (in_v2, in_v3) {
            (Some(_), Some(_)) => Back::Both,
            (Some(_), None) => Back::OnlyV2,
            (None, Some(_)) => Back::OnlyV3,
            (None, None) => Back::Nowhere,
        };
        assert_eq!(found, expected(&codec), "{codec:?}");
    }
}

#[test]
fn names_that_are_not_in_the_list_are_not_written() {
    for codec in [
        Codec::Image { name: "imagecodecs_sz3", configuration: Map::new() },
        Codec::Named { name: "imagecodecs_brotli", configuration: Map::new() },
        Codec::Named { name: "imagecodecs_jpeg", configuration: Map::new() },
    ] {
        assert!(codec.to_v2().is_err() && codec.to_v3().is_err(), "{codec:?}");
    }
}
