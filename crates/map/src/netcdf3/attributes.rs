//! Attributes, with the values that netCDF4-python shows.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize_bytes::Budget;
use virtualize_netcdf3::model::{Attribute, DataType as Stored};
use virtualize_remedy::Code;

use super::types::{data_type, little_endian, text, values};
use crate::cf::{CfAttribute, CfAttributes, CfValue};
use crate::json_numbers::{float_json, integer_json};
use crate::source_attribute::{NumpyType, SourceAttribute, SourceValue};

/// Bytes of memory for an attribute, without its name and values.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for a JSON value.
const VALUE: u64 = 48;

/// Converts attributes to JSON. Returns them, and warnings as (diagnostic code, message).
pub(super) fn attributes_json(
    attributes: &[Attribute],
    budget: &Budget<'_>,
) -> (Map<String, Value>, Vec<(Code, String)>) {
    let (mut converted, mut remarks) = (Map::new(), Vec::new());
    let mut warn = |code, name: &str, why: &str| {
        remarks.push((code, format!("the attribute \"{name}\" is left out: {why}")));
    };
    for attribute in attributes {
        if attribute.name == "_ARRAY_DIMENSIONS" {
            warn(Code::AttributeLeftOut, &attribute.name, "the name is reserved for the names of dimensions");
        } else if converted.contains_key(&attribute.name) {
            // netCDF4-python shows the first of several.
            warn(Code::NameCollision, &attribute.name, "another one has this name");
        } else if budget.take("attributes", weight(attribute)).is_err() {
            break;
        } else {
            converted.insert(attribute.name.clone(), json(attribute));
        }
    }
    (converted, remarks)
}

/// Converts attributes with the types that xarray shows with netCDF4-python.
pub(super) fn source_attributes(attributes: &[Attribute], budget: &Budget<'_>) -> Vec<SourceAttribute> {
    let mut names = BTreeSet::new();
    let first = attributes.iter().filter(|attribute| names.insert(attribute.name.as_str()));
    let converted = first.map(|attribute| {
        let value = match attribute.data_type {
            // xarray compares it with characters, which are bytes.
            Stored::Char if attribute.name == "_FillValue" && attribute.values.len() == 1 => {
                SourceValue::Fixed {
                    data_type: NumpyType::Plain("|S1".to_owned()),
                    shape: Some(vec![1]),
                    bytes: attribute.values.to_vec(),
                }
            }
            Stored::Char => SourceValue::Json(text(&attribute.values).into()),
            stored => SourceValue::Fixed {
                data_type: NumpyType::Plain(numpy_type(stored)),
                shape: Some(vec![count(attribute)]),
                bytes: little_endian(stored, &attribute.values),
            },
        };
        SourceAttribute { name: attribute.name.clone(), value }
    });
    converted.take_while(|kept| budget.take("attributes", kept.weight()).is_ok()).collect()
}

/// Converts the attributes that have a meaning in CF.
pub(super) fn cf_attributes(attributes: &[Attribute]) -> CfAttributes {
    let known = attributes.iter().filter(|attribute| CfAttributes::has_meaning(&attribute.name));
    let converted = known.map(|attribute| CfAttribute {
        name: attribute.name.clone(),
        data_type: Some(match attribute.data_type {
            Stored::Char => {
                virtualize_zarr::DataType::FixedBytes(u32::try_from(count(attribute)).unwrap_or(u32::MAX))
            }
            stored => data_type(stored),
        }),
        values: values(attribute.data_type, &attribute.values),
    });
    converted.collect()
}

fn json(attribute: &Attribute) -> Value {
    let mut items: Vec<Value> =
        values(attribute.data_type, &attribute.values).into_iter().map(value).collect();
    if items.len() == 1 { items.remove(0) } else { items.into() }
}

fn value(value: CfValue) -> Value {
    match value {
        CfValue::Integer(value) => integer_json(value),
        CfValue::Float(value) => float_json(value),
        CfValue::Text(text) => text.into(),
        CfValue::Complex(..) | CfValue::Bytes(_) | CfValue::Other(_) => Value::Null,
    }
}

fn count(attribute: &Attribute) -> u64 {
    (attribute.values.len() as u64).checked_div(attribute.data_type.size()).unwrap_or(0)
}

/// Returns the memory of an attribute.
fn weight(attribute: &Attribute) -> u64 {
    let values = match attribute.data_type {
        Stored::Char => attribute.values.len() as u64,
        _ => count(attribute).saturating_mul(VALUE),
    };
    values.saturating_add(ATTRIBUTE).saturating_add(attribute.name.len() as u64)
}

/// Returns the NumPy type in which netCDF4-python shows values, which is that of the machine.
fn numpy_type(stored: Stored) -> String {
    let kind = match stored {
        Stored::Char => "S",
        Stored::Byte | Stored::Short | Stored::Int | Stored::Int64 => "i",
        Stored::UByte | Stored::UShort | Stored::UInt | Stored::UInt64 => "u",
        Stored::Float | Stored::Double => "f",
    };
    let order = if stored.size() == 1 { "|" } else { "<" };
    format!("{order}{kind}{}", stored.size())
}
