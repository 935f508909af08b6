//! Assembly of arrays from their chunks.

use bytes::Bytes;
use virtualize_zarr::{Array, DataType, Endian, FillValue, in_byte_order};

use super::grid::Grid;
use super::variable::Variable;
use crate::array_error::ArrayError;
use crate::decode;

/// A position, and the stored bytes of its chunk.
type Chunk<'a> = (u64, &'a Bytes);

/// Returns all elements of an array of fixed-size elements, little-endian.
pub(super) fn fixed_values<'a>(
    array: &Array,
    grid: &Grid,
    most: u64,
    chunks: impl Iterator<Item = Chunk<'a>>,
) -> Result<Vec<u8>, ArrayError> {
    let mut whole = grid.filled(&background(array)?)?;
    for (position, bytes) in chunks {
        let wrong = |error: ArrayError| grid.wrong(position, error);
        let shape = grid.chunk(array, position, most)?;
        let elements = decode::elements(array, &shape, bytes).map_err(|error| wrong(error.into()))?;
        let little_endian = match array.endian() {
            Endian::Little if !matches!(array.data_type, DataType::Struct(_)) => elements,
            endian => in_byte_order(&elements, &array.data_type, endian)
                .ok_or_else(|| wrong(ArrayError::ByteOrder))?,
        };
        grid.place(&mut whole, position, &shape, &little_endian)?;
    }
    Ok(whole)
}

/// Returns all elements of an array of variable-size elements, each preceded by its length.
pub(super) fn variable_values<'a>(
    array: &Array,
    grid: &Grid,
    most: u64,
    chunks: impl Iterator<Item = Chunk<'a>>,
) -> Result<Vec<u8>, ArrayError> {
    let mut elements = Variable::new(array.fill_value.as_ref(), most);
    let mut whole = grid.filled(&0_u64.to_le_bytes())?;
    for (position, bytes) in chunks {
        let wrong = |error: ArrayError| grid.wrong(position, error);
        let shape = grid.chunk(array, position, most)?;
        let numbers = elements.chunk(array, &shape, bytes).map_err(wrong)?;
        grid.place(&mut whole, position, &shape, &numbers)?;
    }
    elements.joined(&whole)
}

/// Returns the little-endian bytes of a missing element.
fn background(array: &Array) -> Result<Vec<u8>, ArrayError> {
    let zero = || FillValue::zero(&array.data_type);
    match array.fill_value.clone().unwrap_or_else(zero) {
        FillValue::Fixed(bytes) if array.data_type.size() == Some(bytes.len() as u64) => Ok(bytes.to_vec()),
        _ => Err(ArrayError::FillValue),
    }
}
