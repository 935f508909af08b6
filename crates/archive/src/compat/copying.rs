//! Which arrays are copied into the references instead of being referred to.

use virtualize::zarr::{Array, ChunkGrid, Codec};

use super::role::{DimRole, is_coordinate};
use crate::{
    Layout,
    values::variable::{is_variable, value_bytes},
};

/// Maximum size of the values, in bytes, that are kept of an array in all files, in case it has to be copied.
pub(crate) const MAX_KEPT: u64 = 256 << 20;

/// Arrays of single elements along the axes that grow are read up to this size of an element, in bytes.
const TINY: u64 = 1 << 10;

/// Returns whether an array's values are always copied into the references; `is_time` if it holds times, or their bounds.
pub(crate) fn is_copied(path: &str, array: &Array, roles: &[DimRole], is_time: bool) -> bool {
    let grows = roles.iter().any(|role| matches!(role, DimRole::Axis(_)));
    roles.iter().any(|role| matches!(role, DimRole::Broadcast | DimRole::Coordinate))
        || (grows && (is_time || is_coordinate(path, array)) && value_bytes(array).is_some())
}

/// Returns whether an array is read so that it can be copied if its chunks do not fit those of other files: an array of
/// up to [`Layout::inline_limit`] bytes in a file, unless its chunks are single elements along all axes that grow (which
/// always fit) and these elements are not tiny. Files of one group agree on the answer, but for their lengths.
pub(crate) fn may_be_copied(array: &Array, roles: &[DimRole], layout: &Layout) -> bool {
    let grows = |axis: &usize| roles.contains(&DimRole::Axis(*axis));
    if !(0..array.shape.len()).any(|axis| grows(&axis)) {
        return false;
    }
    let is_single = match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => chunk.iter().enumerate().all(|(axis, n)| *n == 1 || !grows(&axis)),
        ChunkGrid::Rectilinear(_) => false,
    };
    let others = array.shape.iter().enumerate().filter(|(axis, _)| !grows(axis)).map(|(_, n)| *n);
    let is_tiny = || {
        let step = |size| others.clone().try_fold(size, |all: u64, n| all.checked_mul(n));
        is_variable(&array.data_type)
            || array.data_type.size().and_then(step).is_some_and(|step| step <= TINY)
    };
    value_bytes(array).is_some_and(|size| size <= layout.inline_limit) && (!is_single || is_tiny())
}

/// Returns whether chunks hold plain elements of a fixed size.
pub(crate) fn is_plain(array: &Array) -> bool {
    matches!(array.codecs.as_slice(), [Codec::Bytes { .. }]) && array.data_type.size().is_some()
}
