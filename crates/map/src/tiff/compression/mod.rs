//! Compression, Predictor and FillOrder as chains of codecs that released Zarr readers decode.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use virtualize_bytes::ByteRange;
use virtualize_tiff::model::{Cut, Image};
use virtualize_zarr::{
    Codec, DataType, Endian, OldJpeg, OldJpegStream, StoredInteger, TiffScheme, ZarrFormat,
};

use super::sample::{Sample, Storage};
use crate::report::numpy_name;
use crate::{Error, Result};

/// The encoding of an image's strips or tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding<'a> {
    /// The image.
    pub(super) image: &'a Image,
    /// Type of its samples.
    pub(super) sample: &'a Sample,
    /// Byte order of the file.
    pub(super) endian: Endian,
    /// The Zarr format that names the codecs.
    pub(super) format: ZarrFormat,
    /// Whether codecs that released readers lack have our own names.
    pub(super) own_codecs: bool,
    /// Whether JPEG is decoded here.
    pub(super) decodes_jpeg: bool,
}

/// Treatment of a last strip that has fewer rows than a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShortStrip {
    /// Readers fail on it: it is decoded here and encoded again at full height.
    Reencode,
    /// Readers pad it.
    AsItIs,
    /// Readers fail on it, but its image format can be extended to full height.
    Taller,
    /// Readers fail on it: it is decoded and encoded again as LERC.
    Lerc,
    /// Readers fail on it, and it cannot be decoded here.
    Unreadable,
}

/// TIFF compression schemes, by the codecs that decode them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scheme {
    None,
    Deflate,
    Lzw,
    PackBits,
    Next,
    SgiLog,
    Zstd,
    Lzma,
    Jpeg,
    /// JPEG that is decoded here, since no reader decodes its last strip.
    DecodedJpeg,
    OldJpeg,
    Lerc,
    Fax(&'static str),
    /// Image formats whose decoder needs no parameters, by its name in imagecodecs.
    Image(&'static str),
}

/// Unsigned integers of 24 bits, least significant byte first, which the array has in 4 bytes.
pub(super) const STORED_24: StoredInteger =
    StoredInteger { size: 3, endian: Endian::Little, offset: 0, precision: 24, signed: false };

impl<'a> Encoding<'a> {
    /// Returns the codecs of a strip or tile, in the order of encoding. `shape` is that of its samples in stored order.
    ///
    /// # Errors
    /// No released reader decodes the combination of compression, predictor and samples.
    pub(super) fn codecs(&self, shape: &[u64]) -> Result<Vec<Codec>> {
        let scheme = self.scheme()?;
        self.check_ends(scheme)?;
        let mut codecs = match scheme {
            Scheme::Jpeg => vec![self.jpeg()?],
            Scheme::Lerc => self.lerc(shape)?,
            Scheme::Fax(name) => vec![self.fax(name, shape)?],
            Scheme::Image(name) => vec![self.image(name)?],
            _ => self.numbers(shape)?,
        };
        codecs.extend(match scheme {
            Scheme::Deflate => Some(Codec::Zlib { level: 6 }),
            Scheme::Lzw => Some(Codec::Lzw),
            Scheme::PackBits => Some(Codec::PackBits),
            Scheme::Zstd => Some(Codec::Zstd { level: 0, checksum: false }),
            Scheme::Lzma => Some(Codec::Lzma { format: 1 }),
            _ => None,
        });
        if self.image.reversed_bits && !self.ignores_fill_order(scheme) {
            codecs.push(Codec::BitOrder);
        }
        Ok(if self.own_codecs { Codec::own_chain(codecs) } else { codecs })
    }

    /// Whether released readers decode the chunks as they are stored. If not, they have to be inlined.
    pub(super) fn is_declarable(&self) -> Result<bool> {
        let scheme = self.scheme()?;
        // Its tables are not in its chunks.
        if scheme == Scheme::OldJpeg {
            return Ok(false);
        }
        // In Zarr v3, predictors take the array's data type, and integers do not become complex numbers.
        let is_plain = self.sample.complex_parts(self.endian).is_none() && self.image.predictor == 1;
        let is_expressible = self.own_codecs || self.format == ZarrFormat::V2 || is_plain;
        if self.sample.storage == Storage::ComplexInteger && !(is_expressible && self.is_decodable()?) {
            return Ok(false);
        }
        if self.own_codecs {
            return Ok(true);
        }
        if self.sample.storage == Storage::Reversed24 || self.is_only_decoded(scheme) {
            return Ok(false);
        }
        let reversed = self.image.reversed_bits && !self.ignores_fill_order(scheme);
        // In Zarr v3 the codec takes arrays, not bytes, and integers only.
        let is_plain = scheme == Scheme::None
            && self.sample.storage == Storage::Whole
            && self.sample.data_type.is_integer();
        Ok(!reversed || self.format == ZarrFormat::V2 || is_plain)
    }

    /// Whether this library decodes strips and tiles, and does not encode them.
    pub(super) fn is_never_encoded(&self) -> Result<bool> {
        Ok(self.is_only_decoded(self.scheme()?))
    }

    fn is_only_decoded(&self, scheme: Scheme) -> bool {
        matches!(scheme, Scheme::Next | Scheme::SgiLog | Scheme::DecodedJpeg | Scheme::OldJpeg)
            || self.is_subsampled(scheme)
    }

    /// Whether strips and tiles can be decoded here.
    pub(super) fn is_decodable(&self) -> Result<bool> {
        let is_format = is_format(self.scheme()?);
        Ok(self.sample.storage != Storage::Float24 && !is_format)
    }

    /// Returns the treatment of a last strip with fewer rows than a chunk.
    pub(super) fn short_strip(&self) -> Result<ShortStrip> {
        Ok(match self.scheme()? {
            // Decoders fail on the return to control at the end of data of two dimensions.
            Scheme::Fax("imagecodecs_ccittfax3") if self.image.fax_options & 1 == 1 => ShortStrip::Taller,
            Scheme::Fax(_) => ShortStrip::AsItIs,
            Scheme::Lerc if self.own_codecs => ShortStrip::AsItIs,
            Scheme::Jpeg | Scheme::Image("imagecodecs_jpeg2k" | "imagecodecs_png" | "imagecodecs_webp") => {
                ShortStrip::Taller
            }
            Scheme::Lerc => ShortStrip::Lerc,
            _ if self.is_decodable()? => ShortStrip::Reencode,
            _ => ShortStrip::Unreadable,
        })
    }

    /// Whether a strip or tile is decoded with tables from other places of the file.
    pub(super) fn has_remote_tables(&self) -> bool {
        self.image.compression == 6
    }

    /// Whether strips and tiles are CCITT data.
    pub(super) fn is_fax(&self) -> bool {
        matches!(scheme(self.image.compression), Some(Scheme::Fax(_)))
    }

    /// Whether rows are stored without compression, one after the other, so that any run of rows is a range of bytes.
    pub(super) fn has_plain_rows(&self) -> bool {
        self.image.compression == 1 && !self.is_subsampled(Scheme::None)
    }

    /// Returns the bytes of a row with `columns` pixels of `samples` samples stored together; `None` past 64 bits.
    pub(super) fn row_bytes(&self, columns: u64, samples: u64) -> Option<u64> {
        let bits = columns.checked_mul(samples)?.checked_mul(u64::from(self.sample.bits))?;
        Some(bits.div_ceil(8))
    }

    /// Refuses compressed strips or tiles without byte counts: their decoders would read on into what follows.
    fn check_ends(&self, scheme: Scheme) -> Result<()> {
        if scheme == Scheme::OldJpeg && (is_sparse(self.image) || self.image.derived_byte_counts) {
            return Err(Error::malformed(
                "strip",
                "missing, or without byte count: GDAL reads no such old-style JPEG",
            ));
        }
        if self.image.derived_byte_counts && matches!(scheme, Scheme::PackBits | Scheme::Next) {
            let problem = format!("none, and {} data have no end marker", name(self.image.compression));
            return Err(Error::malformed("byte counts", problem));
        }
        if self.image.derived_byte_counts && scheme != Scheme::None && self.image.offsets.len() > 1 {
            let problem = format!("none for its {} compressed pieces", self.image.offsets.len());
            return Err(Error::malformed("byte counts", problem));
        }
        Ok(())
    }

    fn scheme(&self) -> Result<Scheme> {
        match scheme(self.image.compression) {
            Some(Scheme::Jpeg) if self.decodes_jpeg => Ok(Scheme::DecodedJpeg),
            Some(scheme) => Ok(scheme),
            None => Err(Error::unsupported(
                format!("compression {}", name(self.image.compression)),
                "no released Zarr reader has a codec for it",
            )),
        }
    }

    /// Whether the last of `rows` rows of a JPEG strip depends on rows that follow: chroma has half as many rows, and decoders
    /// interpolate it. Such strips cannot be extended to more rows, but they can be decoded here.
    pub(super) fn depends_on_further_rows(&self, rows: u64) -> bool {
        let image = self.image;
        scheme(image.compression) == Some(Scheme::Jpeg)
            && image.photometric == Some(6)
            && image.ycbcr_subsampling == (2, 2)
            && (image.samples_per_pixel, image.planar, image.predictor) == (3, false, 1)
            && self.sample.data_type == DataType::UInt8
            && rows > 0
            && rows.is_multiple_of(2)
    }

    /// Whether the scheme defines its own bit order, so that libtiff and tifffile ignore FillOrder.
    fn ignores_fill_order(&self, scheme: Scheme) -> bool {
        matches!(scheme, Scheme::Jpeg | Scheme::DecodedJpeg | Scheme::OldJpeg | Scheme::Image(_))
    }

    /// Returns the codecs of plain numbers: predictor, packing and byte order.
    fn numbers(&self, shape: &[u64]) -> Result<Vec<Codec>> {
        let parts = self.sample.complex_parts(self.endian);
        let mut codecs: Vec<_> = parts.map(|dtype| Codec::ComplexIntegers { dtype }).into_iter().collect();
        let endian = self.add_predictor(shape, &mut codecs)?;
        match self.sample.storage {
            Storage::Whole | Storage::ComplexInteger => {
                codecs.push(bytes_codec(&self.sample.data_type, endian))
            }
            Storage::Packed => {
                let axes = if self.is_chunky() { 2 } else { 1 };
                let row = shape.iter().rev().take(axes);
                codecs.push(Codec::PackBitsOfIntegers {
                    bits_per_sample: self.sample.bits,
                    run_length: row.fold(1, |run, length| run.saturating_mul(*length)),
                    dtype: numpy_name(&self.sample.data_type, Endian::Little),
                });
                codecs.push(bytes_codec(&self.sample.data_type, Endian::Little));
            }
            Storage::Reversed24 => {
                codecs.push(bytes_codec(&self.sample.data_type, Endian::Little));
                let (size, endian, stored) = (4, Endian::Little, STORED_24);
                codecs.extend(self.own_codecs.then_some(Codec::Integers { size, endian, stored }));
            }
            Storage::Float24 => {
                let order = if self.endian == Endian::Big { ">" } else { "<" };
                codecs.push(image_codec("imagecodecs_float24", [("byteorder", json!(order))]));
            }
        }
        codecs.extend(self.internal_scheme(shape)?.map(Codec::Tiff));
        Ok(codecs)
    }

    /// Adds the codec of the predictor, and returns the byte order of its numbers.
    fn add_predictor(&self, shape: &[u64], codecs: &mut Vec<Codec>) -> Result<Endian> {
        let predictor = self.image.predictor;
        let scheme = self.scheme()?;
        let knows_predictors = matches!(scheme, Scheme::Deflate | Scheme::Lzw | Scheme::Zstd | Scheme::Lzma);
        if predictor == 1 || predictor == 0 && !knows_predictors && scheme != Scheme::Lerc {
            return Ok(self.endian);
        }
        let refuse = |why: String| {
            let scheme = format!("predictor {predictor} with {}", name(self.image.compression));
            Err(Error::unsupported(scheme, why))
        };
        if !matches!(predictor, 2 | 3) {
            return refuse("unknown predictor".into());
        }
        if !knows_predictors {
            return refuse("readers differ in how they undo it".into());
        }
        let data_type = &self.sample.data_type;
        let fits = match (predictor, self.sample.storage) {
            (2, Storage::Whole) => !data_type.is_complex(),
            // libtiff exchanges the parts of big-endian ones.
            (2, Storage::ComplexInteger) => self.endian == Endian::Little,
            (_, storage) => storage == Storage::Whole && data_type.is_float(),
        };
        if !fits {
            return refuse(format!("it does not apply to {} bits of type {data_type}", self.sample.bits));
        }
        let axis = if self.is_chunky() { -2 } else { -1 };
        let shape = shape.to_vec();
        if predictor == 2 {
            let dtype = self.sample.predicted_name(self.endian);
            codecs.push(Codec::Delta { axis, dtype, shape });
            return Ok(self.endian);
        }
        // Predictor 3 stores the most significant bytes first, whatever the byte order of the file.
        let dtype = numpy_name(data_type, Endian::Little);
        codecs.push(Codec::FloatPredictor { axis, dtype, shape });
        Ok(Endian::Little)
    }

    /// Whether chroma is subsampled outside of an image format that handles it itself.
    fn is_subsampled(&self, scheme: Scheme) -> bool {
        self.image.photometric == Some(6)
            && self.image.ycbcr_subsampling != (1, 1)
            && !is_format(scheme)
            && !matches!(scheme, Scheme::DecodedJpeg | Scheme::OldJpeg)
    }

    /// Whether samples are stored in blocks of subsampled YCbCr.
    pub(super) fn has_blocks(&self) -> Result<bool> {
        Ok(self.is_subsampled(self.scheme()?))
    }

    /// Whether the last sample is unassociated alpha, which libtiff may store as LERC's mask.
    pub(super) fn has_alpha(&self) -> bool {
        const UNASSOCIATED: u16 = 2;
        self.is_chunky()
            && self.sample.data_type == DataType::UInt8
            && self.image.extra_samples.last() == Some(&UNASSOCIATED)
    }

    /// Whether several samples of a pixel are stored next to each other.
    pub(super) fn is_chunky(&self) -> bool {
        !self.image.planar && self.image.samples_per_pixel > 1
    }

    /// Returns the codec of JPEG with the colour transform of libtiff: YCbCr becomes RGB, everything else is left as it is.
    fn jpeg(&self) -> Result<Codec> {
        if !matches!(self.sample.bits, 8 | 12 | 16) || !self.sample.data_type.is_integer() {
            return Err(bits_of("JPEG", self.sample.bits));
        }
        let samples = self.image.samples_per_pixel;
        if matches!(self.image.photometric, Some(2 | 5 | 6)) && samples < 3 {
            return Err(Error::malformed("JPEG of colours", format!("SamplesPerPixel {samples}")));
        }
        let mut configuration = Map::new();
        // Colour spaces of the stream, if its markers are not trusted, and of the array, as numbered by libjpeg.
        const GRAY: u8 = 1;
        const RGB: u8 = 2;
        const YCBCR: u8 = 3;
        const CMYK: u8 = 4;
        let (from, to) = match (self.is_chunky(), samples, self.image.photometric) {
            (false, ..) => (None, Some(GRAY)),
            // libtiff trusts the tag, not the markers of the stream.
            (true, 3, Some(6)) => (Some(YCBCR), Some(RGB)),
            (true, 3, _) => (Some(RGB), Some(RGB)),
            (true, 4, Some(5)) => (None, Some(CMYK)),
            _ => (None, None),
        };
        let colors = [("colorspace_jpeg", from), ("colorspace_data", to)].into_iter();
        configuration.extend(colors.filter_map(|(key, space)| Some((key.to_owned(), space?.into()))));
        if let Some(tables) = &self.image.jpeg_tables {
            configuration.insert("tables".into(), BASE64_STANDARD.encode(tables).into());
        }
        Ok(Codec::Image { name: "imagecodecs_jpeg", configuration })
    }

    fn lerc(&self, shape: &[u64]) -> Result<Vec<Codec>> {
        let mut codecs = Vec::new();
        if u64::from(self.sample.bits) != self.sample.data_type.number_size().saturating_mul(8) {
            return Err(Error::unsupported("LERC", "it is of numbers of another size"));
        }
        self.add_predictor(shape, &mut codecs)?;
        // libtiff reverses the bytes of big-endian numbers before encoding and after decoding.
        if self.own_codecs {
            let refused = || Error::unsupported("LERC", "it is of a volume, or of numbers of another type");
            let own = self.own_lerc(shape).ok_or_else(refused)?;
            codecs.extend([bytes_codec(&self.sample.data_type, self.endian), own]);
        } else {
            if self.endian == Endian::Big && self.sample.data_type.number_size() > 1 {
                codecs.push(Codec::ReversedBytes { dtype: numpy_name(&self.sample.data_type, self.endian) });
            }
            codecs.push(image_codec("imagecodecs_lerc", []));
        }
        match self.image.lerc_parameters.as_deref().and_then(|parameters| parameters.get(1)) {
            None | Some(0) => {}
            Some(1) => codecs.push(Codec::Zlib { level: 6 }),
            Some(2) => codecs.push(Codec::Zstd { level: 0, checksum: false }),
            Some(other) => {
                let problem = format!("additional compression {other} is unknown");
                return Err(Error::unsupported("LERC", problem));
            }
        }
        Ok(codecs)
    }

    /// Returns our own codec of LERC; `None` for volumes and for numbers that LERC does not compress.
    fn own_lerc(&self, shape: &[u64]) -> Option<Codec> {
        let dtype = match self.sample.data_type {
            DataType::Int8 => "|i1",
            DataType::UInt8 => "|u1",
            DataType::Int16 => "<i2",
            DataType::UInt16 => "<u2",
            DataType::Int32 => "<i4",
            DataType::UInt32 => "<u4",
            DataType::Float32 => "<f4",
            DataType::Float64 => "<f8",
            _ => return None,
        };
        let (planes, rows, columns, samples) = match shape {
            [planes @ .., rows, columns, samples] if self.is_chunky() => (planes, *rows, *columns, *samples),
            [planes @ .., rows, columns] => (planes, *rows, *columns, 1),
            _ => return None,
        };
        let is_flat = planes.iter().all(|n| *n == 1);
        let lerc = Codec::Lerc { dtype, rows, columns, samples, has_alpha: self.has_alpha() };
        is_flat.then(|| lerc.own()).flatten()
    }

    fn fax(&self, codec: &'static str, shape: &[u64]) -> Result<Codec> {
        if self.sample.bits != 1 || self.image.samples_per_pixel != 1 && !self.image.planar {
            return Err(Error::unsupported("CCITT compression", "more than one bit a pixel"));
        }
        let mut configuration = Map::new();
        if let (ZarrFormat::V2, [.., height, width]) = (self.format, shape) {
            configuration.insert("height".into(), (*height).into());
            configuration.insert("width".into(), (*width).into());
        }
        if codec == "imagecodecs_ccittfax3" && self.image.fax_options != 0 {
            // Fill bits, of which rows added to the last strip have some.
            let options = self.image.fax_options | if self.image.fax_options & 1 == 1 { 4 } else { 0 };
            configuration.insert("t4options".into(), options.into());
        }
        Ok(Codec::Image { name: codec, configuration })
    }

    fn image(&self, codec: &'static str) -> Result<Codec> {
        // Decoders return what the stream declares, which is at least one byte a sample.
        if self.sample.bits < 8 {
            return Err(bits_of(&name(self.image.compression), self.sample.bits));
        }
        Ok(match codec {
            // Encoders omit an alpha channel that is opaque throughout.
            "imagecodecs_webp" if self.image.samples_per_pixel == 4 => {
                image_codec(codec, [("hasalpha", json!(true))])
            }
            _ => image_codec(codec, []),
        })
    }
}

/// Returns the name of a compression, and its scheme if a reader decodes it.
fn registered(compression: u16) -> Option<(&'static str, Option<Scheme>)> {
    let (name, scheme) = match compression {
        1 => ("none", Scheme::None),
        2 => ("CCITT RLE", Scheme::Fax("imagecodecs_ccittrle")),
        3 => ("CCITT Group 3", Scheme::Fax("imagecodecs_ccittfax3")),
        4 => ("CCITT Group 4", Scheme::Fax("imagecodecs_ccittfax4")),
        5 => ("LZW", Scheme::Lzw),
        6 => ("old-style JPEG", Scheme::OldJpeg),
        7 | 33007 => ("JPEG", Scheme::Jpeg),
        8 | 32946 | 50013 => ("Deflate", Scheme::Deflate),
        22610 | 34934 => ("JPEG XR", Scheme::Image("imagecodecs_jpegxr")),
        32766 => ("NeXT", Scheme::Next),
        32771 => return Some(("CCITT RLE, word-aligned", None)),
        32773 => ("PackBits", Scheme::PackBits),
        32809 => return Some(("ThunderScan", None)),
        32908 | 32909 => return Some(("Pixar", None)),
        33003 | 33004 | 33005 | 34712 => ("JPEG 2000", Scheme::Image("imagecodecs_jpeg2k")),
        34661 => return Some(("JBIG", None)),
        34676 => ("SGI LogLuv", Scheme::SgiLog),
        34677 => return Some(("SGI LogLuv", None)),
        34887 => ("LERC", Scheme::Lerc),
        34892 => ("lossy JPEG (DNG)", Scheme::Jpeg),
        34925 => ("LZMA", Scheme::Lzma),
        34926 | 50000 => ("ZSTD", Scheme::Zstd),
        34927 | 50001 => ("WebP", Scheme::Image("imagecodecs_webp")),
        34933 => ("PNG", Scheme::Image("imagecodecs_png")),
        50002 | 52546 => ("JPEG XL", Scheme::Image("imagecodecs_jpegxl")),
        _ => return None,
    };
    Some((name, Some(scheme)))
}

/// Whether strips and tiles are streams of an image format, which this library does not decode.
fn is_format(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Jpeg | Scheme::Lerc | Scheme::Fax(_) | Scheme::Image(_))
}

fn scheme(compression: u16) -> Option<Scheme> {
    registered(compression)?.1
}

/// Describes predictor, compression and fill order, in the order of encoding.
pub(super) fn words(image: &Image) -> Vec<String> {
    let mut words = Vec::new();
    if image.predictor > 1 {
        words.push(format!("predictor {}", image.predictor));
    }
    if image.compression != 1 {
        words.push(name(image.compression));
    }
    if image.reversed_bits {
        words.push("reversed bits (FillOrder 2)".into());
    }
    words
}

/// Returns the name of a compression with its number.
fn name(compression: u16) -> String {
    match registered(compression) {
        Some((name, _)) => format!("{name} ({compression})"),
        None => format!("{compression} (unknown)"),
    }
}

fn bits_of(scheme: &str, bits: u16) -> Error {
    Error::unsupported(scheme.to_owned(), format!("samples of {bits} bits"))
}

/// Returns the codec `bytes`, with a byte order if the numbers have one.
fn bytes_codec(data_type: &DataType, endian: Endian) -> Codec {
    let has_order = data_type.number_size() > 1 || matches!(data_type, DataType::Struct(_));
    Codec::Bytes { endian: has_order.then_some(endian) }
}

fn image_codec<const N: usize>(name: &'static str, configuration: [(&str, Value); N]) -> Codec {
    let configuration = configuration.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Codec::Image { name, configuration }
}

/// Bytes of a quantization table.
const QUANTIZATION: u64 = 64;
/// Maximum number of bytes of a Huffman table.
const HUFFMAN: u64 = 16 + 256;

impl Encoding<'_> {
    /// Returns the range of the bytes that hold a strip or tile of `width` × `height` pixels and its tables, and the codec that
    /// decodes them.
    ///
    /// # Errors
    /// The process is not baseline, tags are missing, or libtiff does not read such an image.
    pub(super) fn old_jpeg(
        &self,
        strip: ByteRange,
        width: u64,
        height: u64,
        file_size: u64,
    ) -> Result<(ByteRange, Codec)> {
        let image = self.image;
        let tags = image.old_jpeg.as_ref().ok_or_else(|| refused("it has no tags"))?;
        // libtiff takes RGB for YCbCr. GDAL does not read gray, but tifffile reads whole streams.
        let has_stream = tags.interchange_format.is_some_and(|start| start != 0);
        match (image.samples_per_pixel, image.photometric) {
            (3, None | Some(2 | 6)) => {}
            (1, Some(0 | 1)) if has_stream => {}
            (1, Some(0 | 1)) => return Err(refused("gray without a stream (JPEGInterchangeFormat)")),
            _ => return Err(refused("GDAL reads only RGB and YCbCr of three samples")),
        }
        if image.depth != 1 || self.sample.data_type != DataType::UInt8 || image.planar {
            return Err(refused("only unsigned samples of 8 bits side by side are supported"));
        }
        if image.offsets.len() != 1 {
            return Err(refused(
                "of several strips or tiles, GDAL shows values that depend on what it has read before",
            ));
        }
        if tags.process.is_some_and(|process| process != 1) {
            return Err(refused("it is not baseline (JPEGProc)"));
        }
        let within = |part: ByteRange, whole: ByteRange| {
            (part.start.saturating_sub(whole.start), part.end().saturating_sub(whole.start))
        };
        let (range, stream) = if let Some(start) = tags.interchange_format.filter(|start| *start != 0) {
            let length = tags.interchange_length.filter(|length| *length != 0);
            let end = length.and_then(|length| start.checked_add(length)).filter(|end| *end <= file_size);
            let stream = between(start, end.unwrap_or(file_size))?;
            let range = between(stream.start.min(strip.start), stream.end().max(strip.end()))?;
            let (stream, strip) = (within(stream, range), within(strip, range));
            (range, OldJpegStream::Interchange { stream, strip })
        } else {
            let table =
                |offsets: &[u64]| <[u64; 3]>::try_from(offsets).map_err(|_| refused("it has no tables"));
            let tables = [table(&tags.quantization)?, table(&tags.dc)?, table(&tags.ac)?];
            let sizes = [QUANTIZATION, HUFFMAN, HUFFMAN];
            let ends = tables
                .iter()
                .zip(sizes)
                .flat_map(|(table, size)| table.map(|start| start.saturating_add(size)));
            let range = between(
                tables.iter().flatten().copied().fold(strip.start, u64::min),
                ends.fold(strip.end(), u64::max).min(file_size),
            )?;
            let [quantization, dc, ac] =
                tables.map(|table| table.map(|start| start.saturating_sub(range.start)));
            (range, OldJpegStream::Tables { quantization, dc, ac, scan: within(strip, range) })
        };
        let (horizontal, vertical) = match image.ycbcr_subsampling {
            (horizontal @ (1 | 2 | 4), vertical @ (1 | 2 | 4)) => (narrow(horizontal), narrow(vertical)),
            _ => return Err(refused("its YCbCrSubSampling is not supported")),
        };
        let (luma, reference) = colors(image).ok_or_else(|| refused("its coefficients are out of range"))?;
        let codec = OldJpeg {
            width,
            height,
            luma,
            reference,
            horizontal,
            vertical,
            restart_interval: tags.restart_interval,
            stream,
        };
        Ok((range, Codec::Tiff(TiffScheme::OldJpeg(codec))))
    }
}

fn between(start: u64, end: u64) -> Result<ByteRange> {
    let length = end.checked_sub(start).filter(|length| *length > 0);
    length
        .map(|length| ByteRange::new(start, length))
        .ok_or_else(|| refused("its tables or data are past the end of the file"))
}

fn narrow(factor: u16) -> u8 {
    u8::try_from(factor).unwrap_or(1)
}

fn refused(why: &'static str) -> Error {
    Error::unsupported("old-style JPEG (6)", why)
}

/// Default of YCbCrCoefficients (TIFF 6.0, section 21): CCIR 601-1.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];
/// Default of ReferenceBlackWhite for YCbCr.
const REFERENCE: [f32; 6] = [0.0, 255.0, 128.0, 255.0, 128.0, 255.0];
/// Largest magnitude of a coefficient or reference level that is accepted.
const MAX_REFERENCE: f32 = 1e6;

impl Encoding<'_> {
    /// Returns the scheme of a strip or tile; `None` if readers decode it. `shape` is that of its samples in stored order.
    pub(super) fn internal_scheme(&self, shape: &[u64]) -> Result<Option<TiffScheme>> {
        let image = self.image;
        let width = shape.last().copied().unwrap_or(0);
        let refuse = |why: &'static str| Err(Error::unsupported(name(image.compression), why));
        Ok(Some(match image.compression {
            32766 if self.sample.bits != 2 || self.is_chunky() => {
                return refuse("only one sample of 2 bits is supported");
            }
            // libtiff divides tiles into rows of the image.
            32766 if width.div_ceil(4) != image.width.div_ceil(4) => {
                return refuse("tiles must be as wide as the image");
            }
            32766 => TiffScheme::Next { width },
            34676 => {
                let is_number = matches!(self.sample.data_type, DataType::Int16 | DataType::UInt16);
                let is_single = self.sample.bits == 16 && !self.is_chunky();
                if !is_number || !is_single || image.photometric != Some(32844) {
                    return refuse("only one LogL sample of 16 bits is supported");
                }
                TiffScheme::SgiLog16 { width, endian: self.endian }
            }
            _ if self.decodes_jpeg => match shape {
                [height, width, 3] => {
                    let tables = image.jpeg_tables.clone().unwrap_or_default();
                    TiffScheme::Jpeg { width: *width, height: *height, tables }
                }
                _ => return refuse("strips of volumes"),
            },
            _ if self.has_blocks()? => self.ycbcr(shape)?,
            _ => return Ok(None),
        }))
    }

    /// Returns the scheme of subsampled YCbCr, which becomes RGB as in GDAL; tifffile does not read it.
    fn ycbcr(&self, shape: &[u64]) -> Result<TiffScheme> {
        let image = self.image;
        let (horizontal, vertical) = image.ycbcr_subsampling;
        let is_tiled = matches!(image.cut, Cut::Tiles { .. });
        let is_whole = image.samples_per_pixel == 3 && self.is_chunky() && image.depth == 1;
        let why = match (shape, colors(image)) {
            // The subsamplings that libtiff reads.
            _ if !matches!((horizontal, vertical), (4, 4 | 2 | 1) | (2, 2 | 1) | (1, 2)) => "in these blocks",
            // libtiff does not read such tiles, or misplaces the last pixels of a row of tiles.
            _ if is_tiled && (image.compression == 1 || (horizontal, vertical) == (4, 4)) => "in these tiles",
            _ if !is_whole || self.sample.data_type != DataType::UInt8 || image.predictor > 1 => {
                "with other samples than three of 8 bits side by side, or with a predictor"
            }
            (_, None) => "with coefficients out of range",
            _ if is_sparse(image) || image.derived_byte_counts => {
                "with missing strips or tiles, or without byte counts"
            }
            ([.., height, width, 3], Some((luma, reference))) => {
                let (width, height) = (*width, *height);
                return Ok(TiffScheme::Ycbcr { width, height, horizontal, vertical, luma, reference });
            }
            _ => "in pieces of this shape",
        };
        let scheme = format!("YCbCr subsampled {:?} outside of JPEG", image.ycbcr_subsampling);
        Err(Error::unsupported(scheme, why))
    }
}

/// Whether strips or tiles are missing. GDAL shows them only where it does not convert colors.
pub(super) fn is_sparse(image: &Image) -> bool {
    image.offsets.iter().chain(&image.byte_counts).any(|number| *number == 0)
}

/// Returns YCbCrCoefficients and ReferenceBlackWhite, unless they are out of range.
pub(super) fn colors(image: &Image) -> Option<([f32; 3], [f32; 6])> {
    let luma = image.ycbcr_coefficients.unwrap_or(LUMA);
    let reference = image.reference_black_white.unwrap_or(REFERENCE);
    let sensible = |number: &f32| number.abs() <= MAX_REFERENCE;
    let [_, green, _] = luma;
    (luma.iter().chain(&reference).all(sensible) && green != 0.0).then_some((luma, reference))
}

#[cfg(test)]
mod scheme_tests {
    use virtualize_zarr::Codec;
    use virtualize_zarr::Endian;
    use virtualize_zarr::ZarrFormat;

    use super::*;
    use crate::ComplexIntegers;
    use crate::tiff::sample::Sample;

    /// An image of YCbCr with 8 bits a sample.
    fn scheme(decodes_jpeg: bool, shape: &[u64], change: &dyn Fn(&mut Image)) -> Option<TiffScheme> {
        let mut image = crate::tiff::tests::image(4, 4, 3, 4);
        (image.bits_per_sample, image.photometric, image.ycbcr_subsampling) = (vec![8; 3], Some(6), (2, 2));
        image.compression = 1;
        change(&mut image);
        let endian = Endian::Little;
        let sample = Sample::of(&image, endian, ComplexIntegers::Complex).unwrap();
        let (image, sample, format) = (&image, &sample, ZarrFormat::V2);
        let encoding = Encoding { image, sample, endian, format, own_codecs: false, decodes_jpeg };
        match encoding.codecs(shape).ok()?.pop()? {
            Codec::Tiff(scheme) => Some(scheme),
            // A compression follows the scheme.
            _ => encoding.internal_scheme(shape).unwrap(),
        }
    }

    const SHAPE: [u64; 3] = [4, 4, 3];

    /// TIFF 6.0, sections 20 and 21: the defaults of YCbCrCoefficients and ReferenceBlackWhite. libtiff's `tif_getimage.c`: the
    /// subsamplings that it reads.
    #[test]
    fn subsampled_ycbcr_is_decoded_here() {
        let of = |change: &dyn Fn(&mut Image)| scheme(false, &SHAPE, change);
        let expected = |horizontal, vertical| {
            let (luma, reference) = ([0.299, 0.587, 0.114], [0.0, 255.0, 128.0, 255.0, 128.0, 255.0]);
            Some(TiffScheme::Ycbcr { width: 4, height: 4, horizontal, vertical, luma, reference })
        };
        for (horizontal, vertical) in [(4, 4), (4, 2), (4, 1), (2, 2), (2, 1), (1, 2)] {
            let found = of(&|image| image.ycbcr_subsampling = (horizontal, vertical));
            assert_eq!(found, expected(horizontal, vertical));
        }
        let tiles = Cut::Tiles { width: 4, height: 4, depth: 1 };
        assert_eq!(of(&|image| (image.compression, image.cut) = (5, tiles)), expected(2, 2));
        let refused: [fn(&mut Image); 11] = [
            |image| image.ycbcr_subsampling = (2, 4),
            |image| image.ycbcr_subsampling = (1, 4),
            |image| image.ycbcr_subsampling = (8, 1),
            |image| image.cut = Cut::Tiles { width: 4, height: 4, depth: 1 },
            |image| {
                (image.compression, image.ycbcr_subsampling) = (5, (4, 4));
                image.cut = Cut::Tiles { width: 4, height: 4, depth: 1 };
            },
            |image| image.samples_per_pixel = 4,
            |image| image.depth = 2,
            |image| image.planar = true,
            |image| image.bits_per_sample = vec![16; 3],
            |image| (image.compression, image.predictor) = (5, 2),
            |image| image.ycbcr_coefficients = Some([0.3, 0.0, 0.1]),
        ];
        for (number, change) in refused.iter().enumerate() {
            assert_eq!(of(change), None, "{number}");
        }
        assert_eq!(scheme(false, &[4, 4, 4], &|_| ()), None, "another shape");
    }

    #[test]
    fn coefficients_are_those_of_the_file_within_reason() {
        let of = |luma, reference| {
            let mut image = crate::tiff::tests::image(4, 4, 3, 4);
            (image.ycbcr_coefficients, image.reference_black_white) = (luma, reference);
            colors(&image)
        };
        let (luma, reference) = ([0.25, 0.5, 0.25], [16.0, 235.0, 128.0, 240.0, 128.0, 1e6]);
        assert_eq!(of(Some(luma), Some(reference)), Some((luma, reference)));
        assert_eq!(of(Some([0.25, 2e6, 0.25]), None), None);
        assert_eq!(of(None, Some([0.0, -2e6, 0.0, 0.0, 0.0, 0.0])), None);
        assert_eq!(of(Some([0.25, f32::NAN, 0.25]), None), None);
    }

    #[test]
    fn jpeg_of_three_samples_is_decoded_here() {
        let jpeg = |shape: &[u64]| scheme(true, shape, &|image| image.compression = 7);
        assert_eq!(jpeg(&SHAPE), Some(TiffScheme::Jpeg { width: 4, height: 4, tables: Vec::new() }));
        assert_eq!(jpeg(&[1, 4, 4, 3]), None);
    }
}
