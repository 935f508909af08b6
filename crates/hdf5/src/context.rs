use virtualize_bytes::{Cursor, NeedBytes};

/// Parameters from the superblock that all parsers need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// Base address, which is added to every address that is read.
    pub(crate) base: u64,
    /// Size of an address in bytes ("size of offsets").
    pub(crate) offset_size: u8,
    /// Size of a length in bytes ("size of lengths").
    pub(crate) length_size: u8,
}

impl Format {
    /// Reads an address, as an absolute offset; `None` for the undefined address (all bits set).
    pub(crate) fn address(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.offset_size))?;
        Ok((raw != all_ones(self.offset_size)).then(|| raw.saturating_add(self.base)))
    }

    /// Reads a length in bytes or elements; `None` for the undefined or unlimited one (all bits set).
    pub(crate) fn length(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.length_size))?;
        Ok((raw != all_ones(self.length_size)).then_some(raw))
    }
}

/// Returns the largest number of `size` bytes.
fn all_ones(size: u8) -> u64 {
    match 64_u32.checked_sub(u32::from(size).saturating_mul(8)) {
        Some(unused) => u64::MAX.checked_shr(unused).unwrap_or(0),
        None => u64::MAX,
    }
}
