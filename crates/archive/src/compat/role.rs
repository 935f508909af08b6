//! Which arrays vary along which dimensions, and how.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize::zarr::{
    Array, Group, Hierarchy, Node, NodePath,
    node::{self, join},
};

use crate::{Along, Layout};

/// How an array varies along one dimension of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DimRole {
    /// Not at all: its values must be equal in all files.
    #[serde(rename = "Absent")]
    Invariant,
    /// It has the dimension as this axis, and grows.
    Axis(usize),
    /// It gets the dimension as a new axis, with one element per file.
    #[serde(rename = "Stacked")]
    NewAxis,
    /// It gets the dimension as a new axis, with its values repeated for each element of the file
    /// ([`Layout::concat_vars`]).
    #[serde(rename = "Repeated")]
    Broadcast,
    /// It is a file's coordinate along a new dimension: a single number that becomes an element of the axis.
    Coordinate,
}

/// Attributes that name arrays which describe others (CF conventions, sections 5 to 7).
pub(crate) const DESCRIBING: [&str; 11] = [
    "bounds",
    "cell_measures",
    "climatology",
    "coordinates",
    "formula_terms",
    "geometry",
    "grid_mapping",
    "interior_ring",
    "node_coordinates",
    "node_count",
    "part_node_count",
];

/// Returns how each array varies along each dimension of the layout, in the layout's order.
///
/// Along an existing dimension ([`Along::Concat`]) the arrays that have it grow. Along a new one ([`Along::Stack`]) the data
/// variables get an axis; coordinates do not: arrays named like their only dimension, and arrays named by attributes such as
/// `coordinates`, `bounds` or `grid_mapping`. All others are invariant: they must be equal in all files.
pub fn roles(hierarchy: &Hierarchy, layout: &Layout) -> BTreeMap<NodePath, Vec<DimRole>> {
    let coordinates = coordinates(hierarchy);
    let roles = |path: &NodePath, array: &Array| {
        layout.along.iter().map(|along| role(path, array, along, layout, &coordinates)).collect()
    };
    hierarchy.arrays().into_iter().map(|(path, array)| (path.clone(), roles(&path, array))).collect()
}

fn role(
    path: &NodePath,
    array: &Array,
    along: &Along,
    layout: &Layout,
    coordinates: &BTreeSet<NodePath>,
) -> DimRole {
    let axis = || array.dimension_names.iter().position(|name| name.as_deref() == Some(along.name()));
    let is_named = Layout::has(&layout.concat_vars, path);
    match along {
        Along::Concat(_) => match axis() {
            Some(axis) => DimRole::Axis(axis),
            None if is_named => DimRole::Broadcast,
            None => DimRole::Invariant,
        },
        Along::Stack(name) if path == name && array.shape.iter().all(|n| *n == 1) => DimRole::Coordinate,
        Along::Stack(_) if Layout::has(&layout.assume_equal, path) => DimRole::Invariant,
        Along::Stack(_) if is_named || !coordinates.contains(path) => DimRole::NewAxis,
        Along::Stack(_) => DimRole::Invariant,
    }
}

/// Returns whether an array is the coordinate of its own dimension: it has one axis, of its own name.
pub fn is_coordinate(path: &str, array: &Array) -> bool {
    let name = node::name(path);
    matches!(array.dimension_names.as_slice(), [Some(only)] if only == name)
}

/// Returns the arrays that describe others: coordinates of their dimension, and what attributes such as `coordinates` name.
fn coordinates(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let arrays = hierarchy.arrays();
    let mut found: BTreeSet<NodePath> = arrays
        .iter()
        .filter(|(path, array)| is_coordinate(path, array))
        .map(|(path, _)| path.clone())
        .collect();
    for (path, array) in &arrays {
        let group = node::parent(path);
        found.extend(described(hierarchy, group, &array.attributes));
    }
    add_of_groups(hierarchy, "", &hierarchy.root, &mut found);
    found
}

fn add_of_groups(hierarchy: &Hierarchy, path: &str, group: &Group, found: &mut BTreeSet<NodePath>) {
    found.extend(described(hierarchy, path, &group.attributes));
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            add_of_groups(hierarchy, &join(path, name), child, found);
        }
    }
}

fn described(hierarchy: &Hierarchy, group: &str, attributes: &Map<String, Value>) -> Vec<NodePath> {
    let texts = DESCRIBING.iter().filter_map(|name| attributes.get(*name)?.as_str());
    let words =
        texts.flat_map(|text| text.split([' ', ':', ',', '\n', '\t'])).filter(|word| !word.is_empty());
    words.filter_map(|word| find(hierarchy, group, word)).collect()
}

/// Returns the array that a name means in a group: the group's own, or that of the nearest group above.
pub(crate) fn find(hierarchy: &Hierarchy, group: &str, name: &str) -> Option<NodePath> {
    let mut group = group;
    loop {
        let path = join(group, name.trim_start_matches('/'));
        if hierarchy.array(&path).is_some() {
            return Some(path);
        }
        if group.is_empty() {
            return None;
        }
        group = node::parent(group);
    }
}

/// Returns the number of elements of a file along a dimension of the layout.
pub(crate) fn length_along(hierarchy: &Hierarchy, along: &Along) -> u64 {
    let Along::Concat(name) = along else { return 1 };
    let sizes = hierarchy.arrays().into_iter().filter_map(|(_, array)| {
        let axis = array.dimension_names.iter().position(|axis| axis.as_ref() == Some(name))?;
        array.shape.get(axis).copied()
    });
    sizes.max().unwrap_or(0)
}
