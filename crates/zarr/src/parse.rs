//! Parsing of data types and scalars.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use half::f16;
use serde_json::Value;

use crate::{
    DataType, Endian, Field, FillValue,
    fill_value::{complex_half, in_byte_order},
    read_error::{ReadError, unexpected},
};

/// Greatest size of a fixed-length element, in bytes.
const LONGEST: u32 = 1 << 24;
/// Greatest depth of nested structures.
const DEPTH: usize = 16;

/// Parses `dtype` of a Zarr v2 array into type and byte order. The array's first filter determines the type of `|O`.
pub(crate) fn data_type_from_v2(dtype: &Value, zarray: &Value) -> Result<(DataType, Endian), ReadError> {
    if dtype.as_str() == Some("|O") {
        let filters = zarray.get("filters").and_then(Value::as_array);
        let first = filters.and_then(|filters| filters.first()?.get("id")?.as_str());
        return match first {
            Some("vlen-utf8") => Ok((DataType::String, Endian::Little)),
            Some("vlen-bytes") => Ok((DataType::VariableBytes, Endian::Little)),
            _ => Err(unexpected("dtype", "an object type with the filter vlen-utf8 or vlen-bytes", dtype)),
        };
    }
    numpy(dtype, DEPTH)
        .ok_or_else(|| unexpected("dtype", "a NumPy type of numbers, bytes or fields of these", dtype))
}

fn numpy(dtype: &Value, depth: usize) -> Option<(DataType, Endian)> {
    if let Some(fields) = dtype.as_array() {
        let depth = depth.checked_sub(1)?;
        let fields: Option<Vec<Field>> = fields.iter().map(|field| numpy_field(field, depth)).collect();
        let structure = DataType::Struct(fields.filter(|fields| !fields.is_empty())?);
        let endian = structure.byte_orders_of(Endian::Little).first().copied();
        return Some((structure, endian.unwrap_or(Endian::Little)));
    }
    let text = dtype.as_str()?;
    let (order, rest) = text.split_at_checked(1)?;
    let (kind, size) = rest.split_at_checked(1)?;
    let size: u32 = size.parse().ok().filter(|size| *size <= LONGEST)?;
    let endian = match order {
        "<" | "|" => Endian::Little,
        ">" => Endian::Big,
        _ => return None,
    };
    let data_type = match (kind, size) {
        ("b", 1) => DataType::Bool,
        ("i", 1) => DataType::Int8,
        ("i", 2) => DataType::Int16,
        ("i", 4) => DataType::Int32,
        ("i", 8) => DataType::Int64,
        ("u", 1) => DataType::UInt8,
        ("u", 2) => DataType::UInt16,
        ("u", 4) => DataType::UInt32,
        ("u", 8) => DataType::UInt64,
        ("f", 2) => DataType::Float16,
        ("f", 4) => DataType::Float32,
        ("f", 8) => DataType::Float64,
        ("c", 8) => DataType::Complex64,
        ("c", 16) => DataType::Complex128,
        ("V", 1..) => DataType::RawBytes(size),
        ("S", 1..) => DataType::FixedBytes(size),
        _ => return None,
    };
    Some((data_type, endian))
}

fn numpy_field(field: &Value, depth: usize) -> Option<Field> {
    let [name, dtype, shape @ ..] = field.as_array()?.as_slice() else { return None };
    let (data_type, endian) = numpy(dtype, depth)?;
    let shape = match shape {
        [] => Vec::new(),
        [shape] => shape.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(Field { name: name.as_str()?.to_owned(), data_type, endian, shape })
}

/// Parses `data_type` of a Zarr v3 array.
pub(crate) fn data_type_from_v3(data_type: &Value) -> Result<DataType, ReadError> {
    v3(data_type, DEPTH).ok_or_else(|| {
        unexpected("data_type", "a data type of numbers, bytes, text or fields of these", data_type)
    })
}

fn v3(data_type: &Value, depth: usize) -> Option<DataType> {
    if let Some(name) = data_type.as_str() {
        return plain(name);
    }
    let configuration = data_type.get("configuration");
    let length = || {
        let length = configuration?.get("length_bytes")?.as_u64()?;
        u32::try_from(length).ok().filter(|length| (1..=LONGEST).contains(length))
    };
    match data_type.get("name")?.as_str()? {
        "raw_bytes" => length().map(DataType::RawBytes),
        "null_terminated_bytes" => length().map(DataType::FixedBytes),
        "struct" | "structured" => {
            let depth = depth.checked_sub(1)?;
            let fields = configuration?.get("fields")?.as_array()?;
            let fields: Option<Vec<Field>> = fields.iter().map(|field| v3_field(field, depth)).collect();
            Some(DataType::Struct(fields.filter(|fields| !fields.is_empty())?))
        }
        name if configuration.is_none() => plain(name),
        _ => None,
    }
}

fn plain(name: &str) -> Option<DataType> {
    let known = [
        DataType::Bool,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Complex64,
        DataType::Complex128,
        DataType::String,
    ];
    match name {
        "variable_length_bytes" | "bytes" => Some(DataType::VariableBytes),
        _ => match known.into_iter().find(|known| known.to_string() == name) {
            Some(known) => Some(known),
            None => {
                let bits: u32 = name.strip_prefix('r')?.parse().ok()?;
                (bits.is_multiple_of(8) && (1..=LONGEST).contains(&(bits / 8)))
                    .then_some(DataType::RawBytes(bits / 8))
            }
        },
    }
}

fn v3_field(field: &Value, depth: usize) -> Option<Field> {
    let (name, data_type) = match field.as_array().map(Vec::as_slice) {
        Some([name, data_type]) => (name, data_type),
        Some(_) => return None,
        None => (field.get("name")?, field.get("data_type")?),
    };
    let data_type = v3(data_type, depth)?;
    Some(Field { name: name.as_str()?.to_owned(), data_type, endian: Endian::Little, shape: Vec::new() })
}

impl FillValue {
    /// Parses what [`FillValue::to_json`] writes.
    ///
    /// # Errors
    /// JSON that is not a scalar of the type.
    pub fn from_json(value: &Value, data_type: &DataType) -> Result<Self, ReadError> {
        let found = match data_type {
            DataType::String => {
                value.as_str().map(|text| Self::Text(text.to_owned())).or_else(|| zero(value, data_type))
            }
            DataType::VariableBytes => decode64(value).map(Self::Variable).or_else(|| zero(value, data_type)),
            _ => fixed(value, data_type).map(|bytes| Self::Fixed(bytes.into())),
        };
        found.ok_or_else(|| unexpected("fill_value", "a scalar of the array's type", value))
    }
}

/// Some tools write the number 0 as the fill value of every type.
fn zero(value: &Value, data_type: &DataType) -> Option<FillValue> {
    (value.as_u64() == Some(0)).then(|| FillValue::zero(data_type))
}

fn decode64(value: &Value) -> Option<Bytes> {
    BASE64_STANDARD.decode(value.as_str()?).ok().map(Bytes::from)
}

/// Parses an element of fixed size into its bytes, little-endian.
fn fixed(value: &Value, data_type: &DataType) -> Option<Vec<u8>> {
    if let Some(half) = complex_half(data_type) {
        let [real, imaginary] = value.as_array()?.as_slice() else { return None };
        let (real, imaginary) = (fixed(real, &half)?, fixed(imaginary, &half)?);
        return Some([real, imaginary].concat());
    }
    let size = usize::try_from(data_type.size()?).ok()?;
    let of = |fill: Option<FillValue>| match fill {
        Some(FillValue::Fixed(bytes)) => Some(bytes.to_vec()),
        _ => None,
    };
    match data_type {
        DataType::Bool => match value {
            Value::Bool(value) => Some(vec![u8::from(*value)]),
            number => number.as_u64().filter(|number| *number <= 1).map(|number| vec![u8::from(number == 1)]),
        },
        integer if integer.is_integer() => {
            let whole =
                || value.as_f64().filter(|number| number.trunc() == *number && number.abs() < 2f64.powi(53));
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
            let number = value
                .as_i64()
                .map(i128::from)
                .or_else(|| value.as_u64().map(i128::from))
                .or_else(|| whole().map(|n| n as i128))?;
            of(FillValue::from_i128(integer, number).exact())
        }
        float if float.is_float() => float_bytes(value, float, size),
        DataType::Struct(fields) if value.is_object() => {
            let parts: Option<Vec<_>> =
                fields.iter().map(|field| fixed(value.get(&field.name)?, &field.data_type)).collect();
            Some(parts?.concat()).filter(|bytes| bytes.len() == size)
        }
        _ if value.as_u64() == Some(0) => Some(vec![0; size]),
        other => {
            // NumPy strips NULs from the end of a byte string.
            let mut bytes = decode64(value)?.to_vec();
            if bytes.len() > size || (bytes.len() < size && !matches!(other, DataType::FixedBytes(_))) {
                return None;
            }
            bytes.resize(size, 0);
            in_byte_order(&bytes, other, Endian::Little)
        }
    }
}

fn float_bytes(value: &Value, data_type: &DataType, size: usize) -> Option<Vec<u8>> {
    let number = match value {
        Value::String(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            hexadecimal => return hex(hexadecimal, size),
        },
        number => number.as_f64()?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounds to nearest, as every reader of the document does"
    )]
    Some(match data_type {
        _ if number.is_nan() => match FillValue::from_f64(data_type, number).value()? {
            FillValue::Fixed(bytes) => bytes.to_vec(),
            _ => return None,
        },
        DataType::Float16 => f16::from_f64(number).to_le_bytes().to_vec(),
        DataType::Float32 => (number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    })
}

/// Parses `0x…`, the bits of a number.
fn hex(text: &str, size: usize) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * size)?;
    let bits = u64::from_str_radix(digits, 16).ok()?;
    bits.to_le_bytes().get(..size).map(<[u8]>::to_vec)
}
