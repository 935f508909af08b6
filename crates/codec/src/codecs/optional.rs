//! Codecs that some chunks skipped: those of exactly `size` bytes are stored unchanged.

use virtualize_zarr::Codec;

use crate::{CodecFailure, decode as decode_chain, encode as encode_chain, parameters};

const NAME: &str = "optional";

/// Decodes a chunk to `size` bytes, if `limit` allows them.
pub(super) fn decode(
    bytes: &[u8],
    codecs: &[Codec],
    size: u64,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let size = usize::try_from(size).ok().filter(|size| *size <= limit);
    let size = size.ok_or_else(|| CodecFailure::TooLong { codec: NAME.to_owned(), limit })?;
    if bytes.len() == size { Ok(bytes.to_vec()) } else { decode_chain(codecs, bytes, size) }
}

/// Encodes a chunk, or returns it unchanged if no encoder makes it another number of bytes.
pub(super) fn encode(bytes: &[u8], codecs: &[Codec], size: u64) -> Result<Vec<u8>, CodecFailure> {
    if bytes.len() as u64 != size {
        return Err(parameters(NAME, format!("{} bytes, expected {size}", bytes.len())));
    }
    match encode_chain(codecs, bytes) {
        Ok(encoded) if encoded.len() != bytes.len() => Ok(encoded),
        Ok(_) | Err(CodecFailure::NoEncoder(_)) => Ok(bytes.to_vec()),
        Err(other) => Err(other),
    }
}
