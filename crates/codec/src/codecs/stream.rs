//! Compressed streams that a library decodes.

use std::io::Read;

use crate::{CodecFailure, corrupt};

/// Reads at most `limit + 1` bytes. An error after the last byte that is needed, such as a missing checksum, is
/// ignored.
pub(super) fn read(
    codec: &'static str,
    mut decoder: impl Read,
    limit: usize,
) -> Result<Vec<u8>, CodecFailure> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    match decoder.by_ref().take(most).read_to_end(&mut out) {
        Err(error) if out.len() < limit => Err(corrupt(codec, error)),
        _ => Ok(out),
    }
}
