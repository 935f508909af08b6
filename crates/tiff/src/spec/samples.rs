//! Number, width and meaning of the samples of a pixel (TIFF 6.0, section 8 and "SampleFormat" in section 19).

use super::{fields::Fields, tag};
use crate::{Error, model::SampleFormat};

/// JPEG as defined by TIFF 6.0. Its writers omit tags that the JPEG stream implies.
pub(crate) const OLD_JPEG: u16 = 6;

pub(crate) fn compression(fields: &Fields) -> Result<u16, Error> {
    Ok(fields.narrowed(tag::COMPRESSION)?.unwrap_or(1))
}

pub(crate) fn photometric(fields: &Fields) -> Result<Option<u16>, Error> {
    fields.narrowed(tag::PHOTOMETRIC)
}

/// Returns SamplesPerPixel, with libtiff's default for old-style JPEG.
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

pub(crate) fn bits_per_sample(fields: &Fields, samples: u16, compression: u16) -> Result<Vec<u16>, Error> {
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
pub(crate) fn extra_samples(fields: &Fields) -> Result<Vec<u16>, Error> {
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

pub(crate) fn sample_formats(fields: &Fields, samples: u16) -> Result<Vec<SampleFormat>, Error> {
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
