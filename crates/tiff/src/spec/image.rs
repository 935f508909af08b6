//! Storage of an image's samples: baseline and extension tags with their defaults (TIFF 6.0, section 8 and part 2).

use std::borrow::Cow;

use virtualize_bytes::ByteRange;

use super::{directory::Fields, tag};
use crate::{
    Error, Structure,
    model::{Cut, Image, OldJpeg, SampleFormat, Value},
};

/// Parses the image of a directory, in a file of `size` bytes, with at most `most` strips or tiles. Takes the tables of
/// strips and tiles out of `fields`. Dubious values are reported in `warnings`.
pub(crate) fn parse(
    fields: &mut Fields,
    size: u64,
    most: u64,
    warnings: &mut Vec<Error>,
) -> Result<Image, Error> {
    let geometry = Geometry::of(fields)?;
    let Geometry { width, height, depth, samples, planar, cut } = geometry;
    let compression = compression(fields)?;
    let mut image = Image {
        subfile_type: subfile_type(fields)?,
        width,
        height,
        depth,
        bits_per_sample: bits_per_sample(fields, samples, compression)?,
        sample_format: fields
            .per_sample(tag::SAMPLE_FORMAT, samples, 1)?
            .into_iter()
            .map(sample_format)
            .collect(),
        samples_per_pixel: samples,
        extra_samples: extra_samples(fields)?,
        photometric: photometric(fields)?,
        compression,
        predictor: fields.narrowed(tag::PREDICTOR)?.unwrap_or(1),
        reversed_bits: fields.one_or_two(tag::FILL_ORDER)?,
        planar,
        cut,
        offsets: Vec::new(),
        byte_counts: Vec::new(),
        derived_byte_counts: false,
        jpeg_tables: jpeg_tables(fields)?,
        old_jpeg: if compression == OLD_JPEG { Some(old_jpeg(fields)?) } else { None },
        ycbcr_subsampling: ycbcr_subsampling(fields)?,
        ycbcr_coefficients: numbers(fields, tag::YCBCR_COEFFICIENTS)?,
        reference_black_white: numbers(fields, tag::REFERENCE_BLACK_WHITE)?,
        color_map: fields.shorts(tag::COLOR_MAP).ok().flatten(),
        fax_options: fax_options(fields, compression)?,
        lerc_parameters: lerc_parameters(fields)?,
    };
    let pieces = geometry.pieces(fields, most)?;
    // The usual tag of a table comes first: some writers store the tables of tiles under the tags of strips.
    let (offset_tags, count_tags) = match cut {
        Cut::Strips { .. } => {
            ([tag::STRIP_OFFSETS, tag::TILE_OFFSETS], [tag::STRIP_BYTE_COUNTS, tag::TILE_BYTE_COUNTS])
        }
        Cut::Tiles { .. } => {
            ([tag::TILE_OFFSETS, tag::STRIP_OFFSETS], [tag::TILE_BYTE_COUNTS, tag::STRIP_BYTE_COUNTS])
        }
    };
    image.offsets = offsets(fields, offset_tags, pieces, warnings)?;
    let stored = take(fields, count_tags)?;
    if stored.is_empty() {
        // libtiff rejects images without byte counts if a plane has several strips or tiles.
        let planes = if planar { usize::from(samples) } else { 1 };
        if image.offsets.len() > planes {
            return Err(fields.missing(count_tags[0]));
        }
    } else {
        warn_if_short(fields, count_tags[0], stored.len(), pieces, warnings);
    }
    // An offset of 0, or one that the table lacks, with a byte count other than 0, or without a table of byte counts: GDAL
    // would read samples in the file header.
    let is_read = |index: usize| stored.is_empty() || stored.get(index).is_some_and(|count| *count != 0);
    let mut offsets = image.offsets.iter().enumerate();
    if let Some((index, _)) = offsets.find(|(index, offset)| **offset == 0 && is_read(*index)) {
        let size = stored.get(index).map_or("unknown size".to_owned(), |count| format!("{count} bytes"));
        let problem = format!("0 for piece {index} of {size}, expected a positive offset");
        return Err(fields.malformed(offset_tags[0], problem));
    }
    (image.byte_counts, image.derived_byte_counts) = byte_counts(&image, stored, size);
    Ok(image)
}

fn subfile_type(fields: &Fields) -> Result<u32, Error> {
    if let Some(bits) = fields.narrowed(tag::NEW_SUBFILE_TYPE)? {
        return Ok(bits);
    }
    Ok(match fields.integer(tag::SUBFILE_TYPE)? {
        Some(2) => 1,
        Some(3) => 2,
        _ => 0,
    })
}

fn jpeg_tables(fields: &Fields) -> Result<Option<Vec<u8>>, Error> {
    Ok(match fields.value(tag::JPEG_TABLES)? {
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        Some(Value::Unsigned(numbers)) => {
            Some(numbers.iter().filter_map(|&number| u8::try_from(number).ok()).collect())
        }
        _ => None,
    })
}

fn old_jpeg(fields: &Fields) -> Result<OldJpeg, Error> {
    let offsets = |tag| Ok::<_, Error>(fields.integers(tag)?.map(Cow::into_owned).unwrap_or_default());
    Ok(OldJpeg {
        process: fields.integer(tag::JPEG_PROC)?,
        interchange_format: fields.integer(tag::JPEG_INTERCHANGE_FORMAT)?,
        interchange_length: fields.integer(tag::JPEG_INTERCHANGE_LENGTH)?,
        restart_interval: fields.integer(tag::JPEG_RESTART_INTERVAL)?.unwrap_or(0),
        quantization: offsets(tag::JPEG_Q_TABLES)?,
        dc: offsets(tag::JPEG_DC_TABLES)?,
        ac: offsets(tag::JPEG_AC_TABLES)?,
    })
}

fn ycbcr_subsampling(fields: &Fields) -> Result<(u16, u16), Error> {
    Ok(match fields.shorts(tag::YCBCR_SUBSAMPLING)?.as_deref() {
        Some(&[horizontal, vertical, ..]) => (horizontal, vertical),
        _ => (2, 2),
    })
}

/// Returns `N` numbers in single precision, as libtiff does.
fn numbers<const N: usize>(fields: &Fields, tag: u16) -> Result<Option<[f32; N]>, Error> {
    fields.value(tag)?;
    let Some(numbers) = fields.floats(tag) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, as libtiff does")]
    let single: Vec<f32> = numbers.into_iter().map(|number| number as f32).collect();
    let found = single.len();
    let exact = single.try_into();
    exact.map(Some).map_err(|_| fields.malformed(tag, format!("{found} values, expected {N}")))
}

fn fax_options(fields: &Fields, compression: u16) -> Result<u32, Error> {
    let options = match compression {
        3 => fields.narrowed(tag::T4_OPTIONS)?,
        4 => fields.narrowed(tag::T6_OPTIONS)?,
        _ => None,
    };
    Ok(options.unwrap_or(0))
}

fn lerc_parameters(fields: &Fields) -> Result<Option<Vec<u32>>, Error> {
    let Some(numbers) = fields.integers(tag::LERC_PARAMETERS)? else { return Ok(None) };
    let narrow = |&number: &u64| {
        u32::try_from(number)
            .map_err(|_| fields.malformed(tag::LERC_PARAMETERS, format!("{number}, out of range")))
    };
    numbers.iter().map(narrow).collect::<Result<_, _>>().map(Some)
}

// The size of an image and its division into strips or tiles (TIFF 6.0, sections 8 and 15).

/// Size of an image in pixels, and its division.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) depth: u64,
    pub(crate) samples: u16,
    /// Whether each sample has a plane of its own.
    pub(crate) planar: bool,
    pub(crate) cut: Cut,
}

/// Tags that determine the number of strips or tiles.
pub(crate) const TAGS: [u16; 11] = [
    tag::IMAGE_WIDTH,
    tag::IMAGE_LENGTH,
    tag::IMAGE_DEPTH,
    tag::COMPRESSION,
    tag::PHOTOMETRIC,
    tag::SAMPLES_PER_PIXEL,
    tag::ROWS_PER_STRIP,
    tag::PLANAR_CONFIGURATION,
    tag::TILE_WIDTH,
    tag::TILE_LENGTH,
    tag::TILE_DEPTH,
];

impl Geometry {
    pub(crate) fn of(fields: &Fields) -> Result<Self, Error> {
        let samples = samples_per_pixel(fields)?;
        let height = extent(fields, tag::IMAGE_LENGTH)?;
        let planar = fields.one_or_two(tag::PLANAR_CONFIGURATION)?;
        Ok(Self {
            width: extent(fields, tag::IMAGE_WIDTH)?,
            height,
            depth: depth(fields, tag::IMAGE_DEPTH)?,
            samples,
            planar: samples > 1 && planar,
            cut: cut(fields, height)?,
        })
    }

    /// Returns the number of strips or tiles.
    ///
    /// # Errors
    /// There are more than `most`.
    pub(crate) fn pieces(&self, fields: &Fields, most: u64) -> Result<usize, Error> {
        let pieces = self.count().filter(|&pieces| pieces <= most);
        pieces.and_then(|pieces| usize::try_from(pieces).ok()).ok_or_else(|| {
            let problem =
                format!("{} × {} pixels in {:?}: more than {most} pieces", self.width, self.height, self.cut);
            Error::limit("image", fields.offset, problem)
        })
    }

    fn count(&self) -> Option<u64> {
        let planes = if self.planar { u64::from(self.samples) } else { 1 };
        let each = match self.cut {
            Cut::Strips { rows } => self.height.div_ceil(rows).checked_mul(self.depth)?,
            Cut::Tiles { width, height, depth } => {
                let columns = self.width.div_ceil(width);
                columns.checked_mul(self.height.div_ceil(height))?.checked_mul(self.depth.div_ceil(depth))?
            }
        };
        each.checked_mul(planes)
    }
}

fn extent(fields: &Fields, tag: u16) -> Result<u64, Error> {
    match fields.integer(tag)? {
        None => Err(fields.missing(tag)),
        Some(0) => Err(fields.malformed(tag, "0, expected 1 or more")),
        Some(extent) => Ok(extent),
    }
}

/// Writers of SGI store a depth of 0, or none, for a single plane.
fn depth(fields: &Fields, tag: u16) -> Result<u64, Error> {
    Ok(fields.integer(tag)?.unwrap_or(1).max(1))
}

/// Like libtiff, rejects malformed tags of strips in tiled images, and the other way round.
fn cut(fields: &Fields, height: u64) -> Result<Cut, Error> {
    let depth = depth(fields, tag::TILE_DEPTH)?;
    let rows = match fields.integer(tag::ROWS_PER_STRIP)? {
        Some(0) => return Err(fields.malformed(tag::ROWS_PER_STRIP, "0, expected 1 or more")),
        rows => rows.unwrap_or(height).min(height),
    };
    if fields.value(tag::TILE_WIDTH)?.is_some() || fields.value(tag::TILE_LENGTH)?.is_some() {
        return Ok(Cut::Tiles {
            width: extent(fields, tag::TILE_WIDTH)?,
            height: extent(fields, tag::TILE_LENGTH)?,
            depth,
        });
    }
    Ok(Cut::Strips { rows })
}

// Number, width and meaning of the samples of a pixel (TIFF 6.0, section 8 and "SampleFormat" in section 19).

/// JPEG as defined by TIFF 6.0. Its writers omit tags that the JPEG stream implies.
const OLD_JPEG: u16 = 6;

fn compression(fields: &Fields) -> Result<u16, Error> {
    Ok(fields.narrowed(tag::COMPRESSION)?.unwrap_or(1))
}

fn photometric(fields: &Fields) -> Result<Option<u16>, Error> {
    fields.narrowed(tag::PHOTOMETRIC)
}

/// Returns SamplesPerPixel, with libtiff's default for old-style JPEG.
fn samples_per_pixel(fields: &Fields) -> Result<u16, Error> {
    match fields.narrowed(tag::SAMPLES_PER_PIXEL)? {
        Some(0) => Err(fields.malformed(tag::SAMPLES_PER_PIXEL, "0, expected 1 or more")),
        Some(samples) => Ok(samples),
        None if compression(fields)? == OLD_JPEG && matches!(photometric(fields)?, None | Some(2 | 6)) => {
            Ok(3)
        }
        None => Ok(1),
    }
}

fn bits_per_sample(fields: &Fields, samples: u16, compression: u16) -> Result<Vec<u16>, Error> {
    let default = if compression == OLD_JPEG { 8 } else { 1 };
    let bits = fields.per_sample(tag::BITS_PER_SAMPLE, samples, default)?;
    if bits.contains(&0) {
        return Err(fields.malformed(tag::BITS_PER_SAMPLE, "0, expected 1 or more"));
    }
    Ok(bits)
}

/// Code of Corel's programs for unassociated alpha.
const COREL_ALPHA: u16 = 999;

/// Returns ExtraSamples. Like libtiff, rejects codes above 2, except for Corel's.
fn extra_samples(fields: &Fields) -> Result<Vec<u16>, Error> {
    let mut codes = fields.shorts(tag::EXTRA_SAMPLES).ok().flatten().unwrap_or_default();
    for code in &mut codes {
        match *code {
            0..=2 => {}
            COREL_ALPHA => *code = 2,
            other => return Err(fields.malformed(tag::EXTRA_SAMPLES, format!("{other}, expected 0 to 2"))),
        }
    }
    Ok(codes)
}

fn sample_format(code: u16) -> SampleFormat {
    match code {
        1 => SampleFormat::Unsigned,
        2 => SampleFormat::Signed,
        3 => SampleFormat::Float,
        4 => SampleFormat::Void,
        5 => SampleFormat::ComplexInteger,
        6 => SampleFormat::ComplexFloat,
        other => SampleFormat::Unknown(other),
    }
}

// The tables of strips or tiles: StripOffsets, StripByteCounts, TileOffsets and TileByteCounts (TIFF 6.0, sections 3
// and 15).

/// Number of offsets that a table may lack.
const MAX_MISSING: usize = 100_000;

/// Returns the table under either tag. libtiff reads the last one of two, tifffile that of the usual tag.
fn take(fields: &mut Fields, [usual, other]: [u16; 2]) -> Result<Vec<u64>, Error> {
    let (table, second) = (fields.take_unsigned(usual)?, fields.take_unsigned(other)?);
    match (table.is_empty(), second.is_empty()) {
        (true, _) => Ok(second),
        (false, true) => Ok(table),
        (false, false) if table == second => Ok(table),
        _ => Err(fields.malformed(other, format!("contradicts {}", tag::name(usual)))),
    }
}

/// Returns one offset per strip or tile. Like other readers, treats those that the table lacks as 0: missing.
fn offsets(
    fields: &mut Fields,
    tags: [u16; 2],
    pieces: usize,
    warnings: &mut Vec<Error>,
) -> Result<Vec<u64>, Error> {
    let [tag, _] = tags;
    let mut offsets = take(fields, tags)?;
    if offsets.is_empty() {
        return Err(fields.missing(tag));
    }
    let stored = offsets.len();
    if pieces.saturating_sub(stored) > MAX_MISSING {
        return Err(fields.malformed(tag, format!("{stored} values, expected {pieces}")));
    }
    warn_if_short(fields, tag, stored, pieces, warnings);
    offsets.resize(pieces, 0);
    Ok(offsets)
}

fn warn_if_short(fields: &Fields, tag: u16, stored: usize, pieces: usize, warnings: &mut Vec<Error>) {
    if stored < pieces {
        let structure = Structure::Tag(tag);
        warnings.push(Error::ShortTable { structure, offset: fields.offset, stored, pieces });
    }
}

/// Rejects strips and tiles beyond the end of the file.
pub(crate) fn check_end(image: &Image, size: u64, offset: u64) -> Result<(), Error> {
    let mut ranges = image.offsets.iter().zip(&image.byte_counts);
    let past = |&(&start, &length): &(&u64, &u64)| {
        start != 0 && length != 0 && start.checked_add(length).is_none_or(|end| end > size)
    };
    match ranges.find(past) {
        Some((&start, &length)) => {
            Err(Error::truncated("strip or tile", offset, ByteRange::new(start, length), size))
        }
        None => Ok(()),
    }
}

// Byte counts of strips and tiles: as stored, or derived if they are missing or implausible. The rules are those of
// libtiff, which writes and reads most files.

const UNCOMPRESSED: u16 = 1;

/// Completes the byte counts of an image with offsets. Returns whether they were derived: if there is no table, or if
/// the count of a single strip is implausible. A short table is padded with 0, which means missing strips or tiles.
fn byte_counts(image: &Image, mut stored: Vec<u64>, size: u64) -> (Vec<u64>, bool) {
    let lengths = Lengths::of(image);
    let compressed = image.compression != UNCOMPRESSED;
    // libtiff's `ByteCountLooksBad`, which applies to images of one strip.
    let looks_wrong = match (&image.offsets[..], stored.first(), image.cut) {
        (&[offset], Some(&count), Cut::Strips { .. }) if offset != 0 => {
            let too_small = || count < lengths.piece(0);
            let too_large = || offset <= size && count > size.saturating_sub(offset);
            count == 0 || (!compressed && (too_small() || too_large()))
        }
        _ => false,
    };
    if !stored.is_empty() && !looks_wrong {
        stored.resize(image.offsets.len(), 0);
        if !compressed {
            // The bytes that the pixels need.
            for (index, count) in stored.iter_mut().enumerate() {
                *count = lengths.piece(index).min(*count);
            }
        }
        return (stored, false);
    }
    // Compressed strips or tiles end before the next one or at the end of the file.
    let mut sorted = if compressed { image.offsets.clone() } else { Vec::new() };
    sorted.sort_unstable();
    let length = |(index, &offset): (usize, &u64)| {
        if offset == 0 {
            0
        } else if compressed {
            let next = sorted.partition_point(|&other| other <= offset);
            let end = sorted.get(next).copied().unwrap_or(size).min(size);
            end.saturating_sub(offset)
        } else {
            lengths.piece(index)
        }
    };
    (image.offsets.iter().enumerate().map(length).collect(), true)
}

/// Sizes of the uncompressed strips or tiles of an image.
struct Lengths<'a> {
    image: &'a Image,
    /// Number of strips or tiles per plane.
    per_plane: usize,
    /// Bits per pixel in each plane.
    bits: Vec<u64>,
}

impl<'a> Lengths<'a> {
    fn of(image: &'a Image) -> Self {
        let bits = image.bits_per_sample.iter().map(|&bits| u64::from(bits));
        let bits: Vec<u64> = if image.planar { bits.collect() } else { vec![bits.sum()] };
        Self { image, per_plane: image.offsets.len().checked_div(bits.len()).unwrap_or(1).max(1), bits }
    }

    fn piece(&self, index: usize) -> u64 {
        let plane = index.checked_div(self.per_plane).unwrap_or(0);
        let bits = self.bits.get(plane).copied().unwrap_or(0);
        match self.image.cut {
            Cut::Tiles { width, height, depth } => self.rows(width, height, bits).saturating_mul(depth),
            Cut::Strips { rows } => {
                let strips = self.image.height.div_ceil(rows.max(1)).max(1);
                let strip = (index as u64).checked_rem(strips).unwrap_or(0);
                let above = strip.saturating_mul(rows);
                self.rows(self.image.width, rows.min(self.image.height.saturating_sub(above)), bits)
            }
        }
    }

    /// Returns the size in bytes of `height` rows of `width` pixels.
    fn rows(&self, width: u64, height: u64, bits: u64) -> u64 {
        let image = self.image;
        let (horizontal, vertical) = image.ycbcr_subsampling;
        // Samples of YCbCr are stored in blocks.
        let ycbcr = image.photometric == Some(6) && image.samples_per_pixel == 3 && !image.planar;
        if ycbcr && horizontal > 0 && vertical > 0 {
            let (horizontal, vertical) = (u64::from(horizontal), u64::from(vertical));
            let block = horizontal.saturating_mul(vertical).saturating_add(2);
            let blocks = width.div_ceil(horizontal).saturating_mul(height.div_ceil(vertical));
            let bits = u64::from(image.bits_per_sample.first().copied().unwrap_or(8));
            return blocks.saturating_mul(block).saturating_mul(bits).div_ceil(8);
        }
        width.saturating_mul(bits).div_ceil(8).saturating_mul(height)
    }
}
