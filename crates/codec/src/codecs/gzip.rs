//! gzip (RFC 1952). Several members in a row decode to one chunk.

use std::io::Write;

use super::stream;
use crate::{CodecFailure, corrupt};

const NAME: &str = "gzip";

pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    stream::read(NAME, flate2::read::MultiGzDecoder::new(bytes), limit)
}

pub(super) fn encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = flate2::Compression::new(u32::from(level.min(9)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt(NAME, error))
}
