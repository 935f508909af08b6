//! zlib (RFC 1950): Deflate (RFC 1951) between a 2-byte header and an Adler-32 checksum.

use std::io::Write;

use super::stream;
use crate::{CodecFailure, corrupt};

const NAME: &str = "zlib";

pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    stream::read(NAME, flate2::read::ZlibDecoder::new(bytes), limit)
}

/// Decodes `length` bytes from the start of a stream, whose end may be missing.
pub(crate) fn decode_start(bytes: &[u8], length: u64) -> Result<Vec<u8>, CodecFailure> {
    stream::start(NAME, flate2::read::ZlibDecoder::new(bytes), length)
}

pub(crate) fn encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt(NAME, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_that_is_wrong_or_missing_is_an_error() {
        let data = [7; 1000];
        let right = encode(&data, 6).unwrap();
        assert_eq!(decode(&right, data.len()).unwrap(), data);
        let mut wrong = right.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(decode(&wrong, data.len()).is_err());
        assert!(decode(&right[..right.len() - 4], data.len()).is_err());
    }
}
