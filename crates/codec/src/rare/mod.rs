//! Decoders of compressions that few files use, most without a maintained library in Rust: the HDF5 filters ZFP, SZ 2.1,
//! SZ3, SPERR and JPEG-LS, and of TIFF the compressions of NeXT and SGI, old-style JPEG, baseline JPEG as libjpeg computes
//! it, to the last bit, and subsampled YCbCr.

mod baseline_jpeg;
mod jpeg;
mod jpegls;
mod sperr;
mod sz;
mod sz3;
mod tiff;
mod zfp;

pub(crate) use jpeg::decode_jpeg;

use virtualize_zarr::{Codec, TiffScheme};

use crate::CodecFailure;

/// Decodes the bytes of one codec to at most `limit` bytes.
///
/// # Errors
/// See [`CodecFailure`]; [`CodecFailure::NoDecoder`] for codecs of other modules.
pub(crate) fn decode(codec: &Codec, bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let width = |dtype: &str| if dtype == "<f4" { 4 } else { 8 };
    match codec {
        Codec::Sz { dtype, shape } => sz::decode(bytes, (width(dtype), shape), limit),
        Codec::Sz3 { dtype } => sz3::decode(bytes, dtype, limit),
        Codec::Sperr { dtype, shape, has_mode } => {
            sperr::decode(bytes, (width(dtype), shape), *has_mode, limit)
        }
        Codec::Zfp { .. } => zfp::decode(bytes, codec, limit),
        Codec::JpegLs { by_pixel } => jpegls::decode(bytes, *by_pixel, limit),
        Codec::Tiff(scheme) => match *scheme {
            TiffScheme::Jpeg { width, height, ref tables } => {
                jpeg::decode(bytes, (width, height), tables, limit)
            }
            TiffScheme::OldJpeg(ref image) => jpeg::decode_old(bytes, image, limit),
            TiffScheme::Next { width } => tiff::decode_next(bytes, width, limit),
            TiffScheme::SgiLog16 { width, endian } => tiff::decode_sgi_log(bytes, width, endian, limit),
            TiffScheme::Ycbcr { width, height, horizontal, vertical, luma, reference } => {
                let blocks = tiff::Blocks { width, height, horizontal, vertical };
                tiff::decode_ycbcr(bytes, blocks, luma, reference, limit)
            }
        },
        other => Err(CodecFailure::NoDecoder(other.describe())),
    }
}
