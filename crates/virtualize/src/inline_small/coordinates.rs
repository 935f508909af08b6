//! Detection of coordinate arrays.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use virtualize_zarr::{
    Array, Group, Hierarchy, Node, NodePath,
    node::{self, join},
};

/// Returns the arrays that have the name of their only dimension, and those that the attribute `coordinates` of an array or
/// group names. A plain name is looked up in the group and its ancestors; a path starts at the group or the root (CF
/// conventions, 2.7 and 5).
pub(crate) fn of(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    group("", &hierarchy.root, hierarchy, &mut found);
    found
}

fn group(path: &str, group_: &Group, hierarchy: &Hierarchy, found: &mut BTreeSet<NodePath>) {
    named(&group_.attributes, path, hierarchy, found);
    for (name, node) in &group_.children {
        let child = join(path, name);
        match node {
            Node::Group(inner) => group(&child, inner, hierarchy, found),
            Node::Array(array) => {
                named(&array.attributes, path, hierarchy, found);
                if is_dimension(name, array) {
                    found.insert(child);
                }
            }
        }
    }
}

fn is_dimension(name: &str, array: &Array) -> bool {
    array.shape.len() == 1 && matches!(array.dimension_names.as_slice(), [Some(only)] if only == name)
}

/// Adds the arrays that the attribute `coordinates` names.
fn named(
    attributes: &Map<String, Value>,
    group: &str,
    hierarchy: &Hierarchy,
    found: &mut BTreeSet<NodePath>,
) {
    let names = attributes.get("coordinates").and_then(Value::as_str).unwrap_or_default();
    found.extend(names.split_whitespace().filter_map(|name| resolve(name, group, hierarchy)));
}

fn resolve(name: &str, group: &str, hierarchy: &Hierarchy) -> Option<NodePath> {
    let is_array = |path: &NodePath| hierarchy.array(path).is_some();
    match name.strip_prefix('/') {
        Some(absolute) => Some(absolute.to_owned()).filter(is_array),
        None if name.contains('/') => Some(join(group, name)).filter(is_array),
        None => node::ancestors(group).map(|group| node::join(group, name)).find(is_array),
    }
}
