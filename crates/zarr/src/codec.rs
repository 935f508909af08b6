use serde_json::{Map, Value};

use crate::{DataType, Endian, OutOfRange, Rounding, ScalarMap, TiffScheme, ZarrFormat};

/// A codec by what it does. Its name and configuration in Zarr v2 ([`Codec::to_v2`]) and v3 ([`Codec::to_v3`]) follow
/// from that; some exist in one only, and some ([`Codec::is_internal`]) in none: chunks so encoded are decoded here and
/// put inline.
///
/// "Encodes" below means from the array towards the file. What each released client decodes was tried with zarr-python
/// 3.4, numcodecs 0.17 and imagecodecs 2026.10.
#[derive(Clone, PartialEq, Debug)]
pub enum Codec {
    // ---- array → array
    /// Core `transpose`: encoding moves axis `order[i]` to place `i`. Zarr v3 only, but for the reversal of all axes,
    /// which v2 says with `"order": "F"`.
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// `imagecodecs_delta`: difference to the previous element along an axis, modulo 2ⁿ (TIFF predictor 2). It works on
    /// integers and on floats (by their bits) of 1 to 8 bytes, after the byte order was undone: a big-endian TIFF has
    /// `dtype` `>u2` and [`Codec::Bytes`] with big. For interleaved samples `(y, x, band)` the axis is 1, or -2.
    Delta {
        /// Axis of the chunk at this place of the chain, negative ones from the end.
        axis: isize,
        /// Element type and byte order as a NumPy string, such as `<u2` (v2 only needs it).
        dtype: String,
        /// Shape of the chunk at this place of the chain (v2 only needs it).
        shape: Vec<u64>,
    },
    /// `imagecodecs_floatpred`: TIFF predictor 3 (byte planes, most significant first whatever the file's byte order,
    /// then byte differences). It turns the array into bytes itself: in v3 it *replaces* [`Codec::Bytes`], which may
    /// still stand behind it here and is then left out.
    FloatPredictor {
        /// Axis of the rows, negative ones from the end; 1 or -2 for interleaved samples `(y, x, band)`.
        axis: isize,
        /// `<f2`, `<f4`, `<f8`, or with `>`: the byte order of the array (v2 only needs it), not of the stored bytes.
        dtype: String,
        /// Shape of the chunk at this place of the chain (v2 only needs it).
        shape: Vec<u64>,
    },
    /// `imagecodecs_packints`: unsigned integers of 1 to 31 bits, most significant bit first (also for little-endian
    /// TIFF), each row starting at a byte. Array type: `|u1` (1 to 8 bits; also `|b1` for 1), `<u2` (9 to 16), `<u4`.
    /// It turns the array into bytes itself: in v3 it *replaces* [`Codec::Bytes`], which may still stand behind it here
    /// and is then left out.
    PackBitsOfIntegers {
        /// Bits of a sample.
        bits_per_sample: u16,
        /// Samples of a row, over all interleaved bands.
        run_length: u64,
        /// Element type of the array as a NumPy string, such as `|u1` (v2 only needs it).
        dtype: String,
    },
    /// Numbers whose bytes are in reverse before an array → bytes codec that takes and gives native numbers, as libtiff
    /// hands those of a big-endian file to LERC. Zarr v2 says it by the byte order of the data type, since its readers
    /// look at the decoded bytes in that order; v3 by `numcodecs.astype`, whose decoder does the same.
    ReversedBytes {
        /// Element type with the byte order that decoded bytes are in, as a NumPy string: `>u2`.
        dtype: String,
    },
    /// `scale_offset` extension of Zarr v3: encodes as (x − offset) · scale in the array's own type.
    ScaleOffset {
        /// Scalar of the array's type, as JSON; `None` for 0.
        offset: Option<Value>,
        /// Scalar of the array's type, as JSON; `None` for 1.
        scale: Option<Value>,
    },
    /// `cast_value` extension of Zarr v3: encodes each number as the same number of another type, as near as the
    /// parameters say. What stands behind it works on that type. zarr-python needs the package `cast-value-rs`.
    CastValue {
        /// Type that numbers are encoded as: an integer or floating-point type.
        data_type: DataType,
        /// What becomes of numbers that are not in that type.
        rounding: Rounding,
        /// What becomes of numbers past its ends; `None` makes them an error.
        out_of_range: Option<OutOfRange>,
        /// Scalars that are replaced.
        scalar_map: ScalarMap,
    },
    // ---- array → bytes
    /// Core `bytes`: elements in C order. No byte order for one-byte types. In v2 the data type says it.
    Bytes {
        /// Byte order of numbers.
        endian: Option<Endian>,
    },
    /// `vlen-utf8`: count, then length and bytes of each text, numbers as 4 bytes little-endian.
    VlenUtf8,
    /// `vlen-bytes`: the same for byte strings.
    VlenBytes,
    /// An image codec of imagecodecs that yields the whole chunk, by its registered name, which is the same in v2 and v3.
    /// In v3 it stands where [`Codec::Bytes`] would. Tried, and exact where the format is lossless:
    /// `imagecodecs_jpeg` {`tables`: base64 of a JPEGTables tag, `colorspace_jpeg`, `colorspace_data`: `RGB`, `YCbCr`, …},
    /// `imagecodecs_jpeg2k`, `imagecodecs_jpegxl`, `imagecodecs_jpegls` (HDF5 filter 32018, FCIDECOMP, of one
    /// component),
    /// `imagecodecs_webp`, `imagecodecs_png`, `imagecodecs_lerc` (LERC with Deflate or Zstandard: [`Codec::Zlib`] or
    /// [`Codec::Zstd`] behind it), `imagecodecs_ccittrle`, `imagecodecs_ccittfax3`, `imagecodecs_ccittfax4`
    /// {`height`, `width`}.
    Image {
        /// Registered name.
        name: &'static str,
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// Blosc 2 frames with an n-dimensional layer, as HDF5 filter 32026 writes them for two axes and more (client data
    /// of more than 7 values): `imagecodecs_b2nd`, Zarr v2 only (imagecodecs' class for v3 fails). Frames without that
    /// layer (one axis) are read by no client: leave such arrays out.
    Blosc2Nd,
    // ---- bytes → bytes
    /// Core `gzip` (RFC 1952).
    Gzip {
        /// 0 to 9.
        level: u8,
    },
    /// zlib streams (RFC 1950): HDF5's deflate, both Deflate compressions of TIFF. v2 `zlib`, v3 `numcodecs.zlib`.
    Zlib {
        /// 0 to 9.
        level: u8,
    },
    /// Core `zstd`, frames with and without their content size: HDF5 filter 32015, TIFF compression 50000.
    Zstd {
        /// Negative to 22.
        level: i32,
        /// Whether frames carry a checksum.
        checksum: bool,
    },
    /// Core `blosc` (version 1): HDF5 filter 32001.
    Blosc {
        /// `lz4`, `lz4hc`, `blosclz`, `zstd`, `snappy`, `zlib`.
        cname: &'static str,
        /// 0 to 9.
        clevel: u8,
        /// 0 none, 1 bytes, 2 bits.
        shuffle: u8,
        /// Size of an element, at least 1.
        typesize: u32,
        /// Size of a block, 0 for automatic.
        blocksize: u32,
    },
    /// HDF5's byte shuffle; bytes behind the last whole element stay. v2 `shuffle`, v3 `numcodecs.shuffle`.
    Shuffle {
        /// Size of an element.
        element_size: u32,
    },
    /// HDF5's checksum, 4 bytes at the end of the chunk. v2 `fletcher32`, v3 `numcodecs.fletcher32`.
    Fletcher32,
    /// bzip2: HDF5 filter 307. v2 `bz2`, v3 `numcodecs.bz2`.
    Bz2 {
        /// 1 to 9.
        level: u8,
    },
    /// LZMA: TIFF compression 34925 is `format` 1. v2 `lzma`, v3 `numcodecs.lzma`.
    Lzma {
        /// numcodecs' `format`: 1 is the xz container, 2 the old "alone" container.
        format: u8,
    },
    /// TIFF's LZW, most significant bit first with early change, and the old kind with the least significant bit first,
    /// which the decoder tells apart by itself: `imagecodecs_lzw`.
    Lzw,
    /// TIFF's PackBits: `imagecodecs_packbits`. (Rows packed one by one decode like a whole.)
    PackBits,
    /// LZF without a header: HDF5 filter 32000. `imagecodecs_lzf` {header: false}, whose decoder gives up where a chunk
    /// is more than [`Codec::LZF_CLIENT_RATIO`] times as long as its stored bytes: such chunks must be put inline,
    /// encoded with literals only, or the array be left out ([`Codec::client_decodes`] tells).
    Lzf,
    /// Bits of each byte in reverse (TIFF FillOrder 2), `imagecodecs_bitorder`. Last in the chain. In v3 only where
    /// [`Codec::Bytes`] stands right before it (uncompressed whole bytes); v2 takes it anywhere.
    BitOrder,
    /// HDF5's LZ4 filter (32004): total size, block size, blocks with big-endian sizes. `imagecodecs_lz4h5`.
    Hdf5Lz4,
    /// HDF5's szip filter (4) with its client data (options mask, pixels per block, bits per pixel, pixels per scanline)
    /// as stored in the file; the chunk starts with its decoded size. `imagecodecs_szip`.
    Hdf5Szip(Vec<u32>),
    /// Any further bytes → bytes codec by its registered name, which is the same in v2 and v3 (`imagecodecs_brotli`, …).
    Named {
        /// Registered name.
        name: &'static str,
        /// Configuration.
        configuration: Map<String, Value>,
    },
    /// A codec of a document that was read, as it is spelled there; only that Zarr format can say it.
    Foreign {
        /// The entry of the document.
        spelled: Value,
        /// The format of the document.
        format: ZarrFormat,
        /// What it takes and gives, as far as its place tells.
        kind: ForeignKind,
    },
    // ---- only decoded here
    /// HDF5's nbit filter (5) with its client data.
    Hdf5Nbit(Vec<u32>),
    /// HDF5's scale-offset filter (6) with its client data.
    Hdf5ScaleOffset(Vec<u32>),
    /// HDF5's bitshuffle filter (32008) with its client data (version, version, element size, block size in elements,
    /// compression: 0 none, 2 LZ4, 3 Zstandard). No client knows its framing.
    Hdf5Bitshuffle(Vec<u32>),
    /// A compression or layout of TIFF.
    Tiff(TiffScheme),
}

/// What a codec takes and gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignKind {
    /// Array → array.
    ArrayToArray,
    /// Array → bytes.
    ArrayToBytes,
    /// Bytes → bytes.
    BytesToBytes,
}

/// A codec, data type or chain that a Zarr format cannot spell.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{codec} has no name in Zarr {format}")]
pub struct CodecError {
    /// What it does.
    pub codec: String,
    /// "v2" or "v3".
    pub format: &'static str,
}

impl Codec {
    /// Most decoded bytes for one stored byte that imagecodecs' decoder makes room for where LZF has no header.
    pub const LZF_CLIENT_RATIO: u64 = 8;

    /// Byte order of the numbers that a chain stores: that of its `bytes` codec, or of the codec that takes that one's
    /// place.
    pub fn endian_of(chain: &[Self]) -> Endian {
        let said = chain.iter().find_map(|codec| match codec {
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
        said.or_else(implied).unwrap_or(Endian::Little)
    }

    /// Whether no released client decodes it: chunks so encoded are decoded here and inlined.
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Hdf5Nbit(_) | Self::Hdf5ScaleOffset(_) | Self::Hdf5Bitshuffle(_) | Self::Tiff(_))
    }

    /// Whether it turns the array into bytes by itself.
    pub fn is_array_to_bytes(&self) -> bool {
        matches!(
            self,
            Self::Bytes { .. }
                | Self::VlenUtf8
                | Self::VlenBytes
                | Self::Image { .. }
                | Self::Blosc2Nd
                | Self::Foreign { kind: ForeignKind::ArrayToBytes, .. }
        )
    }

    /// Whether it works on the values of numbers, in the type that they have at its place of the chain.
    pub fn is_arithmetic(&self) -> bool {
        matches!(self, Self::ScaleOffset { .. } | Self::CastValue { .. })
    }

    /// Whether it works on bytes.
    pub fn is_bytes_to_bytes(&self) -> bool {
        !self.is_array_to_bytes()
            && !matches!(
                self,
                Self::Transpose { .. }
                    | Self::Delta { .. }
                    | Self::FloatPredictor { .. }
                    | Self::PackBitsOfIntegers { .. }
                    | Self::ReversedBytes { .. }
                    | Self::Foreign { kind: ForeignKind::ArrayToArray, .. }
                    | Self::ScaleOffset { .. }
                    | Self::CastValue { .. }
            )
    }

    /// Whether released clients decode a chunk of `decoded` bytes from `stored` bytes. Only [`Codec::Lzf`] has a bound.
    pub fn client_decodes(&self, stored: u64, decoded: u64) -> bool {
        !matches!(self, Self::Lzf) || decoded <= stored.saturating_mul(Self::LZF_CLIENT_RATIO)
    }
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
