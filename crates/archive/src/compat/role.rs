//! Which arrays vary along which dimensions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use virtualize::zarr::{Array, Group, Hierarchy, Node, NodePath};

use crate::{Along, Layout};

/// How an array varies along one dimension of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// Not at all: its values must be equal in all files.
    Absent,
    /// It has the dimension as this axis, and grows.
    Axis(usize),
    /// It gets the dimension as a new axis, one element a file.
    Stacked,
    /// It gets the dimension as a new axis, its values repeated for each element of the file (`concat_vars`).
    Repeated,
    /// It is the coordinate of a file along a new dimension: a single number that becomes an element of the axis.
    Coordinate,
}

/// Attributes that name arrays which describe others (CF conventions, sections 5 to 7).
const DESCRIBING: [&str; 11] = [
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

/// For each array how it varies along each dimension of the layout, in the layout's order.
pub fn places(hierarchy: &Hierarchy, layout: &Layout) -> BTreeMap<NodePath, Vec<Place>> {
    let coordinates = coordinates(hierarchy);
    let place = |path: &NodePath, array: &Array| {
        let one = |along| place(path, array, along, layout, &coordinates);
        layout.along.iter().map(one).collect()
    };
    hierarchy.arrays().into_iter().map(|(path, array)| (path.clone(), place(&path, array))).collect()
}

fn place(
    path: &NodePath,
    array: &Array,
    along: &Along,
    layout: &Layout,
    coordinates: &BTreeSet<NodePath>,
) -> Place {
    let named = || array.dimension_names.iter().position(|name| name.as_deref() == Some(along.name()));
    let taken_along = Layout::has(&layout.concat_vars, path);
    match along {
        Along::Concat(_) => match named() {
            Some(axis) => Place::Axis(axis),
            None if taken_along => Place::Repeated,
            None => Place::Absent,
        },
        Along::Stack(name) if path == name && array.shape.iter().product::<u64>() == 1 => Place::Coordinate,
        Along::Stack(_) if Layout::has(&layout.assume_equal, path) => Place::Absent,
        Along::Stack(_) if taken_along || !coordinates.contains(path) => Place::Stacked,
        Along::Stack(_) => Place::Absent,
    }
}

/// Whether an array is a coordinate of its own dimension: it has one axis, of its own name.
pub fn is_coordinate(path: &str, array: &Array) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    matches!(array.dimension_names.as_slice(), [Some(only)] if only == name)
}

/// Arrays that describe others: coordinates of their dimension, and what attributes such as `coordinates` name.
fn coordinates(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let arrays = hierarchy.arrays();
    let mut found: BTreeSet<NodePath> = arrays
        .iter()
        .filter(|(path, array)| is_coordinate(path, array))
        .map(|(path, _)| path.clone())
        .collect();
    for (path, array) in &arrays {
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        found.extend(described(hierarchy, group, &array.attributes));
    }
    from_groups(hierarchy, "", &hierarchy.root, &mut found);
    found
}

fn from_groups(hierarchy: &Hierarchy, path: &str, group: &Group, found: &mut BTreeSet<NodePath>) {
    found.extend(described(hierarchy, path, &group.attributes));
    for (name, node) in &group.children {
        if let Node::Group(child) = node {
            from_groups(hierarchy, &join(path, name), child, found);
        }
    }
}

fn described(hierarchy: &Hierarchy, group: &str, attributes: &Map<String, Value>) -> Vec<NodePath> {
    let texts = DESCRIBING.iter().filter_map(|name| attributes.get(*name)?.as_str());
    let words =
        texts.flat_map(|text| text.split([' ', ':', ',', '\n', '\t'])).filter(|word| !word.is_empty());
    words.filter_map(|word| find(hierarchy, group, word)).collect()
}

/// The array of a name that is seen from a group: its own, or that of the nearest group above.
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
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

pub(crate) fn join(group: &str, name: &str) -> NodePath {
    virtualize::zarr::node::join(group, name)
}

/// Elements of a file along a dimension.
pub(crate) fn length_along(hierarchy: &Hierarchy, along: &Along) -> u64 {
    let Along::Concat(name) = along else { return 1 };
    let sizes = hierarchy.arrays().into_iter().filter_map(|(_, array)| {
        let axis = array.dimension_names.iter().position(|axis| axis.as_ref() == Some(name))?;
        array.shape.get(axis).copied()
    });
    sizes.max().unwrap_or(0)
}
