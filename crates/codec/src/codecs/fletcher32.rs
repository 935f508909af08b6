//! HDF5's Fletcher-32: the data, then their checksum as 4 bytes, little-endian.
//!
//! The checksum sums big-endian 16-bit words. libhdf5 folds both sums every 360 words, which matters to the result.

use crate::{CodecFailure, corrupt};

const NAME: &str = "fletcher32";
/// Words between two foldings.
const BLOCK: usize = 360;

/// Verifies the checksum, and returns the data before it. Files of HDF5 before 1.6.3 from little-endian machines have
/// the bytes of each half swapped, which libhdf5 accepts as well.
pub(crate) fn verified(bytes: &[u8]) -> Result<&[u8], CodecFailure> {
    let split = bytes.split_last_chunk::<4>();
    let (data, stored) = split.ok_or_else(|| corrupt(NAME, "the chunk is shorter than its checksum"))?;
    let stored = u32::from_le_bytes(*stored);
    let computed = checksum(data);
    if stored != computed && stored != swapped(computed) {
        return Err(corrupt(NAME, format!("checksum {stored:#010x}, expected {computed:#010x}")));
    }
    Ok(data)
}

/// Returns whether the bytes of each half of the checksum are swapped, which no reader of Zarr accepts.
pub fn is_swapped(bytes: &[u8]) -> bool {
    bytes.split_last_chunk::<4>().is_some_and(|(data, stored)| {
        let (stored, computed) = (u32::from_le_bytes(*stored), checksum(data));
        stored != computed && stored == swapped(computed)
    })
}

fn swapped(checksum: u32) -> u32 {
    ((checksum & 0x00ff_00ff) << 8) | ((checksum >> 8) & 0x00ff_00ff)
}

pub(super) fn encode(bytes: &[u8]) -> Result<Vec<u8>, CodecFailure> {
    let mut out = bytes.to_vec();
    out.extend_from_slice(&checksum(bytes).to_le_bytes());
    Ok(out)
}

/// An odd last byte is the high byte of a word.
fn checksum(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut first, mut second) = (0u32, 0u32);
    let (words, odd) = bytes.as_chunks::<2>();
    for block in words.chunks(BLOCK) {
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
