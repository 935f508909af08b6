//! How the samples of an image are stored: the baseline and extension tags with their defaults (TIFF 6.0, section 8
//! and part 2).

use std::borrow::Cow;

use super::{byte_counts, fields::Fields, tag};
use crate::{
    Error,
    model::{Cut, Image, SampleFormat, Value},
};

/// The image that a directory of a file of `size` bytes describes; at most `most` strips or tiles.
pub(crate) fn parse(fields: &Fields, size: u64, most: u64) -> Result<Image, Error> {
    let compression = fields.narrowed(tag::COMPRESSION)?.unwrap_or(1);
    let photometric = fields.narrowed(tag::PHOTOMETRIC)?;
    let samples = samples_per_pixel(fields, compression, photometric)?;
    let height = extent(fields, tag::IMAGE_LENGTH)?;
    let mut image = Image {
        subfile_type: subfile_type(fields)?,
        width: extent(fields, tag::IMAGE_WIDTH)?,
        height,
        depth: fields.integer(tag::IMAGE_DEPTH)?.unwrap_or(1).max(1),
        bits_per_sample: bits_per_sample(fields, samples, compression)?,
        sample_format: sample_formats(fields, samples)?,
        samples_per_pixel: samples,
        extra_samples: fields.shorts(tag::EXTRA_SAMPLES).ok().flatten().unwrap_or_default(),
        photometric,
        compression,
        predictor: fields.narrowed(tag::PREDICTOR)?.unwrap_or(1),
        reversed_bits: one_or_two(fields, tag::FILL_ORDER)?,
        planar: samples > 1 && one_or_two(fields, tag::PLANAR_CONFIGURATION)?,
        cut: cut(fields, height)?,
        offsets: Vec::new(),
        byte_counts: Vec::new(),
        derived_byte_counts: false,
        jpeg_tables: jpeg_tables(fields)?,
        ycbcr_subsampling: ycbcr_subsampling(fields)?,
        color_map: fields.shorts(tag::COLOR_MAP).ok().flatten(),
        fax_options: fax_options(fields, compression)?,
        lerc_parameters: lerc_parameters(fields)?,
    };
    let pieces = pieces(&image).filter(|&pieces| pieces <= most);
    let pieces = pieces.and_then(|pieces| usize::try_from(pieces).ok());
    let pieces = pieces.ok_or_else(|| {
        let problem =
            format!("{} × {} pixels in {:?}: more than {most} pieces", image.width, image.height, image.cut);
        Error::limit("image", fields.offset, problem)
    })?;
    image.offsets = offsets(fields, &image, pieces)?;
    let stored = table(fields, &image, tag::TILE_BYTE_COUNTS, tag::STRIP_BYTE_COUNTS)?;
    (image.byte_counts, image.derived_byte_counts) = byte_counts::resolve(&image, &stored, size);
    byte_counts::check_end(&image, size, fields.offset)?;
    Ok(image)
}

fn extent(fields: &Fields, tag: u16) -> Result<u64, Error> {
    match fields.integer(tag)? {
        None => Err(fields.missing(tag)),
        Some(0) => Err(fields.malformed(tag, "0, expected 1 or more")),
        Some(extent) => Ok(extent),
    }
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

/// JPEG as TIFF 6.0 had it, whose writers leave out what the JPEG stream says too.
const OLD_JPEG: u16 = 6;

fn samples_per_pixel(fields: &Fields, compression: u16, photometric: Option<u16>) -> Result<u16, Error> {
    match fields.narrowed(tag::SAMPLES_PER_PIXEL)? {
        Some(0) => Err(fields.malformed(tag::SAMPLES_PER_PIXEL, "0, expected 1 or more")),
        Some(samples) => Ok(samples),
        None if compression == OLD_JPEG && matches!(photometric, None | Some(2 | 6)) => Ok(3),
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

fn sample_formats(fields: &Fields, samples: u16) -> Result<Vec<SampleFormat>, Error> {
    let formats = fields.per_sample(tag::SAMPLE_FORMAT, samples, 1)?;
    Ok(formats.into_iter().map(sample_format).collect())
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

/// Whether a tag that is 1 or 2, and 1 where absent, is 2.
fn one_or_two(fields: &Fields, tag: u16) -> Result<bool, Error> {
    match fields.integer(tag)? {
        None | Some(1) => Ok(false),
        Some(2) => Ok(true),
        Some(other) => Err(fields.malformed(tag, format!("{other}, expected 1 or 2"))),
    }
}

fn cut(fields: &Fields, height: u64) -> Result<Cut, Error> {
    if fields.value(tag::TILE_WIDTH)?.is_some() || fields.value(tag::TILE_LENGTH)?.is_some() {
        return Ok(Cut::Tiles {
            width: extent(fields, tag::TILE_WIDTH)?,
            height: extent(fields, tag::TILE_LENGTH)?,
            depth: fields.integer(tag::TILE_DEPTH)?.unwrap_or(1).max(1),
        });
    }
    match fields.integer(tag::ROWS_PER_STRIP)? {
        Some(0) => Err(fields.malformed(tag::ROWS_PER_STRIP, "0, expected 1 or more")),
        rows => Ok(Cut::Strips { rows: rows.unwrap_or(height).min(height) }),
    }
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

fn ycbcr_subsampling(fields: &Fields) -> Result<(u16, u16), Error> {
    Ok(match fields.shorts(tag::YCBCR_SUBSAMPLING)?.as_deref() {
        Some(&[horizontal, vertical, ..]) => (horizontal, vertical),
        _ => (2, 2),
    })
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
        u32::try_from(number).map_err(|_| fields.malformed(tag::LERC_PARAMETERS, "out of range"))
    };
    numbers.iter().map(narrow).collect::<Result<_, _>>().map(Some)
}

/// How many strips or tiles there are, unless that is beyond counting.
fn pieces(image: &Image) -> Option<u64> {
    let planes = if image.planar { u64::from(image.samples_per_pixel) } else { 1 };
    let each = match image.cut {
        Cut::Strips { rows } => image.height.div_ceil(rows).checked_mul(image.depth)?,
        Cut::Tiles { width, height, depth } => {
            let columns = image.width.div_ceil(width);
            columns.checked_mul(image.height.div_ceil(height))?.checked_mul(image.depth.div_ceil(depth))?
        }
    };
    each.checked_mul(planes)
}

/// One of the two tables of an image. Some writers put the tables of tiles under the tags of strips.
fn table<'a>(fields: &'a Fields, image: &Image, tiles: u16, strips: u16) -> Result<Cow<'a, [u64]>, Error> {
    let (usual, other) = match image.cut {
        Cut::Tiles { .. } => (tiles, strips),
        Cut::Strips { .. } => (strips, tiles),
    };
    Ok(match fields.integers(usual)? {
        Some(table) => table,
        None => fields.integers(other)?.unwrap_or_default(),
    })
}

/// Offsets that a table may lack; more, and the file is refused.
const MOST_LACKING: usize = 100_000;

/// As many offsets as there are pieces. Those that the table lacks are 0, as other readers have it: no such pieces.
fn offsets(fields: &Fields, image: &Image, pieces: usize) -> Result<Vec<u64>, Error> {
    let table = table(fields, image, tag::TILE_OFFSETS, tag::STRIP_OFFSETS)?;
    let tag = offsets_tag(image);
    if table.is_empty() {
        return Err(fields.missing(tag));
    }
    let lacking = pieces.saturating_sub(table.len());
    if lacking > MOST_LACKING {
        return Err(fields.malformed(tag, format!("{} values, expected {pieces}", table.len())));
    }
    let mut offsets = table.get(..pieces).unwrap_or(&table).to_vec();
    offsets.resize(pieces, 0);
    Ok(offsets)
}

fn offsets_tag(image: &Image) -> u16 {
    match image.cut {
        Cut::Tiles { .. } => tag::TILE_OFFSETS,
        Cut::Strips { .. } => tag::STRIP_OFFSETS,
    }
}

/// A note where the table of offsets is too short.
pub(crate) fn note_on_offsets(fields: &Fields, image: &Image) -> Option<Error> {
    let stored = table(fields, image, tag::TILE_OFFSETS, tag::STRIP_OFFSETS).ok()?.len();
    let problem = format!("{stored} values, expected {}; the others count as missing", image.offsets.len());
    (stored < image.offsets.len()).then(|| fields.malformed(offsets_tag(image), problem))
}
