//! How the samples of an image are stored: the baseline and extension tags with their defaults (TIFF 6.0, section 8
//! and part 2).

use super::{
    fields::Fields,
    geometry::{Geometry, one_or_two},
    tables, tag,
};
use crate::{
    Error,
    model::{Image, SampleFormat, Value},
};

/// The image that a directory of a file of `size` bytes describes; at most `most` strips or tiles. Takes the tables of
/// strips and tiles out of `fields`, and puts what it doubts into `doubts`.
pub(crate) fn parse(
    fields: &mut Fields,
    size: u64,
    most: u64,
    doubts: &mut Vec<Error>,
) -> Result<Image, Error> {
    let mut image = without_tables(fields)?;
    let pieces = Geometry::of(fields)?.pieces(fields, most)?;
    tables::fill(&mut image, fields, pieces, size, doubts)?;
    Ok(image)
}

fn without_tables(fields: &Fields) -> Result<Image, Error> {
    let Geometry { width, height, depth, samples, planar, cut } = Geometry::of(fields)?;
    let compression = compression(fields)?;
    Ok(Image {
        subfile_type: subfile_type(fields)?,
        width,
        height,
        depth,
        bits_per_sample: bits_per_sample(fields, samples, compression)?,
        sample_format: sample_formats(fields, samples)?,
        samples_per_pixel: samples,
        extra_samples: extra_samples(fields)?,
        photometric: photometric(fields)?,
        compression,
        predictor: fields.narrowed(tag::PREDICTOR)?.unwrap_or(1),
        reversed_bits: one_or_two(fields, tag::FILL_ORDER)?,
        planar,
        cut,
        offsets: Vec::new(),
        byte_counts: Vec::new(),
        derived_byte_counts: false,
        jpeg_tables: jpeg_tables(fields)?,
        ycbcr_subsampling: ycbcr_subsampling(fields)?,
        ycbcr_coefficients: numbers(fields, tag::YCBCR_COEFFICIENTS)?,
        reference_black_white: numbers(fields, tag::REFERENCE_BLACK_WHITE)?,
        color_map: fields.shorts(tag::COLOR_MAP).ok().flatten(),
        fax_options: fax_options(fields, compression)?,
        lerc_parameters: lerc_parameters(fields)?,
    })
}

/// JPEG as TIFF 6.0 had it, whose writers leave out what the JPEG stream says too.
const OLD_JPEG: u16 = 6;

fn compression(fields: &Fields) -> Result<u16, Error> {
    Ok(fields.narrowed(tag::COMPRESSION)?.unwrap_or(1))
}

fn photometric(fields: &Fields) -> Result<Option<u16>, Error> {
    fields.narrowed(tag::PHOTOMETRIC)
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

/// SamplesPerPixel, with libtiff's default for old JPEG.
pub(crate) fn samples_per_pixel(fields: &Fields) -> Result<u16, Error> {
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

/// Corel's code for what is 2 elsewhere.
const COREL_ALPHA: u16 = 999;

/// Libtiff refuses codes above 2, but for one that Corel's programs wrote.
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

/// So many numbers, as floats of single precision, which libtiff keeps them in.
fn numbers<const N: usize>(fields: &Fields, tag: u16) -> Result<Option<[f32; N]>, Error> {
    fields.value(tag)?;
    let Some(numbers) = fields.floats(tag) else { return Ok(None) };
    let single: Vec<f32> = numbers.into_iter().map(to_single).collect();
    let found = single.len();
    let exact = single.try_into();
    exact.map(Some).map_err(|_| fields.malformed(tag, format!("{found} values, expected {N}")))
}

#[allow(clippy::cast_possible_truncation, reason = "rounds to the nearest, as libtiff does")]
fn to_single(number: f64) -> f32 {
    number as f32
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
