//! Streams of zlib and Zstandard inside of SZ and SZ3.

use std::io::Read;

use virtualize_bytes::read_bounded;

use crate::{DecodeError, corrupt};

pub(crate) fn zlib(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    read("zlib", flate2::read::ZlibDecoder::new(bytes), limit)
}

pub(crate) fn zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(|error| corrupt("zstd", error))?;
    read("zstd", decoder.single_frame(), limit)
}

fn read(codec: &'static str, decoder: impl Read, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let decoded = read_bounded(decoder, limit).map_err(|error| corrupt(codec, error))?;
    decoded.ok_or_else(|| DecodeError::TooLong { codec: codec.to_owned(), limit })
}
