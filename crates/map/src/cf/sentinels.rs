//! The attributes `_FillValue` and `missing_value` in a form that xarray compares with the data: `missing_value` as plain JSON
//! numbers in the array's type.

use serde_json::{Map, Value};
use virtualize_remedy::Code;
use virtualize_zarr::{DataType, FillValue};

use super::cast::{cast, is_rounded_end, show};
use super::fill::{FillPlan, is_plain};
use super::{CfAttribute, CfAttributes, CfValue};
use crate::Severity;
use crate::json_numbers::{float_json, number_json};

/// A remark for a diagnostic of the array.
type Remark = (Severity, Code, String);

/// Writes `_FillValue` and `missing_value` to the attributes of an array, in the notation of the Zarr format. Returns what
/// the user has to know of them.
pub(crate) fn write_sentinels(
    source: &CfAttributes,
    data_type: &DataType,
    fill: &FillPlan,
    attributes: &mut Map<String, Value>,
) -> Vec<Remark> {
    attributes.remove("_FillValue");
    attributes.extend(fill.attribute.clone().map(|value| ("_FillValue".to_owned(), value)));
    // Several sentinels mask nothing as _FillValue, but as missing_value they do.
    let several = || source.get("_FillValue").filter(|attribute| attribute.values.len() > 1);
    let Some(attribute) = source.get("missing_value").or_else(several).filter(|_| is_plain(data_type)) else {
        return Vec::new();
    };
    let shown = source.shown_type(data_type);
    let (mut kept, dropped) = convert(attribute, &shown);
    let mut remarks: Vec<Remark> = Vec::new();
    for value in dropped {
        let message = format!("missing_value {value} is dropped: no value of type {shown} equals it");
        remarks.push((Severity::Warning, Code::MissingValueDropped, message));
    }
    if data_type.is_float() {
        remarks.extend(remove_infinities(&mut kept, data_type, fill));
    }
    attributes.remove("missing_value");
    match kept.len() {
        0 => None,
        1 => attributes.insert("missing_value".to_owned(), kept.remove(0)),
        _ => attributes.insert("missing_value".to_owned(), kept.into()),
    };
    remarks
}

/// Removes texts such as "Infinity" from the values of `missing_value`: they mask nothing and, among several values, keep
/// xarray from masking by the others. NaN needs no mask, and one infinity can be the `_FillValue`.
fn remove_infinities(kept: &mut Vec<Value>, data_type: &DataType, fill: &FillPlan) -> Vec<Remark> {
    let decision = &fill.decision;
    let is_written = fill.attribute.is_some() || decision.fill_value == decision.sentinel;
    let sentinel = decision.sentinel.as_ref().filter(|_| is_written).and_then(|value| match value {
        FillValue::Fixed(bytes) => number_json(data_type, bytes),
        _ => None,
    });
    let alone = kept.len() == 1;
    let (finite, others) = std::mem::take(kept).into_iter().partition(|value| !value.is_string());
    *kept = finite;
    let others: Vec<Value> = others;
    let mut remarks = Vec::new();
    for value in others {
        match value.as_str() {
            Some("NaN") if alone => kept.push(value),
            Some("NaN") => {}
            _ if sentinel.as_ref() == Some(&value) => {
                let message = format!("missing_value {value} is written as _FillValue");
                remarks.push((Severity::Info, Code::MissingValueAsFillValue, message));
            }
            _ => {
                let message = format!("missing_value {value} is dropped: JSON has no such number");
                remarks.push((Severity::Warning, Code::MissingValueDropped, message));
            }
        }
    }
    remarks
}

fn nearest(value: &CfValue) -> Option<f64> {
    match value {
        CfValue::Integer(value) => Some(*value as f64),
        CfValue::Float(value) => Some(*value),
        _ => None,
    }
}

/// Converts the values of a `missing_value` attribute to the type that xarray shows. Returns them as plain JSON, and those
/// that the type does not have as text.
fn convert(attribute: &CfAttribute, data_type: &DataType) -> (Vec<Value>, Vec<String>) {
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    for value in &attribute.values {
        match cast(value, data_type) {
            // xarray would read the two parts as two values.
            Ok(_) if data_type.is_complex() => dropped.push(show(value)),
            Ok(FillValue::Fixed(bytes)) => match number_json(data_type, &bytes) {
                Some(number) => kept.push(number),
                None => dropped.push(show(value)),
            },
            Ok(FillValue::Text(text)) => kept.push(text.into()),
            Err(_) if nearest(value).is_some_and(|value| is_rounded_end(value, data_type)) => {
                kept.extend(nearest(value).map(float_json));
            }
            _ => dropped.push(show(value)),
        }
    }
    (kept, dropped)
}
