//! Compressed streams that a library decodes.

use std::io::Read;

use crate::{CodecFailure, corrupt};

/// Most bytes that are decoded after the limit.
const MOST_EXCESS: u64 = 1 << 28;

/// Reads at most `limit + 1` bytes. A missing or wrong checksum at the end of the stream is an error, as for other
/// readers, however long the stream is.
pub(super) fn read(
    codec: &'static str,
    mut decoder: impl Read,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = decoder.by_ref().take(most).read_to_end(&mut out);
    match read.and_then(|_| std::io::copy(&mut decoder.take(MOST_EXCESS), &mut std::io::sink())) {
        Err(error) => Err(corrupt(codec, error)),
        Ok(MOST_EXCESS..) => Err(CodecFailure::TooLong { codec: codec.to_owned(), limit }),
        Ok(_) => Ok(out),
    }
}

/// Reads `length` bytes from the start of a stream, whose end may be missing.
pub(super) fn start(codec: &'static str, decoder: impl Read, length: u64) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::new();
    decoder.take(length).read_to_end(&mut out).map_err(|error| corrupt(codec, error))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn damage_after_the_limit_is_found() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&[7; 1000]).unwrap();
        let mut stream = encoder.finish().unwrap();
        let read = |stream: &[u8]| read("zlib", flate2::read::ZlibDecoder::new(stream), 10);
        assert_eq!(read(&stream).unwrap(), [7; 11]);
        *stream.last_mut().unwrap() ^= 1;
        assert!(read(&stream).is_err());
        let start = |bytes: &[u8]| start("zlib", flate2::read::ZlibDecoder::new(bytes), 10);
        assert_eq!(start(&stream[..stream.len() - 5]).unwrap(), [7; 10]);
        assert!(start(&stream[..2]).is_err());
    }
}
