//! External Data Files message, 0x0007 (specification IV.A.2.h).
//!
//! ```text
//! 1 | - 3 | allocated slots 2 | used slots 2 | local heap O | slots: name offset L, offset in the file L, size L
//! ```

use crate::{Error, context::Format, reader::Reader};

/// The message. Names are in the local heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExternalFiles {
    /// Address of the local heap with the names.
    pub(crate) heap: u64,
    pub(crate) slots: Vec<Slot>,
}

/// A segment of an external file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Offset of the file name in the local heap.
    pub(crate) name: u64,
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Size in bytes; `None` for unlimited.
    pub(crate) size: Option<u64>,
}

pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<ExternalFiles, Error> {
    let mut reader = Reader::new("external data files message", bytes, address, format);
    reader.version(1..=1)?;
    reader.skip(3)?;
    let (allocated, used) = (reader.u16()?, reader.u16()?);
    if allocated == 0 || used > allocated {
        return Err(reader.malformed(format!("{used} slots in use of {allocated}")));
    }
    let heap = reader.defined_address()?;
    let slot = |_| {
        let (name, offset) = (reader.raw_length()?, reader.raw_length()?);
        Ok(Slot { name, offset, size: reader.length()? })
    };
    Ok(ExternalFiles { heap, slots: (0..used).map(slot).collect::<Result<_, Error>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots() {
        let format = Format { base: 0, offset_size: 2, length_size: 2 };
        let bytes = [1, 0, 0, 0, 2, 0, 1, 0, 0x40, 0, 8, 0, 16, 0, 0xFF, 0xFF];
        let slots = vec![Slot { name: 8, offset: 16, size: None }];
        assert_eq!(parse(&bytes, 0, format).unwrap(), ExternalFiles { heap: 0x40, slots });
        let mut bytes = bytes;
        bytes[4] = 0;
        assert!(parse(&bytes, 0, format).is_err());
    }
}
