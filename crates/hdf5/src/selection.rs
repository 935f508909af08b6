//! Serialized dataspace selections (specification, "Dataspace Selection").
//!
//! ```text
//! none, all        type(4) version(4) reserved(8)
//! points 1         type(4) version(4) reserved(4) length(4) rank(4) points(4) coordinate(4)…
//! points 2         type(4) version(4) width(1) rank(4) points(width) coordinate(width)…
//! hyperslab 1      type(4) version(4) reserved(4) length(4) rank(4) blocks(4) (first… last…)(4 each)
//! hyperslab 2      type(4) version(4) flags(1) length(4) rank(4) (start stride count block)(8 each)…
//! hyperslab 3      type(4) version(4) flags(1) width(1) rank(4) regular, or blocks, of width bytes each
//! ```

use virtualize_bytes::{Cursor, NeedBytes};

use crate::{
    Error,
    model::{Selection, Slab},
};

const STRUCTURE: &str = "dataspace selection";

/// Maximum rank of a dataspace.
const MAX_RANK: u32 = 32;

/// Reads the selection at the cursor.
pub(crate) fn parse_selection(cursor: &mut Cursor<'_>) -> Result<Selection, Error> {
    let address = cursor.address();
    let truncated = Error::truncated(STRUCTURE, address);
    let kind = cursor.u32().map_err(&truncated)?;
    let version = cursor.u32().map_err(&truncated)?;
    let selection = match (kind, version) {
        (0, 1) => cursor.skip(8).map(|()| Selection::None),
        (3, 1) => cursor.skip(8).map(|()| Selection::All),
        (1, 1 | 2) => return points(cursor, version, address),
        (2, 1..=3) => return hyperslab(cursor, version, address),
        _ => {
            let problem = format!("type {kind}, version {version}, expected type 0 to 3");
            return Err(Error::unsupported(STRUCTURE, address, problem));
        }
    };
    selection.map_err(truncated)
}

/// Size of the numbers and rank of the selection.
struct Shape {
    regular: bool,
    width: usize,
    rank: usize,
    address: u64,
}

impl Shape {
    fn points(cursor: &mut Cursor<'_>, version: u32) -> Result<(u8, u8, u32), NeedBytes> {
        let width = match version {
            1 => cursor.skip(8).map(|()| 4)?,
            _ => cursor.u8()?,
        };
        Ok((0, width, cursor.u32()?))
    }

    fn hyperslab(cursor: &mut Cursor<'_>, version: u32) -> Result<(u8, u8, u32), NeedBytes> {
        let (flags, width) = match version {
            1 => cursor.skip(8).map(|()| (0, 4))?,
            2 => (cursor.u8()?, cursor.skip(4).map(|()| 8)?),
            _ => (cursor.u8()?, cursor.u8()?),
        };
        Ok((flags, width, cursor.u32()?))
    }

    fn new(parts: Result<(u8, u8, u32), NeedBytes>, address: u64) -> Result<Self, Error> {
        let (flags, width, rank) = parts.map_err(Error::truncated(STRUCTURE, address))?;
        let known = flags <= 1 && matches!(width, 2 | 4 | 8) && (1..=MAX_RANK).contains(&rank);
        let rank = usize::try_from(rank).ok().filter(|_| known).ok_or_else(|| {
            let problem = format!("flags {flags:#x}, numbers of {width} bytes, rank {rank}");
            Error::malformed(STRUCTURE, address, problem)
        })?;
        Ok(Self { regular: flags & 1 != 0, width: width.into(), rank, address })
    }

    /// Reads the number of items, each of `numbers` numbers per axis, and their bytes.
    fn items<'a>(&self, cursor: &mut Cursor<'a>, numbers: usize) -> Result<Vec<Vec<u64>>, Error> {
        let truncated = Error::truncated(STRUCTURE, self.address);
        let count = cursor.uint(self.width).map_err(&truncated)?;
        let size = self.rank.saturating_mul(numbers).saturating_mul(self.width).max(1);
        let bytes: &'a [u8] = cursor.take_u64(count.saturating_mul(size as u64)).map_err(&truncated)?;
        bytes.chunks_exact(size).map(|item| self.numbers(item).map_err(&truncated)).collect()
    }

    fn numbers(&self, bytes: &[u8]) -> Result<Vec<u64>, NeedBytes> {
        let mut cursor = Cursor::little(bytes, self.address);
        let mut numbers = Vec::with_capacity(self.rank);
        while !cursor.is_empty() {
            numbers.push(cursor.uint(self.width)?);
        }
        Ok(numbers)
    }

    fn slab(&self, cursor: &mut Cursor<'_>) -> Result<Slab, NeedBytes> {
        let (start, stride) = (cursor.uint(self.width)?, cursor.uint(self.width)?);
        Ok(Slab { start, stride, count: self.bounded(cursor)?, block: self.bounded(cursor)? })
    }

    /// Reads a number; `None` for the largest value, which means "unlimited".
    fn bounded(&self, cursor: &mut Cursor<'_>) -> Result<Option<u64>, NeedBytes> {
        let bytes = cursor.take(self.width)?;
        let unlimited = bytes.iter().all(|byte| *byte == 0xff);
        Ok((!unlimited).then(|| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))))
    }
}

fn points(cursor: &mut Cursor<'_>, version: u32, address: u64) -> Result<Selection, Error> {
    let shape = Shape::new(Shape::points(cursor, version), address)?;
    shape.items(cursor, 1).map(Selection::Points)
}

fn hyperslab(cursor: &mut Cursor<'_>, version: u32, address: u64) -> Result<Selection, Error> {
    let shape = Shape::new(Shape::hyperslab(cursor, version), address)?;
    if shape.regular {
        let slabs: Result<Vec<_>, _> = (0..shape.rank).map(|_| shape.slab(cursor)).collect();
        return slabs.map(Selection::Regular).map_err(Error::truncated(STRUCTURE, address));
    }
    let blocks = shape.items(cursor, 2)?.into_iter().map(|mut first| {
        let last = first.split_off(shape.rank.min(first.len()));
        (first, last)
    });
    Ok(Selection::Blocks(blocks.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(hex: &str) -> Result<(Selection, usize), Error> {
        let bytes = crate::hex::bytes_of(hex);
        let mut cursor = Cursor::little(&bytes, 0x100);
        parse_selection(&mut cursor).map(|selection| (selection, cursor.remaining()))
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
