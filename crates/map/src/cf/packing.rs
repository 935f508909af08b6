//! Packed numbers by the attributes of CF (section 8.1): unpacking with codecs ([`crate::MapOptions::unpack`]).

use serde_json::{Map, Value};
use virtualize_hdf5::model::Element;
use virtualize_zarr::{Array, DataType, FillValue};

use super::CfAttributes;
use super::fill::{cast, wrapped};
use crate::unpack::{Factor, Packing, UnpackRefusal, is_time_unit};
use crate::{ArrayReport, Error, Result};

/// Names of the attributes by which numbers are packed.
const FACTORS: [&str; 2] = ["scale_factor", "add_offset"];

/// Turns packed numbers into floats by codecs. `is_time` says that other variables make them times.
///
/// # Errors
/// The array cannot be unpacked exactly, and stays as it is.
pub(crate) fn unpack(
    attributes: &CfAttributes,
    is_time: bool,
    array: &mut Array,
    report: &mut ArrayReport,
) -> Result<(), UnpackRefusal> {
    if !array.data_type.is_integer() && !array.data_type.is_float() {
        return Ok(());
    }
    let is_time = is_time || attributes.text("units").is_some_and(is_time_unit);
    packing(attributes, &array.data_type, is_time)?.unpack(array, report)
}

/// Refuses a `scale_factor` or `add_offset` that is not finite. JSON has no such numbers, and xarray cannot compute with
/// text.
///
/// # Errors
/// There is such an attribute.
pub(crate) fn check_factors(attributes: &CfAttributes) -> Result<()> {
    let infinite = |value: &Element| matches!(value, Element::Float(value) if !value.is_finite());
    let mut factors = FACTORS.iter().filter_map(|name| attributes.get(name));
    match factors.find(|attribute| attribute.values.iter().any(infinite)) {
        Some(attribute) => Err(Error::not_json(&format!("a {} that is not finite", attribute.name))),
        None => Ok(()),
    }
}

/// Returns why xarray decodes an array to another data type than the original's; `None` if it does not. xarray chooses by the
/// types of `scale_factor` and `add_offset`, and JSON keeps only whether a number is an integer. `written` are the attributes
/// of the array.
pub(crate) fn widened_packing(
    attributes: &CfAttributes,
    data_type: &DataType,
    written: &Map<String, Value>,
) -> Option<String> {
    let mut stored = [None, None];
    for (name, stored) in FACTORS.iter().zip(&mut stored) {
        let Some(attribute) = attributes.get(name).filter(|_| written.contains_key(*name)) else { continue };
        let factor = attribute.data_type.clone().filter(|one| one.is_float() || one.is_integer())?;
        *stored = (attribute.values.len() == 1).then_some(Some(factor))?;
    }
    let in_json = stored.clone().map(|factor| {
        factor.map(|factor| if factor.is_float() { DataType::Float64 } else { DataType::Int64 })
    });
    let is_time = attributes.text("units").is_some_and(is_time_unit);
    let original = decoded_type(data_type, &stored, is_time)?;
    let found = decoded_type(data_type, &in_json, is_time)?;
    (original != found).then(|| {
        format!(
            "xarray decodes to {found}, but from the file itself to {original}: JSON does not keep the data types of {}",
            FACTORS.join(" and ")
        )
    })
}

/// Returns the data type to which xarray decodes packed numbers (`_choose_float_dtype` of xarray 2026.9). `factors` are the
/// types of `scale_factor` and `add_offset`.
fn decoded_type(stored: &DataType, factors: &[Option<DataType>; 2], is_time: bool) -> Option<DataType> {
    let is_long = matches!(stored, DataType::Int32 | DataType::UInt32);
    match factors {
        // Masked times are floats already when the type is chosen.
        [Some(scale), Some(offset)] if scale == offset && *scale == DataType::Float32 => {
            Some(if is_long && !is_time { DataType::Float64 } else { DataType::Float32 })
        }
        [_, Some(_)] => Some(DataType::Float64),
        [scale, None] => scale.clone(),
    }
}

fn packing(attributes: &CfAttributes, data_type: &DataType, is_time: bool) -> Result<Packing, UnpackRefusal> {
    let stored = attributes.shown_type(data_type);
    Ok(Packing {
        scale: factor(attributes, "scale_factor")?,
        offset: factor(attributes, "add_offset")?,
        sentinels: sentinels(attributes, data_type, &stored),
        stored,
        is_time,
    })
}

fn factor(attributes: &CfAttributes, name: &'static str) -> Result<Option<Factor>, UnpackRefusal> {
    let Some(attribute) = attributes.get(name) else { return Ok(None) };
    match (attribute.values.as_slice(), &attribute.data_type) {
        #[expect(clippy::cast_possible_truncation, reason = "a 32-bit float was read as 64 bits")]
        ([Element::Float(value)], Some(DataType::Float32)) => Ok(Some(Factor::Single(*value as f32))),
        ([Element::Float(value)], Some(DataType::Float64)) => Ok(Some(Factor::Double(*value))),
        ([Element::Integer(value)], Some(data_type)) if data_type.is_integer() => {
            Ok(Some(Factor::Integer(*value as f64)))
        }
        _ => Err(UnpackRefusal::Factor(name)),
    }
}

/// Returns all stored numbers that xarray masks, without NaN. `stored` is the type that xarray shows.
fn sentinels(attributes: &CfAttributes, data_type: &DataType, stored: &DataType) -> Vec<FillValue> {
    let values = |name| attributes.get(name).into_iter().flat_map(|attribute| &attribute.values);
    let fill_values = values("_FillValue").filter_map(|value| {
        if stored == data_type { cast(value, stored) } else { wrapped(value, data_type) }.ok()
    });
    let others = values("missing_value").filter_map(|value| cast(value, stored).ok());
    let mut found: Vec<FillValue> = Vec::new();
    for value in fill_values.chain(others) {
        let same = |other: &FillValue| other == &value || other.to_f64(stored) == value.to_f64(stored);
        let is_nan = value.to_f64(stored).is_some_and(f64::is_nan);
        let is_known = if stored.is_float() { found.iter().any(same) } else { found.contains(&value) };
        if !is_nan && !is_known {
            found.push(value);
        }
    }
    found
}
