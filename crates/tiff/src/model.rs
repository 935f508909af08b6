//! What a TIFF file says, as plain data. Nothing here knows Zarr, and nothing here does I/O.

use std::collections::BTreeMap;

use virtualize_bytes::Endian;

use crate::Error;

/// An open file.
#[derive(Clone, Debug)]
pub struct File {
    /// Byte order of tags and of samples.
    pub endian: Endian,
    /// BigTIFF (8-byte offsets).
    pub big: bool,
    /// Directories of the main chain, in order.
    pub ifds: Vec<Ifd>,
    /// Why the chain of directories ends early, where it does.
    pub chain_error: Option<Error>,
}

/// An image file directory.
#[derive(Clone, Debug)]
pub struct Ifd {
    /// Where it stands: `[2]` is the third of the main chain, `[0, 1]` the second SubIFD of the first.
    pub path: Vec<usize>,
    /// Where it lies in the file.
    pub offset: u64,
    /// All entries, by tag, with their values; strip and tile tables are in `image` only.
    pub tags: BTreeMap<u16, Value>,
    /// What could not be read, or was read with a doubt: tags, SubIFDs, missing offsets.
    pub unreadable_tags: Vec<Error>,
    /// The image it describes, or why that makes no image.
    pub image: Result<Image, Error>,
    /// GDAL_NODATA (42113) as stored, without the closing NUL.
    pub gdal_nodata: Option<String>,
    /// Items of GDAL_METADATA (42112), as GDAL shows them: those without text left out. Of equal names the last counts.
    pub gdal_metadata: Vec<GdalItem>,
    /// Georeferencing tags; `None` where there are none.
    pub geo: Option<Geo>,
    /// Directories under tag SubIFDs (330).
    pub sub_ifds: Vec<Ifd>,
}

/// The value of a tag.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// BYTE (1), SHORT (3), LONG (4), IFD (13), LONG8 (16), IFD8 (18).
    Unsigned(Vec<u64>),
    /// SBYTE (6), SSHORT (8), SLONG (9), SLONG8 (17).
    Signed(Vec<i64>),
    /// FLOAT (11), DOUBLE (12).
    Float(Vec<f64>),
    /// RATIONAL (5).
    Rational(Vec<(u32, u32)>),
    /// SRATIONAL (10).
    SignedRational(Vec<(i32, i32)>),
    /// ASCII (2): the strings, without their NULs; bytes that are not UTF-8 are read as Latin-1.
    Text(Vec<String>),
    /// UNDEFINED (7).
    Bytes(Vec<u8>),
}

/// Everything that says how the samples of an image are stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Image {
    /// NewSubfileType (254), or what the old SubfileType (255) says in its bits: 1 reduced, 2 page, 4 mask.
    pub subfile_type: u32,
    /// Columns.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Planes of a volume (ImageDepth, 32997), else 1.
    pub depth: u64,
    /// BitsPerSample, one for each sample.
    pub bits_per_sample: Vec<u16>,
    /// SampleFormat, one for each sample.
    pub sample_format: Vec<SampleFormat>,
    /// SamplesPerPixel.
    pub samples_per_pixel: u16,
    /// ExtraSamples (338): 0 unspecified, 1 associated alpha, 2 unassociated alpha.
    pub extra_samples: Vec<u16>,
    /// PhotometricInterpretation (262).
    pub photometric: Option<u16>,
    /// Compression (259).
    pub compression: u16,
    /// Predictor (317): 1 none, 2 horizontal differencing, 3 floating point. As stored; it means nothing where the
    /// compression knows no predictor (none, PackBits, JPEG, …).
    pub predictor: u16,
    /// FillOrder (266) is 2: the least significant bit comes first.
    pub reversed_bits: bool,
    /// PlanarConfiguration (284) is 2: one plane a sample. False where there is only one sample.
    pub planar: bool,
    /// How the image is cut.
    pub cut: Cut,
    /// First byte of each strip or tile, in the order of the file: row-major, and plane by plane where planar. 0 where
    /// there is none (sparse).
    pub offsets: Vec<u64>,
    /// Bytes of each strip or tile, as many as offsets; 0 where there is none. Uncompressed ones have at most the bytes
    /// that they need, and the last strip those of its rows. All lie within the file.
    pub byte_counts: Vec<u64>,
    /// Whether the file lacked byte counts, or had one that cannot be right, and they were derived as libtiff does.
    pub derived_byte_counts: bool,
    /// JPEGTables (347).
    pub jpeg_tables: Option<Vec<u8>>,
    /// YCbCrSubSampling (530), horizontal and vertical.
    pub ycbcr_subsampling: (u16, u16),
    /// YCbCrCoefficients (529): the shares of red, green and blue in Y.
    pub ycbcr_coefficients: Option<[f32; 3]>,
    /// ReferenceBlackWhite (532): black and white of each of three components.
    pub reference_black_white: Option<[f32; 6]>,
    /// ColorMap (320): all reds, then greens, then blues.
    pub color_map: Option<Vec<u16>>,
    /// T4Options (292) or T6Options (293).
    pub fax_options: u32,
    /// LercParameters (50674): version, additional compression (0 none, 1 deflate, 2 zstd).
    pub lerc_parameters: Option<Vec<u32>>,
}

/// How an image is cut into the pieces that are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Rows; the last strip may have fewer.
    Strips {
        /// Rows of a strip (at most the height).
        rows: u64,
    },
    /// Tiles; those at the edges are stored whole.
    Tiles {
        /// Columns of a tile.
        width: u64,
        /// Rows of a tile.
        height: u64,
        /// Planes of a tile.
        depth: u64,
    },
}

/// SampleFormat (339).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleFormat {
    /// 1, and the default.
    Unsigned,
    /// 2.
    Signed,
    /// 3.
    Float,
    /// 4: undefined data, read as unsigned integers.
    Void,
    /// 5.
    ComplexInteger,
    /// 6.
    ComplexFloat,
    /// Anything else.
    Unknown(u16),
}

/// An `<Item>` of GDAL_METADATA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GdalItem {
    /// Domain; empty for the default one.
    pub domain: String,
    /// Name.
    pub name: String,
    /// Band, counted from 0; `None` for the whole dataset.
    pub sample: Option<u32>,
    /// Role (`scale`, `offset`, `unittype`, `description`, `colorinterp`, …).
    pub role: Option<String>,
    /// Text, entities resolved.
    pub value: String,
}

/// Georeferencing tags.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Geo {
    /// ModelPixelScale (33550): sizes of a pixel along x, y, z.
    pub pixel_scale: Option<[f64; 3]>,
    /// ModelTiepoint (33922): raster i, j, k and model x, y, z of each point.
    pub tie_points: Vec<[f64; 6]>,
    /// ModelTransformation (34264), row-major.
    pub transformation: Option<[f64; 16]>,
    /// Minor revision of the keys: 0 for GeoTIFF 1.0, 1 for 1.1. 0 where there are no keys.
    pub minor_revision: u16,
    /// GeoKeys by id, with their values resolved.
    pub keys: BTreeMap<u16, GeoKey>,
    /// RPC coefficients (50844), 92 numbers.
    pub rpc: Option<Vec<f64>>,
}

/// The value of a GeoKey.
#[derive(Clone, PartialEq, Debug)]
pub enum GeoKey {
    /// Stored in the directory.
    Short(u16),
    /// From GeoDoubleParams.
    Double(Vec<f64>),
    /// From GeoAsciiParams, without the closing bar.
    Text(String),
}
