//! Compressed streams that a library decodes.

use std::io::Read;

use crate::{CodecFailure, corrupt};

/// Reads at most `limit + 1` bytes. A missing or wrong checksum at the end of the stream is an error, as for other
/// readers.
pub(super) fn read(
    codec: &'static str,
    mut decoder: impl Read,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match decoder.by_ref().take(most).read_to_end(&mut out) {
        Err(error) => Err(corrupt(codec, error)),
        Ok(_) => Ok(out),
    }
}
