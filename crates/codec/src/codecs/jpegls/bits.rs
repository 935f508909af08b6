//! The bits of a scan, most significant first (T.87, annex A.1 and C.2.1). After a byte of 0xff only 7 bits of the next byte
//! count; a byte of 0xff before one of 0x80 or more is a marker, and ends the bits.

/// Bits of a scan.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Next byte.
    at: usize,
    /// Bits that were taken from the bytes, at the top.
    cache: u64,
    /// Number of bits in the cache.
    filled: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, cache: 0, filled: 0 }
    }

    /// Fills the cache with 56 bits, or with what is left.
    fn fill(&mut self) {
        while self.filled <= 56 {
            let Some(byte) = self.bytes.get(self.at).copied() else { return };
            let follows_ff = self.at > 0 && self.bytes.get(self.at - 1) == Some(&0xff);
            let is_marker = byte == 0xff && self.bytes.get(self.at + 1).is_none_or(|next| *next >= 0x80);
            if is_marker {
                return;
            }
            let count = if follows_ff { 7 } else { 8 };
            self.cache |= u64::from(byte) << (64 - count - self.filled);
            self.filled += count;
            self.at += 1;
        }
    }

    /// Reads a number of up to 32 bits; `None` past the end.
    pub(super) fn read(&mut self, count: u32) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        if self.filled < count {
            self.fill();
        }
        self.filled = self.filled.checked_sub(count)?;
        let value = self.cache.checked_shr(64 - count)?;
        self.cache = self.cache.checked_shl(count).unwrap_or(0);
        u32::try_from(value).ok()
    }

    /// Counts the zeros before a one, and skips both. More than `most` zeros are damage.
    pub(super) fn zeros(&mut self, most: u32) -> Option<u32> {
        let mut zeros = 0;
        loop {
            if self.filled == 0 {
                self.fill();
            }
            let here = self.cache.leading_zeros().min(self.filled);
            zeros += here;
            if self.filled == 0 || zeros > most {
                return None;
            }
            if here < self.filled {
                self.read(here + 1)?;
                return Some(zeros);
            }
            (self.cache, self.filled) = (0, 0);
        }
    }

    /// Returns the bytes from the next marker on: unread bits are padding.
    pub(super) fn after(&self) -> Option<&'a [u8]> {
        let start = self.at.saturating_sub(1);
        let rest = self.bytes.get(start..)?;
        let marker = rest.windows(2).position(|pair| matches!(pair, [0xff, 0x80..=0xff]))?;
        rest.get(marker..)
    }
}
