//! Attributes as JSON, with the values and shapes that h5netcdf shows.

use serde_json::{Map, Value};
use virtualize_hdf5::model::{Attribute, Dataspace, Datatype, Element, Selection};

use super::lookup::Lookup;
use super::names::ObjectNames;
use super::references::{reference_part, reference_path};
use super::types::is_boolean;
use crate::json_numbers::{float_json, integer_json};
use crate::{Error, Result};

/// Bookkeeping of NetCDF-4 and dimension scales, which h5netcdf and netCDF4 hide (`h5netcdf.attrs._HIDDEN_ATTRS`).
pub(super) const HIDDEN: [&str; 8] = [
    "REFERENCE_LIST",
    "CLASS",
    "DIMENSION_LIST",
    "NAME",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "_NCProperties",
];

/// Bytes of memory for an attribute, without its name and values.
const ATTRIBUTE: u64 = 128;

/// Bytes of memory for a JSON value.
const VALUE: u64 = 48;

/// Context of the conversion: the paths of objects for references, and the budget.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) names: &'a ObjectNames,
    pub(super) shared: &'a Lookup<'a>,
}

impl Shown<'_> {
    /// Takes memory for an element, without the elements inside.
    fn take(&self, element: &Element) -> Result<()> {
        let bytes = match element {
            Element::Text(text) => text.len() as u64,
            Element::Region(_, Selection::Points(points)) => (points.len() as u64).saturating_mul(VALUE * 4),
            Element::Region(_, Selection::Blocks(blocks)) => (blocks.len() as u64).saturating_mul(VALUE * 8),
            _ => 0,
        };
        self.shared.take("attributes", bytes.saturating_add(VALUE))
    }

    /// Returns the path of the object that an element refers to.
    fn path(&self, element: &Element) -> Result<String> {
        let path = reference_path(element, self.names)?;
        self.shared.take("paths of references", path.len() as u64)?;
        Ok(path)
    }
}

/// Converts attributes. Returns those with a JSON representation, and (name, reason) of the others.
pub(super) fn attributes_json(
    attributes: &[Attribute],
    names: Shown<'_>,
) -> (Map<String, Value>, Vec<(String, Error)>) {
    let mut converted = Map::new();
    let mut left_out = Vec::new();
    for attribute in attributes.iter().filter(|attribute| !HIDDEN.contains(&attribute.name.as_str())) {
        if attribute.name == "_ARRAY_DIMENSIONS" {
            let (name, problem) = (attribute.name.clone(), "is reserved for the names of dimensions");
            left_out.push((name.clone(), Error::Name { name, problem }));
            continue;
        }
        let value = names.shared.take("attributes", ATTRIBUTE.saturating_add(attribute.name.len() as u64));
        match value.and_then(|()| attribute_json(attribute, names)) {
            Ok(value) => {
                converted.insert(attribute.name.clone(), value);
            }
            Err(why) => left_out.push((attribute.name.clone(), why)),
        }
    }
    (converted, left_out)
}

/// Converts an attribute.
pub(super) fn attribute_json(attribute: &Attribute, names: Shown<'_>) -> Result<Value> {
    let shape = match &attribute.dataspace {
        Dataspace::Null if is_text(&attribute.datatype) => return Ok("".into()),
        Dataspace::Null => return Ok(Value::Array(Vec::new())),
        Dataspace::Scalar => &[][..],
        // h5netcdf flattens arrays of text.
        Dataspace::Simple { .. } if is_text(&attribute.datatype) => &[attribute.elements.len() as u64][..],
        Dataspace::Simple { shape, .. } => shape,
    };
    let convert = |element: &Element| element_json(element, &attribute.datatype, names);
    let values = attribute.elements.iter().map(convert).collect::<Result<Vec<_>>>()?;
    let count = shape.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    if count != Some(values.len() as u64) {
        return Err(Error::malformed(
            "attribute",
            format!("{} values for the shape {shape:?}", values.len()),
        ));
    }
    Ok(single(nest(values, shape)))
}

fn is_text(datatype: &Datatype) -> bool {
    matches!(datatype, Datatype::String { .. } | Datatype::VariableString { .. })
}

/// Returns the only element of a list of one, as h5netcdf does.
fn single(value: Value) -> Value {
    match value {
        Value::Array(mut items) if items.len() == 1 => items.pop().unwrap_or_default(),
        other => other,
    }
}

/// Nests a flat list in row-major order by a shape; without axes, returns its only element.
fn nest(mut values: Vec<Value>, shape: &[u64]) -> Value {
    let Some((_, inner)) = shape.split_first() else { return values.pop().unwrap_or_default() };
    for length in inner.iter().rev() {
        let length = usize::try_from(*length).unwrap_or(0);
        if length == 0 {
            return Value::Array(Vec::new());
        }
        values = values.chunks(length).map(|items| Value::Array(items.to_vec())).collect();
    }
    Value::Array(values)
}

fn element_json(element: &Element, datatype: &Datatype, names: Shown<'_>) -> Result<Value> {
    names.take(element)?;
    Ok(match element {
        Element::Integer(value) => match datatype {
            Datatype::Enum { base, members } if is_boolean(base, members) => Value::Bool(*value != 0),
            _ => integer_json(*value),
        },
        Element::Float(value) => float_json(*value),
        Element::Complex(real, imaginary) => vec![float_json(*real), float_json(*imaginary)].into(),
        Element::Text(text) => text.as_str().into(),
        Element::Bytes(bytes) => {
            return Err(Error::NotJson(format!("{} bytes that are no text", bytes.len())));
        }
        Element::Compound(members) => compound_json(members, datatype, names)?,
        Element::List(items) => {
            let item_type = item_type(datatype);
            let items = items.iter().map(|item| element_json(item, item_type, names));
            let items = items.collect::<Result<Vec<_>>>()?;
            match datatype {
                Datatype::Array { shape, .. } => nest(items, shape),
                _ => Value::Array(items),
            }
        }
        Element::Object(None) => Value::Null,
        Element::Object(Some(_)) => names.path(element)?.into(),
        Element::Region(..) | Element::Attribute(..) => {
            let mut reference = Map::from_iter([("path".to_owned(), names.path(element)?.into())]);
            reference.extend(reference_part(element).unwrap_or_default());
            Value::Object(reference)
        }
        Element::Unknown(name) => return Err(Error::NotJson(format!("a {name}"))),
    })
}

fn compound_json(members: &[(String, Element)], datatype: &Datatype, names: Shown<'_>) -> Result<Value> {
    let types: &[_] = match datatype {
        Datatype::Compound { members, .. } => members,
        _ => &[],
    };
    let mut object = Map::new();
    // Members are in the order of their types.
    for (at, (name, element)) in members.iter().enumerate() {
        let member = types.get(at).map_or(datatype, |member| &member.datatype);
        names.shared.take("attributes", name.len() as u64)?;
        object.insert(name.clone(), element_json(element, member, names)?);
    }
    Ok(Value::Object(object))
}

fn item_type(datatype: &Datatype) -> &Datatype {
    match datatype {
        Datatype::Array { base, .. } | Datatype::Sequence { base, .. } => base,
        other => other,
    }
}

/// Returns the attributes `flag_values` and `flag_meanings` of an enumeration (CF conventions, section 3.5); `None` for
/// booleans, and if a name has whitespace or a value more than 64 bits.
pub(super) fn flags(datatype: &Datatype) -> Option<[(&'static str, Value); 2]> {
    let Datatype::Enum { base, members } = datatype else { return None };
    let Datatype::Integer(integer) = base.as_ref() else { return None };
    if members.is_empty() || is_boolean(base, members) {
        return None;
    }
    let mut values = Vec::with_capacity(members.len());
    for (name, bytes) in members {
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        values.push(integer_json(enum_value(bytes, integer)?));
    }
    let meanings: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    Some([("flag_values", values.into()), ("flag_meanings", meanings.join(" ").into())])
}

fn enum_value(bytes: &[u8], integer: &virtualize_hdf5::model::Integer) -> Option<i128> {
    use virtualize_hdf5::model::ByteOrder;
    let push = |value: u128, byte: &u8| (value << 8) | u128::from(*byte);
    let raw = match integer.order {
        _ if bytes.is_empty() || bytes.len() > 8 => return None,
        ByteOrder::Big => bytes.iter().fold(0, push),
        ByteOrder::Little => bytes.iter().rev().fold(0, push),
        ByteOrder::Vax => return None,
    };
    let unused = 128u32.checked_sub(u32::try_from(bytes.len()).ok()?.checked_mul(8)?)?;
    let shifted = (raw << unused).cast_signed();
    Some(if integer.signed { shifted >> unused } else { raw.cast_signed() })
}
