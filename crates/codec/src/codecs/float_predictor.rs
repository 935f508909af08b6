//! TIFF's predictor 3 (Adobe Photoshop TIFF Technical Note 3), along any axis: the bytes of a row of floats in planes,
//! the most significant first in either byte order, then each byte as its difference to the byte one stride before,
//! modulo 256.

use super::predictor::Layout;
use crate::CodecFailure;

const NAME: &str = "imagecodecs_floatpred";

pub(super) fn decode(bytes: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(NAME, axis, dtype, shape)?;
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

pub(super) fn encode(bytes: &[u8], axis: isize, dtype: &str, shape: &[u64]) -> Result<Vec<u8>, CodecFailure> {
    let layout = Layout::new(NAME, axis, dtype, shape)?;
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
