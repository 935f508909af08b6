//! Attributes.
//!
//! ```text
//! attr = name nc_type nelems [values ...] padding
//! ```

use super::list::{NC_ATTRIBUTE, list};
use super::name::name;
use super::nc_type::nc_type;
use super::reader::{Reader, Result};
use crate::model::Attribute;

/// Reads a list of attributes.
pub(crate) fn attributes(reader: &mut Reader<'_>, most: u64) -> Result<Vec<Attribute>> {
    list(reader, "att_list", NC_ATTRIBUTE, most, attribute)
}

fn attribute(reader: &mut Reader<'_>) -> Result<Attribute> {
    reader.enter("attr");
    let name = name(reader)?;
    let data_type = nc_type(reader)?;
    let count = reader.count()?;
    let values = reader.padded(count.saturating_mul(data_type.size()))?;
    Ok(Attribute { name, data_type, values })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{DataType, Version};

    #[test]
    fn values_lose_their_padding() {
        let bytes = b"\0\0\0\x0c\0\0\0\x02\
            \0\0\0\x01i\0\0\0\0\0\0\x03\0\0\0\x01\xff\xfe\0\0\
            \0\0\0\x01t\0\0\0\0\0\0\x02\0\0\0\x05hello\0\0\0";
        let bytes = Bytes::from_static(bytes);
        let read = attributes(&mut Reader::new(&bytes, Version::Classic), 2).unwrap();
        let attribute = |name: &str, data_type, values: &'static [u8]| Attribute {
            name: name.to_owned(),
            data_type,
            values: Bytes::from_static(values),
        };
        assert_eq!(
            read,
            [attribute("i", DataType::Short, b"\xff\xfe"), attribute("t", DataType::Char, b"hello")]
        );
    }
}
