//! TIFF's predictors 2 and 3.

use super::interleave::interleave;
use crate::codecs::predictor::Layout;

/// Reverses horizontal differencing.
pub(super) fn delta(bytes: &[u8], out: &mut [u8], axis: isize, dtype: &str, shape: &[u64]) -> Option<()> {
    let layout = layout(bytes, out, axis, dtype, shape)?;
    out.copy_from_slice(bytes);
    match (layout.size, layout.big_endian) {
        (1, _) => sums::<1>(out, &layout, |[sum], [byte]| [byte.wrapping_add(sum)]),
        (2, false) => {
            sums(out, &layout, |sum, n| add16(u16::from_le_bytes(sum), u16::from_le_bytes(n)).to_le_bytes())
        }
        (2, true) => {
            sums(out, &layout, |sum, n| add16(u16::from_be_bytes(sum), u16::from_be_bytes(n)).to_be_bytes())
        }
        (4, false) => {
            sums(out, &layout, |sum, n| add32(u32::from_le_bytes(sum), u32::from_le_bytes(n)).to_le_bytes())
        }
        (4, true) => {
            sums(out, &layout, |sum, n| add32(u32::from_be_bytes(sum), u32::from_be_bytes(n)).to_be_bytes())
        }
        (8, false) => {
            sums(out, &layout, |sum, n| add64(u64::from_le_bytes(sum), u64::from_le_bytes(n)).to_le_bytes())
        }
        (8, true) => {
            sums(out, &layout, |sum, n| add64(u64::from_be_bytes(sum), u64::from_be_bytes(n)).to_be_bytes())
        }
        _ => return None,
    }
    Some(())
}

fn add16(one: u16, other: u16) -> u16 {
    one.wrapping_add(other)
}

fn add32(one: u32, other: u32) -> u32 {
    one.wrapping_add(other)
}

fn add64(one: u64, other: u64) -> u64 {
    one.wrapping_add(other)
}

/// Reverses the floating-point predictor.
pub(super) fn float(
    bytes: &[u8],
    out: &mut [u8],
    row: &mut Vec<u8>,
    axis: isize,
    dtype: &str,
    shape: &[u64],
) -> Option<()> {
    let layout = layout(bytes, out, axis, dtype, shape)?;
    let length = layout.row_bytes();
    for (stored, elements) in bytes.chunks_exact(length).zip(out.chunks_exact_mut(length)) {
        row.clear();
        row.extend_from_slice(stored);
        add_along::<1>(row, layout.stride, &|[sum], [byte]| [byte.wrapping_add(sum)]);
        interleave(row, elements, layout.size, !layout.big_endian)?;
    }
    Some(())
}

/// Returns the layout of whole rows.
fn layout(bytes: &[u8], out: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Option<Layout> {
    let layout = Layout::new("", axis, dtype, shape).ok()?;
    (bytes.len() == out.len() && bytes.len().is_multiple_of(layout.row_bytes())).then_some(layout)
}

fn sums<const N: usize>(out: &mut [u8], layout: &Layout, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for row in out.chunks_exact_mut(layout.row_bytes()) {
        add_along(row, layout.stride, &add);
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
