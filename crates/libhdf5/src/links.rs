//! Reads the links of groups.

use std::{
    ffi::{CStr, CString},
    os::raw::{c_char, c_int, c_uint, c_void},
};

use hdf5_metno_sys::{
    h5::{H5_index_t, H5_iter_order_t},
    h5i::hid_t,
    h5l,
    h5o::H5O_token_t,
    h5p,
};
use virtualize_hdf5::model::LinkTarget;

use crate::{
    call::{At, Handle, Result},
    format::{Format, address},
};

/// Limit on the size of a soft or external link's value, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// `H5L_info2_t`. Declared here because in the bindings, its link class is an enumeration that lacks user-defined
/// classes.
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkInfo {
    class: c_int,
    order_valid: bool,
    order: i64,
    charset: c_int,
    value: LinkValue,
}

#[repr(C)]
#[derive(Clone, Copy)]
union LinkValue {
    /// Target of a hard link.
    token: H5O_token_t,
    /// Size in bytes of the value of any other link.
    size: usize,
}

type NoteLink = unsafe extern "C" fn(hid_t, *const c_char, *const LinkInfo, *mut c_void) -> c_int;

unsafe extern "C" {
    fn H5Literate2(
        group: hid_t,
        index: H5_index_t,
        order: H5_iter_order_t,
        position: *mut u64,
        note: Option<NoteLink>,
        data: *mut c_void,
    ) -> c_int;
}

/// A link, and the token of a hard link's target.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) target: LinkTarget,
    pub(crate) token: Option<H5O_token_t>,
}

/// A link as listed by the library.
struct Listed {
    name: CString,
    info: LinkInfo,
}

/// Returns the links of a group: by creation order if it is tracked, else by name.
pub(crate) fn links_of(at: At, group: &Handle, properties: &Handle, format: Format) -> Result<Vec<Found>> {
    const TRACKED: c_uint = 1;
    let at = at.structure("link");
    let mut flags: c_uint = 0;
    // SAFETY: the handle is open, and the flags outlive the call.
    at.done(unsafe { h5p::H5Pget_link_creation_order(properties.id(), &raw mut flags) })?;
    let index = match flags & TRACKED {
        0 => H5_index_t::H5_INDEX_NAME,
        _ => H5_index_t::H5_INDEX_CRT_ORDER,
    };
    let (mut links, order) = (Vec::<Listed>::new(), H5_iter_order_t::H5_ITER_INC);
    let (start, data) = (std::ptr::null_mut(), (&raw mut links).cast());
    // SAFETY: the callback fits the signature, and its data outlive the call.
    at.done(unsafe { H5Literate2(group.id(), index, order, start, Some(note_link), data) })?;
    Ok(links.iter().map(|listed| found(at, group, listed, format)).collect())
}

unsafe extern "C" fn note_link(
    _group: hid_t,
    name: *const c_char,
    info: *const LinkInfo,
    links: *mut c_void,
) -> c_int {
    // SAFETY: `links` is what `links_of` passed in, and nothing else uses it during the iteration.
    let Some(links) = (unsafe { links.cast::<Vec<Listed>>().as_mut() }) else { return -1 };
    // SAFETY: the library passes a name that ends with a NUL, and a valid structure.
    let listed = unsafe { Listed { name: CStr::from_ptr(name).to_owned(), info: *info } };
    links.push(listed);
    0
}

fn found(at: At, group: &Handle, listed: &Listed, format: Format) -> Found {
    let name = listed.name.to_string_lossy().into_owned();
    match target(at, group, listed, format) {
        Ok((target, token)) => Found { name, target, token },
        Err(error) => Found { name, target: LinkTarget::Unreadable(error), token: None },
    }
}

fn target(
    at: At,
    group: &Handle,
    listed: &Listed,
    format: Format,
) -> Result<(LinkTarget, Option<H5O_token_t>)> {
    match listed.info.class {
        0 => {
            // SAFETY: the value of a hard link is a token.
            let token = unsafe { listed.info.value.token };
            Ok((LinkTarget::Hard(address(at, group, token, format)?), Some(token)))
        }
        1 => value(at, group, listed).map(|value| (LinkTarget::Soft(part(&value, 0)), None)),
        64 => {
            let value = value(at, group, listed)?;
            let names = value.get(1..).unwrap_or_default();
            Ok((LinkTarget::External { file: part(names, 0), path: part(names, 1) }, None))
        }
        class => match u8::try_from(class) {
            Ok(class @ 65..) => Ok((LinkTarget::UserDefined(class), None)),
            _ => Err(at.malformed(format!("link class {class}"))),
        },
    }
}

/// Returns the value of a soft or external link.
fn value(at: At, group: &Handle, listed: &Listed) -> Result<Vec<u8>> {
    // SAFETY: the value of such a link is its size.
    let size = unsafe { listed.info.value.size };
    if size > MAX_BYTES {
        return Err(at.malformed(format!("link value of {size} bytes, expected at most {MAX_BYTES}")));
    }
    let mut value = vec![0_u8; size];
    let (group, name) = (group.id(), listed.name.as_ptr());
    // SAFETY: the name ends with a NUL, and the size that is passed is that of the buffer.
    at.done(unsafe { h5l::H5Lget_val(group, name, value.as_mut_ptr().cast(), size, 0) })?;
    Ok(value)
}

/// Returns one of several NUL-terminated strings.
fn part(bytes: &[u8], index: usize) -> String {
    let mut parts = bytes.split(|&byte| byte == 0);
    String::from_utf8_lossy(parts.nth(index).unwrap_or_default()).into_owned()
}
