//! Decodes elements from the library's representation in memory.

use std::ffi::CStr;

use hdf5_metno_sys::h5t;
use virtualize_bytes::Address;
use virtualize_hdf5::{
    decode_element,
    model::{Datatype, Element},
};

use crate::call::Handle;

/// Representation of an element in memory.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The stored bytes.
    Flat(Datatype),
    /// A number that the library converts.
    Number(Handle, Datatype),
    /// Pointer to text.
    Text,
    /// Length and pointer; size and representation of an item.
    Sequence(usize, Box<Memory>),
    /// Consecutive items; size and representation of an item.
    Array(usize, Box<Memory>),
    /// Members of a compound.
    Compound(Vec<MemoryMember>),
    /// Address, relative to the base address.
    Object,
    /// An element without a supported value.
    Unknown(&'static str),
}

/// A member of a compound in memory.
#[derive(Debug)]
pub(crate) struct MemoryMember {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) memory: Memory,
}

impl Memory {
    /// Returns whether elements contain no pointers, so that their bytes are those of the file.
    pub(crate) fn is_flat(&self) -> bool {
        match self {
            Self::Flat(_) | Self::Number(..) => true,
            Self::Array(_, base) => base.is_flat(),
            Self::Compound(members) => members.iter().all(|member| member.memory.is_flat()),
            Self::Text | Self::Sequence(..) | Self::Object | Self::Unknown(_) => false,
        }
    }

    /// Returns whether elements own memory of the library.
    pub(crate) fn owns(&self) -> bool {
        match self {
            Self::Text | Self::Sequence(..) => true,
            Self::Array(_, base) => base.owns(),
            Self::Compound(members) => members.iter().any(|member| member.memory.owns()),
            Self::Flat(_) | Self::Number(..) | Self::Object => false,
            // References of HDF5 1.12 own the memory that they point to.
            Self::Unknown(_) => true,
        }
    }

    /// Decodes an element. `base` is the base address of the file.
    ///
    /// # Safety
    /// `bytes` is one element in this representation, written by the library: pointers are null or valid, lengths are
    /// correct.
    pub(crate) unsafe fn decode(&self, bytes: &[u8], base: u64) -> Element {
        match self {
            Self::Flat(datatype) => decode_element(datatype, bytes),
            Self::Number(handle, datatype) => number(handle, datatype, bytes),
            // SAFETY: as promised by the caller.
            Self::Text => unsafe { text(word(bytes, 0)) },
            Self::Sequence(size, item) => {
                let (length, start) = (word(bytes, 0), word(bytes, 1));
                if length == 0 || start == 0 {
                    return Element::List(Vec::new());
                }
                let pointer = std::ptr::with_exposed_provenance::<u8>(start);
                // SAFETY: the library allocated `length` items of `size` bytes at this address.
                let items = unsafe { std::slice::from_raw_parts(pointer, length.saturating_mul(*size)) };
                // SAFETY: as promised by the caller.
                Element::List(unsafe { item.decode_all(*size, items, base) })
            }
            // SAFETY: as promised by the caller.
            Self::Array(size, item) => Element::List(unsafe { item.decode_all(*size, bytes, base) }),
            Self::Compound(members) => {
                let decode = |member: &MemoryMember| {
                    let part = bytes.get(member.offset..).and_then(|rest| rest.get(..member.size));
                    // SAFETY: as promised by the caller.
                    let value = part.map(|part| unsafe { member.memory.decode(part, base) });
                    (
                        member.name.clone(),
                        value.unwrap_or(Element::Unknown("member beyond the end of its compound")),
                    )
                };
                Element::Compound(members.iter().map(decode).collect())
            }
            Self::Object => Element::Object(object(bytes, base)),
            Self::Unknown(what) => Element::Unknown(what),
        }
    }

    /// Decodes consecutive elements of `size` bytes.
    ///
    /// # Safety
    /// As for [`Memory::decode`], for each element.
    pub(crate) unsafe fn decode_all(&self, size: usize, bytes: &[u8], base: u64) -> Vec<Element> {
        // SAFETY: as promised by the caller.
        bytes.chunks_exact(size.max(1)).map(|bytes| unsafe { self.decode(bytes, base) }).collect()
    }
}

/// Reads the pointer-sized number at an offset.
fn word(bytes: &[u8], index: usize) -> usize {
    let mut words = bytes.chunks_exact(size_of::<usize>());
    words.nth(index).and_then(|word| word.try_into().ok()).map_or(0, usize::from_ne_bytes)
}

/// # Safety
/// `address` is 0 or that of NUL-terminated text.
unsafe fn text(address: usize) -> Element {
    if address == 0 {
        return Element::Text(String::new());
    }
    // SAFETY: as promised by the caller.
    let text = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(address)) };
    match text.to_str() {
        Ok(text) => Element::Text(text.to_owned()),
        Err(_) => Element::Bytes(text.to_bytes().to_vec()),
    }
}

fn object(bytes: &[u8], base: u64) -> Option<Address> {
    let address = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let null = address == 0 || address == u64::MAX;
    (!null).then(|| Address(base.saturating_add(address)))
}

/// Converts a number with the library to the widest type, if that is exact.
fn number(handle: &Handle, datatype: &Datatype, bytes: &[u8]) -> Element {
    let ours = decode_element(datatype, bytes);
    let native = match (&ours, datatype) {
        (Element::Float(_), _) => *h5t::H5T_NATIVE_DOUBLE,
        (Element::Integer(_), Datatype::Integer(integer)) if integer.size > 8 => return ours,
        (Element::Integer(_), Datatype::Integer(integer)) if integer.signed => *h5t::H5T_NATIVE_INT64,
        (Element::Integer(_), Datatype::Integer(_)) => *h5t::H5T_NATIVE_UINT64,
        _ => return ours,
    };
    let mut buffer = [0_u8; 8];
    let Some(start) = buffer.get_mut(..bytes.len()) else { return ours };
    start.copy_from_slice(bytes);
    // SAFETY: the buffer has room for one number of either type, and no background is needed.
    let status = unsafe {
        h5t::H5Tconvert(handle.id(), native, 1, buffer.as_mut_ptr().cast(), std::ptr::null_mut(), 0)
    };
    match (status, &ours) {
        (0.., Element::Float(_)) => match f64::from_ne_bytes(buffer) {
            // The library's conversion does not preserve NaN payloads.
            value if value.is_nan() => Element::Float(f64::NAN),
            value => Element::Float(value),
        },
        (0.., _) if native == *h5t::H5T_NATIVE_INT64 => Element::Integer(i64::from_ne_bytes(buffer).into()),
        (0.., _) => Element::Integer(u64::from_ne_bytes(buffer).into()),
        _ => Element::Unknown("refused by libhdf5"),
    }
}
