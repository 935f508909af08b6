use crate::Endian;

/// A codec by what it does. Its name and configuration in Zarr v2 and v3 follow from that; some exist in one only,
/// and some ([`Codec::is_internal`]) in none: those are decoded here, to be inlined.
#[derive(Clone, PartialEq, Debug)]
pub enum Codec {
    // ---- array → array
    /// Core `transpose`: encoding moves axis `order[i]` to place `i`.
    Transpose {
        /// A permutation of the axes.
        order: Vec<usize>,
    },
    /// `imagecodecs_delta`: difference to the previous element along an axis (TIFF predictor 2).
    Delta {
        /// Axis, negative ones from the end.
        axis: isize,
        /// Element type and byte order as a NumPy string, such as `<u2`.
        dtype: String,
        /// Shape of the chunk at this place of the chain.
        shape: Vec<u64>,
    },
    /// `imagecodecs_floatpred`: TIFF predictor 3.
    FloatPredictor {
        /// Axis, negative ones from the end.
        axis: isize,
        /// Element type and byte order as a NumPy string, such as `<f4`.
        dtype: String,
        /// Shape of the chunk at this place of the chain.
        shape: Vec<u64>,
    },
    /// `imagecodecs_packints` (bits 1 to 15 or so in the smallest unsigned type).
    PackBitsOfIntegers {
        /// Bits of a sample.
        bits_per_sample: u16,
        /// Samples of a row, each row starting at a byte.
        run_length: u64,
        /// Element type as a NumPy string, such as `|u1`.
        dtype: String,
    },
    // ---- array → bytes
    /// Core `bytes`: elements in C order. No byte order for one-byte types.
    Bytes {
        /// Byte order of numbers.
        endian: Option<Endian>,
    },
    /// `vlen-utf8`.
    VlenUtf8,
    /// `vlen-bytes`.
    VlenBytes,
    /// An image codec that yields the whole chunk (JPEG, LERC, WebP …): its name as imagecodecs registers it
    /// (`imagecodecs_jpeg`), and its configuration.
    Image {
        /// Registered name, the same in v2 (`id`) and v3.
        name: &'static str,
        /// Configuration.
        configuration: serde_json::Map<String, serde_json::Value>,
    },
    // ---- bytes → bytes
    /// Core `gzip` (RFC 1952).
    Gzip {
        /// 0 to 9.
        level: u8,
    },
    /// zlib streams (RFC 1950): `numcodecs.zlib`, v2 `zlib`.
    Zlib {
        /// 0 to 9.
        level: u8,
    },
    /// Core `zstd`.
    Zstd {
        /// Negative to 22.
        level: i32,
        /// Whether frames carry a checksum.
        checksum: bool,
    },
    /// Core `blosc` (version 1).
    Blosc {
        /// `lz4`, `lz4hc`, `blosclz`, `zstd`, `snappy`, `zlib`.
        cname: &'static str,
        /// 0 to 9.
        clevel: u8,
        /// 0 none, 1 bytes, 2 bits.
        shuffle: u8,
        /// Size of an element.
        typesize: u32,
        /// Size of a block, 0 for automatic.
        blocksize: u32,
    },
    /// `numcodecs.shuffle`: HDF5's byte shuffle.
    Shuffle {
        /// Size of an element.
        element_size: u32,
    },
    /// `numcodecs.fletcher32`: HDF5's checksum at the end of the chunk.
    Fletcher32,
    /// `numcodecs.bz2`.
    Bz2 {
        /// 1 to 9.
        level: u8,
    },
    /// `numcodecs.lzma` with raw, alone or xz container.
    Lzma {
        /// numcodecs' `format`.
        format: u8,
    },
    /// Bytes → bytes codec of imagecodecs without parameters (`imagecodecs_lzw`, `imagecodecs_packbits`,
    /// `imagecodecs_lzf`, `imagecodecs_bitorder`, …).
    Named {
        /// Registered name, the same in v2 (`id`) and v3.
        name: &'static str,
        /// Configuration.
        configuration: serde_json::Map<String, serde_json::Value>,
    },
    // ---- only decoded here
    /// HDF5's nbit filter with its client data.
    Hdf5Nbit(Vec<u32>),
    /// HDF5's scale-offset filter with its client data.
    Hdf5ScaleOffset(Vec<u32>),
    /// HDF5's szip filter with its client data.
    Hdf5Szip(Vec<u32>),
    /// HDF5's LZ4 filter (32004): blocks with big-endian sizes.
    Hdf5Lz4,
    /// Bitshuffle filter (32008) with its client data.
    Hdf5Bitshuffle(Vec<u32>),
    // ---- values
    /// `scale_offset` extension: encodes as (x − offset) · scale in the array's own type.
    ScaleOffset {
        /// Scalar of the array's type, as JSON; `None` for 0.
        offset: Option<serde_json::Value>,
        /// Scalar of the array's type, as JSON; `None` for 1.
        scale: Option<serde_json::Value>,
    },
}

/// A codec that a Zarr format cannot spell.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{codec} has no name in Zarr {format}")]
pub struct CodecError {
    /// What it does.
    pub codec: String,
    /// "v2" or "v3".
    pub format: &'static str,
}

impl Codec {
    /// Whether no released client decodes it: chunks so encoded are decoded here and inlined.
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::Hdf5Nbit(_)
                | Self::Hdf5ScaleOffset(_)
                | Self::Hdf5Szip(_)
                | Self::Hdf5Lz4
                | Self::Hdf5Bitshuffle(_)
        )
    }
}
