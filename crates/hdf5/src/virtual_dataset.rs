//! The global heap block with the mappings of a virtual dataset (specification III.F).
//!
//! ```text
//! version 0  version(0) entries(length) (file-name NUL, dataset-name NUL, source-selection, virtual-selection)… checksum
//! version 1  version(1) entries(length) (flags, file, dataset, source-selection, virtual-selection)… checksum
//! ```
//!
//! In version 1, a name can be the index of the mapping that spells it out (flag bit 0: file, bit 1: dataset), and the
//! file name is omitted if it is this file (bit 2).

use crate::{
    Error,
    cursor::{Format, Reader, checked, uint},
    dataspace::MAX_RANK,
    model::{Selection, Slab, VirtualMapping},
};

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
    let mut reader = Reader::new(STRUCTURE, bytes, address, format);
    let version = reader.u8()?;
    if version > 1 {
        return Err(reader.unsupported(format!("version {version}, expected 0 or 1")));
    }
    checked(STRUCTURE, address, bytes)?;
    let count = reader.raw_length()?;
    let (mut mappings, mut name_bytes) = (Vec::new(), 0_u64);
    for _ in 0..count {
        let mapping = entry(&mut reader, version, &mappings)?;
        let names = mapping.file.len().saturating_add(mapping.dataset.len());
        name_bytes = name_bytes.saturating_add(names as u64);
        if name_bytes > most {
            let problem = format!("names of mappings, expected at most {most} bytes");
            return Err(Error::limit(STRUCTURE, address, problem));
        }
        mappings.push(mapping);
    }
    match reader.remaining() {
        4 => Ok(mappings),
        left => Err(reader.malformed(format!("{left} bytes after the entries, expected 4"))),
    }
}

fn entry(reader: &mut Reader<'_>, version: u8, before: &[VirtualMapping]) -> Result<VirtualMapping, Error> {
    let flags = if version == 0 { 0 } else { reader.u8()? };
    if flags > 7 || flags & SHARED_FILE != 0 && flags & SAME_FILE != 0 {
        return Err(reader.unsupported(format!("mapping with flags {flags:#x}, expected 0 to 7")));
    }
    let shared = |reader: &mut Reader<'_>| {
        let number = reader.raw_length()?;
        let found = usize::try_from(number).ok().and_then(|number| before.get(number));
        found.ok_or_else(|| {
            let mapping = before.len();
            let problem = format!("mapping {mapping} refers to the name of mapping {number}");
            reader.malformed(format!("{problem}, expected an earlier one"))
        })
    };
    let file = match flags {
        _ if flags & SAME_FILE != 0 => ".".to_owned(),
        _ if flags & SHARED_FILE != 0 => shared(reader)?.file.clone(),
        _ => reader.text()?,
    };
    let dataset = match flags & SHARED_DATASET {
        0 => reader.text()?,
        _ => shared(reader)?.dataset.clone(),
    };
    let (source, destination) = (parse_selection(reader)?, parse_selection(reader)?);
    Ok(VirtualMapping { file, dataset, source, destination })
}

// Serialized dataspace selections (specification, "Dataspace Selection").
//
// ```text
// none, all        type(4) version(4) reserved(8)
// points 1         type(4) version(4) reserved(4) length(4) rank(4) points(4) coordinate(4)…
// points 2         type(4) version(4) width(1) rank(4) points(width) coordinate(width)…
// hyperslab 1      type(4) version(4) reserved(4) length(4) rank(4) blocks(4) (first… last…)(4 each)
// hyperslab 2      type(4) version(4) flags(1) length(4) rank(4) (start stride count block)(8 each)…
// hyperslab 3      type(4) version(4) flags(1) width(1) rank(4) regular, or blocks, of width bytes each
// ```

/// Reads the selection at the position of a reader.
pub(crate) fn parse_selection(outer: &mut Reader<'_>) -> Result<Selection, Error> {
    let mut reader = Reader::new("dataspace selection", outer.rest(), outer.position(), outer.format());
    let (kind, version) = (reader.u32()?, reader.u32()?);
    let (flags, width) = match (kind, version) {
        (0..=3, 1) => reader.skip(8).map(|()| (0, 4))?,
        (1, 2) => (0, reader.u8()?),
        (2, 2) => (reader.u8()?, reader.skip(4).map(|()| 8)?),
        (2, 3) => (reader.u8()?, reader.u8()?),
        _ => return Err(reader.unsupported(format!("type {kind}, version {version}, expected type 0 to 3"))),
    };
    let selection = match kind {
        0 => Selection::None,
        3 => Selection::All,
        _ => {
            let rank = reader.u32()?;
            if flags > 1 || !matches!(width, 2 | 4 | 8) || !(1..=MAX_RANK.into()).contains(&rank) {
                let problem = format!("flags {flags:#x}, numbers of {width} bytes, rank {rank}");
                return Err(reader.malformed(problem));
            }
            let axes = usize::try_from(rank).unwrap_or(0);
            if flags == 1 {
                let slabs = (0..rank).map(|_| {
                    let (start, stride) = (reader.uint(width)?, reader.uint(width)?);
                    // The largest number means "unlimited".
                    let mut bounded = || {
                        let bytes = reader.take(width.into())?;
                        Ok::<_, Error>(bytes.iter().any(|byte| *byte != 0xff).then(|| uint(bytes)))
                    };
                    Ok(Slab { start, stride, count: bounded()?, block: bounded()? })
                });
                Selection::Regular(slabs.collect::<Result<_, Error>>()?)
            } else if kind == 1 {
                Selection::Points(items(&mut reader, width, axes)?)
            } else {
                let blocks =
                    items(&mut reader, width, axes.saturating_mul(2))?.into_iter().map(|mut first| {
                        let last = first.split_off(axes.min(first.len()));
                        (first, last)
                    });
                Selection::Blocks(blocks.collect())
            }
        }
    };
    outer.skip(reader.position().saturating_sub(outer.position()))?;
    Ok(selection)
}

/// Reads the number of items, then the items, each of `numbers` numbers of `width` bytes.
fn items(reader: &mut Reader<'_>, width: u8, numbers: usize) -> Result<Vec<Vec<u64>>, Error> {
    let count = reader.uint(width)?;
    let size = numbers.saturating_mul(width.into()).max(1);
    let bytes = reader.take(count.saturating_mul(size as u64))?;
    let item = |item: &[u8]| item.chunks_exact(width.max(1).into()).map(uint).collect();
    Ok(bytes.chunks_exact(size).map(item).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cursor::lookup3, model::Selection};

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

    fn parse(hex: &str) -> Result<(Selection, usize), Error> {
        let bytes = crate::testing::bytes_of(hex);
        let mut reader = Reader::new("", &bytes, 0x100, FORMAT);
        parse_selection(&mut reader).map(|selection| (selection, reader.remaining()))
    }

    fn slab(start: u64, stride: u64, count: Option<u64>, block: Option<u64>) -> Slab {
        Slab { start, stride, count, block }
    }

    #[test]
    fn none_and_all() {
        assert_eq!(parse("00000000 01000000 00000000 00000000").unwrap(), (Selection::None, 0));
        assert_eq!(parse("03000000 01000000 00000000 00000000 aa").unwrap(), (Selection::All, 1));
    }

    /// Expected: the rows 0, 2, 4, … of ten columns, as written by libhdf5 1.8, 1.10 and 1.12.
    #[test]
    fn hyperslabs_of_three_versions() {
        let blocks =
            "02000000 01000000 00000000 28000000 02000000 01000000 00000000 02000000 03000000 05000000";
        let expected = Selection::Blocks(vec![(vec![0, 2], vec![3, 5])]);
        assert_eq!(parse(blocks).unwrap(), (expected, 0));

        let old = "02000000 02000000 01 44000000 02000000 \
                   0000000000000000 0200000000000000 ffffffffffffffff 0100000000000000 \
                   0000000000000000 0100000000000000 0100000000000000 0a00000000000000";
        let new = "02000000 03000000 01 02 02000000 0000 0200 ffff 0100 0000 0100 0100 0a00";
        let expected = Selection::Regular(vec![slab(0, 2, None, Some(1)), slab(0, 1, Some(1), Some(10))]);
        assert_eq!(parse(old).unwrap(), (expected.clone(), 0));
        assert_eq!(parse(new).unwrap(), (expected, 0));
    }

    #[test]
    fn irregular_hyperslabs_and_points() {
        let irregular = "02000000 03000000 00 02 02000000 0200 0000 0000 0100 0100 0500 0500 0500 0700";
        let expected = vec![(vec![0, 0], vec![1, 1]), (vec![5, 5], vec![5, 7])];
        assert_eq!(parse(irregular).unwrap(), (Selection::Blocks(expected), 0));
        let old = "01000000 01000000 00000000 10000000 01000000 02000000 01000000 07000000";
        let new = "01000000 02000000 04 01000000 02000000 01000000 07000000";
        let expected = Selection::Points(vec![vec![1], vec![7]]);
        assert_eq!(parse(old).unwrap(), (expected.clone(), 0));
        assert_eq!(parse(new).unwrap(), (expected, 0));
    }

    #[test]
    fn rejects_invalid_selections() {
        let message = |hex| parse(hex).unwrap_err().to_string();
        assert!(message("04000000 01000000").contains("type 4"));
        assert!(message("02000000 04000000").contains("version 4"));
        assert!(message("02000000 03000000 01 03 02000000").contains("numbers of 3 bytes"));
        assert!(message("02000000 03000000 01 02 21000000").contains("rank 33"));
        assert!(
            message("01000000 02000000 08 20000000 ffffffffffffff7f").contains("beyond the end of the file")
        );
    }
}
