//! Elements of variable length: text, and byte strings. Each has its length in bytes before it, as 4 bytes little-endian.

use bytes::Bytes;
use virtualize::zarr::{Array, Codec, DataType, FillValue};

/// Whether elements are of variable length.
pub(crate) fn is_variable(data_type: &DataType) -> bool {
    matches!(data_type, DataType::String | DataType::VariableBytes)
}

/// Bytes of all values; nothing where they are of variable length and not all within the references.
pub(crate) fn value_bytes(array: &Array) -> Option<u64> {
    if is_variable(&array.data_type) {
        return stored_bytes(array);
    }
    array.shape.iter().try_fold(array.data_type.size()?, |product, n| product.checked_mul(*n))
}

/// Bytes of all chunks as they are stored; nothing where some lie in a file.
fn stored_bytes(array: &Array) -> Option<u64> {
    let within = is_variable(&array.data_type) && array.chunks.references.is_empty();
    within.then(|| array.chunks.inline.values().map(|chunk| chunk.len() as u64).sum())
}

/// The elements one by one. What is broken off has none.
pub(crate) fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (element, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = after;
        Some(element)
    })
}

/// Elements in a row.
pub(crate) fn join<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    for element in elements {
        joined.extend(u32::try_from(element.len()).ok()?.to_le_bytes());
        joined.extend(element);
    }
    Some(joined)
}

/// What a missing element reads as.
pub(crate) fn fill(array: &Array) -> Vec<u8> {
    match &array.fill_value {
        Some(FillValue::Text(text)) => text.clone().into_bytes(),
        Some(FillValue::Variable(bytes) | FillValue::Fixed(bytes)) => bytes.to_vec(),
        None => Vec::new(),
    }
}

/// Numbers that stand for elements while these are laid out, 8 bytes each.
#[derive(Default)]
pub(crate) struct Table<'a>(Vec<&'a [u8]>);

impl<'a> Table<'a> {
    /// The numbers of elements.
    pub(crate) fn numbers(&mut self, bytes: &'a [u8]) -> Bytes {
        let first = self.0.len();
        self.0.extend(split(bytes));
        (first..self.0.len()).flat_map(|number| (number as u64).to_le_bytes()).collect()
    }

    /// The elements of numbers.
    pub(crate) fn elements(&self, numbers: &[u8]) -> Option<Vec<&'a [u8]>> {
        let element =
            |number: &[u8; 8]| self.0.get(usize::try_from(u64::from_le_bytes(*number)).ok()?).copied();
        numbers.as_chunks::<8>().0.iter().map(element).collect()
    }
}

/// A chunk of elements, and the codec that it is in.
pub(crate) fn encoded<'a>(
    elements: impl ExactSizeIterator<Item = &'a [u8]>,
    data_type: &DataType,
) -> Option<(Bytes, Codec)> {
    let codec = if *data_type == DataType::String { Codec::VlenUtf8 } else { Codec::VlenBytes };
    let mut chunk = u32::try_from(elements.len()).ok()?.to_le_bytes().to_vec();
    chunk.extend(join(elements)?);
    Some((chunk.into(), codec))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_from_numbers() {
        let bytes = join([b"a".as_slice(), b"", "ä€".as_bytes()]).unwrap();
        let before = join([b"before".as_slice()]).unwrap();
        let mut table = Table::default();
        table.numbers(&before);
        let numbers = table.numbers(&bytes);
        assert_eq!(table.elements(&numbers).unwrap(), split(&bytes).collect::<Vec<_>>());
        assert_eq!(split(bytes.get(..6).unwrap()).count(), 1, "what is broken off has no elements");
    }
}
