//! Elements of variable length: text and byte strings. Each is preceded by its length in bytes (4 bytes, little-endian).

use std::ops::AddAssign;

use bytes::Bytes;
use virtualize::zarr::{Array, Codec, DataType, FillValue, chunk_position};

/// Returns whether elements are of variable length.
pub(crate) fn is_variable(data_type: &DataType) -> bool {
    matches!(data_type, DataType::String | DataType::VariableBytes)
}

/// Returns the size of all values in bytes; `None` if they are of variable length and not all inline.
pub(crate) fn value_bytes(array: &Array) -> Option<u64> {
    if is_variable(&array.data_type) {
        let chunks = array.chunks.inline.values();
        return array.chunks.references.is_empty().then(|| chunks.map(|chunk| chunk.len() as u64).sum());
    }
    array.shape.iter().try_fold(array.data_type.size()?, |product, n| product.checked_mul(*n))
}

/// Iterates over the elements; stops at one that is truncated.
pub(crate) fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (element, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(element)
    })
}

/// Serializes elements; `None` if one is too long.
pub(crate) fn join<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    for element in elements {
        joined.extend(u32::try_from(element.len()).ok()?.to_le_bytes());
        joined.extend(element);
    }
    Some(joined)
}

/// Returns the value of a missing element.
pub(crate) fn fill(array: &Array) -> Vec<u8> {
    match &array.fill_value {
        Some(FillValue::Text(text)) => text.clone().into_bytes(),
        Some(FillValue::Variable(bytes) | FillValue::Fixed(bytes)) => bytes.to_vec(),
        None => Vec::new(),
    }
}

/// Numbers of 8 bytes that represent elements while these are arranged.
#[derive(Default)]
pub(crate) struct Table<'a>(Vec<&'a [u8]>);

impl<'a> Table<'a> {
    /// Returns the numbers of elements.
    pub(crate) fn numbers(&mut self, bytes: &'a [u8]) -> Bytes {
        let first = self.0.len();
        self.0.extend(split(bytes));
        (first..self.0.len()).flat_map(|number| (number as u64).to_le_bytes()).collect()
    }

    /// Returns the elements of numbers.
    pub(crate) fn elements(&self, numbers: &[u8]) -> Option<Vec<&'a [u8]>> {
        let element =
            |number: &[u8; 8]| self.0.get(usize::try_from(u64::from_le_bytes(*number)).ok()?).copied();
        numbers.as_chunks::<8>().0.iter().map(element).collect()
    }
}

/// Encodes a chunk of elements, and returns it with its codec.
pub(crate) fn encoded<'a>(
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
    data_type: &DataType,
) -> Option<(Bytes, Codec)> {
    let codec = if *data_type == DataType::String { Codec::VlenUtf8 } else { Codec::VlenBytes };
    let mut chunk = u32::try_from(elements.len()).ok()?.to_le_bytes().to_vec();
    chunk.extend(join(elements)?);
    Some((chunk.into(), codec))
}

/// Copies a box of elements into an array. Shapes and places are in elements, slowest axis first; both buffers are in
/// row-major order. Returns `None` if the box exceeds the array or its own buffer.
pub(crate) fn paste(
    into: &mut [u8],
    shape: &[u64],
    at: &[u64],
    from: &[u8],
    from_shape: &[u64],
    size: u64,
) -> Option<()> {
    let inside = shape
        .iter()
        .zip(at)
        .zip(from_shape)
        .all(|((n, at), own)| at.checked_add(*own).is_some_and(|end| end <= *n));
    if !inside || shape.len() != at.len() || at.len() != from_shape.len() {
        return None;
    }
    let Some((row, outer)) = from_shape.split_last() else {
        let size = usize::try_from(size).ok()?;
        into.get_mut(..size)?.copy_from_slice(from.get(..size)?);
        return Some(());
    };
    let bytes = usize::try_from(row.checked_mul(size)?).ok()?;
    if bytes == 0 || outer.contains(&0) {
        return Some(());
    }
    let mut index = vec![0; outer.len()];
    for row in from.chunks_exact(bytes) {
        let place = at.iter().zip(index.iter().chain([&0])).map(|(at, step)| at + step);
        let start = usize::try_from(chunk_position(place, shape)?.checked_mul(size)?).ok()?;
        into.get_mut(start..start.checked_add(bytes)?)?.copy_from_slice(row);
        if !advance(&mut index, outer) {
            return Some(());
        }
    }
    None
}

/// Advances to the next index, the last axis fastest; returns false after the last.
pub(crate) fn advance<T: Copy + Ord + AddAssign + From<u8>>(index: &mut [T], shape: &[T]) -> bool {
    for (at, n) in index.iter_mut().zip(shape).rev() {
        *at += T::from(1);
        if *at < *n {
            return true;
        }
        *at = T::from(0);
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn elements_round_trip_through_numbers() {
        let bytes = join([b"a".as_slice(), b"", "ä€".as_bytes()]).unwrap();
        let before = join([b"before".as_slice()]).unwrap();
        let mut table = Table::default();
        table.numbers(&before);
        let numbers = table.numbers(&bytes);
        assert_eq!(table.elements(&numbers).unwrap(), split(&bytes).collect::<Vec<_>>());
        assert_eq!(split(bytes.get(..6).unwrap()).count(), 1, "what is broken off has no elements");
    }
}

#[cfg(test)]
mod tests_of_paste {
    use super::*;

    #[test]
    fn a_box_goes_to_its_place() {
        let mut into = vec![0; 12];
        paste(&mut into, &[3, 4], &[1, 2], &[1, 2, 3, 4], &[2, 2], 1).unwrap();
        assert_eq!(into, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
        assert!(paste(&mut into, &[3, 4], &[2, 2], &[1, 2, 3, 4], &[2, 2], 1).is_none());
        let mut one = vec![0; 2];
        paste(&mut one, &[], &[], &[7, 8], &[], 2).unwrap();
        assert_eq!(one, [7, 8]);
    }
}
