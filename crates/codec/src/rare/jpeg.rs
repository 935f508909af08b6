//! Baseline JPEG to pixels, as libjpeg computes them, to the last bit: chroma is interpolated, and YCbCr becomes RGB (T.871
//! has the colors).

use virtualize_zarr::{OldJpeg, OldJpegStream};

use super::{
    baseline_jpeg::{self, Plane, Segments, Stream, of_tables},
    tiff::{Blocks, decode_ycbcr},
};
use crate::{CodecFailure, bounded, corrupt, size};

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
) -> Result<Vec<u8>, CodecFailure> {
    let (segments, scan) = Segments::of(bytes, tables)?;
    let stream = segments.stream(scan, (size(width), size(height)))?;
    pixels(&stream, Some(size(height)), true, limit)
}

/// Color spaces of the stream and of the decoded image, as libjpeg numbers them. Without them, libjpeg decides by the
/// markers of the stream.
pub(crate) type Colors = (Option<u64>, Option<u64>);

/// Decodes an image to interleaved samples of at most `limit` bytes. `tables` is a stream that holds only tables.
///
/// # Errors
/// Damaged streams, and those that are not sequential, of 8 bits, and of colors that can be kept or become RGB.
pub(crate) fn decode_jpeg(
    bytes: &[u8],
    tables: &[u8],
    colors: Colors,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let (segments, scan) = Segments::of(bytes, tables)?;
    let expected = segments.frame.ok_or_else(|| corrupt(NAME, "no frame header"))?;
    let stream = segments.stream(scan, expected)?;
    let becomes_rgb = match (stream.components.len(), colors) {
        (1, (None, None | Some(1))) | (3, (Some(2), Some(2))) => false,
        (3, (Some(3), Some(2))) => true,
        (3, (None, None)) => !segments.is_rgb(),
        (4, (None, None | Some(4))) if segments.adobe != Some(2) => false,
        (components, _) => {
            return Err(CodecFailure::NoDecoder(format!("JPEG of {components} components in these colors")));
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
) -> Result<Vec<u8>, CodecFailure> {
    let (width, count) = (stream.width, stream.components.len());
    let height = rows.unwrap_or(stream.height);
    let length = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(count));
    let length = bounded(NAME, length, limit)?;
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
    fn of(luma: &Plane, plane: &'a Plane, stream: &Stream<'_>) -> Result<Self, CodecFailure> {
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

// Old-style JPEG of TIFF 6.0 (section 22): baseline JPEG (ITU-T T.81) whose tables are in the file, or a whole stream. It
// decodes to what libtiff and libjpeg compute, to the last bit: an accurate integer transform, chroma that is repeated, and
// libtiff's colors. One component decodes to itself.

const OLD: &str = "old-style JPEG";

/// Decodes to interleaved RGB or gray of at most `limit` bytes.
pub(super) fn decode_old(bytes: &[u8], image: &OldJpeg, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let stream = find(bytes, image)?;
    let pixels = size(image.width).checked_mul(size(image.height));
    let length = pixels.and_then(|pixels| pixels.checked_mul(stream.components.len()));
    bounded(OLD, length, limit)?;
    let planes = baseline_jpeg::decode(&stream, false)?;
    match planes.as_slice() {
        [gray] if (gray.horizontal, gray.vertical) == (1, 1) => {
            Ok((0..stream.height).flat_map(|row| gray.run(row, 0, stream.width)).copied().collect())
        }
        planes => to_rgb(&stream, planes, image, limit),
    }
}

/// Finds tables and data in the bytes that hold them.
fn find<'a>(bytes: &'a [u8], image: &OldJpeg) -> Result<Stream<'a>, CodecFailure> {
    let size_of = (size(image.width), size(image.height));
    match image.stream {
        OldJpegStream::Tables { quantization, dc, ac, scan } => {
            let luma = (image.horizontal, image.vertical);
            let components = of_tables(bytes, [quantization, dc, ac].map(|table| table.map(size)), luma)?;
            Ok(Stream {
                width: size_of.0,
                height: size_of.1,
                components,
                restart_interval: size(image.restart_interval),
                scan: part(bytes, scan)?,
            })
        }
        OldJpegStream::Interchange { stream, strip } => {
            let mut found = Segments::default();
            let rest = found.read(part(bytes, stream)?)?;
            // Streams that end with their headers are followed by the strip.
            if found.is_rgb() {
                return Err(malformed("a stream of RGB, which GDAL shows as YCbCr and other readers as RGB"));
            }
            let scan = if rest.is_empty() { part(bytes, strip)? } else { rest };
            let stream = found.stream(scan, size_of)?;
            match (stream.width, stream.height) == size_of {
                true => Ok(stream),
                false => Err(malformed("a stream of another size")),
            }
        }
    }
}

fn part(bytes: &[u8], (start, end): (u64, u64)) -> Result<&[u8], CodecFailure> {
    bytes.get(size(start)..size(end)).ok_or_else(|| malformed("tables or data outside of their chunk"))
}

/// Converts planes to RGB through the blocks that TIFF has for subsampled YCbCr.
fn to_rgb(
    stream: &Stream<'_>,
    planes: &[Plane],
    image: &OldJpeg,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let [luma, chroma @ ..] = planes else { return Err(malformed("no component")) };
    if chroma.len() != 2 {
        return Err(malformed(format!("{} components, expected 3", planes.len())));
    }
    let (across, down) = (usize::from(luma.horizontal), usize::from(luma.vertical));
    if chroma.iter().any(|plane| plane.horizontal != 1 || plane.vertical != 1) || across == 3 || down == 3 {
        return Err(malformed("a subsampling that TIFF does not have"));
    }
    let (columns, rows) = (stream.width.div_ceil(across), stream.height.div_ceil(down));
    let mut blocks = Vec::with_capacity(columns.saturating_mul(rows).saturating_mul(across * down + 2));
    for y in 0..rows {
        for x in 0..columns {
            for row in y * down..(y + 1) * down {
                blocks.extend_from_slice(luma.run(row, x * across, across));
            }
            chroma.iter().for_each(|plane| blocks.extend_from_slice(plane.run(y, x, 1)));
        }
    }
    let grid = Blocks {
        width: image.width,
        height: image.height,
        horizontal: luma.horizontal.into(),
        vertical: luma.vertical.into(),
    };
    decode_ycbcr(&blocks, grid, image.luma, image.reference, limit)
}

fn malformed(problem: impl Into<String>) -> CodecFailure {
    corrupt(OLD, problem.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of T.81, table K.3 (DC of luminance), which has 12 values.
    const DC: [u8; 28] =
        [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    /// One code of one bit: the end of a block.
    const AC: [u8; 17] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Steps of 8, the tables, and the data, for an image of 8 × 8 without subsampling.
    fn parts(data: &[u8]) -> (Vec<u8>, OldJpeg) {
        let bytes = [&[8; 64][..], &DC, &AC, data].concat();
        let end = bytes.len() as u64;
        let image = OldJpeg {
            width: 8,
            height: 8,
            luma: [0.299, 0.587, 0.114],
            reference: [0.0, 255.0, 128.0, 255.0, 128.0, 255.0],
            horizontal: 1,
            vertical: 1,
            restart_interval: 0,
            stream: OldJpegStream::Tables {
                quantization: [0; 3],
                dc: [64; 3],
                ac: [92; 3],
                scan: (109, end),
            },
        };
        (bytes, image)
    }

    /// A DC difference of 5 (code 100, bits 101) times a step of 8 is 40 / 8 more than 128 throughout; chroma is zero (code 00).
    #[test]
    fn a_constant_block() {
        let (bytes, image) = parts(&[0b1001_0100, 0b0000_0111]);
        assert_eq!(decode_old(&bytes, &image, 192).unwrap(), [133; 192]);
        assert!(decode_old(&bytes, &image, 191).is_err());
        for cut in 0..bytes.len() {
            assert!(decode_old(&bytes[..cut], &image, 192).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn what_libraries_read_differently_is_refused() {
        // A difference of -2047 times 8 (code 111111110), then chroma.
        let (bytes, image) = parts(&[0xff, 0, 0, 0, 0, 0, 0]);
        assert!(decode_old(&bytes, &image, 192).unwrap_err().to_string().contains("out of range"));
        let (bytes, image) = parts(&[0b1001_0100]);
        assert!(decode_old(&bytes, &image, 192).unwrap_err().to_string().contains("end before"));
        let three = OldJpeg { horizontal: 3, ..image };
        assert!(decode_old(&bytes, &three, 192).is_err());
    }
}
