//! Compression, Predictor and FillOrder as chains of codecs that released Zarr readers decode.

#[cfg(test)]
mod tests;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use virtualize_tiff::model::Image;
use virtualize_zarr::{Codec, DataType, Endian, StoredInteger, ZarrFormat};

use super::{
    sample::{Sample, Storage, numpy_name},
    tiff_schemes::is_sparse,
};
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
const LITTLE_24: Codec = Codec::Integers {
    size: 4,
    endian: Endian::Little,
    stored: StoredInteger { size: 3, endian: Endian::Little, offset: 0, precision: 24, signed: false },
};

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
        codecs.extend(bytes_to_bytes(scheme));
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
        if self.sample.storage == Storage::ComplexInteger && !self.declares_complex_integers()? {
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
        Ok(!reversed || self.format == ZarrFormat::V2 || self.is_plain_integer(scheme))
    }

    /// Whether complex integers are stored as plain numbers, which readers decode. In Zarr v3, predictors take the array's data
    /// type, and integers do not become complex numbers.
    fn declares_complex_integers(&self) -> Result<bool> {
        let is_plain = self.sample.complex_parts(self.endian).is_none() && self.image.predictor == 1;
        let is_expressible = self.own_codecs || self.format == ZarrFormat::V2 || is_plain;
        Ok(is_expressible && self.is_decodable()?)
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
        Ok(self.sample.storage != Storage::Float24
            && matches!(
                self.scheme()?,
                Scheme::None
                    | Scheme::Deflate
                    | Scheme::Lzw
                    | Scheme::PackBits
                    | Scheme::Next
                    | Scheme::SgiLog
                    | Scheme::DecodedJpeg
                    | Scheme::OldJpeg
                    | Scheme::Zstd
                    | Scheme::Lzma
            ))
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
            None => Err(Error::undecodable(
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

    fn is_plain_integer(&self, scheme: Scheme) -> bool {
        scheme == Scheme::None && self.sample.storage == Storage::Whole && self.sample.data_type.is_integer()
    }

    /// Whether the scheme defines its own bit order, so that libtiff and tifffile ignore FillOrder.
    fn ignores_fill_order(&self, scheme: Scheme) -> bool {
        matches!(
            scheme,
            Scheme::Jpeg | Scheme::DecodedJpeg | Scheme::OldJpeg | Scheme::Lerc | Scheme::Image(_)
        )
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
                codecs.push(self.pack_bits(shape));
                codecs.push(bytes_codec(&self.sample.data_type, Endian::Little));
            }
            Storage::Reversed24 => {
                codecs.push(bytes_codec(&self.sample.data_type, Endian::Little));
                codecs.extend(self.own_codecs.then_some(LITTLE_24));
            }
            Storage::Float24 => codecs.push(self.float24()),
        }
        codecs.extend(self.internal_scheme(shape)?.map(Codec::Tiff));
        Ok(codecs)
    }

    fn add_predictor(&self, shape: &[u64], codecs: &mut Vec<Codec>) -> Result<Endian> {
        let knows_predictors =
            matches!(self.scheme()?, Scheme::Deflate | Scheme::Lzw | Scheme::Zstd | Scheme::Lzma);
        if self.image.predictor == 1 || self.image.predictor == 0 && !knows_predictors {
            return Ok(self.endian);
        }
        self.check_predictor()?;
        let axis = if self.is_chunky() { -2 } else { -1 };
        let shape = shape.to_vec();
        if self.image.predictor == 2 {
            let dtype = self.sample.predicted_name(self.endian);
            codecs.push(Codec::Delta { axis, dtype, shape });
            return Ok(self.endian);
        }
        // Predictor 3 stores the most significant bytes first, whatever the byte order of the file.
        let dtype = numpy_name(&self.sample.data_type, Endian::Little);
        codecs.push(Codec::FloatPredictor { axis, dtype, shape });
        Ok(Endian::Little)
    }

    fn check_predictor(&self) -> Result<()> {
        let refuse = |why: &str| {
            let scheme = format!("predictor {} with {}", self.image.predictor, name(self.image.compression));
            Err(Error::undecodable(scheme, why.to_owned()))
        };
        if !matches!(self.image.predictor, 2 | 3) {
            return refuse("unknown predictor");
        }
        if matches!(
            self.scheme()?,
            Scheme::None | Scheme::PackBits | Scheme::Next | Scheme::SgiLog | Scheme::OldJpeg
        ) {
            return refuse("readers differ in how they undo it");
        }
        let data_type = &self.sample.data_type;
        let fits = match (self.image.predictor, self.sample.storage) {
            (2, Storage::Whole) => !data_type.is_complex(),
            // libtiff exchanges the parts of big-endian ones.
            (2, Storage::ComplexInteger) => self.endian == Endian::Little,
            (_, storage) => storage == Storage::Whole && data_type.is_float(),
        };
        if !fits {
            return refuse(&format!("it does not apply to {} bits of type {data_type}", self.sample.bits));
        }
        Ok(())
    }

    /// Whether chroma is subsampled outside of an image format that handles it itself.
    fn is_subsampled(&self, scheme: Scheme) -> bool {
        let subsampled = self.image.photometric == Some(6) && self.image.ycbcr_subsampling != (1, 1);
        subsampled
            && !matches!(
                scheme,
                Scheme::Jpeg
                    | Scheme::DecodedJpeg
                    | Scheme::OldJpeg
                    | Scheme::Lerc
                    | Scheme::Fax(_)
                    | Scheme::Image(_)
            )
    }

    /// Whether samples are stored in blocks of subsampled YCbCr.
    pub(super) fn has_blocks(&self) -> Result<bool> {
        Ok(self.is_subsampled(self.scheme()?))
    }

    fn pack_bits(&self, shape: &[u64]) -> Codec {
        let per_row = if self.is_chunky() { 2 } else { 1 };
        Codec::PackBitsOfIntegers {
            bits_per_sample: self.sample.bits,
            run_length: shape.iter().rev().take(per_row).fold(1, |run, length| run.saturating_mul(*length)),
            dtype: numpy_name(&self.sample.data_type, Endian::Little),
        }
    }

    fn float24(&self) -> Codec {
        let order = if self.endian == Endian::Big { ">" } else { "<" };
        image_codec("imagecodecs_float24", [("byteorder", json!(order))])
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
        if let Some((from, to)) = self.jpeg_colors() {
            if let Some(from) = from {
                configuration.insert("colorspace_jpeg".into(), from.into());
            }
            configuration.insert("colorspace_data".into(), to.into());
        }
        if let Some(tables) = &self.image.jpeg_tables {
            configuration.insert("tables".into(), BASE64_STANDARD.encode(tables).into());
        }
        Ok(Codec::Image { name: "imagecodecs_jpeg", configuration })
    }

    /// Returns the colour spaces of the stream (`None` if its markers are trusted) and of the array, as numbered by libjpeg.
    fn jpeg_colors(&self) -> Option<(Option<u8>, u8)> {
        const GRAY: u8 = 1;
        const RGB: u8 = 2;
        const YCBCR: u8 = 3;
        const CMYK: u8 = 4;
        match (self.is_chunky(), self.image.samples_per_pixel, self.image.photometric) {
            (false, ..) => Some((None, GRAY)),
            // libtiff trusts the tag, not the markers of the stream.
            (true, 3, Some(6)) => Some((Some(YCBCR), RGB)),
            (true, 3, _) => Some((Some(RGB), RGB)),
            (true, 4, Some(5)) => Some((None, CMYK)),
            _ => None,
        }
    }

    fn lerc(&self, shape: &[u64]) -> Result<Vec<Codec>> {
        let mut codecs = Vec::new();
        if u64::from(self.sample.bits) != self.sample.data_type.number_size().saturating_mul(8) {
            return Err(Error::undecodable("LERC", "it is of numbers of another size"));
        }
        // libtiff reverses the bytes of big-endian numbers before encoding and after decoding.
        if self.own_codecs {
            let refused = || Error::undecodable("LERC", "it is of a volume, or of numbers of another type");
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
                return Err(Error::undecodable("LERC", problem));
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
            return Err(Error::undecodable("CCITT compression", "more than one bit a pixel"));
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

fn scheme(compression: u16) -> Option<Scheme> {
    Some(match compression {
        1 => Scheme::None,
        2 => Scheme::Fax("imagecodecs_ccittrle"),
        3 => Scheme::Fax("imagecodecs_ccittfax3"),
        4 => Scheme::Fax("imagecodecs_ccittfax4"),
        5 => Scheme::Lzw,
        6 => Scheme::OldJpeg,
        7 | 33007 | 34892 => Scheme::Jpeg,
        8 | 32946 | 50013 => Scheme::Deflate,
        22610 | 34934 => Scheme::Image("imagecodecs_jpegxr"),
        32766 => Scheme::Next,
        32773 => Scheme::PackBits,
        33003 | 33004 | 33005 | 34712 => Scheme::Image("imagecodecs_jpeg2k"),
        34676 => Scheme::SgiLog,
        34887 => Scheme::Lerc,
        34925 => Scheme::Lzma,
        34933 => Scheme::Image("imagecodecs_png"),
        34926 | 50000 => Scheme::Zstd,
        34927 | 50001 => Scheme::Image("imagecodecs_webp"),
        50002 | 52546 => Scheme::Image("imagecodecs_jpegxl"),
        _ => return None,
    })
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
    let name = match compression {
        1 => "none",
        2 => "CCITT RLE",
        3 => "CCITT Group 3",
        4 => "CCITT Group 4",
        5 => "LZW",
        6 => "old-style JPEG",
        7 => "JPEG",
        8 | 32946 | 50013 => "Deflate",
        22610 | 34934 => "JPEG XR",
        32766 => "NeXT",
        32771 => "CCITT RLE, word-aligned",
        32773 => "PackBits",
        32809 => "ThunderScan",
        32908 | 32909 => "Pixar",
        33003 | 33004 | 33005 | 34712 => "JPEG 2000",
        34661 => "JBIG",
        34676 | 34677 => "SGI LogLuv",
        34887 => "LERC",
        34892 => "lossy JPEG (DNG)",
        34925 => "LZMA",
        34926 | 50000 => "ZSTD",
        34927 | 50001 => "WebP",
        34933 => "PNG",
        50002 | 52546 => "JPEG XL",
        _ => return format!("{compression} (unknown)"),
    };
    format!("{name} ({compression})")
}

fn bits_of(scheme: &str, bits: u16) -> Error {
    Error::undecodable(scheme.to_owned(), format!("samples of {bits} bits"))
}

fn bytes_to_bytes(scheme: Scheme) -> Option<Codec> {
    Some(match scheme {
        Scheme::Deflate => Codec::Zlib { level: 6 },
        Scheme::Lzw => Codec::Lzw,
        Scheme::PackBits => Codec::PackBits,
        Scheme::Zstd => Codec::Zstd { level: 0, checksum: false },
        Scheme::Lzma => Codec::Lzma { format: 1 },
        _ => return None,
    })
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
