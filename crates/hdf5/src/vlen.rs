//! Variable-length elements: pointers to the global heap (specification IV.A.2.d, "Variable-Length").
//!
//! ```text
//! length 4 | global heap collection O | index 4
//! ```

use crate::{Error, context::Format, layout::HeapPointer, reader::Reader};

/// A variable-length element as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VariableElement {
    /// Number of items of a sequence, or of bytes of a string.
    pub(crate) length: u64,
    /// Pointer to the items; `None` if there are none. Without items, the library reads an object of 0 bytes where there is
    /// a pointer.
    pub(crate) pointer: Option<HeapPointer>,
}

pub(crate) fn parse(bytes: &[u8], format: Format) -> Result<VariableElement, Error> {
    let mut reader = Reader::new("variable-length element", bytes, 0, format);
    let length = u64::from(reader.u32()?);
    let collection = reader.address()?.filter(|address| *address != format.base);
    let index = reader.u32()?;
    let pointer = collection.map(|collection| HeapPointer { collection, index });
    Ok(VariableElement { length, pointer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_address_is_no_pointer() {
        let format = Format { base: 16, offset_size: 2, length_size: 8 };
        let pointer = Some(HeapPointer { collection: 0x40, index: 3 });
        assert_eq!(parse(&[2, 0, 0, 0, 0x30, 0, 3, 0, 0, 0], format).unwrap().pointer, pointer);
        assert_eq!(parse(&[0, 0, 0, 0, 0x30, 0, 3, 0, 0, 0], format).unwrap().pointer, pointer);
        assert_eq!(parse(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0], format).unwrap().pointer, None);
    }
}
