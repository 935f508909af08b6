use std::fmt;

/// Absolute offset in a file, in bytes (for HDF5, with the base address added).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub u64);

/// Consecutive bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteRange {
    /// Absolute offset of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.length, self.start)
    }
}

impl ByteRange {
    /// Creates a range of `length` bytes from `start`.
    pub const fn new(start: u64, length: u64) -> Self {
        Self { start, length }
    }

    /// Returns the offset after the last byte. It saturates.
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Returns the part of the range within a file of `size` bytes, which may be empty.
    pub fn clamp_to(self, size: u64) -> Self {
        let start = self.start.min(size);
        Self { start, length: self.end().min(size).saturating_sub(start) }
    }
}
