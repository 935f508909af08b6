//! A blob from front to back, and integers of fewer bits than a byte has.

use super::{CodecFailure, broken, read};

/// Bytes that are still to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecFailure> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(|| broken("the blob ends early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, CodecFailure> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn int(&mut self) -> Result<i32, CodecFailure> {
        self.array().map(i32::from_le_bytes)
    }

    /// A count: an integer that is not negative.
    pub(super) fn count(&mut self) -> Result<usize, CodecFailure> {
        usize::try_from(self.int()?).map_err(|_| broken("a negative count"))
    }

    pub(super) fn double(&mut self) -> Result<f64, CodecFailure> {
        self.array().map(f64::from_le_bytes)
    }
}

/// A list of at most `most` unsigned integers, packed, or as indexes into a packed table (BitStuffer2).
pub(super) fn unstuff(input: &mut Input<'_>, most: usize) -> Result<Vec<u32>, CodecFailure> {
    let head = input.byte()?;
    let count = match head >> 6 {
        0 => input.count()?,
        1 => usize::from(u16::from_le_bytes(input.array()?)),
        2 => usize::from(input.byte()?),
        _ => return Err(broken("a list of integers with an unknown head")),
    };
    if count > most {
        return Err(broken("a block with more values than pixels"));
    }
    let width = u32::from(head & 31);
    if head & 32 == 0 {
        return packed(input, count, width);
    }
    let entries = usize::from(input.byte()?).checked_sub(1).filter(|entries| *entries > 0);
    let entries = entries.filter(|_| width > 0).ok_or_else(|| broken("a table of nothing"))?;
    let mut table = vec![0];
    table.extend(packed(input, entries, width)?);
    let indexes = packed(input, count, usize::BITS - entries.leading_zeros())?;
    let entry = |index: u32| usize::try_from(index).ok().and_then(|index| table.get(index)).copied();
    indexes.into_iter().map(|index| entry(index).ok_or_else(|| broken("an index past its table"))).collect()
}

/// Integers of `width` bits, the least significant first.
fn packed(input: &mut Input<'_>, count: usize, width: u32) -> Result<Vec<u32>, CodecFailure> {
    let bytes = (count as u64).saturating_mul(width.into()).div_ceil(8);
    let bytes = read(input, usize::try_from(bytes).unwrap_or(usize::MAX))?;
    let (mut left, mut held, mut next) = (0_u32, 0_u64, bytes.iter());
    let mask = (1_u64 << width) - 1;
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        while left < width {
            held |= u64::from(next.next().copied().unwrap_or(0)) << left;
            left += 8;
        }
        numbers.push(u32::try_from(held & mask).unwrap_or(u32::MAX));
        held >>= width;
        left -= width;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_unpacked() {
        // 3 bits each, least significant first: 1, 2, 3, 4, 5.
        let bits: u16 = 1 | 2 << 3 | 3 << 6 | 4 << 9 | 5 << 12;
        let mut bytes = vec![0b1000_0011, 5];
        bytes.extend(bits.to_le_bytes());
        assert_eq!(unstuff(&mut Input(&bytes), 5).unwrap(), [1, 2, 3, 4, 5]);
        assert!(unstuff(&mut Input(&bytes), 4).is_err(), "more than there are pixels");
        assert!(unstuff(&mut Input(&bytes[..3]), 5).is_err(), "cut off");
        // A table of [0, 7], and indexes of one bit.
        assert_eq!(unstuff(&mut Input(&[0b1010_0011, 3, 2, 7, 0b101]), 3).unwrap(), [7, 0, 7]);
    }
}
