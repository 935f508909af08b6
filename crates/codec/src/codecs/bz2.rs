//! bzip2. Several streams in a row decode to one chunk.

use std::io::Write;

use super::stream;
use crate::{CodecFailure, corrupt};

const NAME: &str = "bz2";

pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    stream::read(NAME, bzip2::read::MultiBzDecoder::new(bytes), limit)
}

pub(super) fn encode(bytes: &[u8], level: u8) -> Result<Vec<u8>, CodecFailure> {
    let level = bzip2::Compression::new(u32::from(level.clamp(1, 9)));
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| corrupt(NAME, error))
}
