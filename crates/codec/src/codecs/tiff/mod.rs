//! Compressions and layouts of TIFF that no Zarr reader decodes.

mod next;
mod sgi_log;
mod ycbcr;

use virtualize_zarr::TiffScheme;

use crate::CodecFailure;

/// Decodes to at most `limit` bytes.
pub(super) fn decode(scheme: &TiffScheme, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    match *scheme {
        TiffScheme::Next { width } => next::decode(bytes, width, limit),
        TiffScheme::SgiLog16 { width, endian } => sgi_log::decode(bytes, width, endian, limit),
        TiffScheme::Ycbcr { width, height, horizontal, vertical, luma, reference } => {
            let blocks = ycbcr::Blocks { width, height, horizontal, vertical };
            ycbcr::decode(bytes, blocks, luma, reference, limit)
        }
    }
}

/// A size in memory; what does not fit has no end that matters.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
