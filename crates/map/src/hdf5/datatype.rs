//! Data types of elements, and how the stored elements become those of the array.

use std::collections::{BTreeMap, BTreeSet};

use virtualize_hdf5::model::{ByteOrder, Datatype, Float, Integer, Member, StringPadding};
use virtualize_zarr::{DataType, Endian, Field, StoredInteger, ZarrFormat};

use super::dataset::describe_type;
use crate::task::unsigned;
use crate::{ElementPart, ElementTransform, Error, Result};

/// Maximum size of an element in bytes. Metadata contain the fill value, so a file of 1 KB with elements of 4 GB would
/// need as much memory.
const LARGEST_ELEMENT: u64 = 1 << 20;

/// Maps an HDF5 datatype to a Zarr data type.
///
/// # Errors
/// Zarr has no such type, its elements are too large, or the datatype is malformed.
pub(super) fn element_type(datatype: &Datatype, format: ZarrFormat) -> Result<ElementType> {
    let element = match datatype {
        Datatype::Integer(integer) | Datatype::Bitfield(integer) => integer_type(integer),
        Datatype::Float(float) => float_type(float),
        Datatype::Enum { base, members } => {
            let element = element_type(base, format)?;
            match base.as_ref() {
                Datatype::Integer(integer) if is_boolean(base, members) && element.is_stored_as_it_is() => {
                    // Zarr's booleans have one byte.
                    let (size, endian, signed) = (integer.size, element.endian, false);
                    let precision = u16::try_from(size.saturating_mul(8)).unwrap_or(0);
                    let stored = StoredInteger { size, endian, offset: 0, precision, signed };
                    let wide = ElementTransform::Integer { stored, big_endian: false };
                    let transform = if precision > 8 { wide } else { ElementTransform::None };
                    Ok(ElementType {
                        data_type: DataType::Bool,
                        endian: Endian::Little,
                        transform,
                        ..element
                    })
                }
                _ => Ok(element),
            }
        }
        // Zarr's strings are null-padded, as which a single null-terminated byte can be read, too.
        Datatype::String { size, padding, .. } => {
            let transform = match padding {
                StringPadding::NullTerminated if *size > 1 => ElementTransform::NullTerminated,
                StringPadding::SpacePadded => ElementTransform::SpacePadded,
                _ => ElementTransform::None,
            };
            Ok(ElementType { transform, ..sized(*size, DataType::FixedBytes(*size))? })
        }
        Datatype::Opaque { size, tag } => {
            let size = *size;
            let text = tag.strip_prefix("NUMPY:|S").and_then(|length| length.parse().ok());
            match numpy_time(tag) {
                Some(time) if size == 8 => Ok(ElementType::plain(DataType::Int64, time.endian, size)),
                _ if text == Some(size) => sized(size, DataType::FixedBytes(size)),
                _ => sized(size, DataType::RawBytes(size)),
            }
        }
        Datatype::VariableString { size, .. } | Datatype::Reference { size, .. } => {
            Ok(ElementType::plain(DataType::String, Endian::Little, *size))
        }
        Datatype::Complex { base } => complex_type(base),
        Datatype::Compound { size, members } => match complex_compound(*size, members) {
            Some(complex) => Ok(complex),
            None => structure_type(*size, members, format),
        },
        Datatype::Array { base, shape } => {
            let item = element_type(base, format)?;
            let axes: Vec<u64> = shape.iter().chain(&item.axes).copied().collect();
            match axes.iter().try_fold(1u64, |product, n| product.checked_mul(*n)) {
                Some(1..) => Ok(ElementType { axes, ..item }),
                _ => Err(Error::malformed("array datatype", format!("a shape of {shape:?}"))),
            }
        }
        Datatype::Time { size, order } => {
            let endian = endian_of(*order)?;
            match size {
                4 => Ok(ElementType::plain(DataType::Int32, endian, *size)),
                8 => Ok(ElementType {
                    transform: ElementTransform::Time { stored: endian, big_endian: endian == Endian::Big },
                    ..ElementType::plain(DataType::Float64, endian, *size)
                }),
                _ => Err(Error::no_data_type(describe_type(datatype))),
            }
        }
        Datatype::Sequence { .. } => Err(Error::no_data_type(describe_type(datatype))),
    }?;
    match element.data_type.size() {
        Some(size) if size > LARGEST_ELEMENT => Err(Error::unsupported(
            "data type",
            format!("elements of {size} bytes, more than {LARGEST_ELEMENT}"),
        )),
        _ => Ok(element),
    }
}

fn sized(size: u32, data_type: DataType) -> Result<ElementType> {
    match size {
        0 => Err(Error::malformed("datatype", "a size of 0 bytes")),
        _ => Ok(ElementType::plain(data_type, Endian::Little, size)),
    }
}

/// Whether a datatype contains times.
pub(super) fn has_times(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::Time { .. } => true,
        Datatype::Compound { members, .. } => members.iter().any(|member| has_times(&member.datatype)),
        Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => has_times(base),
        _ => false,
    }
}

/// NumPy's `datetime64` or `timedelta64`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NumpyTime {
    endian: Endian,
    /// Value of CF's attribute `units`.
    pub(super) units: String,
    /// For a duration, value of the attribute `dtype`, without which xarray shows numbers.
    pub(super) duration: Option<String>,
}

/// Parses a tag of h5py such as `NUMPY:<M8[s]`; `None` if it is not a time, or CF lacks its unit.
pub(super) fn numpy_time(tag: &str) -> Option<NumpyTime> {
    let code = tag.strip_prefix("NUMPY:")?;
    let (endian, code) = match code.split_at_checked(1)? {
        ("<", code) => (Endian::Little, code),
        (">", code) => (Endian::Big, code),
        _ => return None,
    };
    let (name, precision) = match code.get(2..)? {
        "[D]" => ("days", "s"),
        "[h]" => ("hours", "s"),
        "[m]" => ("minutes", "s"),
        "[s]" => ("seconds", "s"),
        "[ms]" => ("milliseconds", "ms"),
        "[us]" => ("microseconds", "us"),
        "[ns]" => ("nanoseconds", "ns"),
        _ => return None,
    };
    let (units, duration) = match code.get(..2)? {
        "M8" => (format!("{name} since 1970-01-01"), None),
        "m8" => (name.to_owned(), Some(format!("timedelta64[{precision}]"))),
        _ => return None,
    };
    Some(NumpyTime { endian, units, duration })
}

/// Returns the NumPy type of times whose unit no attribute declares: members of structures, and units that CF lacks.
pub(super) fn time_without_unit(datatype: &Datatype, is_member: bool) -> Option<&str> {
    match datatype {
        Datatype::Opaque { tag, .. } if is_member || numpy_time(tag).is_none() => {
            let name = tag.strip_prefix("NUMPY:")?;
            name.get(1..3).is_some_and(|kind| matches!(kind, "M8" | "m8")).then_some(name)
        }
        Datatype::Compound { members, .. } => {
            members.iter().find_map(|member| time_without_unit(&member.datatype, true))
        }
        Datatype::Array { base, .. } => time_without_unit(base, is_member),
        _ => None,
    }
}

/// Returns the byte order of a number.
///
/// # Errors
/// Zarr has no VAX byte order.
pub(super) fn endian_of(order: ByteOrder) -> Result<Endian> {
    match order {
        ByteOrder::Little => Ok(Endian::Little),
        ByteOrder::Big => Ok(Endian::Big),
        ByteOrder::Vax => Err(Error::no_data_type("numbers in VAX byte order".to_owned())),
    }
}

/// Maps an integer. With unused bits it keeps its size, as in h5py, if there are integers of this size.
fn integer_type(integer: &Integer) -> Result<ElementType> {
    let endian = match endian_of(integer.order) {
        Err(_) if integer.size == 1 => Endian::Little,
        endian => endian?,
    };
    let bits = u32::from(integer.bit_offset) + u32::from(integer.precision);
    if integer.precision == 0 || bits > integer.size.saturating_mul(8) {
        let Integer { size, precision, bit_offset, .. } = integer;
        let problem =
            format!("an integer of {size} bytes cannot have {precision} bits from bit {bit_offset}");
        return Err(Error::malformed("datatype", problem));
    }
    let whole = integer.bit_offset == 0 && u32::from(integer.precision) == integer.size.saturating_mul(8);
    if whole && let Some(data_type) = integer_data_type(integer.size, integer.signed) {
        return Ok(ElementType::plain(data_type, endian, integer.size));
    }
    let smallest = u32::from(integer.precision).div_ceil(8).next_power_of_two();
    let data_type = integer_data_type(integer.size, integer.signed)
        .or_else(|| integer_data_type(smallest, integer.signed))
        .ok_or_else(|| Error::no_data_type(format!("{}-bit integers", integer.precision)))?;
    let stored = StoredInteger {
        size: integer.size,
        endian,
        offset: integer.bit_offset,
        precision: integer.precision,
        signed: integer.signed,
    };
    let transform = ElementTransform::Integer { stored, big_endian: false };
    Ok(ElementType { transform, ..ElementType::plain(data_type, Endian::Little, integer.size) })
}

pub(super) fn integer_data_type(size: u32, signed: bool) -> Option<DataType> {
    Some(match (size, signed) {
        (1, true) => DataType::Int8,
        (2, true) => DataType::Int16,
        (4, true) => DataType::Int32,
        (8, true) => DataType::Int64,
        (1, false) => DataType::UInt8,
        (2, false) => DataType::UInt16,
        (4, false) => DataType::UInt32,
        (8, false) => DataType::UInt64,
        _ => return None,
    })
}

/// Maps a float. Another format becomes the smallest IEEE 754 format that is not smaller than the stored one and represents all
/// its values. If there is none, it becomes binary64, and each stored value must be representable.
///
/// # Errors
/// The fields contradict each other.
fn float_type(float: &Float) -> Result<ElementType> {
    if let Some(data_type) = ieee_type(float) {
        return Ok(ElementType::plain(data_type.clone(), endian_of(float.order)?, float.size));
    }
    let bits = |at: u8, size: u8| u32::from(at) + u32::from(size) <= float.size.saturating_mul(8);
    let sound = (1..=16).contains(&float.size)
        && (float.order != ByteOrder::Vax || float.size == 1)
        // libhdf5 reads other values where the first mantissa bit is stored and always set.
        && float.normalization != 1
        && bits(float.sign_location, 1)
        && bits(float.exponent_location, float.exponent_size)
        && bits(float.mantissa_location, float.mantissa_size)
        && (1..32).contains(&float.exponent_size)
        && float.mantissa_size > 0;
    let highest = (1_i64 << float.exponent_size.min(32)) - 1;
    let holds_all = IEEE.iter().find(|format| format.holds(float, highest));
    let format = holds_all.or(IEEE.last()).filter(|_| sound);
    let format = format.ok_or_else(|| Error::no_data_type(describe_type(&Datatype::Float(*float))))?;
    let data_type = format.data_type.clone();
    let transform =
        ElementTransform::Float { stored: *float, data_type: data_type.clone(), big_endian: false };
    Ok(ElementType { transform, ..ElementType::plain(data_type, Endian::Little, float.size) })
}

/// Whether an enumeration is the boolean type of h5py: FALSE = 0, TRUE = 1.
pub(super) fn is_boolean(base: &Datatype, members: &[(String, Vec<u8>)]) -> bool {
    let Datatype::Integer(integer) = base else { return false };
    let is = |name: &str, number: u128| {
        let has = |bytes: &[u8]| unsigned(bytes, integer.order == ByteOrder::Big) == Some(number);
        members.iter().any(|(own, bytes)| own == name && has(bytes))
    };
    members.len() == 2 && is("FALSE", 0) && is("TRUE", 1)
}

/// Maps a complex number of two floats of type `base`.
fn complex_type(base: &Datatype) -> Result<ElementType> {
    let refuse = || Error::no_data_type(format!("complex numbers of two {}s", describe_type(base)));
    let Datatype::Float(float) = base else { return Err(refuse()) };
    let part = float_type(float)?;
    let data_type = match part.data_type {
        DataType::Float32 if part.is_stored_as_it_is() => DataType::Complex64,
        DataType::Float64 if part.is_stored_as_it_is() => DataType::Complex128,
        _ => return Err(refuse()),
    };
    Ok(ElementType::plain(data_type, part.endian, float.size.saturating_mul(2)))
}

/// Maps a compound of two equal floats named `r` and `i`, which is how h5py stores complex numbers. `None` for others.
fn complex_compound(size: u32, members: &[Member]) -> Option<ElementType> {
    let [real, imaginary] = members else { return None };
    if (real.name.as_str(), imaginary.name.as_str()) != ("r", "i") || real.datatype != imaginary.datatype {
        return None;
    }
    let complex = complex_type(&real.datatype).ok()?;
    let half = u32::try_from(complex.stored_size / 2).ok()?;
    if (size, real.offset, imaginary.offset) == (half * 2, 0, half) {
        return Some(complex);
    }
    let part = |from, to| ElementPart { from, to, size: half, transform: ElementTransform::None };
    let parts = [part(real.offset, 0), part(imaginary.offset, half)].into();
    Some(ElementType {
        transform: ElementTransform::Repack { stored_size: size, parts },
        stored_size: size.into(),
        ..complex
    })
}

/// Maximum number of items of an array type in a compound. NumPy and zarr-python need quadratic time for more fields.
const ARRAY_ITEMS: u64 = 2000;

fn too_large() -> Error {
    Error::overflow("the compound datatype")
}

/// Returns the structure of a compound. Members with gaps between them, or in another order than their offsets, are copied
/// together when chunks are made.
///
/// # Errors
/// The compound is malformed, or a member cannot be a field.
fn structure_type(size: u32, members: &[Member], format: ZarrFormat) -> Result<ElementType> {
    if members.is_empty() {
        return Err(malformed("no members"));
    }
    if members.iter().map(|member| &member.name).collect::<BTreeSet<_>>().len() != members.len() {
        return Err(malformed("two members of the same name"));
    }
    let (mut fields, mut parts, mut length) = (Vec::new(), Vec::new(), 0_u32);
    for member in members {
        let refuse = |error: Error| error.within(&format!("member \"{}\" of the compound", member.name));
        let element = match &member.datatype {
            reference @ Datatype::Reference { .. } => Err(Error::no_data_type(describe_type(reference))),
            Datatype::Array { base, shape } => {
                array_as_compound(base, shape).and_then(|compound| element_type(&compound, format))
            }
            other => element_type(other, format),
        }
        .map_err(refuse)?;
        let Some(bytes) = element.data_type.size() else {
            let problem = "zarr-python opens no structures that hold it";
            return Err(refuse(Error::unsupported("text of variable length", problem)));
        };
        let (bytes, stored) = (u32::try_from(bytes), u32::try_from(element.stored_size));
        let (Ok(bytes), Ok(stored)) = (bytes, stored) else { return Err(too_large()) };
        if member.offset.checked_add(stored).is_none_or(|end| end > size) {
            let problem = format!("a member of {stored} bytes at {}, in {size} bytes", member.offset);
            return Err(malformed(problem));
        }
        let part = |from, to, size, transform: &ElementTransform| {
            let (from, to, transform) = (member.offset + from, length.saturating_add(to), transform.clone());
            ElementPart { from, to, size, transform }
        };
        match &element.transform {
            ElementTransform::None => {
                let leaves = leaves(&element.data_type, element.endian, 0).into_iter();
                parts.extend(leaves.map(|leaf| part(leaf.at, leaf.at, leaf.size, &ElementTransform::None)));
            }
            ElementTransform::Repack { parts: inner, .. } => {
                parts.extend(inner.iter().map(|one| part(one.from, one.to, one.size, &one.transform)));
            }
            transform => parts.push(part(0, 0, bytes, transform)),
        }
        length = length.checked_add(bytes).ok_or_else(too_large)?;
        fields.push(field(&member.name, &element));
    }
    let mut data_type = DataType::Struct(fields);
    let orders = leaves(&data_type, Endian::Little, 0).into_iter();
    let orders: BTreeMap<u32, Endian> = orders.filter_map(|leaf| Some((leaf.at, leaf.order?))).collect();
    let endian = orders.values().next().copied().unwrap_or(Endian::Little);
    if format == ZarrFormat::V3 {
        // Zarr v3 has one byte order for the whole array, so numbers in the other one are reversed.
        for part in &mut parts {
            if orders.get(&part.to).is_some_and(|order| *order != endian) {
                part.transform.reverse();
            }
        }
        set_order(&mut data_type, endian);
    }
    let is_copy = |part: &ElementPart| part.from == part.to && part.transform == ElementTransform::None;
    let transform = if length == size && parts.iter().all(is_copy) {
        ElementTransform::None
    } else {
        ElementTransform::Repack { stored_size: size, parts: parts.into() }
    };
    Ok(ElementType { transform, ..ElementType::plain(data_type, endian, size) })
}

/// A number, or bytes without an order, in a packed element.
struct Leaf {
    /// Offset in bytes.
    at: u32,
    /// Size in bytes.
    size: u32,
    /// Byte order of a number of several bytes.
    order: Option<Endian>,
}

/// Returns the leaves of an element that starts at `at`.
fn leaves(data_type: &DataType, endian: Endian, at: u32) -> Vec<Leaf> {
    let size = |data_type: &DataType| data_type.size().and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
    match (data_type, u32::try_from(data_type.number_size()).unwrap_or(1)) {
        (DataType::Struct(fields), _) => {
            let mut at = at;
            let of_field = |field: &Field| {
                let start = at;
                at = at.saturating_add(size(&field.data_type));
                leaves(&field.data_type, field.endian, start)
            };
            fields.iter().flat_map(of_field).collect()
        }
        (_, number @ 2..) => {
            let leaf = |n| Leaf { at: at.saturating_add(n * number), size: number, order: Some(endian) };
            (0..size(data_type) / number).map(leaf).collect()
        }
        _ => vec![Leaf { at, size: size(data_type), order: None }],
    }
}

fn malformed(problem: impl Into<String>) -> Error {
    Error::malformed("compound datatype", problem)
}

/// Returns the number of items of an array type in a compound.
///
/// # Errors
/// There are too many.
pub(super) fn array_items(shape: &[u64]) -> Result<u64> {
    let items = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
    items
        .filter(|items| *items <= ARRAY_ITEMS)
        .ok_or(Error::limit("items of an array in a compound", ARRAY_ITEMS))
}

/// Returns an array type as a compound with a member for each index along its first axis: no reader opens structures with
/// array members, and these bytes are the same.
pub(super) fn array_as_compound(base: &Datatype, shape: &[u64]) -> Result<Datatype> {
    array_items(shape)?;
    let Some((count, inner)) = shape.split_first() else { return Ok(base.clone()) };
    let item = match inner {
        [] => base.clone(),
        _ => Datatype::Array { base: Box::new(base.clone()), shape: inner.to_vec() },
    };
    let bytes = |count: u64| {
        item.size().checked_mul(count).and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(too_large)
    };
    let member = |n: u64| Ok(Member { name: n.to_string(), offset: bytes(n)?, datatype: item.clone() });
    Ok(Datatype::Compound { size: bytes(*count)?, members: (0..*count).map(member).collect::<Result<_>>()? })
}

/// Returns the name of the first member of a compound, also a nested one, that is an array.
pub(super) fn array_member(datatype: &Datatype) -> Option<&str> {
    let Datatype::Compound { members, .. } = datatype else { return None };
    members.iter().find_map(|member| match &member.datatype {
        Datatype::Array { .. } => Some(member.name.as_str()),
        other => array_member(other),
    })
}

fn set_order(data_type: &mut DataType, endian: Endian) {
    if let DataType::Struct(fields) = data_type {
        for field in fields {
            field.endian = endian;
            set_order(&mut field.data_type, endian);
        }
    }
}

/// The element type of an array, and its relation to the stored elements of the dataset.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ElementType {
    /// Type of an element.
    pub(super) data_type: DataType,
    /// Byte order of the array's elements.
    pub(super) endian: Endian,
    /// Axes of an HDF5 array type, slowest first. They follow those of the dataspace.
    pub(super) axes: Vec<u64>,
    /// Bytes of one stored element; of an item, for an array type.
    pub(super) stored_size: u64,
    /// Conversion of a stored element to one of the array.
    pub(super) transform: ElementTransform,
}

impl ElementType {
    /// Returns an element type whose elements are stored as they are.
    pub(super) fn plain(data_type: DataType, endian: Endian, stored_size: u32) -> Self {
        let stored_size = stored_size.into();
        Self { data_type, endian, axes: Vec::new(), stored_size, transform: ElementTransform::None }
    }

    /// Returns the size of an element of the array in bytes; 0 for variable length.
    pub(super) fn size(&self) -> usize {
        self.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
    }

    /// Whether chunks can be referenced as they are stored.
    pub(super) fn is_stored_as_it_is(&self) -> bool {
        self.transform == ElementTransform::None
    }
}

/// Returns the field of a structure for a member.
pub(super) fn field(name: &str, element: &ElementType) -> Field {
    Field {
        name: name.to_owned(),
        data_type: element.data_type.clone(),
        endian: element.endian,
        shape: element.axes.clone(),
    }
}

/// A format of IEEE 754. The mantissa starts at bit 0, the exponent follows, and the sign is the last bit.
struct IeeeFormat {
    /// Bytes.
    size: u32,
    /// Bits of the exponent.
    exponent_size: u8,
    /// Bits of the mantissa, the implied one not counted.
    mantissa_size: u8,
    data_type: DataType,
}

/// binary16, binary32 and binary64, in this order.
static IEEE: [IeeeFormat; 3] = [
    IeeeFormat { size: 2, exponent_size: 5, mantissa_size: 10, data_type: DataType::Float16 },
    IeeeFormat { size: 4, exponent_size: 8, mantissa_size: 23, data_type: DataType::Float32 },
    IeeeFormat { size: 8, exponent_size: 11, mantissa_size: 52, data_type: DataType::Float64 },
];

impl IeeeFormat {
    fn bias(&self) -> u32 {
        (1 << (self.exponent_size - 1)) - 1
    }

    /// Whether a datatype is this format.
    fn is(&self, float: &Float) -> bool {
        let Self { size, exponent_size, mantissa_size, .. } = *self;
        *float
            == Float {
                size,
                order: float.order,
                bit_offset: 0,
                precision: float.precision,
                sign_location: mantissa_size + exponent_size,
                exponent_location: mantissa_size,
                exponent_size,
                mantissa_location: 0,
                mantissa_size,
                exponent_bias: self.bias(),
                normalization: 2, // the most significant bit is not stored
            }
            && u32::from(float.precision) == size * 8
    }

    /// Whether the format has every value of another one whose largest exponent field is `highest`.
    fn holds(&self, float: &Float, highest: i64) -> bool {
        let (bias, own_bias) = (i64::from(float.exponent_bias), i64::from(self.bias()));
        let own_highest = (1_i64 << self.exponent_size) - 1;
        self.size >= float.size
            && float.mantissa_size <= self.mantissa_size
            && highest - bias <= own_highest - own_bias
            && 1 - bias >= 1 - own_bias
    }
}

/// Returns the data type of a float that is in an IEEE 754 format.
pub(super) fn ieee_type(float: &Float) -> Option<&'static DataType> {
    IEEE.iter().find(|format| format.is(float)).map(|format| &format.data_type)
}
