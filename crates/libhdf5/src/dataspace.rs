//! Reads dataspaces, selections of them, and the mappings of virtual datasets.

use hdf5_metno_sys::{
    h5i::hid_t,
    h5p,
    h5s::{self, H5S_class_t, H5S_sel_type},
};
use virtualize_hdf5::model::{Dataspace, Selection, Slab, VirtualMapping};

use crate::call::{At, Handle, Result, UNDEFINED};

/// Reads a dataspace. The library always reports a maximum extent.
pub(crate) fn read(at: At, space: &Handle) -> Result<Dataspace> {
    let at = at.structure("dataspace message");
    // SAFETY: the handle is open.
    match unsafe { h5s::H5Sget_simple_extent_type(space.id()) } {
        H5S_class_t::H5S_NULL => Ok(Dataspace::Null),
        H5S_class_t::H5S_SCALAR => Ok(Dataspace::Scalar),
        H5S_class_t::H5S_SIMPLE => {
            let rank = rank(at, space.id())?;
            let (mut shape, mut max) = (vec![0; rank], vec![0; rank]);
            let (sizes, limits) = (shape.as_mut_ptr(), max.as_mut_ptr());
            // SAFETY: both arrays have as many items as the dataspace has dimensions.
            at.done(unsafe { h5s::H5Sget_simple_extent_dims(space.id(), sizes, limits) })?;
            Ok(Dataspace::Simple { shape, max_shape: Some(max.into_iter().map(limit).collect()) })
        }
        _ => Err(at.failed()),
    }
}

/// Returns a size; `None` if it is unlimited.
fn limit(size: u64) -> Option<u64> {
    (size != UNDEFINED).then_some(size)
}

/// Returns the rank of a dataspace.
fn rank(at: At, space: hid_t) -> Result<usize> {
    // SAFETY: the library checks the identifier.
    at.number(unsafe { h5s::H5Sget_simple_extent_ndims(space) })
}

/// Limit on the number of blocks or points in an irregular selection.
const MAX_PARTS: usize = 1 << 24;

/// Reads the mappings of a virtual dataset.
pub(crate) fn mappings(at: At, properties: &Handle) -> Result<Vec<VirtualMapping>> {
    let id = properties.id();
    let mut count = 0;
    // SAFETY: the handle is open, and the number outlives the call.
    at.done(unsafe { h5p::H5Pget_virtual_count(id, &raw mut count) })?;
    let mapping = |index| {
        // SAFETY: the library checks the index; the results are new identifiers.
        let spaces =
            unsafe { (h5p::H5Pget_virtual_srcspace(id, index), h5p::H5Pget_virtual_vspace(id, index)) };
        let (source, destination) = (at.handle(spaces.0), at.handle(spaces.1));
        Ok(VirtualMapping {
            // SAFETY: the size that is passed is that of the buffer.
            file: at.text(|text, size| unsafe { h5p::H5Pget_virtual_filename(id, index, text, size) })?,
            // SAFETY: as above.
            dataset: at.text(|text, size| unsafe { h5p::H5Pget_virtual_dsetname(id, index, text, size) })?,
            source: selection(at, source?.id())?,
            destination: selection(at, destination?.id())?,
        })
    };
    (0..count).map(mapping).collect()
}

fn selection(at: At, space: hid_t) -> Result<Selection> {
    // SAFETY: the identifier is open.
    match unsafe { h5s::H5Sget_select_type(space) } {
        H5S_sel_type::H5S_SEL_NONE => Ok(Selection::None),
        H5S_sel_type::H5S_SEL_ALL => Ok(Selection::All),
        H5S_sel_type::H5S_SEL_POINTS => points(at, space),
        H5S_sel_type::H5S_SEL_HYPERSLABS => {
            // SAFETY: the identifier is open.
            match at.truth(unsafe { h5s::H5Sis_regular_hyperslab(space) })? {
                true => regular(at, space),
                false => blocks(at, space),
            }
        }
        _ => Err(at.failed()),
    }
}

fn regular(at: At, space: hid_t) -> Result<Selection> {
    let rank = rank(at, space)?;
    let column = || vec![0_u64; rank];
    let [mut start, mut stride, mut count, mut block] = [column(), column(), column(), column()];
    // SAFETY: the four arrays have as many items as the dataspace has dimensions.
    at.done(unsafe {
        h5s::H5Sget_regular_hyperslab(
            space,
            start.as_mut_ptr(),
            stride.as_mut_ptr(),
            count.as_mut_ptr(),
            block.as_mut_ptr(),
        )
    })?;
    let axes = start.into_iter().zip(stride).zip(count.into_iter().zip(block));
    let slab =
        |((start, stride), (count, block))| Slab { start, stride, count: limit(count), block: limit(block) };
    Ok(Selection::Regular(axes.map(slab).collect()))
}

fn blocks(at: At, space: hid_t) -> Result<Selection> {
    let rank = rank(at, space)?;
    // SAFETY: the identifier is open.
    let count = at.number(unsafe { h5s::H5Sget_select_hyper_nblocks(space) })?;
    let mut corners = room(at, count, rank.saturating_mul(2))?;
    // SAFETY: the array has two items for each block and dimension.
    at.done(unsafe { h5s::H5Sget_select_hyper_blocklist(space, 0, count as u64, corners.as_mut_ptr()) })?;
    let block = |corners: &[u64]| {
        let (first, last) = corners.split_at_checked(rank).unwrap_or_default();
        (first.to_vec(), last.to_vec())
    };
    Ok(Selection::Blocks(corners.chunks_exact(rank.saturating_mul(2).max(1)).map(block).collect()))
}

fn points(at: At, space: hid_t) -> Result<Selection> {
    let rank = rank(at, space)?;
    // SAFETY: the identifier is open.
    let count = at.number(unsafe { h5s::H5Sget_select_elem_npoints(space) })?;
    let mut points = room(at, count, rank)?;
    // SAFETY: the array has an item for each point and dimension.
    at.done(unsafe { h5s::H5Sget_select_elem_pointlist(space, 0, count as u64, points.as_mut_ptr()) })?;
    Ok(Selection::Points(points.chunks_exact(rank.max(1)).map(<[u64]>::to_vec).collect()))
}

fn room(at: At, count: usize, width: usize) -> Result<Vec<u64>> {
    match count.checked_mul(width) {
        Some(size) if size <= MAX_PARTS => Ok(vec![0; size]),
        _ => Err(at.malformed(format!("selection of {count} parts"))),
    }
}
