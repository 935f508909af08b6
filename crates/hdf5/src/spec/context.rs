use virtualize_bytes::{Cursor, NeedBytes};

/// Format parameters from the superblock, which every parser needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// Where address 0 of the file's own counting lies: added to every address that is read.
    pub(crate) base: u64,
    /// Bytes of an address ("size of offsets").
    pub(crate) offset_size: u8,
    /// Bytes of a length ("size of lengths").
    pub(crate) length_size: u8,
}

impl Format {
    /// The next address, counted from the start of the file; `None` for the undefined address (all bits set).
    pub(crate) fn address(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.offset_size))?;
        Ok((raw != all_ones(self.offset_size)).then(|| raw.saturating_add(self.base)))
    }

    /// The next length, in bytes or elements; `None` for the undefined or unlimited one (all bits set).
    pub(crate) fn length(self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let raw = cursor.uint(usize::from(self.length_size))?;
        Ok((raw != all_ones(self.length_size)).then_some(raw))
    }
}

/// The largest number of `size` bytes.
fn all_ones(size: u8) -> u64 {
    match 64_u32.checked_sub(u32::from(size).saturating_mul(8)) {
        Some(unused) => u64::MAX.checked_shr(unused).unwrap_or(0),
        None => u64::MAX,
    }
}
