//! Zstandard (RFC 8878). The encoder has one level, its fastest, whatever the configuration: decoders do not depend on
//! it.

use std::io::BufReader;

use zstd::stream::read::Decoder;

use super::stream;
use crate::{CodecFailure, corrupt};

const NAME: &str = "zstd";
const LEVEL: i32 = 1;

pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    stream::read(NAME, decoder(bytes)?, limit)
}

/// Decodes `length` bytes from the start of a stream, whose end may be missing.
pub(crate) fn decode_start(bytes: &[u8], length: u64) -> Result<Vec<u8>, CodecFailure> {
    stream::start(NAME, decoder(bytes)?, length)
}

/// Whether the bytes end with the first frame. numcodecs refuses other bytes after it, and decodes further frames.
pub(crate) fn ends_with_frame(bytes: &[u8]) -> bool {
    zstd::zstd_safe::find_frame_compressed_size(bytes).is_ok_and(|length| length == bytes.len())
}

fn decoder(bytes: &[u8]) -> Result<Decoder<'static, BufReader<&[u8]>>, CodecFailure> {
    Ok(Decoder::new(bytes).map_err(|error| corrupt(NAME, error))?.single_frame())
}

pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    zstd::bulk::compress(bytes, LEVEL).map_err(|error| corrupt(NAME, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block whose literals libzstd finds damaged. A decoder in Rust returned 256 bytes.
    #[test]
    fn damaged_literals_are_errors() {
        const STREAM: &str = "28b52ffd6000053501006895000164ff0000ad4cc534dd1c0a007d4005d01de818e80474375433b0f6d36080cb1d6e08";
        let bytes: Vec<u8> = (0..STREAM.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&STREAM[at..at + 2], 16).unwrap())
            .collect();
        assert!(decode(&bytes, 512).is_err());
        let valid = encode(&[7; 300]).unwrap();
        assert_eq!(decode(&valid, 300).unwrap(), [7; 300]);
        assert!(decode(&valid[..valid.len() - 1], 300).is_err(), "cut");
    }
}
