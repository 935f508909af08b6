//! Assembles the model of a file from its objects and links.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    os::raw::{c_char, c_int, c_uint, c_void},
    path::Path,
};

use hdf5_metno::plist::file_access::FileCloseDegree;
use hdf5_metno_sys::{
    LOCK,
    h5::{H5_index_t, H5_iter_order_t, H5open},
    h5f, h5g,
    h5i::{self, H5I_type_t, hid_t},
    h5l,
    h5o::{self, H5O_token_t},
    h5p, h5t,
};
use virtualize_bytes::Address;
use virtualize_hdf5::model::{Datatype, File, Group, Link, LinkTarget, Object};

use crate::{
    call::{At, Handle, Result, silence},
    dataset::{self, attributes},
    datatype,
};

/// Reads the metadata of a local file with the HDF5 C library. Calls are serialized within a process.
///
/// # Errors
/// The library rejects the file or its root group. Any other error is recorded in the model, at the affected item.
pub fn read(path: &Path) -> Result<File> {
    let at = At { structure: "file", address: 0 };
    let _alone = LOCK.lock();
    // SAFETY: the library may be opened any number of times.
    at.done(unsafe { H5open() })?;
    silence();
    let file = open(at, path)?;
    // SAFETY: the handle is open; the result is a new identifier.
    let creation = at.handle(unsafe { h5f::H5Fget_create_plist(file.id()) })?;
    let format = format(at, &creation)?;
    let mut found = Objects { file: &file, format, objects: BTreeMap::new() };
    let root = found.root(at)?;
    let objects = found.objects;
    Ok(File {
        superblock_version: superblock_version(at, &file)?,
        base_address: Address(format.base),
        offset_size: format.offset_size,
        length_size: format.length_size,
        root,
        ..File::of_objects(objects)
    })
}

/// Opens a file for reading, without locking it. Closing it closes all of its objects.
fn open(at: At, path: &Path) -> Result<Handle> {
    let opened = hdf5_metno::File::with_options()
        .with_fapl(|access| access.fclose_degree(FileCloseDegree::Strong).file_locking(false))
        .open(path);
    let file = opened.map_err(|error| at.malformed(error.to_string()))?;
    // SAFETY: the identifier is open; the reference is the handle's own.
    at.number(unsafe { h5i::H5Iinc_ref(file.id()) })?;
    at.handle(file.id())
}

fn superblock_version(at: At, file: &Handle) -> Result<u8> {
    let mut info = h5f::H5F_info2_t::default();
    // SAFETY: the handle is open, and the structure outlives the call.
    at.done(unsafe { h5f::H5Fget_info2(file.id(), &raw mut info) })?;
    u8::try_from(info.super_.version).map_err(|_| at.malformed("superblock version"))
}

/// Objects read so far.
struct Objects<'a> {
    file: &'a Handle,
    format: Format,
    objects: BTreeMap<Address, Object>,
}

impl Objects<'_> {
    /// Reads all objects that hard links reach from the root group.
    fn root(&mut self, at: At) -> Result<Address> {
        // SAFETY: the handle is open, and the path ends with a NUL.
        let root = at.handle(unsafe { h5o::H5Oopen(self.file.id(), c"/".as_ptr(), 0) })?;
        let (token, address) = (token_of(at, &root)?, address_of(at, &root, self.format)?);
        let mut waiting = vec![(address, token)];
        while let Some((address, token)) = waiting.pop() {
            if self.objects.contains_key(&address) {
                continue;
            }
            let at = At { structure: "object header", address: address.0 };
            let object = self.object(at, token, &mut waiting).unwrap_or_else(Object::Unreadable);
            self.objects.insert(address, object);
        }
        match self.objects.get(&address) {
            Some(Object::Unreadable(error)) => Err(error.clone()),
            _ => Ok(address),
        }
    }

    fn object(
        &self,
        at: At,
        token: H5O_token_t,
        waiting: &mut Vec<(Address, H5O_token_t)>,
    ) -> Result<Object> {
        // SAFETY: the handle is open, and the token came from the same file.
        let object = at.handle(unsafe { h5o::H5Oopen_by_token(self.file.id(), token) })?;
        // SAFETY: the handle is open.
        match unsafe { h5i::H5Iget_type(object.id()) } {
            H5I_type_t::H5I_GROUP => self.group(at, &object, waiting).map(Object::Group),
            H5I_type_t::H5I_DATASET => {
                dataset::read(at, &object, self.format).map(|dataset| Object::Dataset(Box::new(dataset)))
            }
            H5I_type_t::H5I_DATATYPE => self.committed(at, &object).map(Object::Datatype),
            _ => Err(at.malformed("neither group, dataset nor datatype")),
        }
    }

    fn committed(&self, at: At, object: &Handle) -> Result<Datatype> {
        // SAFETY: the handle is open; a committed type cannot be taken apart, a copy can.
        let copy = at.handle(unsafe { h5t::H5Tcopy(object.id()) })?;
        datatype::read(at, &copy, self.format.offset_size).map(|datatype| datatype.file)
    }

    fn group(&self, at: At, group: &Handle, waiting: &mut Vec<(Address, H5O_token_t)>) -> Result<Group> {
        // SAFETY: the handle is open; the result is a new identifier.
        let properties = at.handle(unsafe { h5g::H5Gget_create_plist(group.id()) })?;
        let (attributes, unreadable_attributes) = attributes(at, group, &properties, self.format);
        let at = at.structure("link");
        let link = |listed: Listed| {
            let target = target(at, group, &listed, self.format, waiting);
            let name = listed.name.to_string_lossy().into_owned();
            Link { name, target: target.unwrap_or_else(LinkTarget::Unreadable) }
        };
        let links = links_of(at, group, &properties)?.into_iter().map(link).collect();
        Ok(Group { attributes, unreadable_attributes, links })
    }
}

// Sizes of addresses and lengths in a file, and addresses of object headers.

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

// Links of groups.

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

/// A link as listed by the library.
struct Listed {
    name: CString,
    info: LinkInfo,
}

/// Lists the links of a group: by creation order if it is tracked, else by name.
fn links_of(at: At, group: &Handle, properties: &Handle) -> Result<Vec<Listed>> {
    const TRACKED: c_uint = 1;
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
    Ok(links)
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

/// Returns the target of a link. That of a hard link is added to `waiting`.
fn target(
    at: At,
    group: &Handle,
    listed: &Listed,
    format: Format,
    waiting: &mut Vec<(Address, H5O_token_t)>,
) -> Result<LinkTarget> {
    match listed.info.class {
        0 => {
            // SAFETY: the value of a hard link is a token.
            let token = unsafe { listed.info.value.token };
            let address = address(at, group, token, format)?;
            waiting.push((address, token));
            Ok(LinkTarget::Hard(address))
        }
        1 => value(at, group, listed).map(|value| LinkTarget::Soft(part(&value, 0))),
        64 => {
            let value = value(at, group, listed)?;
            let names = value.get(1..).unwrap_or_default();
            Ok(LinkTarget::External { file: part(names, 0), path: part(names, 1) })
        }
        class => match u8::try_from(class) {
            Ok(class @ 65..) => Ok(LinkTarget::UserDefined(class)),
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
