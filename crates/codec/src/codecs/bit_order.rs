//! TIFF's FillOrder 2 (TIFF 6.0, section 8): the least significant bit of each byte comes first.

use crate::CodecFailure;

/// Reverses the bits of each byte, which is its own inverse.
pub(super) fn reverse(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    Ok(bytes.iter().map(|byte| byte.reverse_bits()).collect())
}
