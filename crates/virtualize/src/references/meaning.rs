//! Semantics of arrays independent of their encoding: the order of axes, and the value of missing chunks.

use std::{borrow::Cow, collections::BTreeSet};

use virtualize_zarr::{Array, ChunkGrid, Codec, DataType, FillValue, readers::in_stored_order};

use super::pairs::pairs;
use crate::{decode, variable};

/// Size limit of a chunk to decode in bytes, both stored and decoded.
pub(super) const LARGEST: u64 = 1 << 30;

/// Two arrays with their axes in the same order.
pub(super) struct Aligned<'a> {
    pub(super) first: Cow<'a, Array>,
    pub(super) second: Cow<'a, Array>,
    /// Whether their orders differ.
    pub(super) is_moved: bool,
}

/// Aligns two arrays. If one has the axes of the other in another order, judged by their names (Zarr v3 expresses this by
/// `transpose`), both are returned with their axes as stored.
pub(super) fn aligned<'a>(first: &'a Array, second: &'a Array) -> Aligned<'a> {
    let is_moved = first.shape.len() == second.shape.len()
        && are_stored_alike(first, second)
        && stored_names(first) == stored_names(second);
    let stored = |array: &'a Array| match is_moved {
        true => in_stored_order(array).map_or(Cow::Borrowed(array), Cow::Owned),
        false => Cow::Borrowed(array),
    };
    Aligned { first: stored(first), second: stored(second), is_moved }
}

/// Returns whether two arrays have their common axes in different orders, but store them in the same order.
pub(super) fn are_stored_alike(first: &Array, second: &Array) -> bool {
    let (one, other) = (&first.dimension_names, &second.dimension_names);
    let common = |name: &&Option<String>| name.is_some() && one.contains(name) && other.contains(name);
    let in_order =
        |names: &[Option<String>]| -> Vec<Option<String>> { names.iter().filter(common).cloned().collect() };
    let is_unique = |names: Vec<Option<String>>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    in_order(one) != in_order(other)
        && is_unique(in_order(one))
        && is_unique(in_order(other))
        && in_order(&stored_names(first)) == in_order(&stored_names(second))
}

/// Returns the names of the axes in stored order.
fn stored_names(array: &Array) -> Vec<Option<String>> {
    match array.codecs.first() {
        Some(Codec::Transpose { order }) => {
            order.iter().map(|axis| array.dimension_names.get(*axis).cloned().flatten()).collect()
        }
        _ => array.dimension_names.clone(),
    }
}

/// Returns the value of the missing chunks of an array.
pub(super) fn missing_reads(array: &Array) -> FillValue {
    array.fill_value.clone().unwrap_or_else(|| FillValue::zero(&array.data_type))
}

/// Returns whether some position has a chunk in neither of two arrays of the same grid.
pub(super) fn both_lack_a_chunk(first: &Array, second: &Array) -> bool {
    let all = first.chunk_grid.counts(&first.shape).iter().fold(1_u64, |all, n| all.saturating_mul(*n));
    first.chunks.len().max(second.chunks.len()) < all && (pairs(first, second).count() as u64) < all
}

/// Returns whether all elements of an encoded chunk that are inside the array equal a value.
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

/// Returns whether an element of a chunk, by its row-major index, is inside the array.
fn is_within(array: &Array, position: u64, shape: &[u64], at: usize) -> bool {
    let ChunkGrid::Regular(_) = &array.chunk_grid else { return true };
    let chunk = virtualize_zarr::chunk_indices(position, &array.chunk_grid.counts(&array.shape));
    let element = virtualize_zarr::chunk_indices(at as u64, shape);
    let (Some(chunk), Some(element)) = (chunk, element) else { return true };
    let places = chunk.iter().zip(shape).zip(element);
    let mut places = places.map(|((chunk, size), at)| chunk.saturating_mul(*size).saturating_add(at));
    array.shape.iter().all(|size| places.next().is_none_or(|at| at < *size))
}

/// Returns the shape of a chunk; `None` if it is too large to be decoded.
pub(super) fn chunk_shape(array: &Array, position: u64) -> Option<Vec<u64>> {
    let size = array.data_type.size().unwrap_or(1);
    let shape = decode::chunk_shape(array, position)?;
    decode::count(&shape)?.checked_mul(size).filter(|bytes| *bytes <= LARGEST)?;
    Some(shape)
}
