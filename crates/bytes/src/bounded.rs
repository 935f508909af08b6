//! Compressed streams, decoded within a limit.

use std::io::{self, Read};

/// Maximum number of bytes that are decoded after the limit.
const MAX_EXCESS: u64 = 1 << 28;

/// Reads at most `limit + 1` bytes of a decoder, and discards the following ones, so that a missing or wrong checksum at the
/// end of the stream is an error. Returns `None` if the stream is too long for that.
///
/// # Errors
/// The decoder fails.
pub fn read_bounded(mut decoder: impl Read, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder.by_ref().take(most).read_to_end(&mut out)?;
    let excess = io::copy(&mut decoder.take(MAX_EXCESS), &mut io::sink())?;
    Ok((excess < MAX_EXCESS).then_some(out))
}
