//! Layouts of TIFF rows that no reader decodes: the compressions of NeXT and SGI, and YCbCr with subsampled chroma.

use virtualize_zarr::Endian;

use crate::{CodecFailure, bounded, corrupt, size};

// NeXT's compression of 2-bit samples, as libtiff's `tif_next.c` decodes it. Each row starts with a byte:
//
// ```text
// 00                           the row, uncompressed
// 40, 2 offset, 2 length, …    a part of the row, uncompressed (numbers big-endian); the rest is white
// any other                    runs: value in the upper 2 bits, length in the lower 6, until the row is full
// ```

const NEXT: &str = "NeXT";
const WHITE: u8 = 0xff;

/// Decodes as many rows of packed bits as fit into `limit` bytes.
pub(crate) fn decode_next(bytes: &[u8], width: u64, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let row_bytes = size(width.div_ceil(4));
    let rows = limit.checked_div(row_bytes).unwrap_or(0);
    let mut out = vec![WHITE; rows.saturating_mul(row_bytes)];
    let mut rest = bytes;
    for row in out.chunks_exact_mut(row_bytes.max(1)) {
        rest =
            row_of_next(rest, row, size(width)).ok_or_else(|| corrupt(NEXT, "the data end inside a row"))?;
    }
    Ok(out)
}

/// Decodes a row and returns the bytes after it.
fn row_of_next<'a>(bytes: &'a [u8], row: &mut [u8], width: usize) -> Option<&'a [u8]> {
    match bytes.split_first()? {
        (0x00, rest) => {
            let (literal, rest) = rest.split_at_checked(row.len())?;
            row.copy_from_slice(literal);
            Some(rest)
        }
        (0x40, rest) => {
            let (head, rest) = rest.split_first_chunk::<4>()?;
            let [a, b, c, d] = *head;
            let (start, length) = (u16::from_be_bytes([a, b]).into(), u16::from_be_bytes([c, d]).into());
            let (literal, rest) = rest.split_at_checked(length)?;
            row.get_mut(start..)?.get_mut(..length)?.copy_from_slice(literal);
            Some(rest)
        }
        _ => runs(bytes, row, width),
    }
}

fn runs<'a>(bytes: &'a [u8], row: &mut [u8], width: usize) -> Option<&'a [u8]> {
    let (mut rest, mut at) = (bytes, 0_usize);
    while at < width {
        let (&run, after) = rest.split_first()?;
        let end = at.saturating_add(usize::from(run & 0x3f)).min(width);
        for pixel in at..end {
            let shift = 6 - 2 * (pixel % 4);
            let byte = row.get_mut(pixel / 4)?;
            // The first of four pixels replaces the byte, which was white.
            let before = if pixel % 4 == 0 { 0 } else { *byte };
            *byte = before | (run >> 6) << shift;
        }
        (rest, at) = (after, end);
    }
    Some(rest)
}

// SGI's run lengths for LogL of 16 bits, as libtiff's `tif_luv.c` decodes them: each row is its high bytes, then its low
// bytes, each a sequence of runs:
//
// ```text
// 80 + n, byte    repeat the byte n + 2 times
// n, n bytes      literal bytes
// ```

const SGI_LOG: &str = "SGI Log";

/// Decodes as many rows as fit into `limit` bytes.
pub(crate) fn decode_sgi_log(
    bytes: &[u8],
    width: u64,
    endian: Endian,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let width = size(width);
    let rows = limit.checked_div(width.saturating_mul(2)).unwrap_or(0);
    let mut out = Vec::with_capacity(limit.min(bytes.len().saturating_mul(128)));
    let (mut rest, mut high, mut low) = (bytes, Vec::new(), Vec::new());
    for _ in 0..rows {
        for half in [&mut high, &mut low] {
            rest = fill(rest, half, width).ok_or_else(|| corrupt(SGI_LOG, "the data end inside a row"))?;
        }
        for (high, low) in high.iter().zip(&low) {
            out.extend(match endian {
                Endian::Little => [*low, *high],
                Endian::Big => [*high, *low],
            });
        }
    }
    Ok(out)
}

/// Decodes `count` bytes and returns the bytes after them. The end of the row truncates a run.
fn fill<'a>(bytes: &'a [u8], out: &mut Vec<u8>, count: usize) -> Option<&'a [u8]> {
    let mut rest = bytes;
    out.clear();
    while out.len() < count {
        let left = count - out.len();
        let (&control, after) = rest.split_first()?;
        rest = match control.checked_sub(128) {
            Some(more) => {
                let (&value, after) = after.split_first()?;
                out.resize(out.len() + usize::from(more).saturating_add(2).min(left), value);
                after
            }
            None => {
                let (literal, after) = after.split_at_checked(usize::from(control).min(left))?;
                out.extend_from_slice(literal);
                after
            }
        };
    }
    Some(rest)
}

// Conversion of YCbCr with subsampled chroma (TIFF 6.0, section 21) to RGB. It follows libtiff's `tif_color.c`, which
// computes in single precision and integers, to the last bit, so GDAL shows the same values.

const YCBCR: &str = "subsampled YCbCr";
/// Fraction bits of products.
const SHIFT: u32 = 16;
const HALF: i32 = 1 << (SHIFT - 1);

/// Division of an image into blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) horizontal: u16,
    pub(crate) vertical: u16,
}

/// Decodes to interleaved RGB of at most `limit` bytes.
pub(crate) fn decode_ycbcr(
    bytes: &[u8],
    blocks: Blocks,
    luma: [f32; 3],
    reference: [f32; 6],
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let (width, height) = (size(blocks.width), size(blocks.height));
    let (across, down) = (usize::from(blocks.horizontal).max(1), usize::from(blocks.vertical).max(1));
    let row_bytes = width.saturating_mul(3);
    let length = bounded(YCBCR, row_bytes.checked_mul(height), limit)?;
    let colors = Colors::new(luma, reference);
    let block = across * down + 2;
    let row_of_blocks = width.div_ceil(across).saturating_mul(block);
    let mut out = vec![0; length];
    if bytes.len() > height.div_ceil(down).saturating_mul(row_of_blocks) {
        return Err(corrupt(YCBCR, "more blocks than the image has"));
    }
    let mut stored = bytes.chunks_exact(row_of_blocks.max(1));
    for rows in out.chunks_mut(row_bytes.saturating_mul(down).max(1)) {
        let stored = stored.next().ok_or_else(|| corrupt(YCBCR, "fewer blocks than the image has"))?;
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

    /// The files next_*.tif of GDAL's tests, which GDAL reads as 1 1 1 1, and cases of tif_next.c.
    #[test]
    fn the_three_kinds_of_rows() {
        assert_eq!(decode_next(&[0x00, 0x55], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode_next(&[0x40, 0, 0, 0, 1, 0x55], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode_next(&[0x40, 0, 1, 0, 1, 0x55], 12, 3).unwrap(), [0xff, 0x55, 0xff]);
        assert_eq!(decode_next(&[0x44], 4, 1).unwrap(), [0x55]);
        assert_eq!(decode_next(&[0x83, 0xc2, 0x00, 0x11], 6, 2).unwrap(), [0xab, 0xc0]);
    }

    #[test]
    fn damaged_rows_are_refused() {
        for bytes in [&[][..], &[0], &[0x40, 0, 0, 0, 2, 1], &[0x40, 0, 1, 0, 1, 1], &[0x42]] {
            assert!(decode_next(bytes, 4, 1).is_err(), "{bytes:?}");
        }
        assert!(decode_next(&[0x44, 0x44], 4, 3).is_err());
        assert!(decode_next(&[0x44], 0, 3).unwrap().is_empty());
    }

    /// By tif_luv.c: three times 1 and one 2 are the high bytes, 7 8 9 9 the low ones.
    #[test]
    fn rows_are_two_planes_of_bytes() {
        let row = [0x81, 1, 1, 2, 0, 2, 7, 8, 0x80, 9];
        let little = [7, 1, 8, 1, 9, 1, 9, 2];
        assert_eq!(decode_sgi_log(&row, 4, Endian::Little, 8).unwrap(), little);
        assert_eq!(decode_sgi_log(&row, 4, Endian::Big, 9).unwrap(), [1, 7, 1, 8, 1, 9, 2, 9]);
        let twice = [row, row].concat();
        assert_eq!(decode_sgi_log(&twice, 4, Endian::Little, 16).unwrap(), [little, little].concat());
        assert!(decode_sgi_log(&twice[..19], 4, Endian::Little, 16).is_err());
        assert!(decode_sgi_log(&row, 4, Endian::Little, 16).is_err());
    }

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
        let rgb = decode_ycbcr(&stored, blocks, LUMA, REFERENCE, 27).unwrap();
        assert_eq!(rgb, (1..=9).flat_map(|y| [y; 3]).collect::<Vec<u8>>());
        assert!(decode_ycbcr(&stored[..23], blocks, LUMA, REFERENCE, 27).is_err());
        assert!(decode_ycbcr(&[&stored[..], &[0]].concat(), blocks, LUMA, REFERENCE, 27).is_err());
        assert!(decode_ycbcr(&stored, blocks, LUMA, REFERENCE, 26).is_err());
        let none = Blocks { width: 0, height: 3, horizontal: 2, vertical: 2 };
        assert!(decode_ycbcr(&[], none, LUMA, REFERENCE, 26).unwrap().is_empty());
    }

    #[test]
    fn odd_references_do_no_harm() {
        for odd in [0.0, f32::NAN, f32::INFINITY, -1e30, 1e30] {
            Colors::new([odd; 3], [odd; 6]).rgb(255, 0, 255);
        }
    }
}
