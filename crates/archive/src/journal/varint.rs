//! Integers of variable length: seven bits a byte, the lowest first (LEB128).

use bytes::{Buf, Bytes};

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(low(number) | 0x80);
        number >>= 7;
    }
    out.push(low(number));
}

/// Returns the lowest seven bits.
fn low(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// Appends the difference of two numbers, which is short if they are close.
pub(super) fn put_difference(out: &mut Vec<u8>, number: u64, from: u64) {
    let difference = number.wrapping_sub(from).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Appends bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the functions above wrote. Every function returns `None` where the bytes end early.
pub(super) struct Reader(pub(super) Bytes);

impl Reader {
    /// Returns the next number.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.first()?;
            self.0.advance(1);
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Returns the next number, of which there is only the difference to another.
    pub(super) fn number_from(&mut self, from: u64) -> Option<u64> {
        let difference = self.number()?;
        let difference = (difference >> 1).cast_signed() ^ -(difference & 1).cast_signed();
        Some(from.wrapping_add(difference.cast_unsigned()))
    }

    /// Returns a number of things that take at least a byte each.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// Returns the next bytes, which share the memory of all.
    pub(super) fn bytes(&mut self) -> Option<Bytes> {
        let length = self.count()?;
        Some(self.0.split_to(length))
    }

    /// Returns the next text.
    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.into()).ok()
    }

    /// Returns the next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.0.first()?;
        self.0.advance(1);
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX - 1, u64::MAX];
        let mut out = Vec::new();
        for (number, from) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
            put(&mut out, number);
            put_difference(&mut out, number, from);
        }
        let mut reader = Reader(out.into());
        for (number, from) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
            assert_eq!((reader.number(), reader.number_from(from)), (Some(number), Some(number)));
        }
        assert_eq!(reader.number(), None);
    }

    #[test]
    fn small_numbers_are_short_and_long_ones_end() {
        let mut out = Vec::new();
        put_difference(&mut out, 63, 64);
        assert_eq!(out, [1]);
        assert_eq!(Reader(vec![0xff; 20].into()).number(), None);
        assert_eq!(Reader(vec![5, 1].into()).bytes(), None);
    }
}
