//! Predictors of TIFF, along any axis, in the byte order of the array.
//!
//! Predictor 2, horizontal differencing (TIFF 6.0, section 14): each element is stored as its difference to the previous
//! one, modulo 2ⁿ. Predictor 3 (Adobe Photoshop TIFF Technical Note 3): the bytes of a row of floats in planes, the most
//! significant first in either byte order, then each byte as its difference to the byte one stride before, modulo 256.

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
    pub(crate) fn new(
        codec: &'static str,
        axis: isize,
        dtype: &str,
        shape: &[u64],
    ) -> Result<Self, CodecFailure> {
        let wrong = || parameters(codec, format!("axis {axis} of shape {shape:?} with dtype {dtype}"));
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

    /// Returns the bits of an element.
    pub(crate) fn get(&self, element: &[u8]) -> u64 {
        let add = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
        if self.big_endian { element.iter().fold(0, add) } else { element.iter().rev().fold(0, add) }
    }

    pub(crate) fn set(&self, element: &mut [u8], value: u64) {
        let little = value.to_le_bytes();
        if self.big_endian {
            element.iter_mut().rev().zip(little).for_each(|(byte, new)| *byte = new);
        } else {
            element.iter_mut().zip(little).for_each(|(byte, new)| *byte = new);
        }
    }
}

pub(super) fn decode_delta(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Result<Vec<u8>, CodecFailure> {
    run_delta(bytes, axis, dtype, shape, |sum, stored| {
        let value = stored.wrapping_add(sum);
        (value, value)
    })
}

pub(super) fn encode_delta(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Result<Vec<u8>, CodecFailure> {
    run_delta(bytes, axis, dtype, shape, |last, value| (value.wrapping_sub(last), value))
}

/// Applies `step` along each row. It gets what it kept of the element one stride before (0 at the start) and the
/// element, and returns what to write and what to keep.
fn run_delta(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
    step: impl Fn(u64, u64) -> (u64, u64),
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new("imagecodecs_delta", axis, dtype, shape)?;
    let mut out = bytes.to_vec();
    let mut before = vec![0; layout.stride.min(bytes.len())];
    for row in out.chunks_mut(layout.row_bytes()) {
        before.fill(0);
        for pixel in row.chunks_mut(layout.stride * layout.size) {
            for (element, last) in pixel.chunks_exact_mut(layout.size).zip(&mut before) {
                let (written, kept) = step(*last, layout.get(element));
                layout.set(element, written);
                *last = kept;
            }
        }
    }
    Ok(out)
}

pub(super) fn decode_floats(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new("imagecodecs_floatpred", axis, dtype, shape)?;
    let mut out = Vec::with_capacity(bytes.len());
    for row in bytes.chunks_exact(layout.row_bytes()) {
        let mut row = row.to_vec();
        for at in layout.stride..row.len() {
            let before = row.get(at - layout.stride).copied().unwrap_or(0);
            if let Some(byte) = row.get_mut(at) {
                *byte = byte.wrapping_add(before);
            }
        }
        for element in 0..layout.row {
            let planes = row.iter().skip(element).step_by(layout.row).copied();
            let start = out.len();
            out.extend(planes);
            if !layout.big_endian {
                out.get_mut(start..).unwrap_or_default().reverse();
            }
        }
    }
    Ok(out)
}

pub(super) fn encode_floats(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new("imagecodecs_floatpred", axis, dtype, shape)?;
    let mut out = Vec::with_capacity(bytes.len());
    for row in bytes.chunks_exact(layout.row_bytes()) {
        let start = out.len();
        for plane in 0..layout.size {
            let plane = if layout.big_endian { plane } else { layout.size - 1 - plane };
            out.extend(row.iter().skip(plane).step_by(layout.size));
        }
        let Some(coded) = out.get_mut(start..) else { continue };
        for at in (layout.stride..coded.len()).rev() {
            let before = coded.get(at - layout.stride).copied().unwrap_or(0);
            if let Some(byte) = coded.get_mut(at) {
                *byte = byte.wrapping_sub(before);
            }
        }
    }
    Ok(out)
}
