//! Text and bytes of variable length in the layout of `vlen-utf8` and `vlen-bytes`: the number of elements, then the
//! length and bytes of each element. All numbers are little-endian 32-bit integers.

use virtualize_codec::CodecFailure;
use virtualize_zarr::{Array, Codec, DataType};

use crate::decode;
use crate::error::ArrayError;

/// Returns the elements of a chunk in that layout, without trailing bytes. Equal elements are equal bytes, however
/// they are compressed.
pub(crate) fn values(array: &Array, bytes: &[u8], shape: &[u64], most: u64) -> Result<Vec<u8>, ArrayError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let is_layout = |codec: &Codec| matches!(codec, Codec::VlenUtf8 | Codec::VlenBytes);
    if !array.codecs.iter().any(is_layout) {
        return Err(CodecFailure::NoDecoder("another layout of text".to_owned()).into());
    }
    let mut bytes = virtualize_codec::decode_variable(&array.codecs, bytes, most)?;
    let count = decode::count(shape).and_then(|count| usize::try_from(count).ok());
    let end = end(&bytes, count.unwrap_or(usize::MAX), array.data_type == DataType::String)?;
    bytes.truncate(end);
    Ok(bytes)
}

/// Returns the elements of the layout that [`values`] returns.
pub(crate) fn elements(values: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = values.get(4..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (element, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(element)
    })
}

/// Returns the offset of the end of the last element.
fn end(bytes: &[u8], count: usize, is_text: bool) -> Result<usize, ArrayError> {
    let wrong =
        |at: usize, found: String, expected: String| ArrayError::VariableLayout { at, found, expected };
    let number = |at: usize| {
        let four = at.checked_add(4).and_then(|end| bytes.get(at..end)?.try_into().ok());
        let four = four.ok_or_else(|| wrong(at, "the end".to_owned(), "4 bytes".to_owned()))?;
        Ok::<usize, ArrayError>(usize::try_from(u32::from_le_bytes(four)).unwrap_or(usize::MAX))
    };
    let found = number(0)?;
    if found != count {
        return Err(wrong(0, format!("{found} elements"), count.to_string()));
    }
    let mut at = 4_usize;
    for _ in 0..count {
        let length = number(at)?;
        at = at.saturating_add(4);
        let end = at.saturating_add(length);
        let element =
            bytes.get(at..end).ok_or_else(|| wrong(at, "the end".to_owned(), format!("{length} bytes")))?;
        if is_text && std::str::from_utf8(element).is_err() {
            return Err(wrong(at, "other bytes".to_owned(), "UTF-8".to_owned()));
        }
        at = end;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected bytes: `numcodecs.VLenUTF8().encode(np.array(["ä", ""], dtype=object))`.
    const TWO: [u8; 14] = [2, 0, 0, 0, 2, 0, 0, 0, 0xC3, 0xA4, 0, 0, 0, 0];

    #[test]
    fn what_follows_the_elements_does_not_count() {
        assert_eq!(end(&TWO, 2, true).unwrap(), 14);
        assert_eq!(end(&[&TWO[..], &[0; 3]].concat(), 2, true).unwrap(), 14);
        assert!(elements(&TWO).eq(["ä".as_bytes(), b""]));
    }

    #[test]
    fn layouts_that_are_wrong_are_refused() {
        for (bytes, count, expected) in [
            (&TWO[..], 3, "at byte 0: 2 elements, expected 3"),
            (&TWO[..9], 2, "at byte 8: the end, expected 2 bytes"),
            (&TWO[..11], 2, "at byte 10: the end, expected 4 bytes"),
            (&[], 0, "at byte 0: the end, expected 4 bytes"),
            (&[1, 0, 0, 0, 1, 0, 0, 0, 0xC3], 1, "at byte 8: other bytes, expected UTF-8"),
            (&[1, 0, 0, 0, 255, 255, 255, 255], 1, "at byte 8: the end, expected 4294967295 bytes"),
        ] {
            let error = end(bytes, count, true).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
        assert_eq!(end(&[1, 0, 0, 0, 1, 0, 0, 0, 0xC3], 1, false).unwrap(), 9);
    }
}
