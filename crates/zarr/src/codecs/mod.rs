//! The table of codecs.
//!
//! Each codec is one file of this folder. Its [`Definition`] holds the names under which it is registered, how its
//! configuration is encoded and parsed in Zarr v2 and v3, which readers decode it, and how it changes the length of a
//! chunk. The file of the same name in `crates/codec` holds its decoder and encoder.
//!
//! To add a codec, write those two files (each is declared by a `mod` line) and one line in `table` below. The
//! compiler then asks for the codec's arm in the dispatch of `crates/codec`, and the tests over [`Codec::examples`]
//! encode, parse, convert and decode it without further changes.

mod chain;
mod codec;
mod definition;

mod bit_order;
mod blosc;
mod blosc2;
mod bytes;
mod bz2;
pub(crate) mod cast_value;
mod complex_integers;
mod delta;
mod fletcher32;
mod float_predictor;
mod foreign;
mod gzip;
mod hdf5_bitshuffle;
mod hdf5_lz4;
mod hdf5_nbit;
mod hdf5_scale_offset;
mod hdf5_szip;
mod image;
mod integers;
mod jpegls;
mod lerc;
mod lzf;
mod lzma;
mod lzo;
mod lzw;
mod old_jpeg;
mod optional;
mod own;
mod packbits;
mod packints;
mod reversed_bytes;
mod scale_offset;
mod shuffle;
mod sperr;
mod sz;
mod sz3;
mod tiff;
mod transpose;
mod vlen_bytes;
mod vlen_utf8;
mod zfp;
mod zlib;
mod zstd;

use serde_json::{Map, Value};

use crate::{DataType, Endian, ZarrFormat};

pub use cast_value::{OutOfRange, Rounding, ScalarMap};
pub(crate) use chain::{from_v2, from_v3, order_v2, to_v2, to_v3};
pub(crate) use definition::{CodecUse, Definition, EncodedLength, OwnName, Registry};
pub use integers::StoredInteger;
pub use old_jpeg::{OldJpeg, OldJpegStream};
pub use tiff::TiffScheme;

/// Declares [`Codec`] from lines `file => Variant { fields }`, and finds the definition of each variant in its file.
macro_rules! table {
    ($($(#[$doc:meta])* $file:ident => $variant:ident $({ $($field:tt)* })? $(($($tuple:tt)*))?,)*) => {
        /// A codec with its configuration: one step of an array's chain.
        ///
        /// Its names and configuration in Zarr v2 ([`Codec::to_v2`]) and v3 ([`Codec::to_v3`]) follow from what it
        /// does. Some codecs exist in one format only, and some ([`Codec::is_internal`]) in none: chunks encoded with
        /// those are decoded here and inlined.
        ///
        /// "Encodes" below means from the array towards the file. Decoding by released clients was tested with
        /// zarr-python 3.4, numcodecs 0.17 and imagecodecs 2026.10.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Codec {
            $($(#[$doc])* $variant $({ $($field)* })? $(($($tuple)*))?,)*
            /// A codec under the name that the Python package `virtualize` registers for it, as bytes → bytes. It
            /// follows [`Codec::Bytes`], whatever the kind of the codec in it. [`Codec::own`] makes it.
            Own(Box<Codec>),
        }

        impl Codec {
            /// The codec's entry of the table.
            pub(crate) fn definition(&self) -> &'static Definition {
                match self {
                    Self::Own(codec) => codec.definition(),
                    $(Self::$variant { .. } => &$file::DEFINITION,)*
                }
            }
        }

        pub(crate) static TABLE: &[&Definition] = &[$(&$file::DEFINITION,)*];
    };
}

table! {
    // ---- array → array
    /// Core `transpose`: encoding moves axis `order[i]` to position `i`. Zarr v3 only, except that v2 expresses the
    /// reversal of all axes as `"order": "F"`.
    transpose => Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// `imagecodecs_delta`: difference to the previous element along an axis, modulo 2ⁿ (TIFF predictor 2). Elements
    /// are integers or floats (by their bits) of 1 to 8 bytes, in the array's byte order: a big-endian TIFF has `dtype`
    /// `>u2` and [`Codec::Bytes`] with big. For interleaved samples `(y, x, band)` the axis is 1, or -2.
    delta => Delta {
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
    float_predictor => FloatPredictor {
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
    packints => PackBitsOfIntegers {
        /// Bits per sample.
        bits_per_sample: u16,
        /// Samples per row, over all interleaved bands.
        run_length: u64,
        /// Element type of the array as a NumPy string, such as `|u1` (encoded in v2 only).
        dtype: String,
    },
    /// Reversal of the bytes of each number before an array → bytes codec that works on native numbers, as libtiff
    /// passes those of a big-endian file to LERC. Zarr v2 expresses it by the byte order of the data type, in which its
    /// readers interpret the decoded bytes; v3 by `numcodecs.astype`, whose decoder does the same.
    reversed_bytes => ReversedBytes {
        /// Element type with the byte order of decoded bytes, as a NumPy string: `>u2`.
        dtype: String,
    },
    /// Complex numbers whose parts are stored as integers of half their size. Zarr v2 expresses it by `astype`, as its readers
    /// view what the filters return as the array's type; v3 does not.
    complex_integers => ComplexIntegers {
        /// Type of the stored parts, with the byte order of the array: `<i2`, `>i2`, `<i4` or `>i4`.
        dtype: &'static str,
    },
    /// `scale_offset` extension of Zarr v3: encodes as (x − offset) · scale in the array's own type.
    scale_offset => ScaleOffset {
        /// Scalar of the array's type, as JSON; `None` for 0.
        offset: Option<Value>,
        /// Scalar of the array's type, as JSON; `None` for 1.
        scale: Option<Value>,
    },
    /// `cast_value` extension of Zarr v3: encodes each number as the same number of another type, as closely as the
    /// parameters allow. Codecs after it work on that type. zarr-python needs the package `cast-value-rs`.
    cast_value => CastValue {
        /// Integer or floating-point type of encoded numbers.
        data_type: DataType,
        /// Rounding of numbers that the type cannot represent.
        rounding: Rounding,
        /// Treatment of numbers outside the type's range; `None` makes them an error.
        out_of_range: Option<OutOfRange>,
        /// Scalars that are replaced.
        scalar_map: ScalarMap,
    },
    // ---- array → bytes
    /// Core `bytes`: elements in C order. v2 expresses the byte order in the data type.
    bytes => Bytes {
        /// Byte order of numbers; `None` for one-byte types.
        endian: Option<Endian>,
    },
    /// `vlen-utf8`: texts of any length.
    vlen_utf8 => VlenUtf8,
    /// `vlen-bytes`: byte strings of any length.
    vlen_bytes => VlenBytes,
    /// An image codec of imagecodecs that decodes to the whole chunk. Its name is the same in v2 and v3; in v3 it takes
    /// the place of [`Codec::Bytes`].
    image => Image {
        /// Registered name.
        name: &'static str,
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// `imagecodecs_jpegls`: JPEG-LS, HDF5 filter 32018 (FCIDECOMP). In v3 it takes the place of [`Codec::Bytes`].
    jpegls => JpegLs {
        /// Whether components are the last axis, as imagecodecs decodes them. FCIDECOMP keeps the order of the stream.
        by_pixel: bool,
    },
    /// Blosc 2 frames: HDF5 filter 32026. `imagecodecs_b2nd` (Zarr v2 only, as imagecodecs' class for v3 fails) decodes
    /// those with an n-dimensional layer, which the filter writes for two axes and more (client data of more than 7
    /// values). No released client decodes frames without that layer.
    blosc2 => Blosc2,
    // ---- bytes → bytes
    /// Core `gzip` (RFC 1952).
    gzip => Gzip {
        /// 0 to 9.
        level: u8,
    },
    /// zlib streams (RFC 1950): HDF5's deflate, both Deflate compressions of TIFF.
    zlib => Zlib {
        /// 0 to 9.
        level: u8,
    },
    /// Core `zstd`, frames with and without their content size: HDF5 filter 32015, TIFF compression 50000.
    zstd => Zstd {
        /// Negative to 22.
        level: i32,
        /// Whether frames carry a checksum.
        checksum: bool,
    },
    /// Core `blosc` (version 1): HDF5 filter 32001.
    blosc => Blosc {
        /// `lz4`, `lz4hc`, `blosclz`, `zstd`, `snappy`, `zlib`.
        cname: &'static str,
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
    shuffle => Shuffle {
        /// Bytes per element.
        element_size: u32,
    },
    /// HDF5's checksum (filter 3), 4 bytes at the end of the chunk.
    fletcher32 => Fletcher32,
    /// bzip2: HDF5 filter 307.
    bz2 => Bz2 {
        /// 1 to 9.
        level: u8,
    },
    /// LZMA: TIFF compression 34925 is `format` 1.
    lzma => Lzma {
        /// numcodecs' `format`: 1 is the xz container, 2 the old "alone" container.
        format: u8,
    },
    /// TIFF's LZW, most significant bit first with early change. The decoder also detects and reads the old kind with
    /// the least significant bit first.
    lzw => Lzw,
    /// TIFF's PackBits. Rows packed one by one decode like one stream.
    packbits => PackBits,
    /// LZF without a header: HDF5 filter 32000. imagecodecs refuses chunks that expand too far
    /// ([`Codec::client_decodes`]): inline those, or encode them with literals only.
    lzf => Lzf,
    /// Reversed bits in each byte (TIFF FillOrder 2). Last in the chain. v3 allows it only directly after
    /// [`Codec::Bytes`] (uncompressed whole bytes), v2 anywhere.
    bit_order => BitOrder,
    /// HDF5's LZ4 filter (32004).
    hdf5_lz4 => Hdf5Lz4,
    /// HDF5's szip filter (4) with its client data as stored in the file: options mask, pixels per block, bits per
    /// pixel, pixels per scanline.
    hdf5_szip => Hdf5Szip(Vec<u32>),
    /// `imagecodecs_lzo`: HDF5 filter 305 with LZO1X, as PyTables writes it.
    lzo => Lzo {
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// A codec of a document that no other entry matches, kept as encoded there. Only that Zarr format can express it.
    foreign => Foreign {
        /// The codec's JSON in the document.
        entry: Value,
        /// The format of the document.
        format: ZarrFormat,
        /// Input and output, inferred from its position in the chain.
        kind: CodecKind,
    },
    // ---- only decoded here
    /// HDF5's nbit filter (5) with its client data.
    hdf5_nbit => Hdf5Nbit(Vec<u32>),
    /// HDF5's scale-offset filter (6) with its client data.
    hdf5_scale_offset => Hdf5ScaleOffset(Vec<u32>),
    /// HDF5's bitshuffle filter (32008) with its client data: version, version, element size, block size in elements,
    /// compression (0 none, 2 LZ4, 3 Zstandard). No client knows its framing.
    hdf5_bitshuffle => Hdf5Bitshuffle(Vec<u32>),
    /// ZFP streams without their header: HDF5 filter 32013. Big-endian machines do not matter: streams are words of 8
    /// bytes, little-endian.
    zfp => Zfp {
        /// `<i4`, `<i8`, `<f4` or `<f8`.
        dtype: &'static str,
        /// Shape of a chunk, slowest axis first, without axes of length 1.
        shape: Vec<u64>,
        /// Fewest bits of a block.
        min_bits: u32,
        /// Most bits of a block.
        max_bits: u32,
        /// Most bit planes of a block.
        max_precision: u32,
        /// Least bit plane, as a power of two; below -1074 the stream is reversible.
        min_exponent: i32,
    },
    /// SPERR: HDF5 filter 32028 (H5Z-SPERR).
    sperr => Sperr {
        /// `<f4` or `<f8`.
        dtype: &'static str,
        /// Shape of a chunk as SPERR sees it, slowest axis first: two or three axes.
        shape: Vec<u64>,
        /// Whether chunks start with the mode of missing values, as H5Z-SPERR 0.2 and later write them.
        has_mode: bool,
    },
    /// SZ of version 2.1: HDF5 filter 32017, for floats.
    sz => Sz {
        /// `<f4` or `<f8`.
        dtype: &'static str,
        /// Shape of a chunk, slowest axis first, without axes of length 1.
        shape: Vec<u64>,
    },
    /// SZ3 of version 3.1: HDF5 filter 32024. imagecodecs expects the header of later versions.
    sz3 => Sz3 {
        /// NumPy string of the numbers, such as `<f4`.
        dtype: &'static str,
    },
    /// Integers that are stored with unused bits, or in a size that Zarr lacks.
    integers => Integers {
        /// Bytes of a number: 1, 2, 4 or 8.
        size: u32,
        /// Byte order of the array.
        endian: Endian,
        /// The numbers as they are stored.
        stored: StoredInteger,
    },
    /// LERC as libtiff stores it, with masks: masked floating-point numbers are NaN, and the mask of an image with alpha is
    /// its last sample.
    lerc => Lerc {
        /// NumPy string of the little-endian numbers, such as `<f4`.
        dtype: &'static str,
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
    optional => Optional {
        /// Bytes of a chunk before these codecs encode it.
        size: u64,
        /// Bytes → bytes codecs, in the order of encoding.
        codecs: Vec<Codec>,
    },
    /// A compression or layout of TIFF.
    tiff => Tiff(TiffScheme),
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
    /// Neither: only clients decode it.
    None,
}

/// A codec, data type or chain that a Zarr format cannot express.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{codec} has no name in Zarr {format}")]
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
