//! Data types in metadata: `dtype` of Zarr v2, `data_type` of Zarr v3.

use serde_json::{Value, json};

use crate::{CodecError, DataType, Endian, Field, ZarrFormat};

impl DataType {
    /// Returns `dtype` of a Zarr v2 array: a NumPy string, or a list of fields. It includes the byte order: `endian`
    /// for numbers ([`crate::Codec::Bytes`]), their own for fields.
    ///
    /// # Errors
    /// Types of no bytes, and structures with an array or a variable length in a field.
    pub fn to_v2(&self, endian: Endian) -> Result<Value, CodecError> {
        let order = match endian {
            Endian::Little => '<',
            Endian::Big => '>',
        };
        let number = |kind: char, size: u32| Ok(Value::String(format!("{order}{kind}{size}")));
        match self {
            Self::Bool => Ok("|b1".into()),
            Self::Int8 => Ok("|i1".into()),
            Self::UInt8 => Ok("|u1".into()),
            Self::Int16 => number('i', 2),
            Self::Int32 => number('i', 4),
            Self::Int64 => number('i', 8),
            Self::UInt16 => number('u', 2),
            Self::UInt32 => number('u', 4),
            Self::UInt64 => number('u', 8),
            Self::Float16 => number('f', 2),
            Self::Float32 => number('f', 4),
            Self::Float64 => number('f', 8),
            Self::Complex64 => number('c', 8),
            Self::Complex128 => number('c', 16),
            Self::RawBytes(0) | Self::FixedBytes(0) => {
                Err(CodecError::new("a data type of no bytes", ZarrFormat::V2))
            }
            Self::RawBytes(n) => Ok(format!("|V{n}").into()),
            Self::FixedBytes(n) => Ok(format!("|S{n}").into()),
            Self::String | Self::VariableBytes => Ok("|O".into()),
            Self::Struct(fields) => {
                fields.iter().map(Field::to_v2).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
        }
    }

    /// Returns `data_type` of a Zarr v3 array.
    ///
    /// # Errors
    /// Types of no bytes, and structures with an array or a variable length in a field, or with both byte orders.
    pub fn to_v3(&self) -> Result<Value, CodecError> {
        Ok(match self {
            Self::RawBytes(0) | Self::FixedBytes(0) => {
                return Err(CodecError::new("a data type of no bytes", ZarrFormat::V3));
            }
            Self::RawBytes(n) => named("raw_bytes", *n),
            Self::FixedBytes(n) => named("null_terminated_bytes", *n),
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

fn named(name: &str, length: u32) -> Value {
    json!({"name": name, "configuration": {"length_bytes": length}})
}
