//! HDF5's bitshuffle filter (32008). <https://github.com/kiyo-masui/bitshuffle/blob/master/src/bshuf_h5filter.c>
//!
//! Client data: two version numbers, element size, block size in elements (0 for the default), compression (0 none, 2
//! LZ4, 3 Zstandard). Without compression the chunk is a sequence of shuffled blocks. With compression, numbers are
//! big-endian:
//!
//! ```text
//! 8  decoded size of the chunk
//! 4  decoded size of a block
//! for each block: 4 stored size, then as many bytes
//! ```
//!
//! Elements after the last multiple of 8 are stored unchanged.

use super::{
    hdf5_lz4::{lz4_block, take_block, take_sizes, truncated},
    streams,
};
use crate::{CodecFailure, bounded, corrupt, parameters};

const NAME: &str = "bitshuffle";

/// Decodes a chunk of at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], client_data: &[u32], limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let parameter = |index: usize| usize::try_from(client_data.get(index).copied().unwrap_or(0)).unwrap_or(0);
    let (size, block, compression) = (parameter(2), parameter(3), parameter(4));
    if size == 0 || size > 1 << 16 {
        return Err(parameters(NAME, format!("elements of {size} bytes")));
    }
    if !block.is_multiple_of(8) {
        return Err(parameters(NAME, format!("blocks of {block} elements, expected a multiple of 8")));
    }
    // By default, blocks have about 8 KiB.
    let block = if block == 0 { (8192 / size / 8 * 8).max(128) } else { block };
    match compression {
        0 => {
            check_length(bounded(NAME, Some(bytes.len()), limit)?, size)?;
            // Blocks without compression have no sizes.
            Ok(bytes.chunks(block.saturating_mul(size)).flat_map(|part| unshuffle(part, size)).collect())
        }
        2 | 3 => compressed(bytes, size, compression == 2, limit),
        other => Err(CodecFailure::NoDecoder(format!("bitshuffle with compression {other}"))),
    }
}

/// Checks that a chunk is a whole number of elements.
fn check_length(length: usize, size: usize) -> Result<(), CodecFailure> {
    if length.is_multiple_of(size) {
        return Ok(());
    }
    Err(corrupt(NAME, format!("{length} bytes, expected a multiple of {size}")))
}

fn compressed(bytes: &[u8], size: usize, lz4: bool, limit: usize) -> Result<Vec<u8>, CodecFailure> {
    let short = || truncated(NAME);
    let (total, block, mut rest) = take_sizes(NAME, bytes, limit)?;
    if block == 0 || !block.is_multiple_of(8 * size) {
        return Err(corrupt(NAME, format!("blocks of {block} bytes with elements of {size}")));
    }
    check_length(total, size)?;
    let mut out = Vec::with_capacity(total);
    while out.len() < total {
        let left = total - out.len();
        let length = block.min(left - left % (8 * size));
        if length == 0 {
            out.extend_from_slice(rest.get(..left).ok_or_else(short)?);
            break;
        }
        let (stored, after) = take_block(rest).ok_or_else(short)?;
        let shuffled =
            if lz4 { lz4_block(NAME, stored, length)? } else { streams::decode_zstd(stored, length)? };
        if shuffled.len() != length {
            return Err(corrupt(NAME, format!("a block of {} bytes, expected {length}", shuffled.len())));
        }
        out.extend(unshuffle(&shuffled, size));
        rest = after;
    }
    Ok(out)
}

/// Restores elements from planes of bits: bit `b` of all elements follows bit `b − 1` of all, packed with the first
/// element in the lowest bit. Elements after the last multiple of 8 stay as they are.
pub(super) fn unshuffle(bytes: &[u8], size: usize) -> Vec<u8> {
    let groups = bytes.len() / (8 * size);
    let (planes, rest) = bytes.split_at(groups * 8 * size);
    let mut out = vec![0; planes.len()];
    out.extend_from_slice(rest);
    for (plane, bits) in planes.chunks_exact(groups.max(1)).enumerate() {
        let (byte, bit) = (plane / 8, plane % 8);
        let targets = out.iter_mut().skip(byte).step_by(size).take(groups * 8);
        for (element, target) in targets.enumerate() {
            let set = bits.get(element / 8).is_some_and(|bits| bits >> (element % 8) & 1 == 1);
            *target |= u8::from(set) << bit;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter of libhdf5 fails on the others, with and without compression.
    #[test]
    fn chunks_are_whole_elements_and_blocks_multiples_of_eight() {
        let plain = |size, block| decode(&[0; 240], &[0, 4, size, block, 0], 240);
        assert_eq!(plain(4, 0).unwrap(), [0; 240]);
        assert!(plain(127, 0).is_err() && plain(4, 12).is_err());
        let compressed = [&240_u64.to_be_bytes()[..], &128_u32.to_be_bytes(), &[0; 64]].concat();
        let error = decode(&compressed, &[0, 4, 7, 0, 2], 240).unwrap_err().to_string();
        assert!(error.contains("expected a multiple of 7") || error.contains("elements of 7"), "{error}");
    }
}
