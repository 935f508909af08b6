//! Compressed streams that a library decodes: gzip (RFC 1952), zlib (RFC 1950), bzip2, LZMA and Zstandard (RFC 8878).
//! Members and streams of gzip and bzip2 in a row decode to one chunk.

use std::io::{self, BufReader, Read, Write};

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter, XzOptions, XzReader, XzWriter};
use virtualize_bytes::read_bounded;

use crate::{CodecFailure, corrupt, parameters};

/// Magic bytes of the xz container.
const XZ: &[u8] = b"\xfd7zXZ\0";
/// Memory for a dictionary of LZMA, in KiB. The highest preset of xz takes 64 MiB.
const LZMA_MEMORY: u32 = 1 << 17;
/// Compresses little, but fast.
const LZMA_PRESET: u32 = 1;
/// The fastest level of Zstandard, whatever the configuration: decoders do not depend on it.
const ZSTD_LEVEL: i32 = 1;

/// Decodes a stream to at most `limit + 1` bytes.
fn read(codec: &'static str, decoder: impl Read, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let decoded = read_bounded(decoder, limit).map_err(|error| corrupt(codec, error))?;
    decoded.ok_or_else(|| CodecFailure::TooLong { codec: codec.to_owned(), limit })
}

/// Reads `length` bytes from the start of a stream, whose end may be missing.
fn start(codec: &'static str, decoder: impl Read, length: u64) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::new();
    decoder.take(length).read_to_end(&mut out).map_err(|error| corrupt(codec, error))?;
    Ok(out)
}

pub(super) fn decode_gzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("gzip", flate2::read::MultiGzDecoder::new(bytes), limit)
}

pub(super) fn encode_gzip(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt("gzip", error))
}

pub(crate) fn decode_zlib(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("zlib", flate2::read::ZlibDecoder::new(bytes), limit)
}

/// Decodes `length` bytes from the start of a stream, whose end may be missing.
pub(crate) fn decode_zlib_start(bytes: &[u8], length: u64) -> Result<Vec<u8>, CodecFailure> {
    start("zlib", flate2::read::ZlibDecoder::new(bytes), length)
}

pub(crate) fn encode_zlib(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt("zlib", error))
}

pub(super) fn decode_bz2(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("bz2", bzip2::read::MultiBzDecoder::new(bytes), limit)
}

pub(super) fn encode_bz2(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = bzip2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt("bz2", error))
}

/// Decodes the xz container (format 1, <https://tukaani.org/xz/xz-file-format.txt>) or the old "alone" container (2);
/// format 0 is either of them, by the first bytes.
pub(super) fn decode_lzma(bytes: &[u8], format: u8, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let is_xz = match format {
        0 => bytes.starts_with(XZ),
        1 => true,
        2 => false,
        _ => return Err(CodecFailure::NoDecoder(format!("lzma format {format}"))),
    };
    if is_xz {
        return read("lzma", XzReader::new_mem_limit(bytes, true, LZMA_MEMORY), limit);
    }
    let reader =
        LzmaReader::new_mem_limit(bytes, LZMA_MEMORY, None).map_err(|error| corrupt("lzma", error))?;
    read("lzma", reader, limit)
}

pub(super) fn encode_lzma(bytes: &[u8], format: u8) -> Result<Vec<u8>, CodecFailure> {
    let write = || match format {
        1 => {
            let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(LZMA_PRESET))?;
            writer.write_all(bytes)?;
            writer.finish().map(Some)
        }
        2 => {
            let (options, size) = (LzmaOptions::with_preset(LZMA_PRESET), bytes.len() as u64);
            let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(size))?;
            writer.write_all(bytes)?;
            writer.finish().map(Some)
        }
        _ => Ok(None),
    };
    let written = write().map_err(|error: io::Error| parameters("lzma", error))?;
    written.ok_or_else(|| CodecFailure::NoEncoder(format!("lzma format {format}")))
}

type ZstdDecoder<'a> = zstd::stream::read::Decoder<'static, BufReader<&'a [u8]>>;

fn zstd_decoder(bytes: &[u8]) -> Result<ZstdDecoder<'_>, CodecFailure> {
    Ok(ZstdDecoder::new(bytes).map_err(|error| corrupt("zstd", error))?.single_frame())
}

pub(crate) fn decode_zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    read("zstd", zstd_decoder(bytes)?, limit)
}

/// Decodes `length` bytes from the start of a stream, whose end may be missing.
pub(crate) fn decode_zstd_start(bytes: &[u8], length: u64) -> Result<Vec<u8>, CodecFailure> {
    start("zstd", zstd_decoder(bytes)?, length)
}

/// Whether the bytes end with the first frame. numcodecs refuses other bytes after it, and decodes further frames.
pub(crate) fn ends_with_zstd_frame(bytes: &[u8]) -> bool {
    zstd::zstd_safe::find_frame_compressed_size(bytes).is_ok_and(|length| length == bytes.len())
}

pub(super) fn encode_zstd(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(|error| corrupt("zstd", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_after_the_limit_is_found() {
        let mut stream = encode_zlib(&[7; 1000], 6).unwrap();
        assert_eq!(decode_zlib(&stream, 10).unwrap(), [7; 11]);
        *stream.last_mut().unwrap() ^= 1;
        assert!(decode_zlib(&stream, 10).is_err());
        assert_eq!(decode_zlib_start(&stream[..stream.len() - 5], 10).unwrap(), [7; 10]);
        assert!(decode_zlib_start(&stream[..2], 10).is_err());
    }

    #[test]
    fn a_checksum_that_is_wrong_or_missing_is_an_error() {
        let data = [7; 1000];
        let right = encode_zlib(&data, 6).unwrap();
        assert_eq!(decode_zlib(&right, data.len()).unwrap(), data);
        let mut wrong = right.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(decode_zlib(&wrong, data.len()).is_err());
        assert!(decode_zlib(&right[..right.len() - 4], data.len()).is_err());
    }

    /// A block whose literals libzstd finds damaged. A decoder in Rust returned 256 bytes.
    #[test]
    fn damaged_literals_are_errors() {
        const STREAM: &str = "28b52ffd6000053501006895000164ff0000ad4cc534dd1c0a007d4005d01de818e80474375433b0f6d36080cb1d6e08";
        let bytes: Vec<u8> = (0..STREAM.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&STREAM[at..at + 2], 16).unwrap())
            .collect();
        assert!(decode_zstd(&bytes, 512).is_err());
        let valid = encode_zstd(&[7; 300]).unwrap();
        assert_eq!(decode_zstd(&valid, 300).unwrap(), [7; 300]);
        assert!(decode_zstd(&valid[..valid.len() - 1], 300).is_err(), "cut");
    }
}
