//! Attributes on which values, or their positions, depend.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use virtualize::zarr::{Array, Hierarchy, NodePath, cf::attributes, node};

use super::role::find;
use crate::{Layout, values::dates::time_units};

/// Replaces the units of times that are converted, so that they are equal.
const ANY_TIME: &str = "<unit> since <date>";

/// Returns the attributes on which the meaning of an array's values depends. Times that are `converted` may count from any
/// reference time.
pub(super) fn of_array(array: &Array, converted: bool) -> BTreeMap<String, Value> {
    let mut said = attributes::of_array(&array.attributes, array.data_type.is_float());
    let text = |name: &str| array.attributes.get(name).and_then(Value::as_str);
    if let Some((units, calendar)) = text("units").and_then(|units| time_units(units, text("calendar"))) {
        if converted {
            said.insert("units".to_owned(), ANY_TIME.into());
        } else {
            said.insert("units".to_owned(), units.into());
        }
        said.insert("calendar".to_owned(), calendar.into());
    }
    said
}

/// Returns whether files are adjacent in space: one of the layout's dimensions is one of the image's, or there are none.
pub(super) fn is_moved(hierarchy: &Hierarchy, layout: &Layout) -> bool {
    let said = hierarchy.root.attributes.get("spatial:dimensions").and_then(Value::as_array);
    let is_spatial = |name: &str| match said {
        Some(names) => names.iter().any(|other| other.as_str() == Some(name)),
        None => matches!(name, "x" | "y" | "lon" | "lat"),
    };
    layout.along.is_empty() || layout.along.iter().any(|along| is_spatial(along.name()))
}

/// Returns the arrays that attributes `grid_mapping` name, or that describe a coordinate reference system themselves.
pub(super) fn grid_mappings(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let group = node::parent(&path);
        let named = array.attributes.get("grid_mapping").and_then(Value::as_str).unwrap_or_default();
        // `crs: x y` of the extended form; words that name coordinates are no grid mappings.
        let is_extended = named.contains(':');
        let words = named.split_whitespace().filter(|word| !is_extended || word.ends_with(':'));
        found.extend(words.filter_map(|word| find(hierarchy, group, word.trim_end_matches(':'))));
        if attributes::is_grid_mapping(&array.attributes) {
            found.insert(path);
        }
    }
    found
}
