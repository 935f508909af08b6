//! Variables.
//!
//! ```text
//! var   = name nelems [dimid ...] vatt_list nc_type vsize begin
//! begin = 4 bytes (CDF-1) | 8 bytes (CDF-2, CDF-5)
//! ```
//!
//! `vsize` is redundant, and wrong in some files: for more than 2³² - 4 bytes it cannot be right. Like netCDF-C, this reader
//! computes the size from the shape.

use super::attribute::attributes;
use super::name::name;
use super::nc_type::nc_type;
use super::reader::{Reader, Result};
use crate::model::{DataType, Dimension, Variable};

pub(crate) fn variable(
    reader: &mut Reader<'_>,
    dimensions: &[Dimension],
    most_attributes: u64,
) -> Result<Variable> {
    reader.enter("var");
    let name = name(reader)?;
    let rank = reader.count()?;
    let mut ids = Vec::new();
    for _ in 0..rank {
        let id = reader.count()?;
        let known = usize::try_from(id).ok().filter(|id| *id < dimensions.len());
        ids.push(known.ok_or_else(|| {
            reader.malformed(format!("\"{name}\" has dimension {id}, of {}", dimensions.len()))
        })?);
    }
    let of_variable = ids.iter().filter_map(|id| dimensions.get(*id).map(|dimension| dimension.length));
    let lengths: Vec<Option<u64>> = of_variable.collect();
    let is_record = lengths.first() == Some(&None);
    if lengths.iter().skip(1).any(Option::is_none) {
        return Err(reader.malformed(format!("\"{name}\" has the record dimension after another")));
    }
    let attributes = attributes(reader, most_attributes)?;
    reader.enter("var");
    let data_type = nc_type(reader)?;
    let _vsize = reader.count()?;
    let begin = reader.data_offset()?;
    let size = size(data_type, &lengths)
        .ok_or_else(|| reader.malformed(format!("\"{name}\" has more bytes than 64 bits can count")))?;
    Ok(Variable { name, dimensions: ids, attributes, data_type, begin, size, is_record })
}

/// Returns the bytes of the data, or of one record; `None` past 64 bits.
fn size(data_type: DataType, lengths: &[Option<u64>]) -> Option<u64> {
    lengths.iter().flatten().try_fold(data_type.size(), |product, length| product.checked_mul(*length))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Error, model::Version, spec::Missing};

    fn dimensions(lengths: &[u64]) -> Vec<Dimension> {
        let dimension =
            |length: &u64| Dimension { name: "d".to_owned(), length: (*length != 0).then_some(*length) };
        lengths.iter().map(dimension).collect()
    }

    fn read(ids: [u8; 2], lengths: &[u64]) -> Result<Variable> {
        let bytes = [
            b"\0\0\0\x01v\0\0\0\0\0\0\x02\0\0\0".as_slice(),
            &[ids[0], 0, 0, 0, ids[1]],
            b"\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x63\0\0\0\x80",
        ];
        variable(&mut Reader::new(&Bytes::from(bytes.concat()), Version::Classic), &dimensions(lengths), 1)
    }

    #[test]
    fn the_size_follows_from_the_shape() {
        let variable = read([0, 1], &[0, 3]).unwrap();
        assert_eq!((variable.begin, variable.size, variable.is_record), (0x80, 6, true));
        assert_eq!(read([1, 1], &[0, 3]).unwrap().size, 18);
    }

    #[test]
    fn contradictions_are_refused() {
        for (ids, lengths) in
            [([0, 2], [0, 3]), ([1, 0], [0, 3]), ([0, 0], [0, 3]), ([0, 1], [1 << 32, 1 << 32])]
        {
            assert!(matches!(read(ids, &lengths), Err(Missing::Nothing(Error::Malformed { .. }))));
        }
    }
}
