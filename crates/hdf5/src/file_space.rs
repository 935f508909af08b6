//! File space info: how a file's space is managed (File Space Info message, 0x0017, of the superblock extension).
//!
//! ```text
//! version 1: 1 | strategy 1 | persistent 1 | threshold L | page size L | page end 2 | end of allocation O | managers O×12
//! ```

use crate::{Error, context::Format, reader::Reader};

/// Strategy that keeps metadata and raw data in separate pages.
const PAGED: u8 = 1;

/// Parses the message. Returns the size in bytes of the pages; `None` if space is not managed in pages.
pub(crate) fn parse_page_size(bytes: &[u8], address: u64, format: Format) -> Result<Option<u64>, Error> {
    let mut reader = Reader::new("file space info message", bytes, address, format);
    reader.version(1..=1)?;
    let strategy = reader.u8()?;
    reader.skip(1)?;
    reader.raw_length()?;
    let size = reader.raw_length()?;
    Ok((strategy == PAGED && size > 0).then_some(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 2 };

    #[test]
    fn only_paged_files_have_pages() {
        let message = |strategy| [1, strategy, 0, 1, 0, 0, 16, 0, 0];
        assert_eq!(parse_page_size(&message(1), 0, FORMAT).unwrap(), Some(4096));
        assert_eq!(parse_page_size(&message(0), 0, FORMAT).unwrap(), None);
        assert!(parse_page_size(&message(1)[..6], 0, FORMAT).is_err());
        assert!(parse_page_size(&[0; 20], 0, FORMAT).is_err());
    }
}
