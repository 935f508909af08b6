//! Numbers of the tags that the reader interprets, and names for messages.

use tiff::tags::Tag;

pub(crate) const NEW_SUBFILE_TYPE: u16 = Tag::NewSubfileType.to_u16();
pub(crate) const SUBFILE_TYPE: u16 = Tag::SubfileType.to_u16();
pub(crate) const IMAGE_WIDTH: u16 = Tag::ImageWidth.to_u16();
pub(crate) const IMAGE_LENGTH: u16 = Tag::ImageLength.to_u16();
pub(crate) const BITS_PER_SAMPLE: u16 = Tag::BitsPerSample.to_u16();
pub(crate) const COMPRESSION: u16 = Tag::Compression.to_u16();
pub(crate) const PHOTOMETRIC: u16 = Tag::PhotometricInterpretation.to_u16();
pub(crate) const FILL_ORDER: u16 = Tag::FillOrder.to_u16();
pub(crate) const IMAGE_DESCRIPTION: u16 = Tag::ImageDescription.to_u16();
pub(crate) const STRIP_OFFSETS: u16 = Tag::StripOffsets.to_u16();
pub(crate) const SAMPLES_PER_PIXEL: u16 = Tag::SamplesPerPixel.to_u16();
pub(crate) const ROWS_PER_STRIP: u16 = Tag::RowsPerStrip.to_u16();
pub(crate) const STRIP_BYTE_COUNTS: u16 = Tag::StripByteCounts.to_u16();
pub(crate) const PLANAR_CONFIGURATION: u16 = Tag::PlanarConfiguration.to_u16();
pub(crate) const T4_OPTIONS: u16 = 292;
pub(crate) const T6_OPTIONS: u16 = 293;
pub(crate) const PREDICTOR: u16 = Tag::Predictor.to_u16();
pub(crate) const COLOR_MAP: u16 = Tag::ColorMap.to_u16();
pub(crate) const TILE_WIDTH: u16 = Tag::TileWidth.to_u16();
pub(crate) const TILE_LENGTH: u16 = Tag::TileLength.to_u16();
pub(crate) const TILE_OFFSETS: u16 = Tag::TileOffsets.to_u16();
pub(crate) const TILE_BYTE_COUNTS: u16 = Tag::TileByteCounts.to_u16();
pub(crate) const SUB_IFDS: u16 = Tag::SubIfd.to_u16();
/// Of TIFF/FX.
const GLOBAL_PARAMETERS_IFD: u16 = 400;
pub(crate) const EXTRA_SAMPLES: u16 = Tag::ExtraSamples.to_u16();
pub(crate) const SAMPLE_FORMAT: u16 = Tag::SampleFormat.to_u16();
pub(crate) const JPEG_TABLES: u16 = Tag::JPEGTables.to_u16();
pub(crate) const JPEG_PROC: u16 = 512;
pub(crate) const JPEG_INTERCHANGE_FORMAT: u16 = 513;
pub(crate) const JPEG_INTERCHANGE_LENGTH: u16 = 514;
pub(crate) const JPEG_RESTART_INTERVAL: u16 = 515;
pub(crate) const JPEG_Q_TABLES: u16 = 519;
pub(crate) const JPEG_DC_TABLES: u16 = 520;
pub(crate) const JPEG_AC_TABLES: u16 = 521;
pub(crate) const YCBCR_COEFFICIENTS: u16 = 529;
pub(crate) const REFERENCE_BLACK_WHITE: u16 = 532;
pub(crate) const YCBCR_SUBSAMPLING: u16 = Tag::ChromaSubsampling.to_u16();
/// Depth of a volume and of its tiles (SGI).
pub(crate) const IMAGE_DEPTH: u16 = 32997;
pub(crate) const TILE_DEPTH: u16 = 32998;
pub(crate) const MODEL_PIXEL_SCALE: u16 = Tag::ModelPixelScaleTag.to_u16();
pub(crate) const MODEL_TIEPOINT: u16 = Tag::ModelTiepointTag.to_u16();
pub(crate) const MODEL_TRANSFORMATION: u16 = Tag::ModelTransformationTag.to_u16();
pub(crate) const GEO_KEY_DIRECTORY: u16 = Tag::GeoKeyDirectoryTag.to_u16();
pub(crate) const GEO_DOUBLE_PARAMS: u16 = Tag::GeoDoubleParamsTag.to_u16();
pub(crate) const GEO_ASCII_PARAMS: u16 = Tag::GeoAsciiParamsTag.to_u16();
/// UIC2Tag, the properties of the planes of a MetaMorph stack.
pub(crate) const UIC2: u16 = 33629;
/// CZ_LSMINFO, the properties of a Zeiss LSM file.
pub(crate) const LSM_INFO: u16 = 34412;
pub(crate) const GDAL_METADATA: u16 = 42112;
pub(crate) const GDAL_NODATA: u16 = Tag::GdalNodata.to_u16();
pub(crate) const LERC_PARAMETERS: u16 = 50674;
pub(crate) const RPC_COEFFICIENTS: u16 = 50844;
/// Version of the format, in Hamamatsu NDPI files.
pub(crate) const NDPI_VERSION: u16 = 65420;

/// Returns whether the tag is a table of offsets or byte counts.
pub(crate) const fn is_table(tag: u16) -> bool {
    matches!(tag, STRIP_OFFSETS | STRIP_BYTE_COUNTS | TILE_OFFSETS | TILE_BYTE_COUNTS)
}

/// Returns whether the tag is a number or a table of numbers, none of which is the offset of a directory. Private tags can
/// be either.
pub(crate) const fn is_a_number(tag: u16) -> bool {
    tag <= REFERENCE_BLACK_WHITE && !matches!(tag, SUB_IFDS | GLOBAL_PARAMETERS_IFD)
        || matches!(tag, IMAGE_DEPTH | TILE_DEPTH)
}

/// Returns whether the layout of samples depends on the tag.
pub(crate) const fn determines_layout(tag: u16) -> bool {
    matches!(
        tag,
        IMAGE_WIDTH
            | IMAGE_LENGTH
            | IMAGE_DEPTH
            | BITS_PER_SAMPLE
            | COMPRESSION
            | SAMPLES_PER_PIXEL
            | ROWS_PER_STRIP
            | PLANAR_CONFIGURATION
            | TILE_WIDTH
            | TILE_LENGTH
            | TILE_DEPTH
            | SAMPLE_FORMAT
            | PREDICTOR
    )
}

/// Returns number and name of a tag: `tag 258 (BitsPerSample)`.
pub(crate) fn name(tag: u16) -> String {
    match (Tag::from_u16(tag), tag) {
        (Some(known), _) => format!("tag {tag} ({known:?})"),
        (None, GDAL_METADATA) => format!("tag {tag} (GDAL_METADATA)"),
        (None, IMAGE_DEPTH) => format!("tag {tag} (ImageDepth)"),
        (None, TILE_DEPTH) => format!("tag {tag} (TileDepth)"),
        (None, LERC_PARAMETERS) => format!("tag {tag} (LercParameters)"),
        (None, RPC_COEFFICIENTS) => format!("tag {tag} (RPCCoefficients)"),
        _ => format!("tag {tag}"),
    }
}
