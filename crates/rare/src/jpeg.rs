//! Baseline JPEG to pixels, as libjpeg computes them, to the last bit: chroma is interpolated, and YCbCr becomes RGB (T.871
//! has the colors).

use crate::{DecodeError, corrupt};
use crate::{
    baseline_jpeg::{self, Plane, Segments, Stream},
    size,
};

const NAME: &str = "JPEG";
/// Fraction bits of products.
const SHIFT: u32 = 16;
const HALF: i32 = 1 << (SHIFT - 1);

/// Decodes to interleaved RGB of at most `limit` bytes. `tables` is a stream that holds only tables.
pub(super) fn decode(
    bytes: &[u8],
    (width, height): (u64, u64),
    tables: &[u8],
    limit: usize,
) -> Result<Vec<u8>, DecodeError> {
    let (segments, scan) = Segments::of(bytes, tables)?;
    let stream = segments.stream(scan, (size(width), size(height)))?;
    pixels(&stream, Some(size(height)), true, limit)
}

/// Color spaces of the stream and of the decoded image, as libjpeg numbers them. Without them, libjpeg decides by the
/// markers of the stream.
pub type Colors = (Option<u64>, Option<u64>);

/// Decodes an image to interleaved samples of at most `limit` bytes. `tables` is a stream that holds only tables.
///
/// # Errors
/// Damaged streams, and those that are not sequential, of 8 bits, and of colors that can be kept or become RGB.
pub fn decode_jpeg(
    bytes: &[u8],
    tables: &[u8],
    colors: Colors,
    limit: usize,
) -> Result<Vec<u8>, DecodeError> {
    let (segments, scan) = Segments::of(bytes, tables)?;
    let expected = segments.size().ok_or_else(|| corrupt(NAME, "no frame header"))?;
    let stream = segments.stream(scan, expected)?;
    let becomes_rgb = match (stream.components.len(), colors) {
        (1, (None, None | Some(1))) | (3, (Some(2), Some(2))) => false,
        (3, (Some(3), Some(2))) => true,
        (3, (None, None)) => !segments.is_rgb(),
        (4, (None, None | Some(4))) if segments.adobe() != Some(2) => false,
        (components, _) => {
            return Err(DecodeError::NoDecoder(format!("JPEG of {components} components in these colors")));
        }
    };
    pixels(&stream, None, becomes_rgb, limit)
}

/// Decodes the first rows of a stream to interleaved samples. Of `None`, all rows, which may be fewer than the header
/// declares: the last strip of a TIFF.
fn pixels(
    stream: &Stream<'_>,
    rows: Option<usize>,
    becomes_rgb: bool,
    limit: usize,
) -> Result<Vec<u8>, DecodeError> {
    let (width, count) = (stream.width, stream.components.len());
    let height = rows.unwrap_or(stream.height);
    let length = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(count));
    let length = length
        .filter(|length| *length <= limit)
        .ok_or_else(|| DecodeError::TooLong { codec: NAME.to_owned(), limit })?;
    let planes = baseline_jpeg::decode(stream, rows.is_none())?;
    let [first, others @ ..] = planes.as_slice() else { return Err(corrupt(NAME, "no components")) };
    if becomes_rgb && count != 3 {
        return Err(corrupt(NAME, format!("{count} components, expected 3")));
    }
    let others =
        others.iter().map(|plane| Chroma::of(first, plane, stream)).collect::<Result<Vec<_>, _>>()?;
    let mut out = Vec::with_capacity(length);
    for y in 0..height {
        let rows: Vec<Vec<i32>> = others.iter().map(|plane| plane.row(y)).collect();
        let sample = |row: &[i32], x: usize| row.get(x).copied().unwrap_or(0);
        for (x, first) in first.run(y, 0, width).iter().enumerate() {
            match rows.as_slice() {
                [cb, cr] if becomes_rgb => out.extend(rgb(*first, sample(cb, x), sample(cr, x))),
                rows => {
                    out.push(*first);
                    out.extend(rows.iter().map(|row| u8::try_from(sample(row, x)).unwrap_or(u8::MAX)));
                }
            }
        }
    }
    Ok(out)
}

/// A plane of chroma.
struct Chroma<'a> {
    plane: &'a Plane,
    /// Columns and rows without padding.
    columns: usize,
    rows: usize,
    is_wide: bool,
    is_tall: bool,
}

impl<'a> Chroma<'a> {
    fn of(luma: &Plane, plane: &'a Plane, stream: &Stream<'_>) -> Result<Self, DecodeError> {
        let (is_wide, is_tall) = match (luma.horizontal, luma.vertical, plane.horizontal, plane.vertical) {
            (1, 1, 1, 1) => (false, false),
            (2, 1, 1, 1) => (true, false),
            (2, 2, 1, 1) => (true, true),
            _ => return Err(corrupt(NAME, "chroma of another resolution")),
        };
        let columns = if is_wide { stream.width.div_ceil(2) } else { stream.width };
        let rows = if is_tall { stream.height.div_ceil(2) } else { stream.height };
        Ok(Self { plane, columns, rows, is_wide, is_tall })
    }

    /// Returns a row at the resolution of the image, or one sample more.
    fn row(&self, y: usize) -> Vec<i32> {
        let row = |y: usize| self.plane.run(y, 0, self.columns).iter().map(|sample| i32::from(*sample));
        // libjpeg repeats narrow planes.
        match (self.is_wide, self.is_tall) {
            (false, _) => row(y).collect(),
            (true, false) if self.columns <= 2 => row(y).flat_map(|sample| [sample; 2]).collect(),
            (true, true) if self.columns <= 2 => row(y / 2).flat_map(|sample| [sample; 2]).collect(),
            (true, false) => interpolated(&row(y).collect::<Vec<_>>(), 2, [1, 2]),
            (true, true) => {
                let near = y / 2;
                let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { near.saturating_add(1) };
                let far = far.min(self.rows.saturating_sub(1));
                let sums: Vec<i32> = row(near).zip(row(far)).map(|(near, far)| near * 3 + far).collect();
                interpolated(&sums, 4, [8, 7])
            }
        }
    }
}

/// Interpolates two samples from each one, three parts of it and one of its neighbour, and rounds `shift` bits off.
fn interpolated(samples: &[i32], shift: u32, [left_half, right_half]: [i32; 2]) -> Vec<i32> {
    let at = |x: usize| samples.get(x.min(samples.len().saturating_sub(1))).copied().unwrap_or(0);
    let pair = |x: usize| {
        let (left, here, right) = (at(x.saturating_sub(1)), at(x), at(x.saturating_add(1)));
        [(here * 3 + left + left_half) >> shift, (here * 3 + right + right_half) >> shift]
    };
    (0..samples.len()).flat_map(pair).collect()
}

/// Converts a pixel by the factors 1.402, 0.34414, 0.71414 and 1.772 with [`SHIFT`] fraction bits.
fn rgb(y: u8, cb: i32, cr: i32) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), cb - 128, cr - 128);
    let red = (91881 * cr + HALF) >> SHIFT;
    let green = (-22554 * cb - 46802 * cr + HALF) >> SHIFT;
    let blue = (116_130 * cb + HALF) >> SHIFT;
    [red, green, blue].map(|part| u8::try_from((y + part).clamp(0, 255)).unwrap_or(0))
}
