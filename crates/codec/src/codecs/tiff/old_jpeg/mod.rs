//! Old-style JPEG of TIFF 6.0 (section 22): baseline JPEG (ITU-T T.81) whose tables are in the file, or a whole stream. It decodes
//! to what libtiff and libjpeg compute, to the last bit: an accurate integer transform, chroma that is repeated, and libtiff's
//! colors.

mod headers;
mod huffman;
mod idct;
mod scan;

use virtualize_zarr::OldJpeg;

use super::{
    size,
    ycbcr::{self, Blocks},
};
use crate::{CodecFailure, corrupt};
use headers::Stream;
use scan::Plane;

const NAME: &str = "old-style JPEG";

/// Decodes to interleaved RGB of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], image: &OldJpeg, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let pixels = size(image.width).checked_mul(size(image.height));
    if pixels.and_then(|pixels| pixels.checked_mul(3)).is_none_or(|length| length > limit) {
        return Err(CodecFailure::TooLong { codec: NAME.to_owned(), limit });
    }
    let stream = Stream::find(bytes, image)?;
    to_rgb(&stream, &scan::decode(&stream)?, image, limit)
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
