//! Old-style JPEG of TIFF 6.0 (section 22): baseline JPEG (ITU-T T.81) whose tables are in the file, or a whole stream. It decodes
//! to what libtiff and libjpeg compute, to the last bit: an accurate integer transform, chroma that is repeated, and libtiff's
//! colors. One component decodes to itself.

use virtualize_zarr::{OldJpeg, OldJpegStream};

use crate::{DecodeError, corrupt};
use crate::{
    baseline_jpeg::{self, Plane, Segments, Stream, of_tables},
    size,
    ycbcr::{self, Blocks},
};

const NAME: &str = "old-style JPEG";

/// Decodes to interleaved RGB or gray of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], image: &OldJpeg, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let stream = find(bytes, image)?;
    let pixels = size(image.width).checked_mul(size(image.height));
    let length = pixels.and_then(|pixels| pixels.checked_mul(stream.components.len()));
    if length.is_none_or(|length| length > limit) {
        return Err(DecodeError::TooLong { codec: NAME.to_owned(), limit });
    }
    let planes = baseline_jpeg::decode(&stream, false)?;
    match planes.as_slice() {
        [gray] if (gray.horizontal, gray.vertical) == (1, 1) => {
            Ok((0..stream.height).flat_map(|row| gray.run(row, 0, stream.width)).copied().collect())
        }
        planes => to_rgb(&stream, planes, image, limit),
    }
}

/// Finds tables and data in the bytes that hold them.
fn find<'a>(bytes: &'a [u8], image: &OldJpeg) -> Result<Stream<'a>, DecodeError> {
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

fn part(bytes: &[u8], (start, end): (u64, u64)) -> Result<&[u8], DecodeError> {
    bytes.get(size(start)..size(end)).ok_or_else(|| malformed("tables or data outside of their chunk"))
}

/// Converts planes to RGB through the blocks that TIFF has for subsampled YCbCr.
fn to_rgb(
    stream: &Stream<'_>,
    planes: &[Plane],
    image: &OldJpeg,
    limit: usize,
) -> Result<Vec<u8>, DecodeError> {
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
    ycbcr::decode(&blocks, grid, image.luma, image.reference, limit)
}

fn malformed(problem: impl Into<String>) -> DecodeError {
    corrupt(NAME, problem.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtualize_zarr::OldJpegStream;

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
        assert_eq!(decode(&bytes, &image, 192).unwrap(), [133; 192]);
        assert!(decode(&bytes, &image, 191).is_err());
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], &image, 192).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn what_libraries_read_differently_is_refused() {
        // A difference of -2047 times 8 (code 111111110), then chroma.
        let (bytes, image) = parts(&[0xff, 0, 0, 0, 0, 0, 0]);
        assert!(decode(&bytes, &image, 192).unwrap_err().to_string().contains("out of range"));
        let (bytes, image) = parts(&[0b1001_0100]);
        assert!(decode(&bytes, &image, 192).unwrap_err().to_string().contains("end before"));
        let three = OldJpeg { horizontal: 3, ..image };
        assert!(decode(&bytes, &three, 192).is_err());
    }
}
