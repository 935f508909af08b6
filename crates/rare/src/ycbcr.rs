//! Conversion of YCbCr with subsampled chroma (TIFF 6.0, section 21) to RGB. It follows libtiff's `tif_color.c`, which
//! computes in single precision and integers, to the last bit, so GDAL shows the same values.

use crate::size;
use crate::{DecodeError, corrupt};

const NAME: &str = "subsampled YCbCr";
/// Fraction bits of products.
const SHIFT: u32 = 16;
const HALF: i32 = 1 << (SHIFT - 1);

/// Division of an image into blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) horizontal: u16,
    pub(super) vertical: u16,
}

/// Decodes to interleaved RGB of at most `limit` bytes.
pub(super) fn decode(
    bytes: &[u8],
    blocks: Blocks,
    luma: [f32; 3],
    reference: [f32; 6],
    limit: usize,
) -> Result<Vec<u8>, DecodeError> {
    let (width, height) = (size(blocks.width), size(blocks.height));
    let (across, down) = (usize::from(blocks.horizontal).max(1), usize::from(blocks.vertical).max(1));
    let row_bytes = width.saturating_mul(3);
    if row_bytes.checked_mul(height).is_none_or(|bytes| bytes > limit) {
        return Err(DecodeError::TooLong { codec: NAME.to_owned(), limit });
    }
    let colors = Colors::new(luma, reference);
    let block = across * down + 2;
    let row_of_blocks = width.div_ceil(across).saturating_mul(block);
    let mut out = vec![0; row_bytes * height];
    if bytes.len() > height.div_ceil(down).saturating_mul(row_of_blocks) {
        return Err(corrupt(NAME, "more blocks than the image has"));
    }
    let mut stored = bytes.chunks_exact(row_of_blocks.max(1));
    for rows in out.chunks_mut(row_bytes.saturating_mul(down).max(1)) {
        let stored = stored.next().ok_or_else(|| corrupt(NAME, "fewer blocks than the image has"))?;
        for (y, row) in rows.chunks_exact_mut(row_bytes.max(1)).enumerate() {
            for (pixels, block) in row.chunks_mut(across * 3).zip(stored.chunks_exact(block)) {
                let Some((lumas, [cb, cr])) = block.split_last_chunk::<2>() else { continue };
                let lumas = lumas.get(y * across..).unwrap_or_default();
                for (pixel, luma) in pixels.chunks_exact_mut(3).zip(lumas) {
                    pixel.copy_from_slice(&colors.rgb(*luma, *cb, *cr));
                }
            }
        }
    }
    Ok(out)
}

/// Contribution of each stored number to red, green and blue.
struct Colors {
    luma: Vec<i32>,
    red_of_cr: Vec<i32>,
    blue_of_cb: Vec<i32>,
    /// With [`SHIFT`] fraction bits.
    green_of_cr: Vec<i32>,
    /// The same, plus a half.
    green_of_cb: Vec<i32>,
}

impl Colors {
    fn new([red, green, blue]: [f32; 3], reference: [f32; 6]) -> Self {
        let [y_black, y_white, cb_black, cb_white, cr_black, cr_white] = reference;
        let twice = |share: f32| 2.0 - 2.0 * share;
        let (red_factor, blue_factor) = (fixed(twice(red)), fixed(twice(blue)));
        let green_by_red = -fixed(red * twice(red) / green);
        let green_by_blue = -fixed(blue * twice(blue) / green);
        let chroma =
            |black: f32, white: f32| (-128..128).map(move |x| level(x, black - 128.0, white - 128.0, 127.0));
        let (cb, cr) = (|| chroma(cb_black, cb_white), || chroma(cr_black, cr_white));
        Self {
            luma: (0..256).map(|x| level(x, y_black, y_white, 255.0)).collect(),
            red_of_cr: cr().map(|cr| rounded(red_factor, cr)).collect(),
            blue_of_cb: cb().map(|cb| rounded(blue_factor, cb)).collect(),
            green_of_cr: cr().map(|cr| green_by_red.wrapping_mul(cr)).collect(),
            green_of_cb: cb().map(|cb| green_by_blue.wrapping_mul(cb).wrapping_add(HALF)).collect(),
        }
    }

    fn rgb(&self, y: u8, cb: u8, cr: u8) -> [u8; 3] {
        let at = |table: &[i32], index: u8| table.get(usize::from(index)).copied().unwrap_or(0);
        let y = at(&self.luma, y);
        let green = at(&self.green_of_cb, cb).wrapping_add(at(&self.green_of_cr, cr)) >> SHIFT;
        [at(&self.red_of_cr, cr), green, at(&self.blue_of_cb, cb)]
            .map(|part| u8::try_from(y.saturating_add(part).clamp(0, 255)).unwrap_or(0))
    }
}

/// Rounds a factor between 0 and 2 to [`SHIFT`] fraction bits.
fn fixed(factor: f32) -> i32 {
    let scaled = f64::from(factor.clamp(0.0, 2.0) * 65536.0) + 0.5;
    truncated(scaled)
}

/// Maps a stored number to the scale from black (0) to white (`range`), and truncates it.
fn level(stored: i32, black: f32, white: f32, range: f32) -> i32 {
    const MAX_VALUE: f32 = 128.0 * 32.0;
    let width = if white - black == 0.0 { 1.0 } else { white - black };
    let steps = stored.saturating_sub(truncated(black.into()));
    let value = single(steps) * range / width;
    truncated(value.clamp(-MAX_VALUE, MAX_VALUE).into())
}

fn rounded(factor: i32, chroma: i32) -> i32 {
    factor.wrapping_mul(chroma).wrapping_add(HALF) >> SHIFT
}

/// Truncates towards 0, as a cast in C does.
#[allow(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn truncated(number: f64) -> i32 {
    number as i32
}

#[allow(clippy::cast_precision_loss, reason = "C's conversion, whose rounding is wanted")]
fn single(number: i32) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LUMA: [f32; 3] = [0.299, 0.587, 0.114];
    const REFERENCE: [f32; 6] = [0.0, 255.0, 128.0, 255.0, 128.0, 255.0];

    /// Numbers by hand, from the table of TIFF 6.0: Cr 255 is 127 · 1.402 = 178 more red and 91 less green.
    #[test]
    fn colours() {
        let colors = Colors::new(LUMA, REFERENCE);
        assert_eq!(colors.rgb(77, 128, 128), [77, 77, 77]);
        assert_eq!(colors.rgb(50, 128, 255), [228, 0, 50]);
        assert_eq!(colors.rgb(100, 128, 255), [255, 9, 100]);
        assert_eq!(colors.rgb(255, 0, 128), [255, 255, 28]);
    }

    #[test]
    fn blocks_at_the_edges_are_cut() {
        let blocks = Blocks { width: 3, height: 3, horizontal: 2, vertical: 2 };
        let block = |y: [u8; 4]| [&y[..], &[128, 128]].concat();
        let stored =
            [block([1, 2, 4, 5]), block([3, 0, 6, 0]), block([7, 8, 0, 0]), block([9, 0, 0, 0])].concat();
        let rgb = decode(&stored, blocks, LUMA, REFERENCE, 27).unwrap();
        assert_eq!(rgb, (1..=9).flat_map(|y| [y; 3]).collect::<Vec<u8>>());
        assert!(decode(&stored[..23], blocks, LUMA, REFERENCE, 27).is_err());
        assert!(decode(&[&stored[..], &[0]].concat(), blocks, LUMA, REFERENCE, 27).is_err());
        assert!(decode(&stored, blocks, LUMA, REFERENCE, 26).is_err());
        let none = Blocks { width: 0, height: 3, horizontal: 2, vertical: 2 };
        assert!(decode(&[], none, LUMA, REFERENCE, 26).unwrap().is_empty());
    }

    #[test]
    fn odd_references_do_no_harm() {
        for odd in [0.0, f32::NAN, f32::INFINITY, -1e30, 1e30] {
            Colors::new([odd; 3], [odd; 6]).rgb(255, 0, 255);
        }
    }
}
