//! Which arrays of a file are read whole.

use std::collections::BTreeSet;

use virtualize::zarr::{Array, Hierarchy, NodePath};

use super::{
    role::{Place, is_coordinate, places},
    storage::may_be_copied,
    times::related,
};
use crate::{Layout, Wanted, values::variable::bytes_of};

/// Which arrays of a file must be read whole.
pub fn wanted(hierarchy: &Hierarchy, layout: &Layout) -> Wanted {
    let mut wanted = Wanted::default();
    if layout.along.is_empty() {
        return wanted;
    }
    let times = related(hierarchy, layout.inline_limit);
    for (path, places) in places(hierarchy, layout) {
        let Some(array) = hierarchy.array(&path) else { continue };
        if needs_values(&path, array, &places, layout, &times) {
            wanted.values.insert(path);
        } else if places.contains(&Place::Absent) && !Layout::has(&layout.assume_equal, &path) {
            wanted.digests.insert(path);
        }
    }
    wanted
}

fn needs_values(
    path: &NodePath,
    array: &Array,
    places: &[Place],
    layout: &Layout,
    related: &BTreeSet<NodePath>,
) -> bool {
    if bytes_of(array).is_none() {
        return false;
    }
    let grows = || places.iter().any(|place| matches!(place, Place::Axis(_)));
    places.iter().any(|place| matches!(place, Place::Coordinate | Place::Repeated))
        || (grows() && (is_coordinate(path, array) || related.contains(path)))
        || may_be_copied(array, places, layout)
}
