//! Elements of fixed and extensible arrays: the address of a chunk and, for a filtered chunk, its size and filter mask
//! (specification VII.B and VII.C).

use crate::{Error, context::Format};

/// Sizes of the fields of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ElementFormat {
    base: u64,
    offset_size: usize,
    /// Size in bytes of the chunk size field; 0 for unfiltered chunks.
    size_width: usize,
}

/// Location of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkElement {
    pub(crate) address: u64,
    /// Stored size in bytes; `None` for an unfiltered chunk.
    pub(crate) size: Option<u64>,
    pub(crate) filter_mask: u32,
}

impl ElementFormat {
    /// Checks that elements have the size that the library expects: with a chunk size field of `size_width` bytes, 0 for
    /// unfiltered chunks, and `extra` bytes after the fields (the coordinates in B-tree records).
    pub(crate) fn new(
        format: Format,
        size_width: usize,
        element_size: usize,
        extra: usize,
        structure: &'static str,
        address: u64,
    ) -> Result<Self, Error> {
        let offset_size = usize::from(format.offset_size);
        let elements = Self { base: format.base, offset_size, size_width };
        let expected = elements.size().saturating_add(extra);
        match element_size == expected {
            true => Ok(elements),
            false => {
                let problem = format!("elements of {element_size} bytes, expected {expected}");
                Err(Error::malformed(structure, address, problem))
            }
        }
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(self) -> usize {
        let filter = if self.size_width == 0 { 0 } else { self.size_width.saturating_add(4) };
        self.offset_size.saturating_add(filter)
    }

    /// Parses the element at the start of `bytes`. Returns `None` for an unallocated chunk.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<ChunkElement> {
        let (address, rest) = bytes.split_at_checked(self.offset_size)?;
        if address.iter().all(|byte| *byte == 0xff) {
            return None;
        }
        let address = uint(address).saturating_add(self.base);
        if self.size_width == 0 {
            return Some(ChunkElement { address, size: None, filter_mask: 0 });
        }
        let (size, rest) = rest.split_at_checked(self.size_width)?;
        let filter_mask = u32::from_le_bytes(*rest.first_chunk()?);
        Some(ChunkElement { address, size: Some(uint(size)), filter_mask })
    }
}

/// Returns a little-endian number of at most 8 bytes.
pub(crate) fn uint(bytes: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(bytes) {
        Ok(array) => u64::from_le_bytes(array),
        Err(_) => bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0x200, offset_size: 8, length_size: 8 };

    #[test]
    fn unfiltered_elements_are_addresses() {
        let format = ElementFormat::new(FORMAT, 0, 8, 0, "array", 0).unwrap();
        let found = format.parse(&[0, 0x10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(found, Some(ChunkElement { address: 0x1200, size: None, filter_mask: 0 }));
        assert_eq!(format.parse(&[0xff; 8]), None);
        assert!(ElementFormat::new(FORMAT, 0, 9, 0, "array", 0).is_err());
    }

    #[test]
    fn filtered_elements_have_a_size_and_a_mask() {
        let format = ElementFormat::new(FORMAT, 3, 15, 0, "array", 0).unwrap();
        let found = format.parse(&[0, 0x10, 0, 0, 0, 0, 0, 0, 1, 2, 3, 5, 0, 0, 0]);
        assert_eq!(found, Some(ChunkElement { address: 0x1200, size: Some(0x030201), filter_mask: 5 }));
        assert_eq!(format.size(), 15);
        assert!(ElementFormat::new(FORMAT, 3, 14, 0, "array", 0).is_err());
        assert!(ElementFormat::new(FORMAT, 3, 16, 0, "array", 0).is_err());
    }
}
