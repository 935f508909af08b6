use virtualize_hdf5::model::{Datatype, Element};
use virtualize_zarr::Codec;

use super::Failure;

/// Bytes of a stored element, which points into the global heap.
pub(super) fn pointer_size(datatype: &Datatype) -> Result<usize, Failure> {
    match datatype {
        Datatype::VariableString { size, .. } | Datatype::Sequence { size, .. } => {
            usize::try_from(*size).map_err(|error| Failure::Chunk(error.to_string()))
        }
        _ => Err(Failure::Chunk("the type has no variable length".to_owned())),
    }
}

/// The layout that `vlen-utf8` and `vlen-bytes` share: the number of elements, then length and bytes of each, all
/// numbers as little-endian 32-bit integers.
pub(super) fn encode(codecs: &[Codec], elements: &[Element]) -> Result<Vec<u8>, Failure> {
    let is_text = codecs.contains(&Codec::VlenUtf8);
    let mut out = length(elements.len())?.to_vec();
    for element in elements {
        let bytes = match element {
            Element::Text(text) => text.as_bytes(),
            Element::Bytes(bytes) if !is_text => bytes,
            Element::Bytes(_) => return Err(Failure::Chunk("a string is not UTF-8".to_owned())),
            _ => return Err(Failure::Chunk("an element is neither text nor bytes".to_owned())),
        };
        out.extend_from_slice(&length(bytes.len())?);
        out.extend_from_slice(bytes);
    }
    Ok(out)
}

fn length(count: usize) -> Result<[u8; 4], Failure> {
    let count = u32::try_from(count).map_err(|_| Failure::Chunk(format!("{count} does not fit 32 bits")))?;
    Ok(count.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))` writes it.
    #[test]
    fn layout_of_vlen_utf8() {
        let elements = [Element::Text("ä".to_owned()), Element::Text(String::new())];
        let expected = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];
        assert_eq!(encode(&[Codec::VlenUtf8], &elements).unwrap(), expected);
    }

    #[test]
    fn bytes_are_no_text() {
        let elements = [Element::Bytes(vec![0xFF])];
        assert!(encode(&[Codec::VlenUtf8], &elements).is_err());
        assert_eq!(encode(&[Codec::VlenBytes], &elements).unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, 0xFF]);
    }
}
