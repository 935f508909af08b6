//! Assembles the model of a file from its objects and links.

use std::{collections::BTreeMap, path::Path};

use hdf5_metno::plist::file_access::FileCloseDegree;
use hdf5_metno_sys::{
    LOCK,
    h5::H5open,
    h5f, h5g,
    h5i::{self, H5I_type_t},
    h5o::{self, H5O_token_t},
    h5t,
};
use virtualize_bytes::Address;
use virtualize_hdf5::model::{Datatype, File, Group, Link, LinkTarget, Object};

use crate::{
    attribute,
    call::{At, Handle, Result, property_list, silence},
    dataset, datatype,
    format::{Format, address_of, format, token_of},
    links::links_of,
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
    let creation = property_list(at, unsafe { h5f::H5Fget_create_plist(file.id()) })?;
    let format = format(at, &creation)?;
    let mut found = Objects { file: &file, format, objects: BTreeMap::new() };
    let root = found.root(at)?;
    let objects = found.objects;
    Ok(File {
        superblock_version: superblock_version(at, &file)?,
        base_address: Address(format.base),
        end: Address(u64::MAX),
        cached: BTreeMap::new(),
        offset_size: format.offset_size,
        length_size: format.length_size,
        root,
        objects,
        struct_metadata: None,
        classic: None,
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
        let properties = property_list(at, unsafe { h5g::H5Gget_create_plist(group.id()) })?;
        let (attributes, unreadable_attributes) = attribute::read_all(at, group, &properties, self.format);
        let mut links = Vec::new();
        for found in links_of(at, group, &properties, self.format)? {
            if let (LinkTarget::Hard(address), Some(token)) = (&found.target, found.token) {
                waiting.push((*address, token));
            }
            links.push(Link { name: found.name, target: found.target });
        }
        Ok(Group { attributes, unreadable_attributes, links })
    }
}
