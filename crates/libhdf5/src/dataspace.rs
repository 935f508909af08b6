//! Reads dataspaces.

use hdf5_metno_sys::{
    h5i::hid_t,
    h5s::{self, H5S_class_t},
};
use virtualize_hdf5::model::Dataspace;

use crate::call::{At, Handle, Result, UNDEFINED};

/// Reads a dataspace. The library always reports a maximum extent.
pub(crate) fn read(at: At, space: &Handle) -> Result<Dataspace> {
    let at = at.structure("dataspace message");
    // SAFETY: the handle is open.
    match unsafe { h5s::H5Sget_simple_extent_type(space.id()) } {
        H5S_class_t::H5S_NULL => Ok(Dataspace::Null),
        H5S_class_t::H5S_SCALAR => Ok(Dataspace::Scalar),
        H5S_class_t::H5S_SIMPLE => simple(at, space.id()),
        _ => Err(at.failed()),
    }
}

fn simple(at: At, space: hid_t) -> Result<Dataspace> {
    let rank = rank(at, space)?;
    let (mut shape, mut max) = (vec![0; rank], vec![0; rank]);
    // SAFETY: both arrays have as many items as the dataspace has dimensions.
    at.done(unsafe { h5s::H5Sget_simple_extent_dims(space, shape.as_mut_ptr(), max.as_mut_ptr()) })?;
    let limit = |&size: &u64| (size != UNDEFINED).then_some(size);
    Ok(Dataspace::Simple { shape, max_shape: Some(max.iter().map(limit).collect()) })
}

/// Returns the rank of a dataspace.
pub(crate) fn rank(at: At, space: hid_t) -> Result<usize> {
    // SAFETY: the library checks the identifier.
    at.number(unsafe { h5s::H5Sget_simple_extent_ndims(space) })
}

/// Returns the number of elements of a dataspace.
pub(crate) fn elements(dataspace: &Dataspace) -> u64 {
    dataspace.shape().map_or(0, |shape| shape.iter().copied().fold(1, u64::saturating_mul))
}
