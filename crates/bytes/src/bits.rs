//! Bit streams, most significant bit first.
#![expect(clippy::arithmetic_side_effects, reason = "numbers of bits, at most 64")]

/// Reads numbers of up to 64 bits.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next `count` bits as a number; `None` past the end.
    pub fn read(&mut self, count: u32) -> Option<u64> {
        let mut value = 0u64;
        let mut left = count;
        while left > 0 {
            let byte = *self.bytes.get(self.at / 8)?;
            let unread = 8 - u32::try_from(self.at % 8).ok()?;
            let take = unread.min(left);
            let part = (u32::from(byte) >> (unread - take)) & ((1 << take) - 1);
            value = value.checked_shl(take).unwrap_or(0) | u64::from(part);
            self.at += usize::try_from(take).ok()?;
            left -= take;
        }
        Some(value)
    }
}

/// Writes numbers of up to 64 bits.
#[derive(Clone, Default, Debug)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Free bits of the last byte.
    free: u32,
}

impl BitWriter {
    /// Writes the low `count` bits of a number.
    pub fn write(&mut self, value: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let take = self.free.min(left);
            let part = (value >> (left - take)) & ((1 << take) - 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= u8::try_from(part << (self.free - take)).unwrap_or(0);
            }
            self.free -= take;
            left -= take;
        }
    }

    /// Fills the last byte with zeros.
    pub fn align(&mut self) {
        self.free = 0;
    }

    /// Returns the bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_many_widths_round_trip() {
        let mut writer = BitWriter::default();
        for count in 1..=64 {
            writer.write(0x9e37_79b9_7f4a_7c15 >> (64 - count), count);
        }
        writer.align();
        let bytes = writer.finish();
        let mut reader = BitReader::new(&bytes);
        for count in 1..=64 {
            assert_eq!(reader.read(count), Some(0x9e37_79b9_7f4a_7c15 >> (64 - count)), "{count}");
        }
        assert_eq!(reader.read(1), None);
    }
}
