//! Bit streams, most significant bit first.

/// Reads numbers of up to 64 bits.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next `count` bits as a number; `None` past the end.
    pub(crate) fn read(&mut self, count: u32) -> Option<u64> {
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
