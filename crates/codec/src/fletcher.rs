//! HDF5's Fletcher-32: 4 bytes, little-endian, at the end of the chunk.

use crate::{CodecFailure, corrupt};

/// Checks and removes the checksum. Files of HDF5 before 1.6.3 on little-endian machines have each half's bytes turned
/// round, which libhdf5 takes as well.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let split = bytes.split_last_chunk::<4>();
    let (data, stored) = split.ok_or_else(|| corrupt("fletcher32", "no room for a checksum"))?;
    let stored = u32::from_le_bytes(*stored);
    let computed = checksum(data);
    let turned = ((computed & 0x00ff_00ff) << 8) | ((computed >> 8) & 0x00ff_00ff);
    if stored != computed && stored != turned {
        return Err(corrupt("fletcher32", format!("checksum {stored:#010x}, expected {computed:#010x}")));
    }
    Ok(data.to_vec())
}

/// Appends the checksum.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.extend_from_slice(&checksum(bytes).to_le_bytes());
    out
}

/// Sums of big-endian 16-bit words (an odd last byte is a high one), folded every 360 words as libhdf5 does.
fn checksum(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut first, mut second) = (0u32, 0u32);
    let (words, odd) = bytes.as_chunks::<2>();
    for block in words.chunks(360) {
        for word in block {
            first = first.wrapping_add(u16::from_be_bytes(*word).into());
            second = second.wrapping_add(first);
        }
        (first, second) = (fold(first), fold(second));
    }
    if let [high] = odd {
        first = first.wrapping_add(u32::from(*high) << 8);
        second = second.wrapping_add(first);
        (first, second) = (fold(first), fold(second));
    }
    (fold(second) << 16) | fold(first)
}
