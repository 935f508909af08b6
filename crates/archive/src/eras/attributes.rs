//! Attributes that values, or their places, depend on.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Number, Value};
use virtualize::zarr::{Array, Hierarchy, NodePath};

use super::time::time_units;
use crate::Layout;
use crate::combine::places::find;

/// Those of arrays (CF conventions, sections 2.5, 3, 4.4, 5.6 and 8.1; NetCDF's `_Unsigned`; images).
const MEANING: [&str; 23] = [
    "_FillValue",
    "_Unsigned",
    "add_offset",
    "calendar",
    "color_map",
    "dtype",
    "flag_masks",
    "flag_meanings",
    "flag_values",
    "grid_mapping",
    "leap_month",
    "leap_year",
    "missing_value",
    "month_lengths",
    "offsets",
    "photometric_interpretation",
    "positive",
    "scale_factor",
    "scales",
    "units",
    "valid_max",
    "valid_min",
    "valid_range",
];

/// Those of a grid mapping on which nothing depends.
const REMARKS: [&str; 4] = ["comment", "history", "long_name", "references"];

/// What units of times that are converted are spelled as.
const A_TIME: &str = "a time";

/// Whether the meaning of an array's values depends on an attribute.
pub(crate) fn has_meaning(name: &str) -> bool {
    MEANING.contains(&name)
}

/// Attributes of an array that the meaning of its values depends on. Times that are `converted` may count from any time.
pub(crate) fn of_array(array: &Array, converted: bool) -> BTreeMap<String, Value> {
    let known =
        |name: &&str| array.attributes.get(*name).map(|value| ((*name).to_owned(), canonical(value.clone())));
    let mut said: BTreeMap<String, Value> = MEANING.iter().filter_map(known).collect();
    if let Some(Value::String(text)) = said.get("_FillValue")
        && array.data_type.is_float()
        && let Some(number) = decoded(text)
    {
        said.insert("_FillValue".to_owned(), number);
    }
    let text = |name: &str| array.attributes.get(name).and_then(Value::as_str);
    if let Some((units, calendar)) = text("units").and_then(|units| time_units(units, text("calendar"))) {
        if converted {
            said.insert("units".to_owned(), A_TIME.into());
        } else {
            said.insert("units".to_owned(), units.into());
        }
        said.insert("calendar".to_owned(), calendar.into());
    }
    said
}

/// `_FillValue` as xarray spells it in Zarr v3: base64 of the little-endian binary64.
fn decoded(text: &str) -> Option<Value> {
    let bytes: [u8; 8] = BASE64_STANDARD.decode(text).ok()?.try_into().ok()?;
    let number = f64::from_le_bytes(bytes);
    Some(
        Number::from_f64(number).map_or_else(|| number.to_string().into(), |number| canonical(number.into())),
    )
}

/// All attributes of a grid mapping but remarks. With `moved`, where the image begins is left out.
pub(super) fn of_grid_mapping(attributes: &Map<String, Value>, moved: bool) -> BTreeMap<String, Value> {
    let mut said = BTreeMap::new();
    let is_named = ["spatial_ref", "crs_wkt"].iter().any(|name| attributes.contains_key(*name));
    for (name, value) in attributes.iter().filter(|(name, _)| !REMARKS.contains(&name.as_str())) {
        let value = match (name.as_str(), value) {
            ("GeoTransform", Value::String(text)) if moved => without_origin(text).into(),
            ("geo_keys", Value::Object(keys)) if is_named => {
                let is_text = |name: &str| name.ends_with("CitationGeoKey");
                keys.iter().filter(|(name, _)| !is_text(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
            }
            (_, value) => value.clone(),
        };
        said.insert(name.clone(), canonical(value));
    }
    said
}

/// GDAL's six numbers without the first and the fourth, where the image begins.
fn without_origin(transform: &str) -> String {
    let numbers = transform.split_whitespace().enumerate();
    numbers.map(|(at, number)| if at % 3 == 0 { "…" } else { number }).collect::<Vec<_>>().join(" ")
}

/// Attributes of a group by the conventions `proj:` and `spatial:`. Extents follow from the transform and the shape.
pub(super) fn of_group(attributes: &Map<String, Value>, moved: bool) -> BTreeMap<String, Value> {
    let mut said = BTreeMap::new();
    for (name, value) in attributes {
        let value = match name.as_str() {
            "spatial:bbox" | "spatial:shape" => continue,
            "spatial:transform" if moved => match value {
                Value::Array(numbers) => {
                    let origin = |(at, number): (usize, &Value)| {
                        if at % 3 == 2 { Value::Null } else { number.clone() }
                    };
                    numbers.iter().enumerate().map(origin).collect()
                }
                other => other.clone(),
            },
            name if name.starts_with("proj:") || name.starts_with("spatial:") => value.clone(),
            _ => continue,
        };
        said.insert(name.clone(), canonical(value));
    }
    said
}

/// Whether files lie beside each other in space: one of the layout's dimensions is one of the image's, or there are none.
pub(super) fn is_moved(hierarchy: &Hierarchy, layout: &Layout) -> bool {
    let said = hierarchy.root.attributes.get("spatial:dimensions").and_then(Value::as_array);
    let is_spatial = |name: &str| match said {
        Some(names) => names.iter().any(|other| other.as_str() == Some(name)),
        None => matches!(name, "x" | "y" | "lon" | "lat"),
    };
    layout.along.is_empty() || layout.along.iter().any(|along| is_spatial(along.name()))
}

/// Arrays that attributes `grid_mapping` name, or that describe a coordinate reference system by themselves.
pub(super) fn grid_mappings(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        let named = array.attributes.get("grid_mapping").and_then(Value::as_str).unwrap_or_default();
        // `crs: x y` of the extended form; words that name coordinates are no grid mappings.
        let is_extended = named.contains(':');
        let words = named.split_whitespace().filter(|word| !is_extended || word.ends_with(':'));
        found.extend(words.filter_map(|word| find(hierarchy, group, word.trim_end_matches(':'))));
        if ["grid_mapping_name", "crs_wkt", "spatial_ref"]
            .iter()
            .any(|name| array.attributes.contains_key(*name))
        {
            found.insert(path);
        }
    }
    found
}

/// A value of which there is one spelling: whole numbers are integers, members of objects are in order.
pub(super) fn canonical(value: Value) -> Value {
    match value {
        Value::Number(number) => whole(&number).map_or(Value::Number(number), Value::from),
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        Value::Object(members) => {
            let sorted: BTreeMap<String, Value> = members.into_iter().collect();
            Value::Object(sorted.into_iter().map(|(name, value)| (name, canonical(value))).collect())
        }
        other => other,
    }
}

/// The integer that a number is, up to 2⁵³.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.trunc() == float && float.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
    is_whole.then_some(float as i64)
}
