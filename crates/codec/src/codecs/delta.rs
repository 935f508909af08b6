//! TIFF's predictor 2, horizontal differencing (TIFF 6.0, section 14), along any axis: each element is stored as its
//! difference to the previous one, modulo 2ⁿ, in the byte order of the array.

use super::predictor::Layout;
use crate::CodecFailure;

const NAME: &str = "imagecodecs_delta";

pub(super) fn decode(bytes: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Result<Vec<u8>, CodecFailure> {
    run(bytes, axis, dtype, shape, |sum, stored| {
        let value = stored.wrapping_add(sum);
        (value, value)
    })
}

pub(super) fn encode(bytes: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Result<Vec<u8>, CodecFailure> {
    run(bytes, axis, dtype, shape, |last, value| (value.wrapping_sub(last), value))
}

/// Applies `step` along each row. It gets what it kept of the element one stride before (0 at the start) and the
/// element, and returns what to write and what to keep.
fn run(
    bytes: &[u8],
    axis: isize,
    dtype: &str,
    shape: &[u64],
    step: impl Fn(u64, u64) -> (u64, u64),
) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(NAME, axis, dtype, shape)?;
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
