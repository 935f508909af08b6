//! Dataspace message, 0x0001 (specification IV.A.2.b).
//!
//! ```text
//! version 1: 1 | rank | flags | - 5 | sizes L×rank | (flag 0) maximal sizes L×rank | (flag 1) permutation L×rank
//! version 2: 2 | rank | flags | type | sizes L×rank | (flag 0) maximal sizes L×rank
//! ```

use crate::{
    Error,
    cursor::{Format, Reader},
    model::Dataspace,
};

/// Maximum rank in the HDF5 library.
pub(crate) const MAX_RANK: u8 = 32;

pub(crate) fn parse(bytes: &[u8], address: u64, format: Format) -> Result<Dataspace, Error> {
    let mut reader = Reader::new("dataspace message", bytes, address, format);
    let version = reader.version(1..=2)?;
    let rank = reader.u8()?;
    if rank > MAX_RANK {
        return Err(reader.malformed(format!("{rank} dimensions, expected at most {MAX_RANK}")));
    }
    let flags = reader.u8()?;
    let class = reader.u8()?;
    if version == 1 {
        reader.skip(4)?;
    }
    match (version, rank, class) {
        (1, 0, _) | (2, 0, 0) => return Ok(Dataspace::Scalar),
        (2, 0, 2) => return Ok(Dataspace::Null),
        (1, ..) | (2, _, 1) => {}
        _ => {
            return Err(reader.malformed(format!(
                "type {class} with {rank} dimensions, expected 0 or 2 without any, else 1"
            )));
        }
    }
    let shape = (0..rank).map(|_| reader.raw_length()).collect::<Result<Vec<_>, _>>()?;
    let max_shape = match flags & 1 {
        0 => None,
        _ => Some((0..rank).map(|_| reader.length()).collect::<Result<Vec<_>, _>>()?),
    };
    // The library rounds sizes up to powers of 2.
    if let Some(size) = shape.iter().find(|size| **size >= 1 << 63) {
        return Err(reader.malformed(format!("size {size}, expected less than 2^63")));
    }
    for (size, most) in shape.iter().zip(max_shape.iter().flatten()) {
        if let Some(most) = most.filter(|most| size > most) {
            return Err(reader.malformed(format!("size {size}, expected at most {most}")));
        }
    }
    Ok(Dataspace::Simple { shape, max_shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { base: 0, offset_size: 8, length_size: 2 };

    #[test]
    fn both_versions() {
        let old = [1, 2, 1, 0, 0, 0, 0, 0, 3, 0, 4, 0, 3, 0, 0xFF, 0xFF];
        let new = [2, 2, 1, 1, 3, 0, 4, 0, 3, 0, 0xFF, 0xFF];
        let expected = Dataspace::Simple { shape: vec![3, 4], max_shape: Some(vec![Some(3), None]) };
        assert_eq!(parse(&old, 0, FORMAT).unwrap(), expected);
        assert_eq!(parse(&new, 0, FORMAT).unwrap(), expected);
    }

    #[test]
    fn scalar_and_null() {
        assert_eq!(parse(&[1, 0, 0, 0, 0, 0, 0, 0], 0, FORMAT).unwrap(), Dataspace::Scalar);
        assert_eq!(parse(&[2, 0, 0, 0], 0, FORMAT).unwrap(), Dataspace::Scalar);
        assert_eq!(parse(&[2, 0, 0, 2], 0, FORMAT).unwrap(), Dataspace::Null);
    }

    #[test]
    fn rejects_contradictions() {
        assert!(parse(&[2, 33, 0, 1], 0, FORMAT).is_err());
        assert!(parse(&[2, 1, 0, 2, 1, 0], 0, FORMAT).is_err());
        assert!(parse(&[3, 1, 0, 1, 1, 0], 0, FORMAT).is_err());
    }

    #[test]
    fn rejects_sizes_past_the_maximum() {
        assert!(parse(&[2, 1, 1, 1, 3, 0, 3, 0], 0, FORMAT).is_ok());
        let error = parse(&[2, 1, 1, 1, 4, 0, 3, 0], 0, FORMAT).unwrap_err().to_string();
        assert!(error.contains("size 4, expected at most 3"), "{error}");
        let format = Format { length_size: 8, ..FORMAT };
        let sized = |size: u64| parse(&[&[2, 1, 0, 1][..], &size.to_le_bytes()].concat(), 0, format);
        assert!(sized((1 << 63) - 1).is_ok() && sized(1 << 63).is_err());
    }
}
