#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Chunks are bytes in *stored order*: elements in C order after any `transpose`, numbers in the array's byte order. So
//! `transpose`, `bytes` and the `vlen-*` codecs leave them unchanged here. [`decode`] and [`encode`] run the codecs on
//! bytes; [`decode_values`] and [`encode_values`] also run those that compute with numbers, `scale_offset` and
//! `cast_value`.
//!
//! The modules [`fax`], [`jpeg`], [`jpeg2000`], [`png`] and [`webp`] add rows to images of the last strip of a TIFF, which
//! readers expect to be as tall as all others; [`lerc`] rewrites blobs with masks, which readers ignore; [`image`] reads the
//! headers of images.
//!
//! Architecture invariants: no I/O; stored bytes are untrusted, so every decoder stops at the expected size.

mod chain;
mod codecs;
mod decoder;
mod fast;
pub mod fax;
pub mod image;
pub mod jpeg;
pub mod jpeg2000;
pub mod lerc;
pub mod png;
#[cfg(feature = "rare")]
mod rare;
pub mod webp;

pub use chain::{decode, decode_exact, decode_up_to, decode_variable, encode};
pub use codecs::fletcher32::is_swapped as has_swapped_checksum;
pub use decoder::{Decoder, Scratch, decode_values, encode_values};

use std::fmt::Display;

use virtualize_zarr::ArithmeticError;

/// Why a chunk could not be decoded or encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecFailure {
    /// There is no decoder for the codec, or for this form of it.
    #[error("{0} cannot be decoded here")]
    NoDecoder(String),
    /// There is no encoder for the codec, or for this form of it.
    #[error("{0} cannot be encoded here")]
    NoEncoder(String),
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
    /// `scale_offset` or `cast_value` failed.
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
    /// The chunk decodes to too few bytes.
    #[error("chunk decodes to {found} bytes, expected {expected}")]
    TooShort {
        /// Length of the chunk in bytes.
        expected: usize,
        /// Number of decoded bytes.
        found: usize,
    },
    /// The chunk decodes to too many bytes.
    #[error("{codec}: decodes to more than the {limit} bytes expected")]
    TooLong {
        /// Name of the codec.
        codec: String,
        /// Greatest number of decoded bytes.
        limit: usize,
    },
}

pub(crate) fn corrupt(codec: &'static str, reason: impl ToString) -> CodecFailure {
    CodecFailure::Corrupt { codec, reason: reason.to_string() }
}

/// Returns the error of a form of a codec that has no decoder.
pub(crate) fn unsupported(codec: &'static str, form: impl Display) -> CodecFailure {
    CodecFailure::NoDecoder(format!("{codec}: {form}"))
}

/// Returns the length of decoded bytes, which is at most `limit`. `None` is one above the address space.
pub(crate) fn bounded(
    codec: &'static str,
    length: Option<usize>,
    limit: usize,
) -> Result<usize, CodecFailure> {
    let length = length.filter(|length| *length <= limit);
    length.ok_or_else(|| CodecFailure::TooLong { codec: codec.to_owned(), limit })
}

/// Converts a size. One that does not fit is larger than any limit.
pub(crate) fn size(number: impl Into<u64>) -> usize {
    usize::try_from(number.into()).unwrap_or(usize::MAX)
}

pub(crate) fn parameters(codec: &'static str, reason: impl ToString) -> CodecFailure {
    CodecFailure::Parameters { codec, reason: reason.to_string() }
}
