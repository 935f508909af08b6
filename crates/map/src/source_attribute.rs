//! Attributes as the source file declares them. JSON does not keep their types.

use serde_json::Value;

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
