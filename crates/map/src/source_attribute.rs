//! Attributes as the source file declares them. JSON does not keep their types.

use serde_json::{Number, Value};
use virtualize_zarr::{DataType, Endian, FillValue, ZarrFormat};

/// An attribute of the source file.
#[derive(Clone, PartialEq, Debug)]
pub struct SourceAttribute {
    /// Name.
    pub name: String,
    /// Type, shape and elements.
    pub value: SourceValue,
}

/// Bytes of memory for an attribute, without its name and elements.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for an element of variable length, without its content.
const ELEMENT: u64 = 32;

impl SourceAttribute {
    /// Estimates the memory of the attribute in bytes. JSON counts as none, as its creation is charged elsewhere.
    pub(crate) fn weight(&self) -> u64 {
        let elements = match &self.value {
            SourceValue::Fixed { bytes, .. } => bytes.len() as u64,
            SourceValue::Text { elements, .. } | SourceValue::Sequences { elements, .. } => {
                elements.iter().map(|element| (element.len() as u64).saturating_add(ELEMENT)).sum()
            }
            SourceValue::Json(_) => 0,
        };
        ATTRIBUTE.saturating_add(self.name.len() as u64).saturating_add(elements)
    }
}

/// Type, shape and elements of an attribute. Shapes are in elements, slowest axis first: empty for a scalar, and `None`
/// for an attribute that declares a type but no elements (HDF5's null dataspace). Elements are in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceValue {
    /// Elements of fixed size.
    Fixed {
        /// Type of an element.
        data_type: NumpyType,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// Elements in the byte order of their type.
        bytes: Vec<u8>,
    },
    /// Text.
    Text {
        /// Size of an element in bytes; `None` for variable length.
        length: Option<u32>,
        /// Whether the file declares UTF-8, not ASCII.
        is_utf8: bool,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// Each element as stored, without its padding.
        elements: Vec<Vec<u8>>,
    },
    /// Sequences of variable length.
    Sequences {
        /// Type of an item.
        data_type: NumpyType,
        /// Shape.
        shape: Option<Vec<u64>>,
        /// The items of each element in the byte order of their type.
        elements: Vec<Vec<u8>>,
    },
    /// Any other value, in the form that it has in JSON: references and compounds that contain text of variable length.
    Json(Value),
}

/// A NumPy data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NumpyType {
    /// A type string, such as `<f4`.
    Plain(String),
    /// A structured type.
    Struct {
        /// Size in bytes, with padding.
        size: u32,
        /// Fields.
        fields: Vec<NumpyField>,
    },
}

/// A field of a structured NumPy data type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumpyField {
    /// Name.
    pub name: String,
    /// Offset in bytes.
    pub offset: u32,
    /// Type of an element.
    pub data_type: NumpyType,
    /// Shape of an array in the field, slowest axis first; empty for a single value.
    pub shape: Vec<u64>,
}

/// Returns a data type in NumPy's notation, such as `>u2` or `|u1`.
pub(crate) fn numpy_name(data_type: &DataType, endian: Endian) -> String {
    let size = data_type.size().unwrap_or(1);
    let order = match endian {
        _ if data_type.number_size() == 1 => '|',
        Endian::Little => '<',
        Endian::Big => '>',
    };
    let kind = match data_type {
        number if number.is_signed_integer() => 'i',
        number if number.is_integer() => 'u',
        number if number.is_float() => 'f',
        _ => 'c',
    };
    format!("{order}{kind}{size}")
}

/// Returns a number as JSON: integers exact to 64 bits, floats as [`float_json`], booleans as such, complex numbers as a list
/// of two. `None` for other types, and if the bytes are not one element.
pub(crate) fn number_json(data_type: &DataType, value: &FillValue) -> Option<Value> {
    let is_number = data_type.is_integer()
        || data_type.is_float()
        || data_type.is_complex()
        || *data_type == DataType::Bool;
    value.to_json(data_type, ZarrFormat::V2).ok().filter(|_| is_number)
}

/// Returns a float as a JSON number, or as one of the strings "NaN", "Infinity" and "-Infinity".
pub(crate) fn float_json(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Returns an integer as JSON; past 64 bits as the nearest float.
pub(crate) fn integer_json(value: i128) -> Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(signed), _) => signed.into(),
        (_, Ok(unsigned)) => unsigned.into(),
        _ => float_json(value as f64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_value_to_the_last_bit() {
        let number = |data_type, bytes: &[u8]| {
            number_json(&data_type, &FillValue::Fixed(bytes::Bytes::copy_from_slice(bytes)))
        };
        assert_eq!(number(DataType::Float32, &0.1f32.to_le_bytes()), Some(json!(0.10000000149011612)));
        assert_eq!(number(DataType::Float64, &f64::NEG_INFINITY.to_le_bytes()), Some(json!("-Infinity")));
        assert_eq!(number(DataType::Int64, &i64::MIN.to_le_bytes()), Some(json!(i64::MIN)));
        assert_eq!(number(DataType::UInt8, &[0xff, 0]), None);
        let single = [1.5f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat();
        assert_eq!(number(DataType::Complex64, &single), Some(json!([1.5, "NaN"])));
        assert_eq!(number(DataType::Bool, &[1]), Some(json!(true)));
        assert_eq!(number(DataType::FixedBytes(1), &[7]), None);
    }
}
