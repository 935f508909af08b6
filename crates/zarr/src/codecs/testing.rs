//! Examples of every codec, which tests of several crates encode, parse, convert and decode.

use serde_json::{Map, json};

use super::{
    Codec, CodecKind, OldJpeg, OldJpegStream, OutOfRange, Rounding, ScalarMap, StoredInteger, TiffScheme,
    entry, hdf5,
};
use crate::{Array, ChunkGrid, ChunkManifest, DataType, Endian, FillValue, ZarrFormat};

impl Codec {
    /// Returns examples of every codec, and of those with names in the Python package `virtualize`.
    pub fn examples() -> Vec<Self> {
        let (luma, reference) = ([0.299, 0.587, 0.114], [0.0, 255.0, 128.0, 255.0, 128.0, 255.0]);
        let old_jpeg = |stream| {
            let (width, height, horizontal, vertical) = (40, 20, 2, 2);
            let restart_interval = 0;
            let image =
                OldJpeg { width, height, luma, reference, horizontal, vertical, restart_interval, stream };
            Self::Tiff(TiffScheme::OldJpeg(image))
        };
        let foreign = |entry, format| Self::Foreign { entry, format, kind: CodecKind::BytesToBytes };
        let zfp = |dtype, shape, max_bits| Self::Zfp {
            dtype,
            shape,
            min_bits: 1,
            max_bits,
            max_precision: 64,
            min_exponent: -1074,
        };
        let integers = |size, offset, precision, endian, signed| Self::Integers {
            size: 2,
            endian: Endian::Little,
            stored: StoredInteger { size, endian, offset, precision, signed },
        };
        let lerc =
            |dtype, samples, has_alpha| Self::Lerc { dtype, rows: 20, columns: 30, samples, has_alpha };
        let level = || Map::from_iter([("level".to_owned(), 1.into())]);
        let mut examples = vec![
            Self::Transpose { order: vec![1, 0] },
            Self::Delta { axis: -2, dtype: "<u2".into(), shape: vec![4, 3] },
            Self::FloatPredictor { axis: -1, dtype: "<f4".into(), shape: vec![4, 3] },
            Self::PackBitsOfIntegers { bits_per_sample: 12, run_length: 3, dtype: "<u2".into() },
            Self::ReversedBytes { dtype: ">u2".into() },
        ];
        examples.extend(entry::PARTS.map(|(dtype, _)| Self::ComplexIntegers { dtype }));
        examples.extend([
            Self::Rounded {
                name: "bitround",
                configuration: Map::from_iter([("keepbits".to_owned(), 3.into())]),
            },
            Self::Difference { dtype: "<u2" },
            Self::PackedBools,
            Self::FixedScaleOffset { offset: 10.0, scale: 0.5, dtype: "<f4", astype: "<i2" },
            Self::ScaleOffset { offset: Some(json!(5)), scale: None },
            Self::CastValue {
                data_type: DataType::Int16,
                rounding: Rounding::TowardsZero,
                out_of_range: Some(OutOfRange::Clamp),
                scalar_map: ScalarMap { encode: vec![(json!("NaN"), json!(-1))], decode: Vec::new() },
            },
            Self::Bytes { endian: Some(Endian::Little) },
            Self::Bytes { endian: Some(Endian::Big) },
            Self::VlenUtf8,
            Self::VlenBytes,
        ]);
        examples.extend(entry::IMAGES.map(|name| Self::Image { name, configuration: level() }));
        examples.extend([
            Self::JpegLs { by_pixel: true },
            Self::Blosc2,
            Self::Gzip { level: 9 },
            Self::Zlib { level: 4 },
            Self::Zstd { level: -5, checksum: false },
            Self::Zstd { level: 22, checksum: true },
        ]);
        let blosc = |cname, shuffle| Self::Blosc { cname, clevel: 5, shuffle, typesize: 2, blocksize: 0 };
        examples.extend(
            entry::BLOSC.into_iter().flat_map(|cname| (0..3).map(move |shuffle| blosc(cname, shuffle))),
        );
        examples.extend([
            Self::Shuffle { element_size: 4 },
            Self::Shuffle { element_size: 7 },
            Self::Fletcher32,
            Self::Checksum { name: "crc32c", is_at_end: true },
            Self::Checksum { name: "crc32", is_at_end: false },
            Self::Checksum { name: "adler32", is_at_end: true },
            Self::Lz4 { acceleration: 1 },
            Self::Bz2 { level: 9 },
            Self::Lzma { format: 1 },
            Self::Lzma { format: 2 },
            Self::Lzw,
            Self::PackBits,
            Self::Lzf,
            Self::BitOrder,
            Self::Hdf5Lz4,
            Self::Hdf5Szip(vec![169, 8, 16, 100]),
            Self::Hdf5Szip(vec![141, 32, 64, 99]),
            Self::Lzo { configuration: Map::from_iter([("header".to_owned(), true.into())]) },
            foreign(json!({"id": "of_my_own", "strength": 9}), ZarrFormat::V2),
            foreign(json!({"name": "of_my_own", "configuration": {}}), ZarrFormat::V3),
            Self::Hdf5Nbit(vec![8, 0, 1200, 1, 2, 0, 10, 3]),
            Self::Hdf5Nbit(vec![19, 0, 300, 3, 8, 2, 0, 2, 4, 1, 2, 1, 12, 4, 4, 4, 4]),
            Self::Hdf5ScaleOffset(vec![2, 0, 1200, 0, 2, 0, 0, 0]),
            Self::Hdf5ScaleOffset(vec![2, 0, 300, 0, 8, 1, 1, 1, 7, u32::MAX]),
            Self::Hdf5ScaleOffset(vec![0, 3, 600, 1, 4, 1, 0, 1, 7, 0]),
            Self::Hdf5ScaleOffset(vec![0, u32::MAX, 600, 1, 4, 1, 0, 0]),
        ]);
        examples.extend([0, 2, 3].map(|compression| Self::Hdf5Bitshuffle(vec![0, 0, 2, 0, compression])));
        examples.extend([
            zfp("<f4", vec![30, 20], 256),
            zfp("<i8", vec![300], 16657),
            Self::Sperr { dtype: "<f4", shape: vec![20, 30], has_mode: true },
            Self::Sperr { dtype: "<f8", shape: vec![10, 10, 3], has_mode: false },
        ]);
        examples.extend(hdf5::FLOATS.map(|dtype| Self::Sz { dtype, shape: vec![20, 30] }));
        examples.extend(hdf5::SZ3.map(|dtype| Self::Sz3 { dtype }));
        examples.extend([
            integers(4, 3, 16, Endian::Big, false),
            integers(3, 0, 15, Endian::Little, true),
            lerc("<f4", 1, false),
            lerc("|u1", 4, true),
            Self::Optional { size: 24, codecs: Self::own_chain(vec![Self::Lzf]) },
            Self::Optional {
                size: 24,
                codecs: vec![Self::Shuffle { element_size: 2 }, Self::Zlib { level: 6 }],
            },
            Self::Tiff(TiffScheme::Next { width: 4 }),
            Self::Tiff(TiffScheme::SgiLog16 { width: 4, endian: Endian::Big }),
            Self::Tiff(TiffScheme::Ycbcr {
                width: 40,
                height: 20,
                horizontal: 2,
                vertical: 2,
                luma,
                reference,
            }),
            Self::Tiff(TiffScheme::Jpeg { width: 40, height: 20, tables: vec![0xff, 0xd8, 0xff, 0xd9] }),
            old_jpeg(OldJpegStream::Interchange { stream: (0, 90), strip: (60, 90) }),
            old_jpeg(OldJpegStream::Tables {
                quantization: [0; 3],
                dc: [64; 3],
                ac: [98; 3],
                scan: (200, 300),
            }),
        ]);
        let own: Vec<Self> = examples.iter().filter_map(Self::own).collect();
        examples.extend(own);
        examples
    }

    /// Returns an array of 8 × 6 elements in chunks of 4 × 3, without references, whose chain is valid with this codec
    /// in it.
    pub fn example_array(&self) -> Array {
        let plain = if let Self::Own(plain) = self { plain } else { self };
        let data_type = match plain {
            Self::FloatPredictor { .. }
            | Self::CastValue { .. }
            | Self::ScaleOffset { .. }
            | Self::Rounded { .. }
            | Self::FixedScaleOffset { .. } => DataType::Float32,
            Self::PackedBools => DataType::Bool,
            Self::ComplexIntegers { dtype: "<i2" | ">i2" } => DataType::Complex64,
            Self::ComplexIntegers { .. } => DataType::Complex128,
            Self::VlenUtf8 => DataType::String,
            Self::VlenBytes => DataType::VariableBytes,
            _ => DataType::UInt16,
        };
        let codec = self.clone();
        let is_big = matches!(plain, Self::ComplexIntegers { dtype: ">i2" | ">i4" });
        let endian = if is_big { Endian::Big } else { Endian::Little };
        let bytes = Self::Bytes { endian: Some(endian).filter(|_| data_type != DataType::Bool) };
        let codecs = match self.kind() {
            _ if self.makes_bytes() => vec![codec],
            CodecKind::BytesToBytes => vec![bytes, codec],
            _ if matches!(self, Self::ReversedBytes { .. }) => {
                vec![codec, Self::Image { name: "imagecodecs_lerc", configuration: Map::new() }]
            }
            _ => vec![codec, bytes],
        };
        Array {
            shape: vec![8, 6],
            fill_value: Some(FillValue::zero(&data_type)),
            data_type,
            chunk_grid: ChunkGrid::Regular(vec![4, 3]),
            codecs,
            dimension_names: vec![Some("y".to_owned()), Some("x".to_owned())],
            attributes: Map::new(),
            chunks: ChunkManifest::default(),
        }
    }
}
