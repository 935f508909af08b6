//! Sizes of addresses and lengths in a file, and addresses of object headers.

use std::os::raw::c_int;

use hdf5_metno_sys::{
    h5i::hid_t,
    h5o::{self, H5O_token_t},
    h5p,
};
use virtualize_bytes::Address;

use crate::call::{At, Handle, Result};

unsafe extern "C" {
    /// Returns the address behind a token of the native file format, relative to the base address.
    fn H5VLnative_token_to_addr(location: hid_t, token: H5O_token_t, address: *mut u64) -> c_int;
}

/// Parameters of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Base address: that of the superblock.
    pub(crate) base: u64,
    /// Size of an address in bytes.
    pub(crate) offset_size: u8,
    /// Size of a length in bytes.
    pub(crate) length_size: u8,
}

pub(crate) fn format(at: At, creation: &Handle) -> Result<Format> {
    let (mut base, mut offset_size, mut length_size) = (0, 0, 0);
    // SAFETY: the handle is open, and the numbers outlive the calls.
    let status = unsafe {
        [
            h5p::H5Pget_userblock(creation.id(), &raw mut base),
            h5p::H5Pget_sizes(creation.id(), &raw mut offset_size, &raw mut length_size),
        ]
    };
    status.into_iter().try_for_each(|status| at.done(status))?;
    let byte =
        |size: usize| u8::try_from(size).map_err(|_| at.malformed(format!("addresses of {size} bytes")));
    Ok(Format { base, offset_size: byte(offset_size)?, length_size: byte(length_size)? })
}

/// Returns the address of an open object's header.
pub(crate) fn address_of(at: At, object: &Handle, format: Format) -> Result<Address> {
    token_of(at, object).and_then(|token| address(at, object, token, format))
}

pub(crate) fn token_of(at: At, object: &Handle) -> Result<H5O_token_t> {
    // SAFETY: the structure is plain data of the library, for which zeros are valid.
    let mut info: h5o::H5O_info2_t = unsafe { std::mem::zeroed() };
    // SAFETY: the handle is open, and the structure outlives the call.
    at.done(unsafe { h5o::H5Oget_info3(object.id(), &raw mut info, h5o::H5O_INFO_BASIC) })?;
    Ok(info.token)
}

/// Returns the address of the object header behind a token.
pub(crate) fn address(at: At, location: &Handle, token: H5O_token_t, format: Format) -> Result<Address> {
    let mut address = 0;
    // SAFETY: the token belongs to the handle's file, and the number outlives the call.
    at.done(unsafe { H5VLnative_token_to_addr(location.id(), token, &raw mut address) })?;
    let address = format.base.checked_add(address).ok_or_else(|| at.malformed("address over 64 bits"))?;
    Ok(Address(address))
}
