//! The global heap block with the mappings of a virtual dataset (specification III.F).
//!
//! ```text
//! version 0  version(0) entries(length) (file-name NUL, dataset-name NUL, source-selection, virtual-selection)… checksum
//! version 1  version(1) entries(length) (flags, file, dataset, source-selection, virtual-selection)… checksum
//! ```
//!
//! In version 1, a name can be the index of the mapping that spells it out (flag bit 0: file, bit 1: dataset), and the
//! file name is omitted if it is this file (bit 2).

use virtualize_bytes::{Cursor, NeedBytes};

use crate::{Error, checksum::checked, context::Format, model::VirtualMapping, selection::parse_selection};

const STRUCTURE: &str = "virtual dataset block";

const SHARED_FILE: u8 = 1;
const SHARED_DATASET: u8 = 2;
const SAME_FILE: u8 = 4;

/// Parses the block at `address`. The names of all mappings, with shared ones expanded, may take `most` bytes.
pub(crate) fn parse_virtual_layout(
    bytes: &[u8],
    address: u64,
    format: Format,
    most: u64,
) -> Result<Vec<VirtualMapping>, Error> {
    let truncated = Error::truncated(STRUCTURE, address);
    let mut cursor = Cursor::little(bytes, address);
    let version = cursor.u8().map_err(&truncated)?;
    if version > 1 {
        return Err(Error::unsupported(STRUCTURE, address, format!("version {version}, expected 0 or 1")));
    }
    checked(STRUCTURE, address, bytes)?;
    let count = cursor.uint(format.length_size.into()).map_err(&truncated)?;
    let (mut mappings, mut name_bytes): (Vec<VirtualMapping>, u64) = (Vec::new(), 0);
    for _ in 0..count {
        let mapping = entry(&mut cursor, version, &mappings, address, format)?;
        let names = mapping.file.len().saturating_add(mapping.dataset.len());
        name_bytes = name_bytes.saturating_add(names as u64);
        if name_bytes > most {
            let problem = format!("names of mappings, expected at most {most} bytes");
            return Err(Error::limit(STRUCTURE, address, problem));
        }
        mappings.push(mapping);
    }
    match cursor.remaining() {
        4 => Ok(mappings),
        left => {
            Err(Error::malformed(STRUCTURE, address, format!("{left} bytes after the entries, expected 4")))
        }
    }
}

fn entry(
    cursor: &mut Cursor<'_>,
    version: u8,
    before: &[VirtualMapping],
    address: u64,
    format: Format,
) -> Result<VirtualMapping, Error> {
    let truncated = Error::truncated(STRUCTURE, address);
    let flags = if version == 0 { 0 } else { cursor.u8().map_err(&truncated)? };
    if flags > 7 || flags & SHARED_FILE != 0 && flags & SAME_FILE != 0 {
        return Err(Error::unsupported(
            STRUCTURE,
            address,
            format!("mapping with flags {flags:#x}, expected 0 to 7"),
        ));
    }
    let shared = |cursor: &mut Cursor<'_>| {
        let number = cursor.uint(format.length_size.into()).map_err(&truncated)?;
        let found = usize::try_from(number).ok().and_then(|number| before.get(number));
        let problem = || {
            format!(
                "mapping {} refers to the name of mapping {number}, expected an earlier one",
                before.len()
            )
        };
        found.ok_or_else(|| Error::malformed(STRUCTURE, address, problem()))
    };
    let file = match flags {
        _ if flags & SAME_FILE != 0 => ".".to_owned(),
        _ if flags & SHARED_FILE != 0 => shared(cursor)?.file.clone(),
        _ => name(cursor).map_err(&truncated)?,
    };
    let dataset = match flags & SHARED_DATASET {
        0 => name(cursor).map_err(&truncated)?,
        _ => shared(cursor)?.dataset.clone(),
    };
    let (source, destination) = (parse_selection(cursor)?, parse_selection(cursor)?);
    Ok(VirtualMapping { file, dataset, source, destination })
}

fn name(cursor: &mut Cursor<'_>) -> Result<String, NeedBytes> {
    cursor.nul_terminated().map(|text| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum::lookup3, model::Selection};

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 8 };
    const ALL: &[u8] = b"\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0";

    fn block(version: u8, entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![version];
        bytes.extend((entries.len() as u64).to_le_bytes());
        for entry in entries {
            bytes.extend([entry, ALL, ALL].concat());
        }
        bytes.extend(lookup3(&bytes).to_le_bytes());
        bytes
    }

    fn names(bytes: &[u8]) -> Result<Vec<(String, String)>, Error> {
        let mappings = parse_virtual_layout(bytes, 0x80, FORMAT, 1 << 30)?;
        assert!(mappings.iter().all(|mapping| mapping.source == Selection::All));
        Ok(mappings.into_iter().map(|mapping| (mapping.file, mapping.dataset)).collect())
    }

    fn pair(file: &str, dataset: &str) -> (String, String) {
        (file.to_owned(), dataset.to_owned())
    }

    #[test]
    fn version_0_stores_every_name() {
        let found = names(&block(0, &[b"a%b.h5\0x\0", b".\0y\0"])).unwrap();
        assert_eq!(found, [pair("a%b.h5", "x"), pair(".", "y")]);
    }

    /// A block as written by HDF5 2.0, whose mapping indexes count from 0.
    #[test]
    fn version_1_shares_names() {
        let entries: [&[u8]; 5] = [
            b"\0first.h5\0a\0",
            b"\0second.h5\0b\0",
            b"\x03\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
            b"\x06\x01\0\0\0\0\0\0\0",
            b"\x04c\0",
        ];
        let second = pair("second.h5", "b");
        let expected = [pair("first.h5", "a"), second.clone(), second, pair(".", "b"), pair(".", "c")];
        assert_eq!(names(&block(1, &entries)).unwrap(), expected);
    }

    #[test]
    fn rejects_invalid_blocks() {
        let message = |bytes: &[u8]| names(bytes).unwrap_err().to_string();
        assert!(message(&block(2, &[])).contains("version 2, expected 0 or 1"));
        assert!(
            message(&block(1, &[b"\x02a\0\0\0\0\0\0\0\0\0"])).contains("refers to the name of mapping 0")
        );
        assert!(message(&block(1, &[b"\x08a\0b\0"])).contains("flags 0x8"));
        let mut damaged = block(0, &[b"a\0b\0"]);
        damaged[10] ^= 1;
        assert!(message(&damaged).contains("checksum"));
        assert!(
            message(b"\0\xff\xff\xff\xff\xff\xff\xff\xff\x07\x13\x56\xd5").starts_with("virtual dataset")
        );
    }
}
