//! Storage of an image's samples: baseline and extension tags with their defaults (TIFF 6.0, section 8 and part 2).

use std::borrow::Cow;

use super::{
    fields::Fields,
    geometry::Geometry,
    samples::{OLD_JPEG, bits_per_sample, compression, extra_samples, photometric, sample_formats},
    tables, tag,
};
use crate::{
    Error,
    model::{Image, OldJpeg, Value},
};

/// Parses the image of a directory, in a file of `size` bytes, with at most `most` strips or tiles. Takes the tables of
/// strips and tiles out of `fields`. Dubious values are reported in `warnings`.
pub(crate) fn parse(
    fields: &mut Fields,
    size: u64,
    most: u64,
    warnings: &mut Vec<Error>,
) -> Result<Image, Error> {
    let mut image = without_tables(fields)?;
    let pieces = Geometry::of(fields)?.pieces(fields, most)?;
    tables::fill(&mut image, fields, pieces, size, warnings)?;
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
    })
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
        u32::try_from(number)
            .map_err(|_| fields.malformed(tag::LERC_PARAMETERS, format!("{number}, out of range")))
    };
    numbers.iter().map(narrow).collect::<Result<_, _>>().map(Some)
}
