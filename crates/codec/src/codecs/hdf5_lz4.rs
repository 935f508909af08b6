//! HDF5's LZ4 filter (32004). Numbers are big-endian.
//! <https://github.com/HDFGroup/hdf5_plugins/blob/master/LZ4/src/H5Zlz4.c>
//!
//! ```text
//! 8  decoded size of the chunk
//! 4  decoded size of a block
//! for each block: 4 stored size, then as many bytes; a block whose stored and decoded size are equal is not compressed
//! ```

use crate::{CodecFailure, bounded, corrupt, size};

const NAME: &str = "HDF5 LZ4";

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let (total, ..) = take_sizes(NAME, bytes, limit)?;
    // A byte of LZ4 decodes to at most 255 bytes, which bounds the allocation.
    if total > bytes.len().saturating_mul(255) {
        return Err(truncated(NAME));
    }
    let mut out = vec![0; total];
    decode_into(bytes, &mut out)?;
    Ok(out)
}

/// Decodes a chunk that fills `out`.
pub(crate) fn decode_into(bytes: &[u8], out: &mut [u8]) -> Result<(), CodecFailure> {
    let (total, block, mut rest) = take_sizes(NAME, bytes, out.len())?;
    if total != out.len() || block == 0 && total > 0 {
        return Err(corrupt(NAME, format!("{total} bytes in blocks of {block}, expected {}", out.len())));
    }
    for target in out.chunks_mut(block.max(1)) {
        let (stored, after) = take_block(rest).ok_or_else(|| truncated(NAME))?;
        if stored.len() == target.len() {
            target.copy_from_slice(stored);
        } else {
            lz4_into(NAME, stored, target)?;
        }
        rest = after;
    }
    Ok(())
}

/// Splits off the decoded sizes of the chunk, at most `limit`, and of a block.
pub(super) fn take_sizes<'a>(
    codec: &'static str,
    bytes: &'a [u8],
    limit: usize,
) -> Result<(usize, usize, &'a [u8]), CodecFailure> {
    let (total, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| truncated(codec))?;
    let (block, rest) = rest.split_first_chunk::<4>().ok_or_else(|| truncated(codec))?;
    let total = bounded(codec, Some(size(u64::from_be_bytes(*total))), limit)?;
    Ok((total, size(u32::from_be_bytes(*block)), rest))
}

/// Returns the error of a chunk that ends too early.
pub(super) fn truncated(codec: &'static str) -> CodecFailure {
    corrupt(codec, "the chunk is truncated")
}

/// Splits off a block: a size of 4 bytes, then as many bytes.
pub(super) fn take_block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)
}

/// Decodes one LZ4 block of known decoded size.
pub(super) fn lz4_block(codec: &'static str, stored: &[u8], size: usize) -> Result<Vec<u8>, CodecFailure> {
    // A byte of LZ4 decodes to at most 255 bytes, which bounds the allocation.
    if size > stored.len().saturating_mul(255).saturating_add(16) {
        return Err(corrupt(codec, format!("{} bytes cannot decode to {size}", stored.len())));
    }
    let mut block = vec![0; size];
    lz4_into(codec, stored, &mut block)?;
    Ok(block)
}

/// Decodes one LZ4 block that fills `block`.
fn lz4_into(codec: &'static str, stored: &[u8], block: &mut [u8]) -> Result<(), CodecFailure> {
    let written = lz4_flex::block::decompress_into(stored, block).map_err(|e| corrupt(codec, e))?;
    if written == block.len() {
        return Ok(());
    }
    Err(corrupt(codec, format!("a block of {written} bytes, expected {}", block.len())))
}

/// Encodes the chunk as one block.
pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let size =
        u32::try_from(bytes.len()).map_err(|_| CodecFailure::NoEncoder("a chunk over 4 GiB".to_owned()))?;
    let packed = lz4_flex::block::compress(bytes);
    let stored = if packed.len() < bytes.len() { &packed } else { bytes };
    let mut out = u64::from(size).to_be_bytes().to_vec();
    out.extend_from_slice(&size.to_be_bytes());
    if size > 0 {
        out.extend_from_slice(&u32::try_from(stored.len()).unwrap_or(size).to_be_bytes());
        out.extend_from_slice(stored);
    }
    Ok(out)
}
