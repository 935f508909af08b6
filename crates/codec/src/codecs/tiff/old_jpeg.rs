//! Old-style JPEG of TIFF 6.0 (section 22): baseline JPEG (ITU-T T.81) whose tables are in the file, or a whole stream. It decodes
//! to what libtiff and libjpeg compute, to the last bit: an accurate integer transform, chroma that is repeated, and libtiff's
//! colors. One component decodes to itself.

use virtualize_zarr::{OldJpeg, OldJpegStream};

use super::{
    baseline_jpeg::{self, Plane, Segments, Stream, of_tables},
    size,
    ycbcr::{self, Blocks},
};
use crate::{CodecFailure, corrupt};

const NAME: &str = "old-style JPEG";

/// Decodes to interleaved RGB or gray of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], image: &OldJpeg, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let stream = find(bytes, image)?;
    let pixels = size(image.width).checked_mul(size(image.height));
    let length = pixels.and_then(|pixels| pixels.checked_mul(stream.components.len()));
    if length.is_none_or(|length| length > limit) {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let planes = baseline_jpeg::decode(&stream)?;
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
    ycbcr::decode(&blocks, grid, image.luma, image.reference, limit)
}

fn malformed(problem: impl Into<String>) -> CodecFailure {
    corrupt(NAME, problem.into())
}

#[cfg(test)]
mod tests;
