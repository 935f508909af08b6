//! Predictors of TIFF, along any axis, in the byte order of the array.
//!
//! Predictor 2, horizontal differencing (TIFF 6.0, section 14): each element is stored as its difference to the previous
//! one, modulo 2ⁿ. Predictor 3 (Adobe Photoshop TIFF Technical Note 3): the bytes of a row of floats in planes, the most
//! significant first in either byte order, then each byte as its difference to the byte one stride before, modulo 256.

use super::{
    numbers::{number, push_number},
    shuffle::interleave,
};
use crate::{CodecFailure, parameters};

/// Rows of elements along which a predictor runs.
pub(crate) struct Layout {
    /// Bytes per element.
    pub(crate) size: usize,
    /// Whether elements are big-endian.
    pub(crate) big_endian: bool,
    /// Distance in elements between neighbours along the axis.
    pub(crate) stride: usize,
    /// Elements per row: those along the axis, times the stride.
    pub(crate) row: usize,
}

impl Layout {
    /// Checks the parameters of a predictor: `axis` of a chunk of `shape` (negative ones count from the end), and
    /// `dtype` as a NumPy string.
    pub(crate) fn new(axis: isize, dtype: &str, shape: &[u64]) -> Result<Self, CodecFailure> {
        let wrong = || parameters("predictor", format!("axis {axis} of shape {shape:?} with dtype {dtype}"));
        let size = dtype.get(2..).and_then(|size| size.parse().ok()).ok_or_else(wrong)?;
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(wrong());
        }
        let at = if axis < 0 { shape.len().checked_add_signed(axis) } else { usize::try_from(axis).ok() };
        let (length, inner) = at.and_then(|at| shape.get(at..)?.split_first()).ok_or_else(wrong)?;
        let product = inner.iter().try_fold(1u64, |product, n| product.checked_mul(*n)).ok_or_else(wrong)?;
        let row = product.checked_mul(*length).and_then(|row| usize::try_from(row).ok()).ok_or_else(wrong)?;
        let stride = usize::try_from(product).map_err(|_| wrong())?;
        if row == 0 || row.checked_mul(size).is_none() {
            return Err(wrong());
        }
        Ok(Self { size, big_endian: dtype.starts_with('>'), stride, row })
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.row * self.size
    }

    /// Reverses horizontal differencing in place.
    pub(crate) fn decode_delta(&self, out: &mut [u8]) {
        /// Adds numbers of a type along the rows.
        macro_rules! add {
            ($type:ty, $from:ident, $to:ident) => {
                for row in out.chunks_mut(self.row_bytes()) {
                    add_along(row, self.stride, &|sum, n| {
                        <$type>::$from(sum).wrapping_add(<$type>::$from(n)).$to()
                    });
                }
            };
        }
        match (self.size, self.big_endian) {
            (1, _) => add!(u8, from_le_bytes, to_le_bytes),
            (2, false) => add!(u16, from_le_bytes, to_le_bytes),
            (2, true) => add!(u16, from_be_bytes, to_be_bytes),
            (4, false) => add!(u32, from_le_bytes, to_le_bytes),
            (4, true) => add!(u32, from_be_bytes, to_be_bytes),
            (_, false) => add!(u64, from_le_bytes, to_le_bytes),
            (_, true) => add!(u64, from_be_bytes, to_be_bytes),
        }
    }

    pub(super) fn encode_delta(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for row in bytes.chunks(self.row_bytes()) {
            let elements = row.chunks_exact(self.size);
            out.extend(row.iter().take(self.stride * self.size));
            for (element, before) in elements.clone().skip(self.stride).zip(elements) {
                let [element, before] = [element, before].map(|bytes| number(bytes, self.big_endian));
                push_number(element.wrapping_sub(before), self.size, self.big_endian, &mut out);
            }
        }
        out.extend(bytes.get(out.len()..).unwrap_or_default());
        out
    }

    /// Reverses the floating-point predictor in whole rows, and returns the number of bytes written.
    pub(crate) fn decode_floats(&self, bytes: &[u8], out: &mut [u8]) -> usize {
        let mut written = 0;
        let rows = bytes.chunks_exact(self.row_bytes()).zip(out.chunks_exact_mut(self.row_bytes()));
        for (stored, elements) in rows {
            let mut row = stored.to_vec();
            add_along::<1>(&mut row, self.stride, &|[sum], [byte]| [byte.wrapping_add(sum)]);
            interleave(&row, elements, self.size, !self.big_endian);
            written += row.len();
        }
        written
    }

    pub(super) fn encode_floats(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for row in bytes.chunks_exact(self.row_bytes()) {
            let start = out.len();
            for plane in 0..self.size {
                let plane = if self.big_endian { plane } else { self.size - 1 - plane };
                out.extend(row.iter().skip(plane).step_by(self.size));
            }
            let Some(coded) = out.get_mut(start..) else { continue };
            for at in (self.stride..coded.len()).rev() {
                let before = coded.get(at - self.stride).copied().unwrap_or(0);
                if let Some(byte) = coded.get_mut(at) {
                    *byte = byte.wrapping_sub(before);
                }
            }
        }
        out
    }
}

/// Adds to each element of a row the one `stride` elements before.
fn add_along<const N: usize>(row: &mut [u8], stride: usize, add: &impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (elements, _) = row.as_chunks_mut::<N>();
    match stride {
        1 => interleaved::<N, 1>(elements, add),
        2 => interleaved::<N, 2>(elements, add),
        3 => interleaved::<N, 3>(elements, add),
        4 => interleaved::<N, 4>(elements, add),
        _ => {
            let mut pixels = elements.chunks_mut(stride);
            let Some(mut before) = pixels.next() else { return };
            for pixel in pixels {
                pixel
                    .iter_mut()
                    .zip(before.iter())
                    .for_each(|(element, last)| *element = add(*last, *element));
                before = pixel;
            }
        }
    }
}

/// Adds along a row of pixels of `S` samples.
fn interleaved<const N: usize, const S: usize>(
    elements: &mut [[u8; N]],
    add: &impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let mut sums = [[0; N]; S];
    for pixel in elements.chunks_mut(S) {
        for (sum, element) in sums.iter_mut().zip(pixel) {
            *sum = add(*sum, *element);
            *element = *sum;
        }
    }
}
