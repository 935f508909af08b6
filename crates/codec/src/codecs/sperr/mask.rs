//! Missing values, which H5Z-SPERR replaces before it compresses (`h5z-sperr.c`, `compactor.c`).
//!
//! ```text
//! mask   32 bits: number of bits of the mask   1 bit: the more frequent word, all zeros or all ones
//!        for each word of 32 values: 0 the more frequent one, 10 the other one, 11 and the word
//! ```
//!
//! The first bit is the least significant one of the first byte.

use super::{NAME, cut_off, speck::Bits};
use crate::{CodecFailure, corrupt};

/// Which values are missing, and how they read.
#[derive(Default)]
pub(super) struct Missing {
    value: Vec<u8>,
    /// A bit for each value.
    words: Vec<u32>,
}

impl Missing {
    /// Parses what precedes the stream of `count` floats of `width` bytes, and returns the stream too.
    pub(super) fn parse(bytes: &[u8], width: usize, count: usize) -> Result<(Self, &[u8]), CodecFailure> {
        let (mode, rest) = bytes.split_first().ok_or_else(cut_off)?;
        let (value, rest) = match (mode, width) {
            (0, _) => return Ok((Self::default(), rest)),
            // `nanf("1")` and `nan("1")` of C.
            (1, 4) => (0x7fc0_0001_u32.to_le_bytes().to_vec(), rest),
            (1, _) => (0x7ff8_0000_0000_0001_u64.to_le_bytes().to_vec(), rest),
            (2, _) => rest
                .split_at_checked(width)
                .map(|(value, rest)| (value.to_vec(), rest))
                .ok_or_else(cut_off)?,
            (other, _) => return Err(corrupt(NAME, format!("missing values of mode {other}"))),
        };
        let bits =
            rest.first_chunk().map(|bits| usize::try_from(u32::from_le_bytes(*bits)).unwrap_or(usize::MAX));
        let bits = bits.ok_or_else(cut_off)?;
        let (mask, rest) = rest.split_at_checked(bits.div_ceil(8)).ok_or_else(cut_off)?;
        let words = words(mask, bits, count.div_ceil(32).next_multiple_of(2)).ok_or_else(cut_off)?;
        Ok((Self { value, words }, rest))
    }

    /// Puts the value at the missing places.
    pub(super) fn restore(&self, out: &mut [u8], width: usize) {
        let is_missing = self.words.iter().flat_map(|word| (0..32).map(move |bit| word >> bit & 1 == 1));
        for (place, _) in out.chunks_exact_mut(width).zip(is_missing).filter(|(_, is_missing)| *is_missing) {
            place.copy_from_slice(&self.value);
        }
    }
}

/// Decodes a mask of at most `most` words.
fn words(mask: &[u8], count: usize, most: usize) -> Option<Vec<u32>> {
    let mut bits = Bits::new(mask.get(4..)?, count.checked_sub(32)?);
    let frequent = if bits.read() { u32::MAX } else { 0 };
    let mut words = Vec::new();
    while !bits.is_spent() {
        words.push(match (bits.read(), 0) {
            (false, _) => frequent,
            _ if !bits.read() => !frequent,
            _ => (0..32).fold(0, |word, bit| word | u32::from(bits.read()) << bit),
        });
        if words.len() > most {
            return None;
        }
    }
    Some(words)
}
