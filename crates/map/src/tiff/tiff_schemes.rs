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
    // libtiff divides tiles into rows of the image.
    let (row, image) = (last(shape).div_ceil(4), encoding.image.width.div_ceil(4));
    if row != image {
        return Err(Error::undecodable("NeXT (32766)", "tiles must be as wide as the image"));
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
    if is_sparse(image) || image.derived_byte_counts {
        return refuse("with missing strips or tiles, or without byte counts");
    }
    match shape {
        [.., height, width, 3] => {
            Ok(TiffScheme::Ycbcr { width: *width, height: *height, horizontal, vertical, luma, reference })
        }
        _ => refuse("in pieces of this shape"),
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
    let sensible = |number: &f32| number.abs() <= MOST_REFERENCE;
    let [_, green, _] = luma;
    (luma.iter().chain(&reference).all(sensible) && green != 0.0).then_some((luma, reference))
}

fn last(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use virtualize_zarr::{Codec, Endian, ZarrFormat};

    use super::*;
    use crate::{ComplexIntegers, tiff::sample::Sample};

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
