//! Sizes of version 1 B-trees and symbol table nodes: B-tree 'K' Values message, 0x0013, of the superblock extension
//! (specification IV.A.2.t).
//!
//! ```text
//! 0 | chunks 2 | groups 2 | symbols 2
//! ```

use crate::{Error, context::Format, reader::Reader};

/// Half of the most entries in a node. The library reads whole nodes, however few entries they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeRanks {
    /// Symbol table nodes ("leaf node K").
    pub(crate) symbols: u16,
    /// B-tree nodes of groups.
    pub(crate) groups: u16,
    /// B-tree nodes of chunks.
    pub(crate) chunks: u16,
}

impl TreeRanks {
    pub(crate) const DEFAULT: Self = Self { symbols: 4, groups: 16, chunks: 32 };
}

/// Parses the message.
pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<TreeRanks, Error> {
    let mut reader = Reader::new("B-tree K values message", bytes, address, format);
    reader.version(0..=0)?;
    let (chunks, groups) = (reader.u16()?, reader.u16()?);
    Ok(TreeRanks { symbols: reader.u16()?, groups, chunks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let format = Format { base: 0, offset_size: 8, length_size: 8 };
        let ranks = TreeRanks { symbols: 5, groups: 16, chunks: 33 };
        assert_eq!(parse(&[0, 33, 0, 16, 0, 5, 0], 0, format).unwrap(), ranks);
        assert!(parse(&[1, 33, 0, 16, 0, 5, 0], 0, format).is_err());
    }
}
