//! Lists of dimensions, attributes and variables.
//!
//! ```text
//! dim_list  = ABSENT | NC_DIMENSION nelems [dim ...]
//! gatt_list = att_list
//! att_list  = ABSENT | NC_ATTRIBUTE nelems [attr ...]
//! var_list  = ABSENT | NC_VARIABLE  nelems [var ...]
//! ABSENT    = ZERO ZERO (CDF-5: ZERO ZERO64)
//! ```

use super::reader::{Reader, Result};

/// Tag of a list of dimensions.
pub(crate) const NC_DIMENSION: u32 = 10;
/// Tag of a list of variables.
pub(crate) const NC_VARIABLE: u32 = 11;
/// Tag of a list of attributes.
pub(crate) const NC_ATTRIBUTE: u32 = 12;

/// Reads a list whose items start with `tag`. `most` bounds the number of items. Like netCDF-C, ignores the tag of an empty
/// list.
pub(crate) fn list<T>(
    reader: &mut Reader<'_>,
    structure: &'static str,
    tag: u32,
    most: u64,
    mut item: impl FnMut(&mut Reader<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    reader.enter(structure);
    let found = reader.u32()?;
    let count = reader.count()?;
    if count > 0 && found != tag {
        return Err(reader.malformed(format!("tag {found} of {count} items, expected {tag}")));
    }
    if count > most {
        return Err(reader.limit(format!("{count} items, more than the limit of {most}")));
    }
    // The count may be wrong: memory is allocated as items are read.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{model::Version, spec::Missing};

    fn read(bytes: &'static [u8], most: u64) -> Result<Vec<u32>> {
        let bytes = Bytes::from_static(bytes);
        list(&mut Reader::new(&bytes, Version::Classic), "dim_list", NC_DIMENSION, most, |reader| {
            reader.u32()
        })
    }

    #[test]
    fn lists_have_a_tag_unless_they_are_empty() {
        assert_eq!(read(b"\0\0\0\x0a\0\0\0\x02\0\0\0\x07\0\0\0\x08", 2).unwrap(), [7, 8]);
        assert!(read(&[0; 8], 2).unwrap().is_empty());
        assert!(read(b"\0\0\0\x0b\0\0\0\0", 2).unwrap().is_empty());
        assert!(matches!(read(b"\0\0\0\0\0\0\0\x01\0\0\0\0", 2), Err(Missing::Nothing(_))));
        assert!(matches!(read(b"\0\0\0\x0a\xff\xff\xff\xff", 2), Err(Missing::Nothing(_))));
        assert!(matches!(read(b"\0\0\0\x0a\0\0\0\x02\0\0\0\0", 2), Err(Missing::Bytes { .. })));
    }
}
