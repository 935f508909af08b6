//! Reads datasets: fill values and filters here, the rest in other modules; and attributes with their values.

use std::os::raw::c_uint;

use bytes::Bytes;
use hdf5_metno_sys::{
    h5::{H5_index_t, H5_iter_order_t},
    h5a,
    h5d::{self, H5D_alloc_time_t, H5D_fill_time_t, H5D_fill_value_t},
    h5o, h5p, h5s, h5t,
};
use virtualize_hdf5::{
    Error,
    model::{Attribute, Dataset, Element, FillMessage, FillTime, FillValue, Filter},
};

use crate::{
    call::{At, Handle, Result},
    dataspace,
    datatype::{self, Type},
    layout::{self, Opened},
    tree::{Format, address_of},
};

/// Number of filter parameters to request.
const MAX_PARAMETERS: usize = 256;
/// Size of the buffer for a filter's name.
const MAX_NAME: usize = 1 << 10;

/// Reads an open dataset.
pub(crate) fn read(at: At, dataset: &Handle, format: Format) -> Result<Dataset> {
    // SAFETY: the handle is open; each result is a new identifier.
    let (type_id, space, properties) = unsafe {
        (
            at.handle(h5d::H5Dget_type(dataset.id())),
            at.handle(h5d::H5Dget_space(dataset.id())),
            at.handle(h5d::H5Dget_create_plist(dataset.id())),
        )
    };
    let (type_id, space, properties) = (type_id?, space?, properties?);
    let datatype = datatype::read(at, &type_id, format.offset_size)?;
    let dataspace = dataspace::read(at, &space)?;
    let fill = fill(at.structure("fill value message"), &properties, &type_id, &datatype)?;
    let filters = filters(at.structure("filter pipeline message"), &properties)?;
    let (attributes, unreadable_attributes) = attributes(at, dataset, &properties, format);
    let opened = Opened {
        dataset,
        properties: &properties,
        type_id: &type_id,
        datatype: &datatype,
        dataspace: &dataspace,
    };
    // SAFETY: the handle is open.
    let is_committed = at.truth(unsafe { h5t::H5Tcommitted(type_id.id()) })?;
    let committed_datatype = is_committed.then(|| address_of(at, &type_id, format)).transpose()?;
    Ok(Dataset {
        committed_datatype,
        layout: layout::read(at, &opened),
        datatype: datatype.file,
        dataspace,
        dimensions: None,
        fill,
        filters,
        attributes,
        unreadable_attributes,
    })
}

fn fill(at: At, properties: &Handle, type_id: &Handle, datatype: &Type) -> Result<FillMessage> {
    let mut state = H5D_fill_value_t::H5D_FILL_VALUE_ERROR;
    let mut write = H5D_fill_time_t::H5D_FILL_TIME_ERROR;
    let mut allocation = H5D_alloc_time_t::H5D_ALLOC_TIME_ERROR;
    // SAFETY: the handle is open, and the three places outlive the calls.
    let status = unsafe {
        [
            h5p::H5Pfill_value_defined(properties.id(), &raw mut state),
            h5p::H5Pget_fill_time(properties.id(), &raw mut write),
            h5p::H5Pget_alloc_time(properties.id(), &raw mut allocation),
        ]
    };
    status.into_iter().try_for_each(|status| at.done(status))?;
    let value = match state {
        H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED => FillValue::Undefined,
        H5D_fill_value_t::H5D_FILL_VALUE_DEFAULT => FillValue::Default,
        H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED => {
            FillValue::User(user_value(at, properties, type_id, datatype)?)
        }
        H5D_fill_value_t::H5D_FILL_VALUE_ERROR => return Err(at.failed()),
    };
    let write_time = match write {
        H5D_fill_time_t::H5D_FILL_TIME_ALLOC => FillTime::Allocation,
        H5D_fill_time_t::H5D_FILL_TIME_NEVER => FillTime::Never,
        _ => FillTime::IfSet,
    };
    let allocation_time = match allocation {
        H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY => 1,
        H5D_alloc_time_t::H5D_ALLOC_TIME_LATE => 2,
        H5D_alloc_time_t::H5D_ALLOC_TIME_INCR => 3,
        _ => 0,
    };
    Ok(FillMessage { version: None, write_time, allocation_time, value })
}

/// Returns the stored bytes of one element. If the library returns pointers instead: zeros for empty text or an empty
/// sequence, else no bytes.
fn user_value(at: At, properties: &Handle, type_id: &Handle, datatype: &Type) -> Result<Bytes> {
    let mut value = vec![0_u8; datatype.size];
    let pointer = value.as_mut_ptr().cast();
    // SAFETY: the buffer has room for one element of this type.
    at.done(unsafe { h5p::H5Pget_fill_value(properties.id(), type_id.id(), pointer) })?;
    if datatype.memory.is_flat() {
        return Ok(value.into());
    }
    // SAFETY: the library has just written this element.
    let element = unsafe { datatype.memory.decode(&value, 0) };
    if datatype.memory.owns() {
        // SAFETY: the result is a new identifier.
        let scalar = at.handle(unsafe { h5s::H5Screate(h5s::H5S_class_t::H5S_SCALAR) })?;
        // SAFETY: the element was written by the library with this type, and is not used again.
        unsafe { h5t::H5Treclaim(type_id.id(), scalar.id(), 0, value.as_mut_ptr().cast()) };
    }
    let empty = match element {
        Element::Text(text) => text.is_empty(),
        Element::List(items) => items.is_empty(),
        _ => false,
    };
    let size = usize::try_from(datatype.file.size()).unwrap_or(0);
    Ok(if empty { vec![0; size].into() } else { Bytes::new() })
}

fn filters(at: At, properties: &Handle) -> Result<Vec<Filter>> {
    // SAFETY: the handle is open.
    let count = at.number(unsafe { h5p::H5Pget_nfilters(properties.id()) })?;
    let count = u32::try_from(count).map_err(|_| at.malformed("too many filters"))?;
    (0..count).map(|index| filter(at, properties, index)).collect()
}

fn filter(at: At, properties: &Handle, index: u32) -> Result<Filter> {
    const OPTIONAL: c_uint = 1;
    let (mut flags, mut configuration): (c_uint, c_uint) = (0, 0);
    let mut parameters = vec![0_u32; MAX_PARAMETERS];
    let mut count = parameters.len();
    let mut name = vec![0_u8; MAX_NAME];
    // SAFETY: the sizes that are passed are those of both buffers; the numbers outlive the call.
    let id = unsafe {
        h5p::H5Pget_filter2(
            properties.id(),
            index,
            &raw mut flags,
            &raw mut count,
            parameters.as_mut_ptr(),
            name.len(),
            name.as_mut_ptr().cast(),
            &raw mut configuration,
        )
    };
    let id = u16::try_from(at.number(id)?).map_err(|_| at.malformed(format!("filter {id}")))?;
    if count > parameters.len() {
        return Err(at.malformed(format!("filter {id} of {count} parameters")));
    }
    parameters.truncate(count);
    let name = String::from_utf8_lossy(name.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let name = (!name.is_empty()).then_some(name);
    Ok(Filter { id, name, optional: flags & OPTIONAL != 0, parameters })
}

/// Limit on the size of an attribute's value in memory, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the attributes of an open object, and the errors of those that could not be read.
pub(crate) fn attributes(
    at: At,
    object: &Handle,
    properties: &Handle,
    format: Format,
) -> (Vec<Attribute>, Vec<Error>) {
    let at = at.structure("attribute message");
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    match count(at, object).and_then(|count| Ok((count, order(at, properties)?))) {
        Err(error) => unreadable.push(error),
        Ok((count, (kind, order))) => {
            for index in 0..count {
                // SAFETY: the handle is open, and the path ends with a NUL.
                let handle = at.handle(unsafe {
                    h5a::H5Aopen_by_idx(object.id(), c".".as_ptr(), kind, order, index, 0, 0)
                });
                match handle.and_then(|handle| attribute(at, &handle, format)) {
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

fn attribute(at: At, handle: &Handle, format: Format) -> Result<Attribute> {
    // SAFETY: the size that is passed is that of the buffer.
    let name = at.text(|text, size| unsafe { h5a::H5Aget_name(handle.id(), size, text) })?;
    // SAFETY: the handle is open.
    let (datatype, space) =
        unsafe { (at.handle(h5a::H5Aget_type(handle.id())), at.handle(h5a::H5Aget_space(handle.id()))) };
    let (id, space) = (datatype?, space?);
    let datatype = datatype::read(at, &id, format.offset_size)?;
    let dataspace = dataspace::read(at, &space)?;
    let bytes = (datatype.size as u64).saturating_mul(dataspace.elements());
    let size = usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES);
    let too_large = || at.malformed(format!("value of {bytes} bytes, expected at most {MAX_BYTES}"));
    let mut value = vec![0; size.ok_or_else(too_large)?];
    let mut elements = Vec::new();
    if !value.is_empty() {
        // SAFETY: the buffer has room for all elements of this type.
        at.done(unsafe { h5a::H5Aread(handle.id(), id.id(), value.as_mut_ptr().cast()) })?;
        // SAFETY: the library has just written these elements.
        elements = unsafe { datatype.memory.decode_all(datatype.size, &value, format.base) };
        if datatype.memory.owns() {
            // SAFETY: the elements were written by the library with this type and dataspace, and are not used again.
            unsafe { h5t::H5Treclaim(id.id(), space.id(), 0, value.as_mut_ptr().cast()) };
        }
    }
    Ok(Attribute { name, datatype: datatype.file, dataspace, elements })
}
