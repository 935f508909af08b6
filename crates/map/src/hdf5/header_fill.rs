//! The fill value message as a scalar of the array's type.

use virtualize_hdf5::model::{FillMessage, FillValue as Stored};
use virtualize_zarr::{DataType, Endian, FillValue};

use super::types::ElementType;

/// What unallocated elements read as.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum HeaderFill {
    /// This scalar.
    Scalar(FillValue),
    /// The message cannot be said as one scalar of the array's type; why.
    Inexpressible(String),
}

/// Decodes the message. *Undefined* and *library default* are the type's zero.
///
/// # Errors
/// A message whose size is not that of an element.
pub(super) fn header_fill(message: &FillMessage, element: &ElementType) -> Result<HeaderFill, String> {
    let Stored::User(stored) = &message.value else {
        return Ok(HeaderFill::Scalar(FillValue::zero(&element.data_type)));
    };
    let items = element.axes.iter().try_fold(1u64, |n, axis| n.checked_mul(*axis));
    let expected = items.and_then(|n| n.checked_mul(element.stored_size));
    if expected != Some(stored.len() as u64) {
        return Err(format!(
            "the fill value message holds {} bytes, an element has {}",
            stored.len(),
            expected.unwrap_or(u64::MAX)
        ));
    }
    let Some(size) = element.data_type.size().and_then(|size| usize::try_from(size).ok()) else {
        // A pointer into the global heap starts with the length of what it points at.
        let is_empty = stored.len() == 16 && stored.iter().take(4).all(|byte| *byte == 0);
        return Ok(match is_empty || stored.iter().all(|byte| *byte == 0) {
            true => HeaderFill::Scalar(FillValue::zero(&element.data_type)),
            false => HeaderFill::Inexpressible("its fill value is text in the global heap".to_owned()),
        });
    };
    let made = element.transform.apply(stored, size).ok_or("the fill value message cannot be converted")?;
    let mut items = made.chunks_exact(size.max(1));
    let first = items.next().unwrap_or_default();
    if items.any(|item| item != first) {
        return Ok(HeaderFill::Inexpressible("its fill value differs within the array type".to_owned()));
    }
    let little = turn(first, &element.data_type, element.endian);
    Ok(HeaderFill::Scalar(FillValue::Fixed(little.into())))
}

/// Whether a scalar is the type's zero, to the bit.
pub(super) fn is_zero(value: &FillValue) -> bool {
    match value {
        FillValue::Fixed(bytes) | FillValue::Variable(bytes) => bytes.iter().all(|byte| *byte == 0),
        FillValue::Text(text) => text.is_empty(),
    }
}

/// One element between the array's byte order and little-endian (the two directions are the same). The members of a
/// structure have their own order.
pub(super) fn turn(bytes: &[u8], data_type: &DataType, endian: Endian) -> Vec<u8> {
    if let DataType::Struct(fields) = data_type {
        let mut rest = bytes;
        let mut turned = Vec::with_capacity(bytes.len());
        for field in fields {
            let size = field.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0).min(rest.len());
            let (member, behind) = rest.split_at(size);
            turned.extend(turn(member, &field.data_type, field.endian));
            rest = behind;
        }
        return turned;
    }
    let number = usize::try_from(data_type.number_size()).unwrap_or(1).max(1);
    let mut turned = bytes.to_vec();
    if endian == Endian::Big {
        turned.chunks_exact_mut(number).for_each(<[u8]>::reverse);
    }
    turned
}
