//! Data types of elements, and how the stored elements become those of the array.

use std::collections::BTreeSet;

use virtualize_hdf5::model::{ByteOrder, Datatype, Float, Integer, Member, StringPadding};
use virtualize_zarr::{DataType, Endian, Field, StoredInteger, ZarrFormat};

use super::dataset::describe_type;
use crate::{ConvertedPart, ElementTransform, Error, PaddedString, Result, StringEnd};

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
                    Ok(boolean_type(integer, element))
                }
                _ => Ok(element),
            }
        }
        // Zarr's strings are null-padded, as which a single null-terminated byte can be read, too.
        Datatype::String { size, padding, .. } => {
            let (element, size) = (sized(*size, DataType::FixedBytes(*size))?, *size);
            let end = match padding {
                StringPadding::NullPadded => None,
                StringPadding::NullTerminated => (size > 1).then_some(StringEnd::Nul),
                StringPadding::SpacePadded => Some(StringEnd::Blanks),
            };
            let transform = end.map_or(ElementTransform::None, |end| {
                let strings = vec![PaddedString { offset: 0, size, end }];
                ElementTransform::repack(size, vec![(0, 0, size)], strings)
            });
            Ok(ElementType { transform, ..element })
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
                    transform: ElementTransform::Time { big_endian: endian == Endian::Big },
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NumpyTime {
    endian: Endian,
    /// Value of CF's attribute `units`.
    pub(super) units: &'static str,
    /// For a duration, value of the attribute `dtype`, without which xarray shows numbers.
    pub(super) duration: Option<&'static str>,
}

/// Parses a tag of h5py such as `NUMPY:<M8[s]`; `None` if it is not a time, or CF lacks its unit.
pub(super) fn numpy_time(tag: &str) -> Option<NumpyTime> {
    let code = tag.strip_prefix("NUMPY:")?;
    let (endian, code) = match code.split_at_checked(1)? {
        ("<", code) => (Endian::Little, code),
        (">", code) => (Endian::Big, code),
        _ => return None,
    };
    let units = match code {
        "M8[D]" => "days since 1970-01-01",
        "M8[h]" => "hours since 1970-01-01",
        "M8[m]" => "minutes since 1970-01-01",
        "M8[s]" => "seconds since 1970-01-01",
        "M8[ms]" => "milliseconds since 1970-01-01",
        "M8[us]" => "microseconds since 1970-01-01",
        "M8[ns]" => "nanoseconds since 1970-01-01",
        "m8[D]" => "days",
        "m8[h]" => "hours",
        "m8[m]" => "minutes",
        "m8[s]" => "seconds",
        "m8[ms]" => "milliseconds",
        "m8[us]" => "microseconds",
        "m8[ns]" => "nanoseconds",
        _ => return None,
    };
    let duration = code.starts_with("m8").then_some(match code {
        "m8[ms]" => "timedelta64[ms]",
        "m8[us]" => "timedelta64[us]",
        "m8[ns]" => "timedelta64[ns]",
        _ => "timedelta64[s]",
    });
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

fn integer_data_type(size: u32, signed: bool) -> Option<DataType> {
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

fn float_type(float: &Float) -> Result<ElementType> {
    match ieee_type(float) {
        Some(data_type) => Ok(ElementType::plain(data_type.clone(), endian_of(float.order)?, float.size)),
        None => wider_float_type(float)
            .ok_or_else(|| Error::no_data_type(describe_type(&Datatype::Float(*float)))),
    }
}

/// Maps a float in another format to the smallest IEEE 754 format, not smaller than the stored one, that has all its values;
/// if there is none, to binary64, which each value has to equal. `None` if the fields contradict each other.
fn wider_float_type(float: &Float) -> Option<ElementType> {
    let highest = 1_i64.checked_shl(float.exponent_size.into()).filter(|_| float.exponent_size < 32)? - 1;
    let bits = |at: u8, size: u8| u32::from(at) + u32::from(size) <= float.size.saturating_mul(8);
    let sound = (1..=16).contains(&float.size)
        && (float.order != ByteOrder::Vax || float.size == 1)
        // libhdf5 reads other values where the first mantissa bit is stored and always set.
        && float.normalization != 1
        && bits(float.sign_location, 1)
        && bits(float.exponent_location, float.exponent_size)
        && bits(float.mantissa_location, float.mantissa_size)
        && float.exponent_size > 0
        && float.mantissa_size > 0;
    let holds_all = IEEE.iter().find(|format| format.holds(float, highest));
    let format = holds_all.or(IEEE.last()).filter(|_| sound)?;
    let transform = ElementTransform::Float {
        stored: *float,
        exponent_size: format.exponent_size,
        mantissa_size: format.mantissa_size,
        big_endian: false,
    };
    Some(ElementType {
        transform,
        ..ElementType::plain(format.data_type.clone(), Endian::Little, float.size)
    })
}

/// Whether an enumeration is the boolean type of h5py: FALSE = 0, TRUE = 1.
pub(super) fn is_boolean(base: &Datatype, members: &[(String, Vec<u8>)]) -> bool {
    let Datatype::Integer(integer) = base else { return false };
    let value = |name: &str| members.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_slice());
    let is = |bytes: Option<&[u8]>, number: u8| {
        let last = if integer.order == ByteOrder::Big {
            bytes.and_then(<[u8]>::last)
        } else {
            bytes.and_then(<[u8]>::first)
        };
        let sum = bytes.map(|bytes| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>());
        last == Some(&number) && sum == Some(number.into())
    };
    members.len() == 2 && is(value("FALSE"), 0) && is(value("TRUE"), 1)
}

/// Maps a boolean of any size to Zarr's of one byte.
fn boolean_type(integer: &Integer, element: ElementType) -> ElementType {
    let transform = match u16::try_from(integer.size.saturating_mul(8)) {
        Ok(precision @ 9..) => {
            let (size, endian) = (integer.size, element.endian);
            let stored = StoredInteger { size, endian, offset: 0, precision, signed: false };
            ElementTransform::Integer { stored, big_endian: false }
        }
        _ => ElementTransform::None,
    };
    ElementType { data_type: DataType::Bool, endian: Endian::Little, transform, ..element }
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
    let parts = vec![(real.offset, 0, half), (imaginary.offset, half, half)];
    Some(ElementType {
        transform: ElementTransform::repack(size, parts, Vec::new()),
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
    let mut structure = Packed { size, ..Packed::default() };
    for member in members {
        let refuse = |error: Error| error.of_member(&member.name);
        let unsupported =
            |feature: &'static str, problem: &'static str| refuse(Error::unsupported(feature, problem));
        if let reference @ Datatype::Reference { .. } = &member.datatype {
            return Err(refuse(Error::no_data_type(describe_type(reference))));
        }
        let element = match &member.datatype {
            Datatype::Array { base, shape } => array_as_compound(base, shape)
                .and_then(|compound| element_type(&compound, format))
                .map_err(refuse)?,
            other => element_type(other, format).map_err(refuse)?,
        };
        if element.data_type.size().is_none() {
            return Err(unsupported(
                "text of variable length",
                "zarr-python opens no structures that hold it",
            ));
        }
        structure.push(member, &element)?;
    }
    structure.element(format)
}

/// A structure under construction.
#[derive(Default)]
struct Packed {
    /// Bytes of the stored compound.
    size: u32,
    fields: Vec<Field>,
    /// Bytes of the fields so far.
    length: u32,
    /// Parts to copy: (offset in the compound, offset in the structure, bytes).
    parts: Vec<(u32, u32, u32)>,
    strings: Vec<PaddedString>,
    converted: Vec<ConvertedPart>,
    reversed: Vec<(u32, u32)>,
}

impl Packed {
    fn push(&mut self, member: &Member, element: &ElementType) -> Result<()> {
        let start = self.length;
        let stored = u32::try_from(element.stored_size).map_err(|_| too_large())?;
        let size =
            element.data_type.size().and_then(|size| u32::try_from(size).ok()).ok_or_else(too_large)?;
        let end = start.checked_add(size).ok_or_else(too_large)?;
        if member.offset.checked_add(stored).is_none_or(|end| end > self.size) {
            let problem = format!("a member of {stored} bytes at {}, in {} bytes", member.offset, self.size);
            return Err(malformed(problem));
        }
        match &element.transform {
            ElementTransform::None => self.copy((member.offset, start, stored)),
            ElementTransform::Repack { parts, strings, converted, reversed, .. } => {
                for (from, to, length) in parts {
                    self.copy((member.offset + from, start + to, *length));
                }
                let moved = |string: &PaddedString| PaddedString { offset: start + string.offset, ..*string };
                self.strings.extend(strings.iter().map(moved));
                self.converted.extend(converted.iter().map(|part| ConvertedPart {
                    from: member.offset + part.from,
                    to: start + part.to,
                    ..part.clone()
                }));
                self.reversed.extend(reversed.iter().map(|(offset, size)| (start + offset, *size)));
            }
            transform => {
                let transform = transform.clone();
                self.converted.push(ConvertedPart { from: member.offset, to: start, size, transform });
            }
        }
        self.length = end;
        self.fields.push(field(&member.name, element));
        Ok(())
    }

    /// Copies bytes of the compound. Bytes that follow those of the last part extend it.
    fn copy(&mut self, (from, to, length): (u32, u32, u32)) {
        match self.parts.last_mut() {
            Some((last_from, last_to, bytes)) if *last_from + *bytes == from && *last_to + *bytes == to => {
                *bytes += length;
            }
            _ => self.parts.push((from, to, length)),
        }
    }

    fn element(mut self, format: ZarrFormat) -> Result<ElementType> {
        let mut numbers = Vec::new();
        collect_numbers(&self.fields, 0, &mut numbers);
        let endian = numbers.first().map_or(Endian::Little, |(_, _, endian)| *endian);
        if format == ZarrFormat::V3 {
            // Zarr v3 has one byte order for the whole array, so numbers in the other one are reversed.
            let others = numbers.iter().filter(|(.., order)| *order != endian);
            self.reversed.extend(others.map(|(offset, size, _)| (*offset, *size)));
            set_order(&mut self.fields, endian);
        }
        let Self { size, parts, strings, converted, reversed, .. } = self;
        let is_stored_as_it_is =
            parts == [(0, 0, size)] && strings.is_empty() && converted.is_empty() && reversed.is_empty();
        Ok(ElementType {
            data_type: DataType::Struct(self.fields),
            endian,
            axes: Vec::new(),
            stored_size: size.into(),
            transform: if is_stored_as_it_is {
                ElementTransform::None
            } else {
                ElementTransform::Repack { stored_size: size, parts, strings, converted, reversed }
            },
        })
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

/// Collects the multi-byte numbers in packed fields, the first of which starts at `start`: (offset, bytes, byte order).
fn collect_numbers(fields: &[Field], start: u32, numbers: &mut Vec<(u32, u32, Endian)>) {
    let mut at = start;
    for field in fields {
        let size = field.size().and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        let number = u32::try_from(field.data_type.number_size()).unwrap_or(1);
        match &field.data_type {
            DataType::Struct(inner) => collect_numbers(inner, at, numbers),
            _ if number > 1 => {
                numbers.extend((0..size / number).map(|n| (at + n * number, number, field.endian)));
            }
            _ => {}
        }
        at = at.saturating_add(size);
    }
}

fn set_order(fields: &mut [Field], endian: Endian) {
    for field in fields {
        field.endian = endian;
        if let DataType::Struct(inner) = &mut field.data_type {
            set_order(inner, endian);
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

/// One of the formats of IEEE 754, as the fields of HDF5's floating-point datatype.
pub(super) struct IeeeFormat {
    /// Bytes.
    size: u32,
    /// Position of the sign bit.
    sign_location: u8,
    /// Position of the first exponent bit.
    exponent_location: u8,
    /// Bits of the exponent.
    pub(super) exponent_size: u8,
    /// Bits of the mantissa, the implied one not counted. They start at bit 0.
    pub(super) mantissa_size: u8,
    exponent_bias: u32,
    pub(super) data_type: DataType,
}

/// binary16, binary32 and binary64, in this order.
#[rustfmt::skip]
pub(super) static IEEE: [IeeeFormat; 3] = [
    IeeeFormat {
        size: 2, sign_location: 15, exponent_location: 10, exponent_size: 5, mantissa_size: 10, exponent_bias: 15,
        data_type: DataType::Float16,
    },
    IeeeFormat {
        size: 4, sign_location: 31, exponent_location: 23, exponent_size: 8, mantissa_size: 23, exponent_bias: 127,
        data_type: DataType::Float32,
    },
    IeeeFormat {
        size: 8, sign_location: 63, exponent_location: 52, exponent_size: 11, mantissa_size: 52, exponent_bias: 1023,
        data_type: DataType::Float64,
    },
];

impl IeeeFormat {
    /// Whether a datatype is this format. The normalization "most significant bit not stored" is number 2.
    fn is(&self, float: &Float) -> bool {
        self.size == float.size
            && self.sign_location == float.sign_location
            && self.exponent_location == float.exponent_location
            && self.exponent_size == float.exponent_size
            && self.mantissa_size == float.mantissa_size
            && self.exponent_bias == float.exponent_bias
            && u32::from(float.precision) == self.size * 8
            && (float.bit_offset, float.mantissa_location, float.normalization) == (0, 0, 2)
    }

    /// Whether the format has every value of another one whose largest exponent field is `highest`.
    pub(super) fn holds(&self, float: &Float, highest: i64) -> bool {
        let (bias, own_bias) = (i64::from(float.exponent_bias), i64::from(self.exponent_bias));
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
