//! Layout of rows, which both predictors of TIFF share.

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
