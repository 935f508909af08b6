//! Compressions and layouts of TIFF that no Zarr reader decodes, and that are never encoded here.

mod baseline_jpeg;
mod jpeg;
mod next;
mod old_jpeg;
mod sgi_log;
mod ycbcr;

use virtualize_zarr::TiffScheme;

use crate::CodecFailure;

/// Decodes to at most `limit` bytes.
pub(super) fn decode(scheme: &TiffScheme, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    match *scheme {
        TiffScheme::Jpeg { width, height, ref tables } => jpeg::decode(bytes, (width, height), tables, limit),
        TiffScheme::OldJpeg(ref image) => old_jpeg::decode(bytes, image, limit),
        TiffScheme::Next { width } => next::decode(bytes, width, limit),
        TiffScheme::SgiLog16 { width, endian } => sgi_log::decode(bytes, width, endian, limit),
        TiffScheme::Ycbcr { width, height, horizontal, vertical, luma, reference } => {
            let blocks = ycbcr::Blocks { width, height, horizontal, vertical };
            ycbcr::decode(bytes, blocks, luma, reference, limit)
        }
    }
}

/// Converts a size. One that does not fit is larger than any limit.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
