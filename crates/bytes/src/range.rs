use std::fmt;

/// A place in a file, in bytes from its first byte (HDF5's base address is already added).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteLength(pub u64);

/// Consecutive bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteRange {
    /// First byte, counted from the start of the file.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for ByteLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.length, self.start)
    }
}

impl ByteRange {
    /// `length` bytes from `start`.
    pub const fn new(start: u64, length: u64) -> Self {
        Self { start, length }
    }

    /// One past the last byte; the largest number where the sum would overflow.
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// The part of the range that lies in a file of `size` bytes (empty where none does).
    pub fn clamp_to(self, size: u64) -> Self {
        let start = self.start.min(size);
        Self { start, length: self.end().min(size).saturating_sub(start) }
    }
}
