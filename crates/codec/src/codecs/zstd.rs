//! Zstandard (RFC 8878). The encoder has one level, its fastest, whatever the configuration: decoders do not depend on
//! it.

use ruzstd::{decoding::StreamingDecoder, encoding};

use super::stream;
use crate::{CodecFailure, corrupt};

const NAME: &str = "zstd";

pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let decoder = StreamingDecoder::new(bytes).map_err(|error| corrupt(NAME, error))?;
    stream::read(NAME, decoder, limit)
}

/// Decodes `length` bytes from the start of a stream, whose end may be missing.
pub(crate) fn decode_start(bytes: &[u8], length: u64) -> Result<Vec<u8>, CodecFailure> {
    let decoder = StreamingDecoder::new(bytes).map_err(|error| corrupt(NAME, error))?;
    stream::start(NAME, decoder, length)
}

pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    Ok(encoding::compress_to_vec(bytes, encoding::CompressionLevel::Fastest))
}
