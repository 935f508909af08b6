//! Data types in metadata: `dtype` of Zarr v2, `data_type` of Zarr v3.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{CodecError, ZarrFormat};

/// Byte order of numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Type of an element. The byte order is not part of it: [`crate::Codec::Bytes`] declares it for numbers, [`Field`] for
/// the members of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool,
    /// Two's complement, 8 bits.
    Int8,
    /// Two's complement, 16 bits.
    Int16,
    /// Two's complement, 32 bits.
    Int32,
    /// Two's complement, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// IEEE 754 binary16.
    Float16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// Two binary32: real, imaginary.
    Complex64,
    /// Two binary64: real, imaginary.
    Complex128,
    /// A number of opaque bytes: `r{8·n}` in v3 (zarr-python: `raw_bytes`), `|V{n}` in v2.
    RawBytes(u32),
    /// A byte string in a field of so many bytes, without the NULs at its end: `null_terminated_bytes` in v3, `|S{n}`
    /// in v2.
    FixedBytes(u32),
    /// Unicode text in a field of so many code points of 4 bytes, without the NULs at its end: `fixed_length_utf32` in
    /// v3, `<U{n}` in v2.
    FixedText(u32),
    /// Times since 1970: `numpy.datetime64` in v3, `<M8[ns]` in v2. The least integer is NaT, not a time.
    DateTime(TimeUnit),
    /// Durations: `numpy.timedelta64` in v3, `<m8[ns]` in v2. The least integer is NaT, not a time.
    TimeDelta(TimeUnit),
    /// Unicode text of any length: `string` in v3, `|O` with `vlen-utf8` in v2.
    String,
    /// Byte strings of any length: `variable_length_bytes` in v3, `|O` with `vlen-bytes` in v2.
    VariableBytes,
    /// A structure of packed fields: `struct` in v3, a list of fields in v2.
    Struct(Vec<Field>),
}

/// Unit of times: a multiple of a unit of NumPy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeUnit {
    name: &'static str,
    factor: u32,
}

/// NumPy's units of time.
const TIME_UNITS: [&str; 14] =
    ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"];

impl TimeUnit {
    /// Returns a multiple of a unit of NumPy; `None` if NumPy does not have it.
    pub fn new(name: &str, factor: u64) -> Option<Self> {
        let name = if name == "μs" { "us" } else { name };
        let name = TIME_UNITS.into_iter().find(|known| *known == name)?;
        let most = if name == "generic" { 1 } else { i32::MAX.unsigned_abs() };
        let factor = u32::try_from(factor).ok().filter(|factor| (1..=most).contains(factor))?;
        Some(Self { name, factor })
    }

    /// Parses what follows `M8` in a NumPy string: `[ns]`, `[10s]`, or nothing.
    pub(crate) fn from_numpy(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Self::new("generic", 1);
        }
        let unit = text.strip_prefix('[')?.strip_suffix(']')?;
        let name = unit.trim_start_matches(|c: char| c.is_ascii_digit());
        let factor = unit.strip_suffix(name).filter(|factor| !factor.is_empty());
        Self::new(name, factor.map_or(Ok(1), str::parse).ok()?)
    }

    fn to_v3(self, name: &str) -> Value {
        json!({"name": name, "configuration": {"unit": self.name, "scale_factor": self.factor}})
    }
}

/// Formats the unit as NumPy does.
impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { name: "generic", .. } => Ok(()),
            Self { name, factor: 1 } => write!(f, "[{name}]"),
            Self { name, factor } => write!(f, "[{factor}{name}]"),
        }
    }
}

/// A field of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Byte order of its numbers. v2 declares it per field, v3 for the whole array.
    pub endian: Endian,
    /// Shape of an array in the field, slowest axis first; empty for a single value (v2 only).
    pub shape: Vec<u64>,
}

impl DataType {
    /// Returns the bytes per element; `None` for variable length.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 => 8,
            Self::DateTime(_) | Self::TimeDelta(_) => 8,
            Self::Complex128 => 16,
            Self::RawBytes(n) | Self::FixedBytes(n) => u64::from(*n),
            Self::FixedText(n) => 4 * u64::from(*n),
            Self::String | Self::VariableBytes => return None,
            Self::Struct(fields) => {
                return fields.iter().try_fold(0, |sum: u64, field| sum.checked_add(field.size()?));
            }
        })
    }

    /// Whether elements are integers.
    pub fn is_integer(&self) -> bool {
        self.is_signed_integer() || matches!(self, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// Returns the signed or unsigned integer type of the same width; other types as they are.
    pub fn with_sign(&self, signed: bool) -> Self {
        match (self, signed) {
            (Self::UInt8, true) => Self::Int8,
            (Self::UInt16, true) => Self::Int16,
            (Self::UInt32, true) => Self::Int32,
            (Self::UInt64, true) => Self::Int64,
            (Self::Int8, false) => Self::UInt8,
            (Self::Int16, false) => Self::UInt16,
            (Self::Int32, false) => Self::UInt32,
            (Self::Int64, false) => Self::UInt64,
            (other, _) => other.clone(),
        }
    }

    /// Whether elements are signed integers.
    pub fn is_signed_integer(&self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Whether elements are real floating-point numbers.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    /// Whether elements are complex numbers.
    pub fn is_complex(&self) -> bool {
        matches!(self, Self::Complex64 | Self::Complex128)
    }

    /// Returns the bytes that a change of byte order reverses together: those of a number or code point, half an element
    /// for complex types, 1 where byte order has no meaning.
    pub fn number_size(&self) -> u64 {
        match self {
            Self::Complex64 | Self::FixedText(_) => 4,
            Self::Complex128 | Self::DateTime(_) | Self::TimeDelta(_) => 8,
            number if number.is_integer() || number.is_float() => number.size().unwrap_or(1),
            _ => 1,
        }
    }
}

impl Field {
    /// Returns the bytes of the field; `None` for variable length, and above 64 bits.
    pub fn size(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.data_type.size()?, |product, n| product.checked_mul(*n))
    }
}

/// Types of numbers: name in Zarr v3, kind and size in NumPy strings.
pub(crate) static SCALARS: [(DataType, &str, char, u32); 14] = [
    (DataType::Bool, "bool", 'b', 1),
    (DataType::Int8, "int8", 'i', 1),
    (DataType::Int16, "int16", 'i', 2),
    (DataType::Int32, "int32", 'i', 4),
    (DataType::Int64, "int64", 'i', 8),
    (DataType::UInt8, "uint8", 'u', 1),
    (DataType::UInt16, "uint16", 'u', 2),
    (DataType::UInt32, "uint32", 'u', 4),
    (DataType::UInt64, "uint64", 'u', 8),
    (DataType::Float16, "float16", 'f', 2),
    (DataType::Float32, "float32", 'f', 4),
    (DataType::Float64, "float64", 'f', 8),
    (DataType::Complex64, "complex64", 'c', 8),
    (DataType::Complex128, "complex128", 'c', 16),
];

/// Formats the name of the data type in Zarr v3.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RawBytes(n) => return write!(f, "r{}", u64::from(*n).saturating_mul(8)),
            Self::FixedBytes(n) => return write!(f, "bytes of length {n}"),
            Self::FixedText(n) => return write!(f, "text of length {n}"),
            Self::DateTime(unit) => return write!(f, "datetime64{unit}"),
            Self::TimeDelta(unit) => return write!(f, "timedelta64{unit}"),
            Self::String => "string",
            Self::VariableBytes => "bytes",
            Self::Struct(_) => "struct",
            scalar => SCALARS.iter().find(|(known, ..)| known == scalar).map_or("", |(_, name, ..)| name),
        })
    }
}

impl DataType {
    /// Returns `dtype` of a Zarr v2 array: a NumPy string, or a list of fields. It includes the byte order: `endian`
    /// for numbers ([`crate::Codec::Bytes`]), their own for fields.
    ///
    /// # Errors
    /// Types of no bytes, and structures with an array or a variable length in a field.
    pub fn to_v2(&self, endian: Endian) -> Result<Value, CodecError> {
        let order = match endian {
            _ if self.number_size() == 1 => '|',
            Endian::Little => '<',
            Endian::Big => '>',
        };
        if let Some((_, _, kind, size)) = SCALARS.iter().find(|(known, ..)| known == self) {
            return Ok(format!("{order}{kind}{size}").into());
        }
        match self {
            Self::RawBytes(0) | Self::FixedBytes(0) | Self::FixedText(0) => {
                Err(CodecError::new("a data type of no bytes", ZarrFormat::V2))
            }
            Self::RawBytes(n) => Ok(format!("|V{n}").into()),
            Self::FixedBytes(n) => Ok(format!("|S{n}").into()),
            Self::FixedText(n) => Ok(format!("{order}U{n}").into()),
            Self::DateTime(unit) => Ok(format!("{order}M8{unit}").into()),
            Self::TimeDelta(unit) => Ok(format!("{order}m8{unit}").into()),
            Self::Struct(fields) => {
                fields.iter().map(Field::to_v2).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            _ => Ok("|O".into()),
        }
    }

    /// Returns `data_type` of a Zarr v3 array.
    ///
    /// # Errors
    /// Types of no bytes, and structures with an array or a variable length in a field, or with both byte orders.
    pub fn to_v3(&self) -> Result<Value, CodecError> {
        Ok(match self {
            Self::RawBytes(0) | Self::FixedBytes(0) | Self::FixedText(0) => {
                return Err(CodecError::new("a data type of no bytes", ZarrFormat::V3));
            }
            Self::RawBytes(n) => named("raw_bytes", u64::from(*n)),
            Self::FixedBytes(n) => named("null_terminated_bytes", u64::from(*n)),
            Self::FixedText(n) => named("fixed_length_utf32", 4 * u64::from(*n)),
            Self::DateTime(unit) => unit.to_v3("numpy.datetime64"),
            Self::TimeDelta(unit) => unit.to_v3("numpy.timedelta64"),
            Self::VariableBytes => "variable_length_bytes".into(),
            Self::Struct(fields) => {
                if self.mixes_byte_orders() {
                    return Err(CodecError::new(
                        "a structure with fields of different byte orders",
                        ZarrFormat::V3,
                    ));
                }
                let fields: Vec<_> = fields.iter().map(Field::to_v3).collect::<Result<_, _>>()?;
                json!({"name": "struct", "configuration": {"fields": fields}})
            }
            plain => plain.to_string().into(),
        })
    }

    /// Whether the type contains numbers of both byte orders.
    pub fn mixes_byte_orders(&self) -> bool {
        self.byte_orders_of(Endian::Little).len() > 1
    }

    /// Returns the type with all members of structures in one byte order, as Zarr v3 requires.
    pub fn in_byte_order(self, endian: Endian) -> Self {
        let Self::Struct(fields) = self else { return self };
        let convert =
            |field: Field| Field { data_type: field.data_type.in_byte_order(endian), endian, ..field };
        Self::Struct(fields.into_iter().map(convert).collect())
    }

    /// Returns the byte orders of the numbers in the type; `own` is that of the array.
    pub(crate) fn byte_orders_of(&self, own: Endian) -> Vec<Endian> {
        let mut seen = Vec::new();
        self.byte_orders(own, &mut seen);
        seen
    }

    fn byte_orders(&self, own: Endian, seen: &mut Vec<Endian>) {
        match self {
            Self::Struct(fields) => {
                for field in fields {
                    field.data_type.byte_orders(field.endian, seen);
                }
            }
            number if number.number_size() > 1 && !seen.contains(&own) => seen.push(own),
            _ => {}
        }
    }
}

impl Field {
    fn to_v2(&self) -> Result<Value, CodecError> {
        self.require_fixed_size(ZarrFormat::V2)?;
        if !self.shape.is_empty() {
            return Err(CodecError::new("a structure with an array in a field", ZarrFormat::V2));
        }
        Ok(json!([self.name, self.data_type.to_v2(self.endian)?]))
    }

    fn to_v3(&self) -> Result<Value, CodecError> {
        self.require_fixed_size(ZarrFormat::V3)?;
        if !self.shape.is_empty() {
            return Err(CodecError::new("a structure with an array in a field", ZarrFormat::V3));
        }
        Ok(json!({"name": self.name, "data_type": self.data_type.to_v3()?}))
    }

    fn require_fixed_size(&self, format: ZarrFormat) -> Result<(), CodecError> {
        match self.size() {
            Some(_) => Ok(()),
            None => Err(CodecError::new("a structure with a field of variable length", format)),
        }
    }
}

fn named(name: &str, length: u64) -> Value {
    json!({"name": name, "configuration": {"length_bytes": length}})
}
