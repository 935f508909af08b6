//! Reads attributes and their values.

use std::os::raw::c_uint;

use hdf5_metno_sys::{
    h5::{H5_index_t, H5_iter_order_t},
    h5a, h5o, h5p, h5t,
};
use virtualize_hdf5::{Error, model::Attribute};

use crate::{
    call::{At, Handle, Result},
    dataspace,
    datatype::{self, Type},
    format::Format,
};

/// Limit on the size of an attribute's value in memory, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the attributes of an open object, and the errors of those that could not be read.
pub(crate) fn read_all(
    at: At,
    object: &Handle,
    properties: &Handle,
    format: Format,
) -> (Vec<Attribute>, Vec<Error>) {
    let at = at.structure("attribute message");
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    let listed = count(at, object).and_then(|count| Ok((count, order(at, properties)?)));
    match listed {
        Err(error) => unreadable.push(error),
        Ok((count, order)) => {
            for index in 0..count {
                match open(at, object, order, index).and_then(|handle| read_one(at, &handle, format)) {
                    Ok(attribute) => read.push(attribute),
                    Err(error) => unreadable.push(error),
                }
            }
        }
    }
    (read, unreadable)
}

fn count(at: At, object: &Handle) -> Result<u64> {
    // SAFETY: the structure is plain data of the library, for which zeros are valid.
    let mut info: h5o::H5O_info2_t = unsafe { std::mem::zeroed() };
    // SAFETY: the handle is open, and the structure outlives the call.
    at.done(unsafe { h5o::H5Oget_info3(object.id(), &raw mut info, h5o::H5O_INFO_NUM_ATTRS) })?;
    Ok(info.num_attrs)
}

/// Returns creation order if the object tracks it, else storage order.
fn order(at: At, properties: &Handle) -> Result<(H5_index_t, H5_iter_order_t)> {
    const TRACKED: c_uint = 1;
    let mut flags: c_uint = 0;
    // SAFETY: the handle is open, and the flags outlive the call.
    at.done(unsafe { h5p::H5Pget_attr_creation_order(properties.id(), &raw mut flags) })?;
    Ok(match flags & TRACKED {
        0 => (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_NATIVE),
        _ => (H5_index_t::H5_INDEX_CRT_ORDER, H5_iter_order_t::H5_ITER_INC),
    })
}

fn open(at: At, object: &Handle, order: (H5_index_t, H5_iter_order_t), index: u64) -> Result<Handle> {
    // SAFETY: the handle is open, and the path ends with a NUL.
    at.handle(unsafe { h5a::H5Aopen_by_idx(object.id(), c".".as_ptr(), order.0, order.1, index, 0, 0) })
}

fn read_one(at: At, attribute: &Handle, format: Format) -> Result<Attribute> {
    // SAFETY: the size that is passed is that of the buffer.
    let name = at.text(|text, size| unsafe { h5a::H5Aget_name(attribute.id(), size, text) })?;
    // SAFETY: the handle is open.
    let (datatype, space) = unsafe {
        (at.handle(h5a::H5Aget_type(attribute.id())), at.handle(h5a::H5Aget_space(attribute.id())))
    };
    let (id, space) = (datatype?, space?);
    let datatype = datatype::read(at, &id, format.offset_size)?;
    let dataspace = dataspace::read(at, &space)?;
    let mut value = buffer(at, &datatype, dataspace::elements(&dataspace))?;
    let mut elements = Vec::new();
    if !value.is_empty() {
        // SAFETY: the buffer has room for all elements of this type.
        at.done(unsafe { h5a::H5Aread(attribute.id(), id.id(), value.as_mut_ptr().cast()) })?;
        // SAFETY: the library has just written these elements.
        elements = unsafe { datatype.memory.decode_all(datatype.size, &value, format.base) };
        if datatype.memory.owns() {
            // SAFETY: the elements were written by the library with this type and dataspace, and are not used again.
            unsafe { h5t::H5Treclaim(id.id(), space.id(), 0, value.as_mut_ptr().cast()) };
        }
    }
    Ok(Attribute { name, datatype: datatype.file, dataspace, elements })
}

fn buffer(at: At, datatype: &Type, elements: u64) -> Result<Vec<u8>> {
    let bytes = (datatype.size as u64).saturating_mul(elements);
    match usize::try_from(bytes) {
        Ok(size) if bytes <= MAX_BYTES => Ok(vec![0; size]),
        _ => Err(at.malformed(format!("value of {bytes} bytes, expected at most {MAX_BYTES}"))),
    }
}
