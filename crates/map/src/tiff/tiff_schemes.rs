//! Compressions and layouts that no client decodes. Their strips and tiles are decoded here and inlined.

use virtualize_tiff::model::{Cut, Image};
use virtualize_zarr::{DataType, TiffScheme};

use super::compression::Encoding;
use crate::{Error, Result};

/// Default of YCbCrCoefficients (TIFF 6.0, section 21): CCIR 601-1.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];
/// Default of ReferenceBlackWhite for YCbCr.
const REFERENCE: [f32; 6] = [0.0, 255.0, 128.0, 255.0, 128.0, 255.0];
/// Largest magnitude of a coefficient or reference level that is accepted.
const MOST_REFERENCE: f32 = 1e6;

impl Encoding<'_> {
    /// Returns the scheme of a strip or tile; `None` if clients decode it. `shape` is that of its samples in stored order.
    pub(super) fn internal_scheme(&self, shape: &[u64]) -> Result<Option<TiffScheme>> {
        match self.image.compression {
            32766 => next(self, shape).map(Some),
            34676 => sgi_log(self, shape).map(Some),
            _ if self.decodes_jpeg => jpeg(self, shape).map(Some),
            _ if self.has_blocks()? => ycbcr(self, shape).map(Some),
            _ => Ok(None),
        }
    }
}

fn next(encoding: &Encoding<'_>, shape: &[u64]) -> Result<TiffScheme> {
    if encoding.sample.bits != 2 || encoding.is_chunky() {
        return Err(Error::undecodable("NeXT (32766)", "only one sample of 2 bits is supported"));
    }
    Ok(TiffScheme::Next { width: last(shape) })
}

fn sgi_log(encoding: &Encoding<'_>, shape: &[u64]) -> Result<TiffScheme> {
    let numbers = matches!(encoding.sample.data_type, DataType::Int16 | DataType::UInt16);
    if !numbers
        || encoding.sample.bits != 16
        || encoding.is_chunky()
        || encoding.image.photometric != Some(32844)
    {
        return Err(Error::undecodable("SGI LogLuv (34676)", "only one LogL sample of 16 bits is supported"));
    }
    Ok(TiffScheme::SgiLog16 { width: last(shape), endian: encoding.endian })
}

fn jpeg(encoding: &Encoding<'_>, shape: &[u64]) -> Result<TiffScheme> {
    let tables = encoding.image.jpeg_tables.clone().unwrap_or_default();
    match shape {
        [height, width, 3] => Ok(TiffScheme::Jpeg { width: *width, height: *height, tables }),
        _ => Err(Error::undecodable("JPEG (7)", "strips of volumes")),
    }
}

/// Returns the scheme of subsampled YCbCr, which becomes RGB as in GDAL; tifffile does not read it.
fn ycbcr(encoding: &Encoding<'_>, shape: &[u64]) -> Result<TiffScheme> {
    let image = encoding.image;
    let (horizontal, vertical) = image.ycbcr_subsampling;
    let refuse = |why: &str| {
        let scheme = format!("YCbCr subsampled {:?} outside of JPEG", image.ycbcr_subsampling);
        Err(Error::undecodable(scheme, why.to_owned()))
    };
    // The subsamplings that libtiff reads.
    if !matches!((horizontal, vertical), (4, 4 | 2 | 1) | (2, 2 | 1) | (1, 2)) {
        return refuse("in these blocks");
    }
    // libtiff does not read such tiles, or misplaces the last pixels of a row of tiles.
    let tiled = matches!(image.cut, Cut::Tiles { .. });
    if tiled && (image.compression == 1 || (horizontal, vertical) == (4, 4)) {
        return refuse("in these tiles");
    }
    let whole = image.samples_per_pixel == 3 && encoding.is_chunky() && image.depth == 1;
    if !whole || encoding.sample.data_type != DataType::UInt8 || image.predictor > 1 {
        return refuse("with other samples than three of 8 bits side by side, or with a predictor");
    }
    let Some((luma, reference)) = colors(image) else {
        return refuse("with coefficients out of range");
    };
    match shape {
        [.., height, width, 3] => {
            Ok(TiffScheme::Ycbcr { width: *width, height: *height, horizontal, vertical, luma, reference })
        }
        _ => refuse("in pieces of this shape"),
    }
}

/// Returns YCbCrCoefficients and ReferenceBlackWhite, unless they are out of range.
pub(super) fn colors(image: &Image) -> Option<([f32; 3], [f32; 6])> {
    let luma = image.ycbcr_coefficients.unwrap_or(LUMA);
    let reference = image.reference_black_white.unwrap_or(REFERENCE);
    let sensible = |number: &f32| number.abs() <= MOST_REFERENCE;
    let [_, green, _] = luma;
    (luma.iter().chain(&reference).all(sensible) && green != 0.0).then_some((luma, reference))
}

fn last(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(0)
}
