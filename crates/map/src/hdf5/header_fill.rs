//! What unallocated elements of a dataset read as, by its fill value message (HDF5 file format specification, IV.A.2.e and
//! IV.A.2.f).

use virtualize_hdf5::model::{Dataset, FillMessage, FillTime, FillValue as Stored, Layout};
use virtualize_zarr::{FillValue, in_byte_order};

use super::element::ElementType;
use crate::{ElementTransform, Error, Result};

/// The fill value of a dataset as one element of the array.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DatasetFill {
    /// The value of the message; the type's zero if there is a `problem`.
    pub(super) header: FillValue,
    /// What unallocated elements read as: `header`, or zero where the library never writes it.
    pub(super) unallocated: FillValue,
    /// Why the value of the message is no scalar of the array's type.
    pub(super) problem: Option<&'static str>,
}

impl DatasetFill {
    /// Decodes the fill value message of a dataset.
    ///
    /// # Errors
    /// The value does not have the size of an element, or cannot be converted to the array's type.
    pub(super) fn of(dataset: &Dataset, element: &ElementType) -> Result<Self> {
        let zero = FillValue::zero(&element.data_type);
        let (header, problem) = match decode(&dataset.fill, element)? {
            Ok(scalar) => (scalar, None),
            Err(problem) => (zero.clone(), Some(problem)),
        };
        // Virtual datasets read as their fill value whatever its write time is.
        let is_never_written = dataset.fill.write_time == FillTime::Never;
        let unallocated = match &dataset.layout {
            Layout::Virtual(_) => header.clone(),
            _ if is_never_written => zero,
            _ => header.clone(),
        };
        Ok(Self { header, unallocated, problem })
    }

    /// Returns what unallocated elements read as, if a scalar of the array's type equals it.
    pub(super) fn background(&self) -> Option<&FillValue> {
        self.problem.is_none().then_some(&self.unallocated)
    }
}

/// Decodes a message; the inner error is the reason that no scalar equals its value. Undefined values, and the library's
/// default, are the type's zero.
fn decode(message: &FillMessage, element: &ElementType) -> Result<Result<FillValue, &'static str>> {
    let Stored::User(stored) = &message.value else { return Ok(Ok(FillValue::zero(&element.data_type))) };
    let items = element.axes.iter().try_fold(1u64, |n, axis| n.checked_mul(*axis));
    let expected = items.and_then(|n| n.checked_mul(element.stored_size));
    if expected != Some(stored.len() as u64) {
        let (found, expected) = (stored.len(), expected.unwrap_or(u64::MAX));
        return Err(malformed(format!("{found} bytes, an element has {expected}")));
    }
    let Some(size) = element.data_type.size().and_then(|size| usize::try_from(size).ok()) else {
        // A pointer into the global heap starts with the length of the text that it points at.
        let is_empty = stored.len() == 16 && stored.iter().take(4).all(|byte| *byte == 0);
        return Ok(match is_empty || stored.iter().all(|byte| *byte == 0) {
            true => Ok(FillValue::zero(&element.data_type)),
            false => Err("its fill value is text in the global heap"),
        });
    };
    let inconvertible = || malformed("a value that cannot be converted".to_owned());
    let converted = match (element.transform.apply(stored, size), &element.transform) {
        (Some(converted), _) => converted,
        (None, ElementTransform::Float { .. }) => return Ok(Err("no 64-bit float equals its fill value")),
        (None, _) => return Err(inconvertible()),
    };
    let mut items = converted.chunks_exact(size.max(1));
    let first = items.next().unwrap_or_default();
    if items.any(|item| item != first) {
        return Ok(Err("its fill value differs within the array type"));
    }
    let little = in_byte_order(first, &element.data_type, element.endian).ok_or_else(inconvertible)?;
    Ok(Ok(FillValue::Fixed(little.into())))
}

fn malformed(problem: String) -> Error {
    Error::malformed("fill value message", problem)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use virtualize_zarr::{DataType, Endian};

    use super::*;
    use crate::hdf5::tests::{dataset, int};

    fn fill(value: &[u8]) -> FillMessage {
        let value = Stored::User(Bytes::copy_from_slice(value));
        FillMessage { version: Some(3), write_time: FillTime::Never, allocation_time: 2, value }
    }

    /// File format specification, IV.A.2.d: a sequence of length 0 has no object in the global heap.
    #[test]
    fn text_in_the_global_heap_is_no_scalar_unless_it_is_empty() {
        let element = ElementType::plain(DataType::String, Endian::Little, 16);
        let found = |length: u8, address: u8| {
            let stored: Vec<u8> = [[length; 4], [address; 4], [0; 4], [0; 4]].concat();
            decode(&fill(&stored), &element).unwrap().is_ok()
        };
        assert_eq!([found(0, 0), found(0, 9), found(3, 9), found(3, 0)], [true, true, false, false]);
        assert!(decode(&fill(&[1; 16]), &element).unwrap().is_err());
    }

    #[test]
    fn items_of_an_array_type_are_equal_or_no_scalar() {
        let element = ElementType { axes: vec![2], ..ElementType::plain(DataType::UInt8, Endian::Little, 1) };
        let found = |stored: &[u8]| decode(&fill(stored), &element).unwrap();
        assert_eq!(found(&[7, 7]), Ok(FillValue::Fixed(Bytes::from_static(&[7]))));
        assert!(found(&[7, 8]).is_err());
    }

    /// h5py 3.16 on virtual datasets: the fill value, whatever its write time is.
    #[test]
    fn only_virtual_datasets_read_as_a_fill_value_that_is_never_written() {
        let element = ElementType::plain(DataType::UInt8, Endian::Little, 1);
        let unallocated = |layout: Layout| {
            let dataset = Dataset { fill: fill(&[7]), layout, ..dataset(int(1, false), &[2]) };
            DatasetFill::of(&dataset, &element).unwrap().unallocated
        };
        assert_eq!(unallocated(Layout::Virtual(Vec::new())), FillValue::Fixed(Bytes::from_static(&[7])));
        assert_eq!(unallocated(Layout::Contiguous(None)), FillValue::Fixed(Bytes::from_static(&[0])));
    }
}
