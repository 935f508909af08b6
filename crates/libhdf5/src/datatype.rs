//! Reads datatypes: as stored in the file, and as the library represents elements in memory. Decodes such elements.

use std::ffi::CStr;

use hdf5_metno_sys::{
    h5,
    h5i::hid_t,
    h5t::{self, H5T_class_t, H5T_cset_t, H5T_norm_t, H5T_order_t, H5T_sign_t, H5T_str_t},
};
use virtualize_bytes::Address;
use virtualize_hdf5::{
    decode_element,
    model::{
        ByteOrder, CharacterSet, Datatype, Element, Float, Integer, Member, ReferenceKind, StringPadding,
    },
};

use crate::call::{At, Handle, Result};

/// Limit on the nesting depth, as in the native reader.
const MAX_DEPTH: u32 = 64;

/// A datatype and its representation in memory.
#[derive(Debug)]
pub(crate) struct Type {
    /// The datatype in the file.
    pub(crate) file: Datatype,
    /// The representation in memory.
    pub(crate) memory: Memory,
    /// Size of an element in memory, in bytes.
    pub(crate) size: usize,
}

/// Reads a datatype. `offset_size` is the size of addresses in the file, on which the stored size of pointers depends.
pub(crate) fn read(at: At, id: &Handle, offset_size: u8) -> Result<Type> {
    Reader { at: at.structure("datatype message"), offset_size }.read(id.id(), MAX_DEPTH)
}

#[derive(Clone, Copy)]
struct Reader {
    at: At,
    offset_size: u8,
}

impl Reader {
    fn read(self, id: hid_t, depth: u32) -> Result<Type> {
        let depth = depth.checked_sub(1).ok_or_else(|| self.at.malformed("datatypes nested too deep"))?;
        // SAFETY: the library checks the identifier.
        let (class, size) = unsafe { (h5t::H5Tget_class(id), h5t::H5Tget_size(id)) };
        let bytes = u32::try_from(size).map_err(|_| self.at.malformed(format!("type of {size} bytes")))?;
        match class {
            H5T_class_t::H5T_INTEGER => self.number(id, Datatype::Integer(self.integer(id, bytes)?), size),
            H5T_class_t::H5T_FLOAT => self.number(id, Datatype::Float(self.float(id, bytes)?), size),
            H5T_class_t::H5T_TIME => Ok(leaf(Datatype::Time { size: bytes, order: self.order(id)? }, size)),
            H5T_class_t::H5T_STRING => self.string(id, bytes),
            H5T_class_t::H5T_BITFIELD => Ok(leaf(Datatype::Bitfield(self.integer(id, bytes)?), size)),
            H5T_class_t::H5T_OPAQUE => self.opaque(id, bytes),
            H5T_class_t::H5T_COMPOUND => self.compound(id, size, depth),
            H5T_class_t::H5T_REFERENCE => self.reference(id, size),
            H5T_class_t::H5T_ENUM => self.enumeration(id, size, depth),
            H5T_class_t::H5T_VLEN => self.sequence(id, size, depth),
            H5T_class_t::H5T_ARRAY => self.array(id, size, depth),
            H5T_class_t::H5T_COMPLEX => {
                let base = Box::new(self.base(id, depth)?.file);
                Ok(leaf(Datatype::Complex { base }, size))
            }
            _ => Err(self.at.failed()),
        }
    }

    fn number(self, id: hid_t, file: Datatype, size: usize) -> Result<Type> {
        // SAFETY: the library checks the identifier, and the copy is owned by the handle alone.
        let handle = self.at.handle(unsafe { h5t::H5Tcopy(id) })?;
        Ok(Type { memory: Memory::Number(handle, file.clone()), file, size })
    }

    fn order(self, id: hid_t) -> Result<ByteOrder> {
        // SAFETY: the library checks the identifier.
        match unsafe { h5t::H5Tget_order(id) } {
            H5T_order_t::H5T_ORDER_LE | H5T_order_t::H5T_ORDER_NONE => Ok(ByteOrder::Little),
            H5T_order_t::H5T_ORDER_BE => Ok(ByteOrder::Big),
            H5T_order_t::H5T_ORDER_VAX => Ok(ByteOrder::Vax),
            _ => Err(self.at.failed()),
        }
    }

    /// Returns the position of the least significant bit and the number of significant bits.
    fn bits(self, id: hid_t) -> Result<(u16, u16)> {
        // SAFETY: the library checks the identifier.
        let (offset, precision) = unsafe { (h5t::H5Tget_offset(id), h5t::H5Tget_precision(id)) };
        let fit = |number: usize| u16::try_from(number).map_err(|_| self.at.malformed("too many bits"));
        Ok((fit(self.at.number(offset)?)?, fit(precision)?))
    }

    fn integer(self, id: hid_t, size: u32) -> Result<Integer> {
        let order = self.order(id)?;
        let (bit_offset, precision) = self.bits(id)?;
        // SAFETY: the library checks the identifier; it refuses types without a sign.
        let signed = unsafe { h5t::H5Tget_sign(id) } == H5T_sign_t::H5T_SGN_2;
        Ok(Integer { size, order, signed, bit_offset, precision })
    }

    fn float(self, id: hid_t, size: u32) -> Result<Float> {
        let order = self.order(id)?;
        let (bit_offset, precision) = self.bits(id)?;
        let [mut sign, mut exponent, mut exponent_size, mut mantissa, mut mantissa_size] = [0_usize; 5];
        // SAFETY: the five numbers outlive the call.
        self.at.done(unsafe {
            h5t::H5Tget_fields(
                id,
                &raw mut sign,
                &raw mut exponent,
                &raw mut exponent_size,
                &raw mut mantissa,
                &raw mut mantissa_size,
            )
        })?;
        // SAFETY: the library checks the identifier.
        let (bias, norm) = unsafe { (h5t::H5Tget_ebias(id), h5t::H5Tget_norm(id)) };
        let fit = |number: usize| u8::try_from(number).map_err(|_| self.at.malformed("bit over 255"));
        let normalization = match norm {
            H5T_norm_t::H5T_NORM_NONE => 0,
            H5T_norm_t::H5T_NORM_MSBSET => 1,
            H5T_norm_t::H5T_NORM_IMPLIED => 2,
            H5T_norm_t::H5T_NORM_ERROR => return Err(self.at.failed()),
        };
        Ok(Float {
            size,
            order,
            bit_offset,
            precision,
            sign_location: fit(sign)?,
            exponent_location: fit(exponent)?,
            exponent_size: fit(exponent_size)?,
            mantissa_location: fit(mantissa)?,
            mantissa_size: fit(mantissa_size)?,
            exponent_bias: u32::try_from(bias).map_err(|_| self.at.malformed("exponent bias"))?,
            normalization,
        })
    }

    fn string(self, id: hid_t, size: u32) -> Result<Type> {
        // SAFETY: the library checks the identifier.
        let padding = match unsafe { h5t::H5Tget_strpad(id) } {
            H5T_str_t::H5T_STR_NULLTERM => StringPadding::NullTerminated,
            H5T_str_t::H5T_STR_NULLPAD => StringPadding::NullPadded,
            H5T_str_t::H5T_STR_SPACEPAD => StringPadding::SpacePadded,
            _ => return Err(self.at.malformed("string padding over 2")),
        };
        // SAFETY: the library checks the identifier.
        let charset = match unsafe { h5t::H5Tget_cset(id) } {
            H5T_cset_t::H5T_CSET_ASCII => CharacterSet::Ascii,
            H5T_cset_t::H5T_CSET_UTF8 => CharacterSet::Utf8,
            _ => return Err(self.at.malformed("character set over 1")),
        };
        // SAFETY: the library checks the identifier.
        if self.at.truth(unsafe { h5t::H5Tis_variable_str(id) })? {
            let file = Datatype::VariableString { size: self.pointer_size(), padding, charset };
            return Ok(Type { file, memory: Memory::Text, size: size_of::<usize>() });
        }
        Ok(leaf(Datatype::String { size, padding, charset }, bytes_of(size)))
    }

    /// Returns the stored size of a pointer to the global heap in bytes: length 4, address, index 4.
    fn pointer_size(self) -> u32 {
        u32::from(self.offset_size).saturating_add(8)
    }

    fn opaque(self, id: hid_t, size: u32) -> Result<Type> {
        // SAFETY: the library checks the identifier and returns memory of its own, or null.
        let tag = unsafe { owned_text(h5t::H5Tget_tag(id)) };
        let tag = tag.ok_or_else(|| self.at.failed())?;
        Ok(leaf(Datatype::Opaque { size, tag }, bytes_of(size)))
    }

    /// Reads the members of a compound or an enumeration with their names.
    fn members(self, id: hid_t) -> Result<Vec<(u32, String)>> {
        // SAFETY: the library checks the identifier.
        let count = self.at.number(unsafe { h5t::H5Tget_nmembers(id) })?;
        let count = u32::try_from(count).map_err(|_| self.at.malformed("too many members"))?;
        let name = |index| {
            // SAFETY: the library checks identifier and index and returns memory of its own, or null.
            let name = unsafe { owned_text(h5t::H5Tget_member_name(id, index)) };
            name.map(|name| (index, name)).ok_or_else(|| self.at.failed())
        };
        (0..count).map(name).collect()
    }

    fn compound(self, id: hid_t, size: usize, depth: u32) -> Result<Type> {
        let mut parts = Vec::new();
        for (index, name) in self.members(id)? {
            // SAFETY: the library checks the identifier; the index is that of a member.
            let offset = unsafe { h5t::H5Tget_member_offset(id, index) };
            // SAFETY: as above.
            let member = self.at.handle(unsafe { h5t::H5Tget_member_type(id, index) })?;
            parts.push((offset, name, self.read(member.id(), depth)?));
        }
        parts.sort_by_key(|(offset, ..)| *offset);
        let fit = |number: i64| u32::try_from(number).map_err(|_| self.at.malformed("compound too large"));
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        // Pointers differ in size between memory and file, which moves all members behind them.
        let mut moved = 0_i64;
        let (mut members, mut memory) = (Vec::new(), Vec::new());
        for (offset, name, part) in parts {
            let file_offset = fit(signed(offset).saturating_sub(moved))?;
            let file_size = i64::try_from(part.file.size()).unwrap_or(i64::MAX);
            moved = moved.saturating_add(signed(part.size).saturating_sub(file_size));
            members.push(Member { name: name.clone(), offset: file_offset, datatype: part.file });
            memory.push(MemoryMember { name, offset, size: part.size, memory: part.memory });
        }
        let file = Datatype::Compound { size: fit(signed(size).saturating_sub(moved))?, members };
        Ok(Type { file, memory: Memory::Compound(memory), size })
    }

    fn reference(self, id: hid_t, size: usize) -> Result<Type> {
        let address = u32::from(self.offset_size);
        let is = |known: hid_t| {
            // SAFETY: both identifiers are those of types.
            self.at.truth(unsafe { h5t::H5Tequal(id, known) })
        };
        let (kind, bytes, memory) = if is(*h5t::H5T_STD_REF_OBJ)? {
            (ReferenceKind::Object, address, Memory::Object)
        } else if is(*h5t::H5T_STD_REF_DSETREG)? {
            (ReferenceKind::Region, address.saturating_add(4), Memory::Unknown("region reference"))
        } else {
            (ReferenceKind::Standard(2), 64, Memory::Unknown("reference of HDF5 1.12"))
        };
        Ok(Type { file: Datatype::Reference { size: bytes, kind }, memory, size })
    }

    fn base(self, id: hid_t, depth: u32) -> Result<Type> {
        // SAFETY: the library checks the identifier.
        let base = self.at.handle(unsafe { h5t::H5Tget_super(id) })?;
        self.read(base.id(), depth)
    }

    fn enumeration(self, id: hid_t, size: usize, depth: u32) -> Result<Type> {
        let base = self.base(id, depth)?;
        let mut members = Vec::new();
        for (index, name) in self.members(id)? {
            let mut value = vec![0_u8; size];
            // SAFETY: a value takes as many bytes as the enumeration.
            self.at.done(unsafe { h5t::H5Tget_member_value(id, index, value.as_mut_ptr().cast()) })?;
            members.push((name, value));
        }
        let file = Datatype::Enum { base: Box::new(base.file), members };
        Ok(Type { file, memory: base.memory, size })
    }

    fn sequence(self, id: hid_t, size: usize, depth: u32) -> Result<Type> {
        let base = self.base(id, depth)?;
        let memory = Memory::Sequence(base.size, Box::new(base.memory));
        let file = Datatype::Sequence { size: self.pointer_size(), base: Box::new(base.file) };
        Ok(Type { file, memory, size })
    }

    fn array(self, id: hid_t, size: usize, depth: u32) -> Result<Type> {
        let base = self.base(id, depth)?;
        // SAFETY: the library checks the identifier.
        let rank = self.at.number(unsafe { h5t::H5Tget_array_ndims(id) })?;
        let mut shape = vec![0_u64; rank];
        // SAFETY: the array has as many items as the type has dimensions.
        self.at.number(unsafe { h5t::H5Tget_array_dims2(id, shape.as_mut_ptr()) })?;
        let memory = Memory::Array(base.size, Box::new(base.memory));
        Ok(Type { file: Datatype::Array { base: Box::new(base.file), shape }, memory, size })
    }
}

fn leaf(file: Datatype, size: usize) -> Type {
    Type { memory: Memory::Flat(file.clone()), file, size }
}

fn bytes_of(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Copies text that the library allocated, and frees it; `None` for null.
///
/// # Safety
/// `text` is null, or NUL-terminated memory of the library that nothing else frees.
unsafe fn owned_text(text: *mut std::os::raw::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as promised by the caller.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: as promised by the caller; the copy is our own.
    unsafe { h5::H5free_memory(text.cast()) };
    Some(copy)
}

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
