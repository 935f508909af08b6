//! Codecs: what they are called, how their configuration is encoded in Zarr v2 and v3, and how they change the length of
//! a chunk.
//!
//! A codec is a variant of [`Codec`]. Its serde representation is its entry in metadata: under the name that the
//! package `virtualize` registers, or under the released name where that package has none. `entry.rs` has the released
//! names whose configuration differs.
//!
//! To add a codec, add a variant with its serde name and a row of [`Codec::properties`] here, an example in `testing.rs`, and
//! an arm in the dispatch of `crates/codec`. The tests over [`Codec::examples`] encode, parse, convert and decode it
//! without further changes.

mod cast_value;
mod chain;
mod entry;
mod hdf5;
mod testing;
mod tiff;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{DataType, Endian, ZarrFormat};

pub use cast_value::{OutOfRange, Rounding, ScalarMap};
pub(crate) use chain::{from_v2, from_v3, order_v2, to_v2, to_v3};
pub(crate) use entry::PACKAGE;
use entry::{Name, numpy, predictor};
use hdf5::ClientData;
pub use hdf5::{Nbit, NbitType, Parameters as FilterParameters, ScaleOffset, StoredInteger};
pub use tiff::{OldJpeg, OldJpegStream, TiffScheme};

/// A codec with its configuration: one step of an array's chain.
///
/// Its names and configuration in Zarr v2 ([`Codec::to_v2`]) and v3 ([`Codec::to_v3`]) follow from what it
/// does. Some codecs exist in one format only, and some ([`Codec::is_internal`]) in none: chunks encoded with
/// those are decoded here and inlined.
///
/// "Encodes" below means from the array towards the file. Decoding by released readers was tested with
/// zarr-python 3.4, numcodecs 0.17 and imagecodecs 2026.10.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Codec {
    // ---- array → array
    /// Core `transpose`: encoding moves axis `order[i]` to position `i`. Zarr v3 only, except that v2 expresses the
    /// reversal of all axes as `"order": "F"`.
    #[serde(rename = "transpose")]
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// `imagecodecs_delta`: difference to the previous element along an axis, modulo 2ⁿ (TIFF predictor 2). Elements
    /// are integers or floats (by their bits) of 1 to 8 bytes, in the array's byte order: a big-endian TIFF has `dtype`
    /// `>u2` and [`Codec::Bytes`] with big. For interleaved samples `(y, x, band)` the axis is 1, or -2.
    #[serde(rename = "virtualize.delta", with = "predictor")]
    Delta {
        /// Axis of the chunk at this position of the chain; negative ones count from the end.
        axis: isize,
        /// Element type and byte order as a NumPy string, such as `<u2` (encoded in v2 only).
        dtype: String,
        /// Shape of the chunk at this position of the chain, slowest axis first (encoded in v2 only).
        shape: Vec<u64>,
    },
    /// `imagecodecs_floatpred`: TIFF predictor 3 (byte planes, most significant first whatever the file's byte order,
    /// then byte differences). It serializes the array itself: in v3 it *replaces* [`Codec::Bytes`], which may still
    /// follow it here and is then omitted.
    #[serde(rename = "virtualize.floatpred", with = "predictor")]
    FloatPredictor {
        /// Axis of the rows; negative ones count from the end. 1 or -2 for interleaved samples `(y, x, band)`.
        axis: isize,
        /// `<f2`, `<f4`, `<f8`, or with `>`: the byte order of the array (encoded in v2 only), not of the stored bytes.
        dtype: String,
        /// Shape of the chunk at this position of the chain, slowest axis first (encoded in v2 only).
        shape: Vec<u64>,
    },
    /// `imagecodecs_packints`: unsigned integers of 1 to 31 bits, most significant bit first (also for little-endian
    /// TIFF), each row starting at a byte. Array type: `|u1` (1 to 8 bits; also `|b1` for 1), `<u2` (9 to 16), `<u4`.
    /// It serializes the array itself: in v3 it *replaces* [`Codec::Bytes`], which may still follow it here and is then
    /// omitted.
    #[serde(rename = "virtualize.packints")]
    PackBitsOfIntegers {
        /// Bits per sample.
        #[serde(rename = "bits")]
        bits_per_sample: u16,
        /// Samples per row, over all interleaved bands.
        #[serde(rename = "row_length")]
        run_length: u64,
        /// Element type of the array as a NumPy string, such as `|u1` (encoded in v2 only).
        dtype: String,
    },
    /// Reversal of the bytes of each number before an array → bytes codec that works on native numbers, as libtiff
    /// passes those of a big-endian file to LERC. Zarr v2 expresses it by the byte order of the data type, in which its
    /// readers interpret the decoded bytes; v3 by `numcodecs.astype`, whose decoder does the same.
    #[serde(skip)]
    ReversedBytes {
        /// Element type with the byte order of decoded bytes, as a NumPy string: `>u2`.
        dtype: String,
    },
    /// Complex numbers whose parts are stored as integers of half their size. Zarr v2 expresses it by `astype`, as its readers
    /// view what the filters return as the array's type; v3 does not.
    #[serde(rename = "virtualize.complexints")]
    ComplexIntegers {
        /// Type of the stored parts, with the byte order of the array: `<i2`, `>i2`, `<i4` or `>i4`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
    },
    /// `scale_offset` extension of Zarr v3: encodes as (x − offset) · scale in the array's own type.
    #[serde(rename = "scale_offset")]
    ScaleOffset {
        /// Scalar of the array's type, as JSON; `None` for 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        offset: Option<Value>,
        /// Scalar of the array's type, as JSON; `None` for 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        scale: Option<Value>,
    },
    /// `cast_value` extension of Zarr v3: encodes each number as the same number of another type, as closely as the
    /// parameters allow. Codecs after it work on that type. zarr-python needs the package `cast-value-rs`.
    #[serde(rename = "cast_value")]
    CastValue {
        /// Integer or floating-point type of encoded numbers.
        #[serde(with = "cast_value::data_type")]
        data_type: DataType,
        /// Rounding of numbers that the type cannot represent.
        #[serde(default, skip_serializing_if = "cast_value::is_default")]
        rounding: Rounding,
        /// Treatment of numbers outside the type's range; `None` makes them an error.
        #[serde(skip_serializing_if = "Option::is_none")]
        out_of_range: Option<OutOfRange>,
        /// Scalars that are replaced.
        #[serde(default, skip_serializing_if = "cast_value::is_default")]
        scalar_map: ScalarMap,
    },
    /// numcodecs' `bitround` and `quantize`, which decode to what they stored. Other types than that of the array are not
    /// supported.
    #[serde(skip)]
    Rounded {
        /// Registered name.
        name: Name,
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// numcodecs' `delta` of integers: difference to the previous element of the chunk, modulo 2ⁿ. Little-endian in
    /// Zarr v3.
    #[serde(skip)]
    Difference {
        /// Element type as a NumPy string, before and after.
        dtype: Name,
    },
    /// numcodecs' `packbits` of bools.
    #[serde(skip)]
    PackedBools,
    /// numcodecs' `fixedscaleoffset`: encodes as (x − offset) · scale, rounded, in another type.
    /// Little-endian in Zarr v3.
    #[serde(skip)]
    FixedScaleOffset {
        /// Subtracted from numbers.
        offset: f64,
        /// Factor of numbers.
        scale: f64,
        /// Element type of the array as a NumPy string: a float of 4 or 8 bytes.
        dtype: Name,
        /// Element type of stored numbers as a NumPy string.
        astype: Name,
    },
    // ---- array → bytes
    /// Core `bytes`: elements in C order. v2 expresses the byte order in the data type.
    #[serde(rename = "bytes")]
    Bytes {
        /// Byte order of numbers; `None` for one-byte types.
        #[serde(skip_serializing_if = "Option::is_none")]
        endian: Option<Endian>,
    },
    /// `vlen-utf8`: texts of any length.
    #[serde(rename = "vlen-utf8")]
    VlenUtf8,
    /// `vlen-bytes`: byte strings of any length.
    #[serde(rename = "vlen-bytes")]
    VlenBytes,
    /// An image codec of imagecodecs that decodes to the whole chunk. Its name is the same in v2 and v3; in v3 it takes
    /// the place of [`Codec::Bytes`].
    #[serde(skip)]
    Image {
        /// Registered name.
        name: Name,
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// `imagecodecs_jpegls`: JPEG-LS, HDF5 filter 32018 (FCIDECOMP). In v3 it takes the place of [`Codec::Bytes`].
    #[serde(rename = "virtualize.jpegls")]
    JpegLs {
        /// Whether components are the last axis, as imagecodecs decodes them. FCIDECOMP keeps the order of the stream.
        #[serde(skip)]
        by_pixel: bool,
    },
    /// Blosc 2 frames: HDF5 filter 32026. `imagecodecs_b2nd` (Zarr v2 only, as imagecodecs' class for v3 fails) decodes
    /// those with an n-dimensional layer, which the filter writes for two axes and more (client data of more than 7
    /// values). No released client decodes frames without that layer.
    #[serde(rename = "virtualize.blosc2")]
    Blosc2,
    // ---- bytes → bytes
    /// Core `gzip` (RFC 1952).
    #[serde(rename = "gzip")]
    Gzip {
        /// 0 to 9.
        level: u8,
    },
    /// zlib streams (RFC 1950): HDF5's deflate, both Deflate compressions of TIFF.
    #[serde(rename = "zlib")]
    Zlib {
        /// 0 to 9.
        level: u8,
    },
    /// Core `zstd`, frames with and without their content size: HDF5 filter 32015, TIFF compression 50000.
    #[serde(rename = "zstd")]
    Zstd {
        /// Negative to 22.
        level: i32,
        /// Whether frames carry a checksum.
        #[serde(default)]
        checksum: bool,
    },
    /// Core `blosc` (version 1): HDF5 filter 32001.
    #[serde(skip)]
    Blosc {
        /// `lz4`, `lz4hc`, `blosclz`, `zstd`, `snappy`, `zlib`.
        cname: Name,
        /// 0 to 9.
        clevel: u8,
        /// 0 none, 1 bytes, 2 bits.
        shuffle: u8,
        /// Bytes per element, at least 1.
        typesize: u32,
        /// Bytes per block, 0 for automatic.
        blocksize: u32,
    },
    /// HDF5's byte shuffle (filter 2).
    #[serde(rename = "virtualize.shuffle")]
    Shuffle {
        /// Bytes per element.
        element_size: u32,
    },
    /// HDF5's checksum (filter 3), 4 bytes at the end of the chunk.
    #[serde(rename = "fletcher32")]
    Fletcher32,
    /// Core `crc32c` of Zarr v3, and numcodecs' `crc32c`, `crc32` and `adler32`: a checksum of 4 bytes, little-endian.
    #[serde(skip)]
    Checksum {
        /// Registered name.
        name: Name,
        /// Whether it follows the data.
        is_at_end: bool,
    },
    /// numcodecs' `lz4`: a block after its decoded size in 4 bytes.
    #[serde(rename = "lz4")]
    Lz4 {
        /// Used by encoders only.
        acceleration: i32,
    },
    /// bzip2: HDF5 filter 307.
    #[serde(rename = "bz2")]
    Bz2 {
        /// 1 to 9.
        level: u8,
    },
    /// LZMA: TIFF compression 34925 is `format` 1.
    #[serde(skip)]
    Lzma {
        /// numcodecs' `format`: 1 is the xz container, 2 the old "alone" container.
        format: u8,
    },
    /// TIFF's LZW, most significant bit first with early change. The decoder also detects and reads the old kind with
    /// the least significant bit first.
    #[serde(rename = "virtualize.lzw")]
    Lzw,
    /// TIFF's PackBits. Rows packed one by one decode like one stream.
    #[serde(rename = "virtualize.packbits")]
    PackBits,
    /// LZF without a header: HDF5 filter 32000. imagecodecs refuses chunks that expand too far
    /// ([`Codec::clients_decode`]): inline those, or encode them with literals only.
    #[serde(rename = "virtualize.lzf")]
    Lzf,
    /// Reversed bits in each byte (TIFF FillOrder 2). Last in the chain. v3 allows it only directly after
    /// [`Codec::Bytes`] (uncompressed whole bytes), v2 anywhere.
    #[serde(rename = "virtualize.bitorder")]
    BitOrder,
    /// HDF5's LZ4 filter (32004).
    #[serde(rename = "virtualize.lz4")]
    Hdf5Lz4,
    /// HDF5's szip filter (4) with its client data as stored in the file: options mask, pixels per block, bits per
    /// pixel, pixels per scanline.
    #[serde(rename = "virtualize.szip")]
    Hdf5Szip(#[serde(with = "ClientData::<hdf5::Szip>")] Vec<u32>),
    /// `imagecodecs_lzo`: HDF5 filter 305 with LZO1X, as PyTables writes it.
    #[serde(rename = "virtualize.lzo")]
    Lzo {
        /// Configuration.
        #[serde(skip)]
        configuration: Map<String, Value>,
    },
    /// A codec of a document that no other entry matches, kept as encoded there. Only that Zarr format can express it.
    #[serde(skip)]
    Foreign {
        /// The codec's JSON in the document.
        entry: Value,
        /// The format of the document.
        format: ZarrFormat,
        /// Input and output, inferred from its position in the chain.
        kind: CodecKind,
    },
    // ---- only decoded here
    /// HDF5's nbit filter (5) with its client data.
    #[serde(rename = "virtualize.nbit")]
    Hdf5Nbit(#[serde(with = "ClientData::<hdf5::Nbit>")] Vec<u32>),
    /// HDF5's scale-offset filter (6) with its client data.
    #[serde(rename = "virtualize.scaleoffset")]
    Hdf5ScaleOffset(#[serde(with = "ClientData::<hdf5::ScaleOffset>")] Vec<u32>),
    /// HDF5's bitshuffle filter (32008) with its client data: version, version, element size, block size in elements,
    /// compression (0 none, 2 LZ4, 3 Zstandard). No client knows its framing.
    #[serde(rename = "virtualize.bitshuffle")]
    Hdf5Bitshuffle(#[serde(with = "ClientData::<hdf5::Bitshuffle>")] Vec<u32>),
    /// ZFP streams without their header: HDF5 filter 32013. Big-endian machines do not matter: streams are words of 8
    /// bytes, little-endian.
    #[serde(rename = "virtualize.zfp")]
    Zfp {
        /// `<i4`, `<i8`, `<f4` or `<f8`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
        /// Shape of a chunk, slowest axis first, without axes of length 1.
        shape: Vec<u64>,
        /// Fewest bits of a block.
        min_bits: u32,
        /// Maximum number of bits of a block.
        max_bits: u32,
        /// Maximum number of bit planes of a block.
        max_precision: u32,
        /// Least bit plane, as a power of two; below -1074 the stream is reversible.
        min_exponent: i32,
    },
    /// SPERR: HDF5 filter 32028 (H5Z-SPERR).
    #[serde(rename = "virtualize.sperr")]
    Sperr {
        /// `<f4` or `<f8`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
        /// Shape of a chunk as SPERR sees it, slowest axis first: two or three axes.
        shape: Vec<u64>,
        /// Whether chunks start with the mode of missing values, as H5Z-SPERR 0.2 and later write them.
        has_mode: bool,
    },
    /// SZ of version 2.1: HDF5 filter 32017, for floats.
    #[serde(rename = "virtualize.sz")]
    Sz {
        /// `<f4` or `<f8`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
        /// Shape of a chunk, slowest axis first, without axes of length 1.
        shape: Vec<u64>,
    },
    /// SZ3 of version 3.1: HDF5 filter 32024. imagecodecs expects the header of later versions.
    #[serde(rename = "virtualize.sz3")]
    Sz3 {
        /// NumPy string of the numbers, such as `<f4`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
    },
    /// Integers that are stored with unused bits, or in a size that Zarr lacks.
    #[serde(rename = "virtualize.integers")]
    Integers {
        /// Bytes of a number: 1, 2, 4 or 8.
        size: u32,
        /// Byte order of the array.
        #[serde(rename = "byte_order")]
        endian: Endian,
        /// The numbers as they are stored.
        #[serde(flatten)]
        stored: StoredInteger,
    },
    /// LERC as libtiff stores it, with masks: masked floating-point numbers are NaN, and the mask of an image with alpha is
    /// its last sample.
    #[serde(rename = "virtualize.lerc")]
    Lerc {
        /// NumPy string of the little-endian numbers, such as `<f4`.
        #[serde(deserialize_with = "numpy")]
        dtype: Name,
        /// Rows of a strip or tile. The last strip may have fewer.
        rows: u64,
        /// Columns of a strip or tile.
        columns: u64,
        /// Samples per pixel, the last axis.
        samples: u64,
        /// Whether the last sample is unassociated alpha of 8 bits.
        has_alpha: bool,
    },
    /// Codecs that chunks of exactly `size` bytes skipped, and all others did not.
    #[serde(rename = "virtualize.optional")]
    Optional {
        /// Bytes of a chunk before these codecs encode it.
        size: u64,
        /// Bytes → bytes codecs, in the order of encoding.
        #[serde(with = "entry::nested")]
        codecs: Vec<Codec>,
    },
    /// A compression or layout of TIFF.
    #[serde(rename = "virtualize.tiff")]
    Tiff(#[serde(with = "tiff::subsampling")] TiffScheme),
    /// A codec under the name that the Python package `virtualize` registers for it, as bytes → bytes. It
    /// follows [`Codec::Bytes`], whatever the kind of the codec in it. [`Codec::own`] creates it.
    #[serde(skip)]
    Own(Box<Codec>),
}

impl Codec {
    /// Returns the name and abilities of the codec. Those without a name are only decoded here.
    pub(super) fn properties(&self) -> Properties {
        use CodecKind::{ArrayToArray as Array, ArrayToBytes as Serializer, BytesToBytes as Bytes};
        use Implementation::{Complete, DecoderOnly};
        let released = |name, kind, implementation| Properties {
            name: Some(name),
            is_numcodecs: false,
            kind,
            implementation,
        };
        let numcodecs = |name, kind, implementation| Properties {
            is_numcodecs: true,
            ..released(name, kind, implementation)
        };
        let unnamed =
            |kind, implementation| Properties { name: None, is_numcodecs: false, kind, implementation };
        match self {
            Self::Own(codec) => unnamed(Bytes, codec.implementation()),
            Self::Foreign { kind, .. } => unnamed(*kind, Implementation::None),
            Self::Image { name, .. } => released(name, Serializer, Implementation::None),
            Self::Transpose { .. } => released("transpose", Array, Complete),
            Self::Delta { .. } => released("imagecodecs_delta", Array, Complete),
            Self::FloatPredictor { .. } => released("imagecodecs_floatpred", Array, Complete),
            Self::PackBitsOfIntegers { .. } => released("imagecodecs_packints", Array, Complete),
            Self::ReversedBytes { .. } | Self::ComplexIntegers { .. } => numcodecs("astype", Array, Complete),
            Self::ScaleOffset { .. } => released("scale_offset", Array, Complete),
            Self::CastValue { .. } => released("cast_value", Array, Complete),
            Self::Rounded { name, .. } => numcodecs(name, Array, DecoderOnly),
            Self::Difference { .. } => numcodecs("delta", Array, DecoderOnly),
            Self::PackedBools => numcodecs("packbits", Array, DecoderOnly),
            Self::FixedScaleOffset { .. } => numcodecs("fixedscaleoffset", Array, DecoderOnly),
            Self::Bytes { .. } => released("bytes", Serializer, Complete),
            Self::VlenUtf8 => released("vlen-utf8", Serializer, Complete),
            Self::VlenBytes => released("vlen-bytes", Serializer, Complete),
            Self::JpegLs { .. } => released("imagecodecs_jpegls", Serializer, DecoderOnly),
            Self::Blosc2 => released("imagecodecs_b2nd", Serializer, DecoderOnly),
            Self::Gzip { .. } => released("gzip", Bytes, Complete),
            Self::Zlib { .. } => numcodecs("zlib", Bytes, Complete),
            Self::Zstd { .. } => released("zstd", Bytes, Complete),
            Self::Blosc { .. } => released("blosc", Bytes, Complete),
            Self::Shuffle { .. } => numcodecs("shuffle", Bytes, Complete),
            Self::Fletcher32 => numcodecs("fletcher32", Bytes, Complete),
            Self::Checksum { name: "crc32c", .. } => released("crc32c", Bytes, Complete),
            Self::Checksum { name, .. } => numcodecs(name, Bytes, Complete),
            Self::Lz4 { .. } => numcodecs("lz4", Bytes, Complete),
            Self::Bz2 { .. } => numcodecs("bz2", Bytes, Complete),
            Self::Lzma { .. } => numcodecs("lzma", Bytes, Complete),
            Self::Lzw => released("imagecodecs_lzw", Bytes, Complete),
            Self::PackBits => released("imagecodecs_packbits", Bytes, Complete),
            Self::Lzf => released("imagecodecs_lzf", Bytes, Complete),
            Self::BitOrder => released("imagecodecs_bitorder", Bytes, Complete),
            Self::Hdf5Lz4 => released("imagecodecs_lz4h5", Bytes, Complete),
            Self::Hdf5Szip(_) => released("imagecodecs_szip", Bytes, Complete),
            Self::Lzo { .. } => released("imagecodecs_lzo", Bytes, DecoderOnly),
            Self::Integers { .. } | Self::Optional { .. } => unnamed(Bytes, Complete),
            Self::Hdf5Nbit(_) | Self::Hdf5ScaleOffset(_) | Self::Hdf5Bitshuffle(_) | Self::Zfp { .. } => {
                unnamed(Bytes, DecoderOnly)
            }
            Self::Sperr { .. } | Self::Sz { .. } | Self::Sz3 { .. } | Self::Lerc { .. } | Self::Tiff(_) => {
                unnamed(Bytes, DecoderOnly)
            }
        }
    }

    /// Returns input and output of the codec.
    pub fn kind(&self) -> CodecKind {
        self.properties().kind
    }

    /// Returns what `crates/codec` implements.
    pub fn implementation(&self) -> Implementation {
        self.properties().implementation
    }

    /// Whether no released reader decodes it: chunks encoded with it are decoded here and inlined.
    pub fn is_internal(&self) -> bool {
        self.properties().name.is_none() && !matches!(self, Self::Own(_) | Self::Foreign { .. })
    }

    /// Whether it serializes the array, and no further codec has to.
    pub fn is_array_to_bytes(&self) -> bool {
        self.kind() == CodecKind::ArrayToBytes
    }

    /// Whether it works on bytes.
    pub fn is_bytes_to_bytes(&self) -> bool {
        self.kind() == CodecKind::BytesToBytes
    }

    /// Whether v3 has it as array → bytes, in place of `bytes`, where v2 has it as a filter.
    fn replaces_bytes(&self) -> bool {
        matches!(self, Self::FloatPredictor { .. } | Self::PackBitsOfIntegers { .. })
    }

    /// Whether no `bytes` codec may follow it in v3: it serializes the array, or replaces that codec.
    fn makes_bytes(&self) -> bool {
        self.is_array_to_bytes() || self.replaces_bytes()
    }

    /// Whether it computes with the values of numbers, in the type that they have at its position of the chain.
    pub fn is_arithmetic(&self) -> bool {
        matches!(self, Self::ScaleOffset { .. } | Self::CastValue { .. })
    }

    /// Whether the number of its output bytes depends on the content, as with compressors and image codecs.
    pub fn is_compressor(&self) -> bool {
        match self {
            Self::Own(codec) => codec.is_compressor(),
            Self::Bytes { .. }
            | Self::VlenUtf8
            | Self::VlenBytes
            | Self::Shuffle { .. }
            | Self::Fletcher32
            | Self::Checksum { .. }
            | Self::BitOrder
            | Self::Integers { .. } => false,
            other => other.kind() != CodecKind::ArrayToArray,
        }
    }

    /// Returns the length in bytes of `decoded` bytes once encoded; `None` where it depends on their content or passes
    /// 64 bits.
    pub fn encoded_length(&self, decoded: u64) -> Option<u64> {
        match self {
            Self::Own(codec) => codec.encoded_length(decoded),
            Self::Fletcher32 | Self::Checksum { .. } => decoded.checked_add(4),
            Self::PackedBools => decoded.div_ceil(8).checked_add(1),
            Self::FixedScaleOffset { dtype, astype, .. } => {
                let size = |dtype: &str| dtype.get(2..)?.parse::<u64>().ok();
                decoded.checked_div(size(dtype)?)?.checked_mul(size(astype)?)
            }
            Self::ComplexIntegers { .. } => Some(decoded / 2),
            Self::Integers { size, stored, .. } => {
                decoded.checked_div(u64::from(*size))?.checked_mul(u64::from(stored.size))
            }
            Self::PackBitsOfIntegers { bits_per_sample, run_length, dtype } => {
                // Rows are padded to whole bytes.
                let element_size: u64 = dtype.get(2..)?.parse().ok()?;
                let elements = decoded.checked_div(element_size)?;
                let bytes =
                    |samples: u64| Some(samples.checked_mul(u64::from(*bits_per_sample))?.div_ceil(8));
                let rows = elements.checked_div(*run_length)?.checked_mul(bytes(*run_length)?)?;
                rows.checked_add(bytes(elements % run_length)?)
            }
            Self::CastValue { .. } | Self::Foreign { .. } => None,
            other => (!other.is_compressor()).then_some(decoded),
        }
    }

    /// Whether a prefix of encoded bytes decodes to a prefix of what all of them decode to.
    pub fn decodes_prefixes(&self) -> bool {
        match self {
            Self::Own(codec) => codec.decodes_prefixes(),
            Self::Bytes { .. } | Self::VlenUtf8 | Self::VlenBytes | Self::BitOrder => true,
            Self::Foreign { .. } | Self::PackedBools => false,
            other => other.kind() == CodecKind::ArrayToArray && !other.is_arithmetic(),
        }
    }

    /// Returns the codec for chunks with so many more axes of length 1 in front; `None` where its effect on the shape
    /// is unknown ([`Codec::Foreign`]).
    pub fn with_leading_axes(&self, count: usize) -> Option<Self> {
        let mut codec = self.clone();
        match &mut codec {
            Self::Foreign { kind, .. } if *kind != CodecKind::BytesToBytes && count > 0 => return None,
            // A reversal stays a reversal, which v2 expresses. The new axes have one element, so their position has no
            // effect.
            Self::Transpose { order } => {
                let moved = order.iter().map(|axis| axis.saturating_add(count));
                *order = if order.iter().rev().copied().eq(0..order.len()) {
                    moved.chain((0..count).rev()).collect()
                } else {
                    (0..count).chain(moved).collect()
                };
            }
            Self::Delta { axis, shape, .. } | Self::FloatPredictor { axis, shape, .. } => {
                if *axis >= 0 {
                    *axis = axis.saturating_add(isize::try_from(count).unwrap_or(0));
                }
                shape.splice(..0, std::iter::repeat_n(1, count));
            }
            _ => {}
        }
        Some(codec)
    }

    /// Whether chunks decode the same whatever the configuration, which only encoders need.
    pub fn is_self_describing(&self) -> bool {
        matches!(
            self,
            Self::Gzip { .. }
                | Self::Zlib { .. }
                | Self::Zstd { .. }
                | Self::Blosc { .. }
                | Self::Lz4 { .. }
                | Self::Bz2 { .. }
        )
    }

    /// Whether released readers decode a chunk of `decoded` bytes that a chain stored in `stored` bytes. imagecodecs allocates 8
    /// bytes for each byte of LZF without a header.
    pub fn clients_decode(codecs: &[Codec], stored: u64, decoded: u64) -> bool {
        let mut parts = codecs.splitn(2, |codec| matches!(codec, Codec::Lzf));
        let (Some(before), Some(after)) = (parts.next(), parts.next()) else { return true };
        let length = |codecs: &[Codec], start| {
            codecs.iter().try_fold(start, |length, codec| codec.encoded_length(length))
        };
        let (decoded, added) = (length(before, decoded), length(after, 0));
        decoded
            .zip(added)
            .is_some_and(|(decoded, added)| decoded <= stored.saturating_sub(added).saturating_mul(8))
    }

    /// Describes what the codec does, in words for a message.
    pub fn describe(&self) -> String {
        let described = match self {
            Self::Own(codec) => return codec.describe(),
            Self::Foreign { entry, .. } => {
                let name = entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str);
                return name.map_or_else(|| entry.to_string(), str::to_owned);
            }
            Self::Optional { codecs, .. } => {
                let names: Vec<_> = codecs.iter().map(Self::describe).collect();
                return format!("{} that some chunks skipped", names.join(" and "));
            }
            Self::Transpose { order } => return format!("a transposition of axes to {order:?}"),
            Self::CastValue { data_type, .. } => return format!("a cast to {data_type}"),
            Self::ScaleOffset { .. } => "a scale and offset",
            Self::Bytes { .. } | Self::ReversedBytes { .. } => "a byte order",
            Self::BitOrder => "a reversed bit order",
            Self::ComplexIntegers { .. } => "complex numbers of integers",
            Self::Integers { .. } => "integers with unused bits",
            Self::JpegLs { .. } => "JPEG-LS",
            Self::Blosc2 => "Blosc 2",
            Self::Lerc { .. } => "LERC with masks",
            Self::Hdf5Szip(_) => "the HDF5 filter szip",
            Self::Hdf5Nbit(_) => "the HDF5 filter nbit",
            Self::Hdf5ScaleOffset(_) => "the HDF5 filter scale-offset",
            Self::Hdf5Bitshuffle(_) => "the HDF5 filter bitshuffle",
            Self::Zfp { .. } => "the HDF5 filter ZFP",
            Self::Sperr { .. } => "the HDF5 filter SPERR",
            Self::Sz { .. } => "the HDF5 filter SZ",
            Self::Sz3 { .. } => "the HDF5 filter SZ3",
            Self::Tiff(scheme) => scheme.describe(),
            other => other.name().unwrap_or_default(),
        };
        described.to_owned()
    }

    /// Returns the byte order of the numbers that a chain stores: that of its `bytes` codec, or of the codec that
    /// replaces it.
    pub fn endian_of(chain: &[Self]) -> Endian {
        let declared = chain.iter().find_map(|codec| match codec {
            Self::Bytes { endian } => *endian,
            _ => None,
        });
        let implied = || {
            chain.iter().find_map(|codec| match codec {
                Self::FloatPredictor { dtype, .. }
                | Self::PackBitsOfIntegers { dtype, .. }
                | Self::ReversedBytes { dtype } => dtype.starts_with('>').then_some(Endian::Big),
                _ => None,
            })
        };
        declared.or_else(implied).unwrap_or(Endian::Little)
    }

    /// Completes the codecs of a chain by what only v2 encodes in them, data type and chunk shape, so that a chain
    /// parsed from v3 can be decoded and encoded in v2. `chunk_shape` is in elements, slowest axis first.
    pub fn complete(chain: &mut [Self], data_type: &DataType, chunk_shape: &[u64]) {
        let endian = Self::endian_of(chain);
        let mut data_type = data_type.clone();
        let mut shape = chunk_shape.to_vec();
        for codec in chain {
            codec.complete_by(data_type.to_v2(endian).ok().as_ref().and_then(Value::as_str), &shape);
            match codec {
                Self::Transpose { order } => {
                    shape = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
                }
                Self::CastValue { data_type: target, .. } => data_type = target.clone(),
                // Further codecs see both parts as one number.
                Self::ComplexIntegers { dtype: "<i2" | ">i2" } => data_type = DataType::UInt32,
                Self::ComplexIntegers { .. } => data_type = DataType::UInt64,
                _ => {}
            }
        }
    }

    /// Sets the parameters that only v2 encodes, by the data type (a NumPy string) and the shape of the chunk at the
    /// codec's position of the chain.
    fn complete_by(&mut self, data_type: Option<&str>, chunk_shape: &[u64]) {
        match self {
            Self::Delta { dtype, shape, .. } | Self::FloatPredictor { dtype, shape, .. } => {
                data_type.into_iter().for_each(|name| name.clone_into(dtype));
                chunk_shape.clone_into(shape);
            }
            Self::PackBitsOfIntegers { dtype, .. } | Self::ReversedBytes { dtype } => {
                data_type.into_iter().for_each(|name| name.clone_into(dtype));
            }
            Self::Image { name, configuration } if name.starts_with(entry::FAX) => {
                if let [.., height, width] = chunk_shape {
                    configuration.insert("height".to_owned(), (*height).into());
                    configuration.insert("width".to_owned(), (*width).into());
                }
            }
            _ => {}
        }
    }
}

/// What does not depend on the configuration of a codec.
#[derive(Clone, Copy)]
pub(super) struct Properties {
    /// Released name, without the prefix `numcodecs.`.
    name: Option<&'static str>,
    /// Whether the name has that prefix in v3.
    is_numcodecs: bool,
    kind: CodecKind,
    implementation: Implementation,
}

/// Input and output of a codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodecKind {
    /// Array → array.
    ArrayToArray,
    /// Array → bytes.
    ArrayToBytes,
    /// Bytes → bytes.
    BytesToBytes,
}

/// What `crates/codec` implements for a codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Implementation {
    /// Decoder and encoder.
    Complete,
    /// Decoder only: chunks are never written in this codec.
    DecoderOnly,
    /// Neither: only readers decode it.
    None,
}

/// A codec, data type or chain that a Zarr format cannot express.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{codec} has no equivalent in Zarr {format}")]
pub struct CodecError {
    /// Description of the codec, data type or chain.
    pub codec: String,
    /// "v2" or "v3".
    pub format: &'static str,
}

impl CodecError {
    pub(crate) fn new(codec: impl Into<String>, format: ZarrFormat) -> Self {
        Self { codec: codec.into(), format: format.version() }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_shapes;
