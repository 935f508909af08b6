//! Streams of zlib and Zstandard inside of SZ and SZ3.

use std::io::Read;

use crate::{DecodeError, corrupt};

/// Maximum number of bytes that are decoded after the limit, to verify the checksum at the end.
const MAX_EXCESS: u64 = 1 << 28;

pub(crate) fn zlib(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    read("zlib", flate2::read::ZlibDecoder::new(bytes), limit)
}

pub(crate) fn zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(|error| corrupt("zstd", error))?;
    read("zstd", decoder.single_frame(), limit)
}

/// Reads at most `limit + 1` bytes.
fn read(codec: &'static str, mut decoder: impl Read, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = decoder.by_ref().take(most).read_to_end(&mut out);
    match read.and_then(|_| std::io::copy(&mut decoder.take(MAX_EXCESS), &mut std::io::sink())) {
        Err(error) => Err(corrupt(codec, error)),
        Ok(MAX_EXCESS..) => Err(DecodeError::TooLong { codec: codec.to_owned(), limit }),
        Ok(_) => Ok(out),
    }
}
