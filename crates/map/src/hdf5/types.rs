//! HDF5 datatypes as Zarr data types, and how stored elements become elements of such a type.

use virtualize_hdf5::model::{ByteOrder, Datatype, Float, Integer, Member, StringPadding};
use virtualize_zarr::{DataType, Endian, ZarrFormat};

use super::describe::describe_type;
use super::element::ElementType;
use super::ieee::{IEEE, ieee_type};
use crate::{ElementTransform, Error, FloatFormat, PaddedString, Result, StringEnd};

/// Maximum size of an element in bytes. Metadata contain the fill value, so a file of 1 KB with elements of 4 GB would
/// need as much memory.
const LARGEST_ELEMENT: u64 = 1 << 20;

/// Maps an HDF5 datatype to a Zarr data type.
///
/// # Errors
/// Zarr has no such type, its elements are too large, or the datatype is malformed.
pub(super) fn element_type(datatype: &Datatype, format: ZarrFormat) -> Result<ElementType> {
    let element = type_of_any_size(datatype, format)?;
    match element.data_type.size() {
        Some(size) if size > LARGEST_ELEMENT => Err(Error::Unsupported {
            feature: "data type".into(),
            problem: format!("elements of {size} bytes, more than {LARGEST_ELEMENT}").into(),
        }),
        _ => Ok(element),
    }
}

/// Maps a datatype with elements of any size.
fn type_of_any_size(datatype: &Datatype, format: ZarrFormat) -> Result<ElementType> {
    match datatype {
        Datatype::Integer(integer) | Datatype::Bitfield(integer) => integer_type(integer),
        Datatype::Float(float) => float_type(float),
        Datatype::Enum { base, members } => enum_type(base, members, format),
        Datatype::String { size, padding, .. } => string_type(*size, *padding),
        Datatype::Opaque { size, tag } => opaque_type(*size, tag),
        Datatype::VariableString { size, .. } => {
            Ok(ElementType::plain(DataType::String, Endian::Little, *size))
        }
        Datatype::Reference { size, .. } => Ok(ElementType::plain(DataType::String, Endian::Little, *size)),
        Datatype::Complex { base } => complex_type(base),
        Datatype::Compound { size, members } => match complex_compound(*size, members) {
            Some(complex) => Ok(complex),
            None => super::structures::structure_type(*size, members, format, element_type),
        },
        Datatype::Array { base, shape } => array_type(base, shape, format),
        Datatype::Time { size, order } => time_type(*size, *order),
        Datatype::Sequence { .. } => Err(Error::NoDataType(describe_type(datatype))),
    }
}

fn sized(size: u32, data_type: DataType) -> Result<ElementType> {
    match size {
        0 => Err(Error::malformed("datatype", "a size of 0 bytes")),
        _ => Ok(ElementType::plain(data_type, Endian::Little, size)),
    }
}

/// Maps a string of fixed length. Zarr's are null-padded, as which a single null-terminated byte can be read, too.
fn string_type(size: u32, padding: StringPadding) -> Result<ElementType> {
    let element = sized(size, DataType::FixedBytes(size))?;
    let end = match padding {
        StringPadding::NullPadded => return Ok(element),
        StringPadding::NullTerminated if size == 1 => return Ok(element),
        StringPadding::NullTerminated => StringEnd::Nul,
        StringPadding::SpacePadded => StringEnd::Blanks,
    };
    let strings = vec![PaddedString { offset: 0, size, end }];
    Ok(ElementType { transform: ElementTransform::repack(size, vec![(0, 0, size)], strings), ..element })
}

/// Maps opaque data. h5py tags it with the NumPy type that it stored: byte strings, and times as 64-bit counts of a unit.
fn opaque_type(size: u32, tag: &str) -> Result<ElementType> {
    let text = tag.strip_prefix("NUMPY:|S").and_then(|length| length.parse().ok());
    match numpy_time(tag) {
        Some(time) if size == 8 => Ok(ElementType::plain(DataType::Int64, time.endian, size)),
        _ if text == Some(size) => sized(size, DataType::FixedBytes(size)),
        _ => sized(size, DataType::RawBytes(size)),
    }
}

/// Maps a time as PyTables stores it: a 32-bit integer, or a count of seconds and microseconds that becomes a 64-bit float.
/// HDF5 does not define what a time contains.
fn time_type(size: u32, order: ByteOrder) -> Result<ElementType> {
    let endian = endian_of(order)?;
    match size {
        4 => Ok(ElementType::plain(DataType::Int32, endian, size)),
        8 => Ok(ElementType {
            transform: ElementTransform::Time { big_endian: endian == Endian::Big },
            ..ElementType::plain(DataType::Float64, endian, size)
        }),
        _ => Err(Error::NoDataType(describe_type(&Datatype::Time { size, order }))),
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

/// Parses a tag of h5py such as `NUMPY:<M8[s]`; `None` if it is no time, or CF lacks its unit.
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

/// Returns the byte order of a number.
///
/// # Errors
/// Zarr has no VAX byte order.
pub(super) fn endian_of(order: ByteOrder) -> Result<Endian> {
    match order {
        ByteOrder::Little => Ok(Endian::Little),
        ByteOrder::Big => Ok(Endian::Big),
        ByteOrder::Vax => Err(Error::NoDataType("numbers in VAX byte order".to_owned())),
    }
}

/// Maps an integer. With unused bits it keeps its size, as in h5py, if there are integers of this size.
fn integer_type(integer: &Integer) -> Result<ElementType> {
    let big = match endian_of(integer.order) {
        Ok(endian) => endian == Endian::Big,
        Err(_) if integer.size == 1 => false,
        Err(why) => return Err(why),
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
        let endian = if big { Endian::Big } else { Endian::Little };
        return Ok(ElementType::plain(data_type, endian, integer.size));
    }
    let smallest = u32::from(integer.precision).div_ceil(8).next_power_of_two();
    let data_type = integer_data_type(integer.size, integer.signed)
        .or_else(|| integer_data_type(smallest, integer.signed))
        .ok_or_else(|| Error::NoDataType(format!("{}-bit integers", integer.precision)))?;
    let transform = ElementTransform::Integer {
        stored_size: integer.size,
        stored_big_endian: big,
        bit_offset: integer.bit_offset,
        precision: integer.precision,
        signed: integer.signed,
        big_endian: false,
    };
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
        None => {
            wider_float_type(float).ok_or_else(|| Error::NoDataType(describe_type(&Datatype::Float(*float))))
        }
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
        stored: FloatFormat {
            size: float.size,
            big_endian: float.order == ByteOrder::Big,
            sign_location: float.sign_location,
            exponent_location: float.exponent_location,
            exponent_size: float.exponent_size,
            exponent_bias: float.exponent_bias,
            mantissa_location: float.mantissa_location,
            mantissa_size: float.mantissa_size,
            explicit_bit: float.normalization != 2,
        },
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

fn enum_type(base: &Datatype, members: &[(String, Vec<u8>)], format: ZarrFormat) -> Result<ElementType> {
    let element = element_type(base, format)?;
    match base {
        Datatype::Integer(integer) if is_boolean(base, members) && element.is_stored_as_it_is() => {
            Ok(boolean_type(integer, element))
        }
        _ => Ok(element),
    }
}

/// Maps a boolean of any size to Zarr's of one byte.
fn boolean_type(integer: &Integer, element: ElementType) -> ElementType {
    let transform = match u16::try_from(integer.size.saturating_mul(8)) {
        Ok(precision @ 9..) => ElementTransform::Integer {
            stored_size: integer.size,
            stored_big_endian: element.endian == Endian::Big,
            bit_offset: 0,
            precision,
            signed: false,
            big_endian: false,
        },
        _ => ElementTransform::None,
    };
    ElementType { data_type: DataType::Bool, endian: Endian::Little, transform, ..element }
}

/// Maps a complex number of two floats of type `base`.
fn complex_type(base: &Datatype) -> Result<ElementType> {
    let refuse = || Error::NoDataType(format!("complex numbers of two {}s", describe_type(base)));
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

fn array_type(base: &Datatype, shape: &[u64], format: ZarrFormat) -> Result<ElementType> {
    let item = element_type(base, format)?;
    let axes: Vec<u64> = shape.iter().chain(&item.axes).copied().collect();
    match axes.iter().try_fold(1u64, |product, n| product.checked_mul(*n)) {
        Some(1..) => Ok(ElementType { axes, ..item }),
        _ => Err(Error::malformed("array datatype", format!("a shape of {shape:?}"))),
    }
}
