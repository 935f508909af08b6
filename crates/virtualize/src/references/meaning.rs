//! What arrays mean, however they are spelled: the order of their axes, and what missing chunks read as.

use std::borrow::Cow;

use virtualize_zarr::{Array, ChunkGrid, DataType, FillValue, readers::in_stored_order};

use super::diff::pairs;
use crate::{decode, variable};

/// Largest chunk that is decoded, in bytes, stored or decoded.
pub(super) const LARGEST: u64 = 1 << 30;

/// Two arrays with their axes in the same order.
pub(super) struct Aligned<'a> {
    pub(super) first: Cow<'a, Array>,
    pub(super) second: Cow<'a, Array>,
    /// Whether they have them in different orders.
    pub(super) is_moved: bool,
}

/// Aligns two arrays: where the names of their axes say that one has the axes of the other in another order (which Zarr v3
/// says by `transpose`), each is taken with its axes as they are stored.
pub(super) fn aligned<'a>(first: &'a Array, second: &'a Array) -> Aligned<'a> {
    let as_they_are =
        || Aligned { first: Cow::Borrowed(first), second: Cow::Borrowed(second), is_moved: false };
    let (one, other) = (&first.dimension_names, &second.dimension_names);
    if one == other || !are_the_same_axes(one, other) {
        return as_they_are();
    }
    let stored = |array: &'a Array| in_stored_order(array).map_or(Cow::Borrowed(array), Cow::Owned);
    let (first, second) = (stored(first), stored(second));
    match first.dimension_names == second.dimension_names {
        true => Aligned { first, second, is_moved: true },
        false => as_they_are(),
    }
}

/// Whether all axes have names, each another one, and the names are the same.
fn are_the_same_axes(one: &[Option<String>], other: &[Option<String>]) -> bool {
    let sorted = |names: &[Option<String>]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    let one = sorted(one);
    let is_unique = one.windows(2).all(|pair| pair.first() != pair.last());
    is_unique && one.iter().all(Option::is_some) && one == sorted(other)
}

/// What missing chunks of an array read as.
pub(super) fn missing_reads(array: &Array) -> FillValue {
    array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type))
}

/// Whether a position has a chunk in neither of two arrays of the same grid.
pub(super) fn both_lack_a_chunk(first: &Array, second: &Array) -> bool {
    let all = first.chunk_grid.counts(&first.shape).iter().fold(1_u64, |all, n| all.saturating_mul(*n));
    first.chunks.len().max(second.chunks.len()) < all && (pairs(first, second).count() as u64) < all
}

/// Whether an encoded chunk of an array is full of a value, as far as it lies within the array.
pub(super) fn is_full_of(array: &Array, position: u64, bytes: &[u8], value: &FillValue) -> bool {
    let Some(shape) = chunk_shape(array, position) else { return false };
    let decoded = match &array.data_type {
        DataType::String | DataType::VariableBytes => variable::values(array, bytes, &shape, LARGEST).ok(),
        _ => decode::elements(array, &shape, bytes).ok(),
    };
    let Some(decoded) = decoded.and_then(|values| decode::in_order(array, &shape, values).ok()) else {
        return false;
    };
    let wanted = match value {
        FillValue::Text(text) => text.as_bytes().to_vec(),
        FillValue::Variable(bytes) => bytes.to_vec(),
        FillValue::Fixed(_) => value.to_stored(&array.data_type, array.endian()).unwrap_or_default(),
    };
    let is_within = |at: &usize| is_within(array, position, &shape, *at);
    match array.data_type.size() {
        None => variable::elements(&decoded).enumerate().all(|(at, one)| one == wanted || !is_within(&at)),
        Some(_) if wanted.is_empty() => false,
        Some(_) => decoded.chunks(wanted.len()).enumerate().all(|(at, one)| one == wanted || !is_within(&at)),
    }
}

/// Whether an element of a chunk, by its row-major place, lies within the array.
fn is_within(array: &Array, position: u64, shape: &[u64], at: usize) -> bool {
    let ChunkGrid::Regular(_) = &array.chunk_grid else { return true };
    let chunk = virtualize_zarr::chunk_indices(position, &array.chunk_grid.counts(&array.shape));
    let element = virtualize_zarr::chunk_indices(at as u64, shape);
    let (Some(chunk), Some(element)) = (chunk, element) else { return true };
    let places = chunk.iter().zip(shape).zip(element);
    let mut places = places.map(|((chunk, size), at)| chunk.saturating_mul(*size).saturating_add(at));
    array.shape.iter().all(|size| places.next().is_none_or(|at| at < *size))
}

/// Shape of a chunk that is not too large.
pub(super) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    let size = array.data_type.size().unwrap_or(1);
    let shape = decode::chunk_shape(array, position)?;
    decode::count(&shape)?.checked_mul(size).filter(|bytes| *bytes <= LARGEST)?;
    Some(shape)
}
