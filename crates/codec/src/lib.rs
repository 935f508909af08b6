//! Decodes and encodes single chunks, for those that must be put inline.
//!
//! Chunks are bytes "in stored order": elements in C order after any `transpose`, numbers in the array's byte order. So
//! `transpose`, `bytes` and the `vlen-*` codecs do nothing here. Where codecs calculate, [`encode`] and [`decode`] stand for
//! what is behind the calculation; [`encode_values`] and [`decode_values`] do it too.
//!
//! Architecture invariants: no I/O; stored bytes are not trusted, so every decoder stops at the size that is expected.

mod bits;
mod chain;
mod codecs;
pub mod jpeg;
pub mod jpeg2000;
pub mod lerc;
pub mod png;
mod values;
pub mod webp;

pub use chain::{decode, decode_variable, encode};
pub use values::{decode_values, encode_values};

use virtualize_zarr::ArithmeticError;

/// Why a chunk could not be decoded or encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecFailure {
    /// Nothing here decodes it.
    #[error("{0} cannot be decoded here")]
    NoDecoder(String),
    /// Nothing here encodes it.
    #[error("{0} cannot be encoded here")]
    NoEncoder(String),
    /// The stored bytes are not what the codec writes.
    #[error("{codec}: {reason}")]
    Corrupt {
        /// Which codec.
        codec: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// The parameters make no sense.
    #[error("{codec}: {reason}")]
    Parameters {
        /// Which codec.
        codec: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// Numbers that the array's codecs cannot calculate with.
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
    /// Less came out than the chunk needs.
    #[error("chunk decodes to {found} bytes, expected {expected}")]
    TooShort {
        /// Bytes the chunk needs.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// More came out than the chunk can have.
    #[error("{codec}: decodes to more than the {limit} bytes expected")]
    TooLong {
        /// Which codec.
        codec: String,
        /// Most bytes that it should give.
        limit: usize,
    },
}

pub(crate) fn corrupt(codec: &'static str, reason: impl ToString) -> CodecFailure {
    CodecFailure::Corrupt { codec, reason: reason.to_string() }
}

pub(crate) fn parameters(codec: &'static str, reason: impl ToString) -> CodecFailure {
    CodecFailure::Parameters { codec, reason: reason.to_string() }
}
