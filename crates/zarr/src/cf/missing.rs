//! Values that mean "missing" (CF conventions, 2.5.1).

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;

use crate::{Array, DataType, FillValue, ZarrFormat};

/// Attributes that name values which mean "missing".
pub const MISSING: [&str; 2] = ["_FillValue", "missing_value"];

/// Values of an array that readers take for missing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sentinels {
    /// Elements, little-endian.
    pub elements: Vec<Bytes>,
    nan: Option<DataType>,
}

impl Sentinels {
    /// Returns the values of `_FillValue` and `missing_value`, and in Zarr v2 the fill value, which readers interpret as
    /// `_FillValue`. NaN always means missing.
    pub fn of(array: &Array, format: ZarrFormat) -> Self {
        let data_type = &array.data_type;
        let mut elements = Vec::new();
        if let (ZarrFormat::V2, Some(FillValue::Fixed(bytes))) = (format, &array.fill_value) {
            elements.push(bytes.clone());
        }
        if let Some(value) = array.attributes.get("_FillValue") {
            elements.extend(fill_attribute(value, data_type));
        }
        match array.attributes.get("missing_value") {
            Some(Value::Array(values)) => {
                elements.extend(values.iter().filter_map(|v| number(v, data_type)));
            }
            Some(value) => elements.extend(number(value, data_type)),
            None => {}
        }
        Self { elements, nan: data_type.is_float().then(|| data_type.clone()) }
    }

    /// Returns whether an element, little-endian, is missing.
    pub fn is_missing(&self, element: &[u8]) -> bool {
        self.elements.iter().any(|sentinel| sentinel == element) || self.is_nan(element)
    }

    /// Returns whether an element is NaN.
    pub fn is_nan(&self, element: &[u8]) -> bool {
        let Some(data_type) = &self.nan else { return false };
        let number = FillValue::Fixed(Bytes::copy_from_slice(element)).to_f64(data_type);
        number.is_none_or(f64::is_nan)
    }
}

/// Returns the attribute `_FillValue` as an element: a number or, for floats in Zarr v3, base64 of a binary64.
pub fn fill_attribute(value: &Value, data_type: &DataType) -> Option<Bytes> {
    if let (Value::String(text), true) = (value, data_type.is_float()) {
        let bytes = BASE64_STANDARD.decode(text).ok();
        if let Some(bytes) = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
            return fixed(FillValue::from_f64(data_type, f64::from_le_bytes(bytes)).value());
        }
    }
    number(value, data_type)
}

/// Returns a number of JSON, or "NaN", as an element.
pub fn number(value: &Value, data_type: &DataType) -> Option<Bytes> {
    match value {
        Value::String(text) if text == "NaN" => fixed(FillValue::from_f64(data_type, f64::NAN).value()),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => fixed(FillValue::from_i128(data_type, int.into()).value()),
            (_, Some(int), _) => fixed(FillValue::from_i128(data_type, int.into()).value()),
            (_, _, Some(real)) => fixed(FillValue::from_f64(data_type, real).value()),
            _ => None,
        },
        _ => None,
    }
}

fn fixed(value: Option<FillValue>) -> Option<Bytes> {
    match value? {
        FillValue::Fixed(bytes) => Some(bytes),
        FillValue::Text(_) | FillValue::Variable(_) => None,
    }
}
