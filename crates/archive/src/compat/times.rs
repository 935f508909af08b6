//! Arrays of times, which are converted where files count from different reference times.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize::zarr::{Array, Hierarchy, NodePath, node};

use super::role::{find, is_coordinate};
use crate::values::{calendar::is_time, variable::value_bytes};

/// Returns the arrays of times that are read whole: coordinates, arrays of up to `limit` bytes with units of time, and the
/// bounds of both.
pub(crate) fn time_arrays(hierarchy: &Hierarchy, limit: u64) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    for (path, array) in hierarchy.arrays() {
        let is_small = value_bytes(array).is_some_and(|size| size <= limit);
        if !has_time_units(array) || !(is_small || is_coordinate(&path, array)) {
            continue;
        }
        found.extend(bounds_of(hierarchy, &path, array));
        found.insert(path);
    }
    found
}

/// Returns whether an array counts from a reference time.
pub(crate) fn has_time_units(array: &Array) -> bool {
    text(&array.attributes, "units").is_some_and(is_time)
}

/// Returns the arrays that hold the bounds of an array's cells.
pub(crate) fn bounds_of(hierarchy: &Hierarchy, path: &str, array: &Array) -> Vec<NodePath> {
    let group = node::parent(path);
    let names = ["bounds", "climatology"].into_iter().filter_map(|name| text(&array.attributes, name));
    names.filter_map(|name| find(hierarchy, group, name.trim())).filter(|found| found != path).collect()
}

/// Returns an attribute that is text.
pub(crate) fn text<'a>(attributes: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    attributes.get(name)?.as_str()
}
