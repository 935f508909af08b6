#![doc = include_str!("../README.md")]
//!
//! Architecture invariants: no I/O; stored bytes are untrusted, so every decoder stops at the expected size.

mod baseline_jpeg;
mod inflate;
mod jpeg;
mod jpegls;
mod next;
mod old_jpeg;
mod sgi_log;
mod sperr;
mod sz;
mod sz3;
mod ycbcr;
mod zfp;

pub use jpeg::{Colors, decode_jpeg};

use virtualize_zarr::{Codec, TiffScheme};

/// Why a chunk could not be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// There is no decoder for the codec, or for this form of it.
    #[error("{0} cannot be decoded here")]
    NoDecoder(String),
    /// The stored bytes are damaged.
    #[error("{codec}: {reason}")]
    Corrupt {
        /// Name of the codec.
        codec: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// The parameters are invalid, or do not fit the bytes.
    #[error("{codec}: {reason}")]
    Parameters {
        /// Name of the codec.
        codec: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// The chunk decodes to too many bytes.
    #[error("{codec}: decodes to more than the {limit} bytes expected")]
    TooLong {
        /// Name of the codec.
        codec: String,
        /// Maximum number of decoded bytes.
        limit: usize,
    },
}

fn corrupt(codec: &'static str, reason: impl ToString) -> DecodeError {
    DecodeError::Corrupt { codec, reason: reason.to_string() }
}

fn parameters(codec: &'static str, reason: impl ToString) -> DecodeError {
    DecodeError::Parameters { codec, reason: reason.to_string() }
}

/// Converts a size. One that does not fit is larger than any limit.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Decodes the bytes of one codec to at most `limit` bytes.
///
/// # Errors
/// See [`DecodeError`]; [`DecodeError::NoDecoder`] for the codecs of `virtualize-codec`.
pub fn decode(codec: &Codec, bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
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
            TiffScheme::OldJpeg(ref image) => old_jpeg::decode(bytes, image, limit),
            TiffScheme::Next { width } => next::decode(bytes, width, limit),
            TiffScheme::SgiLog16 { width, endian } => sgi_log::decode(bytes, width, endian, limit),
            TiffScheme::Ycbcr { width, height, horizontal, vertical, luma, reference } => {
                let blocks = ycbcr::Blocks { width, height, horizontal, vertical };
                ycbcr::decode(bytes, blocks, luma, reference, limit)
            }
        },
        other => Err(DecodeError::NoDecoder(other.describe())),
    }
}
