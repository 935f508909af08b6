//! The fill value message as a scalar of the array's type.

use virtualize_hdf5::model::{FillMessage, FillValue as Stored};
use virtualize_zarr::{FillValue, in_byte_order};

use super::types::ElementType;
use crate::{Error, Result};

/// What unallocated elements read as.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum HeaderFill {
    /// This scalar.
    Scalar(FillValue),
    /// The message cannot be said as one scalar of the array's type; why.
    Inexpressible(&'static str),
}

/// Decodes the message. *Undefined* and *library default* are the type's zero.
///
/// # Errors
/// A message whose size is not that of an element.
pub(super) fn header_fill(message: &FillMessage, element: &ElementType) -> Result<HeaderFill> {
    let Stored::User(stored) = &message.value else {
        return Ok(HeaderFill::Scalar(FillValue::zero(&element.data_type)));
    };
    let items = element.axes.iter().try_fold(1u64, |n, axis| n.checked_mul(*axis));
    let expected = items.and_then(|n| n.checked_mul(element.stored_size));
    if expected != Some(stored.len() as u64) {
        let (found, expected) = (stored.len(), expected.unwrap_or(u64::MAX));
        return Err(malformed(format!("{found} bytes, an element has {expected}")));
    }
    let Some(size) = element.data_type.size().and_then(|size| usize::try_from(size).ok()) else {
        // A pointer into the global heap starts with the length of what it points at.
        let is_empty = stored.len() == 16 && stored.iter().take(4).all(|byte| *byte == 0);
        return Ok(match is_empty || stored.iter().all(|byte| *byte == 0) {
            true => HeaderFill::Scalar(FillValue::zero(&element.data_type)),
            false => HeaderFill::Inexpressible("its fill value is text in the global heap"),
        });
    };
    let made = element
        .transform
        .apply(stored, size)
        .ok_or_else(|| malformed("its value cannot be converted".to_owned()))?;
    let mut items = made.chunks_exact(size.max(1));
    let first = items.next().unwrap_or_default();
    if items.any(|item| item != first) {
        return Ok(HeaderFill::Inexpressible("its fill value differs within the array type"));
    }
    let little = in_byte_order(first, &element.data_type, element.endian);
    Ok(HeaderFill::Scalar(FillValue::Fixed(little.unwrap_or_default().into())))
}

fn malformed(problem: String) -> Error {
    Error::malformed("fill value message", problem)
}

/// Whether a scalar is the type's zero, to the bit.
pub(super) fn is_zero(value: &FillValue) -> bool {
    match value {
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => bytes.iter().all(|byte| *byte == 0),
        FillValue::Text(text) => text.is_empty(),
    }
}
