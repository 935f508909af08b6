//! Content of a TIFF file as plain data. This module does no I/O and knows nothing about Zarr.

use std::collections::BTreeMap;

use virtualize_bytes::Endian;

use crate::{Error, spec::tag::IMAGE_DESCRIPTION};

/// A TIFF file.
#[derive(Clone, Debug)]
pub struct File {
    /// Byte order of tags and samples.
    pub endian: Endian,
    /// Whether offsets have 64 bits: in BigTIFF, and in the dialects of TIFF whose offsets were completed (NDPI above
    /// 4 GiB, LSM).
    pub big: bool,
    /// Directories of the main chain, in order.
    pub ifds: Vec<Ifd>,
    /// Error that ended the chain of directories early.
    pub chain_error: Option<Error>,
}

impl File {
    /// Returns all directories, each before its SubIFDs.
    pub fn all_ifds(&self) -> impl Iterator<Item = &Ifd> {
        let mut pending: Vec<&Ifd> = self.ifds.iter().rev().collect();
        std::iter::from_fn(move || {
            let ifd = pending.pop()?;
            pending.extend(ifd.sub_ifds.iter().rev());
            Some(ifd)
        })
    }
}

/// An image file directory.
#[derive(Clone, Debug)]
pub struct Ifd {
    /// Position in the tree of directories: `[2]` is the third one of the main chain, `[0, 1]` the second SubIFD of the
    /// first one.
    pub path: Vec<usize>,
    /// Offset in the file.
    pub offset: u64,
    /// Values of all entries, by tag, except for the tables of strips and tiles, which are in `image`.
    pub tags: BTreeMap<u16, Value>,
    /// The second ImageDescription (270), if there are two.
    pub second_description: Option<String>,
    /// Errors of tags that could not be read, and notes on dubious values.
    pub unreadable_tags: Vec<Error>,
    /// Errors of the SubIFDs tag, and of its directories that could not be read.
    pub unreadable_sub_ifds: Vec<Error>,
    /// The image, or the reason why the directory does not describe one.
    pub image: Result<Image, Error>,
    /// GDAL_NODATA (42113) as stored, without the terminating NUL.
    pub gdal_nodata: Option<String>,
    /// Nodata that a catalogue declares for a file without the tag.
    pub declared_nodata: Option<String>,
    /// Items of GDAL_METADATA (42112) as reported by GDAL, without empty ones. The last of several items with a name
    /// counts.
    pub gdal_metadata: Vec<GdalItem>,
    /// Georeferencing tags, if there are any.
    pub geo: Option<Geo>,
    /// Directories of the SubIFDs tag (330).
    pub sub_ifds: Vec<Ifd>,
}

impl Ifd {
    /// Returns whether the image is neither an overview nor a mask (NewSubfileType).
    pub fn is_page(&self) -> bool {
        self.image.as_ref().is_ok_and(|image| image.subfile_type & 0b101 == 0)
    }

    /// Returns the first string of ImageDescription (270).
    pub fn description(&self) -> Option<&str> {
        match self.tags.get(&IMAGE_DESCRIPTION)? {
            Value::Text(texts) => texts.first().map(String::as_str),
            _ => None,
        }
    }
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
    /// ASCII (2): the strings without their NULs, as UTF-8 or else as Latin-1.
    Text(Vec<String>),
    /// UNDEFINED (7).
    Bytes(Vec<u8>),
}

impl Value {
    /// Returns the strings of a text, joined by NULs.
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(strings) => Some(strings.join("\0")),
            _ => None,
        }
    }
}

/// How the samples of an image are stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Image {
    /// NewSubfileType (254), or SubfileType (255) converted to its bits: 1 reduced-resolution image, 2 page, 4
    /// transparency mask.
    pub subfile_type: u32,
    /// ImageWidth (256), in pixels.
    pub width: u64,
    /// ImageLength (257), in pixels.
    pub height: u64,
    /// ImageDepth (32997), the number of planes of a volume; 1 by default.
    pub depth: u64,
    /// BitsPerSample (258) of each sample.
    pub bits_per_sample: Vec<u16>,
    /// SampleFormat (339) of each sample.
    pub sample_format: Vec<SampleFormat>,
    /// SamplesPerPixel (277).
    pub samples_per_pixel: u16,
    /// ExtraSamples (338): 0 unspecified, 1 associated alpha, 2 unassociated alpha.
    pub extra_samples: Vec<u16>,
    /// PhotometricInterpretation (262).
    pub photometric: Option<u16>,
    /// Compression (259).
    pub compression: u16,
    /// Predictor (317) as stored: 1 none, 2 horizontal differencing, 3 floating point. It has no meaning for
    /// compressions without a predictor (none, PackBits, JPEG, …).
    pub predictor: u16,
    /// Whether FillOrder (266) is 2: the least significant bit of a byte comes first.
    pub reversed_bits: bool,
    /// Whether PlanarConfiguration (284) is 2: one plane per sample. False for a single sample.
    pub planar: bool,
    /// Division into strips or tiles.
    pub cut: Cut,
    /// Offset of each strip or tile: row-major and, if planar, plane by plane. 0 for a missing (sparse) one.
    pub offsets: Vec<u64>,
    /// Size in bytes of each strip or tile; 0 for a missing one. An uncompressed one has at most the bytes that its
    /// pixels need. All are within the file.
    pub byte_counts: Vec<u64>,
    /// Whether byte counts were missing or wrong and were derived by the rules of libtiff.
    pub derived_byte_counts: bool,
    /// JPEGTables (347).
    pub jpeg_tables: Option<Vec<u8>>,
    /// Tags of old-style JPEG, if that is the compression.
    pub old_jpeg: Option<OldJpeg>,
    /// YCbCrSubSampling (530): horizontal and vertical factor.
    pub ycbcr_subsampling: (u16, u16),
    /// YCbCrCoefficients (529): fractions of red, green and blue in Y.
    pub ycbcr_coefficients: Option<[f32; 3]>,
    /// ReferenceBlackWhite (532): black and white level of each of three components.
    pub reference_black_white: Option<[f32; 6]>,
    /// ColorMap (320): all reds, then greens, then blues.
    pub color_map: Option<Vec<u16>>,
    /// T4Options (292) or T6Options (293).
    pub fax_options: u32,
    /// LercParameters (50674): version and additional compression (0 none, 1 deflate, 2 zstd).
    pub lerc_parameters: Option<Vec<u32>>,
}

/// Tags of old-style JPEG (TIFF 6.0, section 22). Offsets are those of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldJpeg {
    /// JPEGProc (512): 1 baseline, 14 lossless.
    pub process: Option<u64>,
    /// JPEGInterchangeFormat (513): offset of a stream.
    pub interchange_format: Option<u64>,
    /// JPEGInterchangeFormatLength (514).
    pub interchange_length: Option<u64>,
    /// JPEGRestartInterval (515); 0 for none.
    pub restart_interval: u64,
    /// JPEGQTables (519): offset of the quantization table of each sample.
    pub quantization: Vec<u64>,
    /// JPEGDCTables (520): offset of a Huffman table for each sample.
    pub dc: Vec<u64>,
    /// JPEGACTables (521): offset of a Huffman table for each sample.
    pub ac: Vec<u64>,
}

/// Division of an image into strips or tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Strips of consecutive rows. The last one may have fewer rows.
    Strips {
        /// RowsPerStrip (278), at most the height of the image.
        rows: u64,
    },
    /// Tiles. Those at the edges are stored in full.
    Tiles {
        /// TileWidth (322), in pixels.
        width: u64,
        /// TileLength (323), in pixels.
        height: u64,
        /// TileDepth (32998), in planes.
        depth: u64,
    },
}

/// SampleFormat (339).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleFormat {
    /// 1, the default: unsigned integer.
    Unsigned,
    /// 2: signed integer.
    Signed,
    /// 3: IEEE floating point.
    Float,
    /// 4: undefined; read as unsigned integer.
    Void,
    /// 5: complex integer.
    ComplexInteger,
    /// 6: complex IEEE floating point.
    ComplexFloat,
    /// Any other code.
    Unknown(u16),
}

/// An `<Item>` of GDAL_METADATA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GdalItem {
    /// Domain; empty for the default one.
    pub domain: String,
    /// Name.
    pub name: String,
    /// Band, from 0; `None` for the whole dataset.
    pub sample: Option<u32>,
    /// Role (`scale`, `offset`, `unittype`, `description`, `colorinterp`, …).
    pub role: Option<String>,
    /// Text, unescaped.
    pub value: String,
}

/// Georeferencing tags (OGC GeoTIFF 1.1).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Geo {
    /// ModelPixelScale (33550): pixel sizes along x, y and z, in model units.
    pub pixel_scale: Option<[f64; 3]>,
    /// ModelTiepoint (33922): raster i, j, k and model x, y, z of each point.
    pub tie_points: Vec<[f64; 6]>,
    /// ModelTransformation (34264): 4 × 4 matrix, row-major.
    pub transformation: Option<[f64; 16]>,
    /// Minor revision of the GeoKey directory: 0 for GeoTIFF 1.0 or without keys, 1 for GeoTIFF 1.1.
    pub minor_revision: u16,
    /// Values of the GeoKeys, by id.
    pub keys: BTreeMap<u16, GeoKey>,
    /// RPC coefficients (50844), 92 numbers.
    pub rpc: Option<Vec<f64>>,
    /// Transformation of a sidecar, which replaces that of the tags: from the outer corners of pixels to the model, in GDAL's
    /// order.
    pub sidecar_transform: Option<[f64; 6]>,
    /// Coordinate reference system of a sidecar, as WKT or a code such as `EPSG:4326`, which replaces that of the keys.
    pub sidecar_srs: Option<String>,
}

/// The value of a GeoKey.
#[derive(Clone, PartialEq, Debug)]
pub enum GeoKey {
    /// Stored in the GeoKey directory.
    Short(u16),
    /// From GeoDoubleParams (34736).
    Double(Vec<f64>),
    /// From GeoAsciiParams (34737), without the terminating bar.
    Text(String),
}

/// Content of an `.aux.xml`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pam {
    /// Coordinate reference system: WKT, or another notation that GDAL knows.
    pub srs: Option<String>,
    /// Transformation from the outer corners of pixels to the model, in GDAL's order.
    pub transform: Option<[f64; 6]>,
    /// Ground control points.
    pub points: Option<PamPoints>,
    /// Metadata items of the dataset and of its bands.
    pub items: Vec<GdalItem>,
    /// Bands, from 0.
    pub bands: BTreeMap<u32, PamBand>,
    /// Whether it has control points of ArcGIS.
    pub has_arcgis_points: bool,
    /// Whether it has metadata of further images of the file.
    pub has_subdatasets: bool,
}

/// Ground control points of an `.aux.xml`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PamPoints {
    /// Column and row from the outer corner of the first pixel, then x, y, z of the model.
    pub points: Vec<[f64; 5]>,
    /// Their coordinate reference system.
    pub srs: Option<String>,
}

/// A band of an `.aux.xml`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PamBand {
    /// Nodata value, as text that is a number.
    pub nodata: Option<String>,
    /// Scale and offset.
    pub packing: Option<(f64, f64)>,
    /// Unit.
    pub unit: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Color interpretation.
    pub color: Option<String>,
}
