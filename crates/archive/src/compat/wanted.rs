use std::collections::BTreeSet;

use virtualize::zarr::{Array, Hierarchy, NodePath};

use super::{
    copying::{is_copied, may_be_copied},
    role::{DimRole, roles},
    times::time_arrays,
};
use crate::{Layout, Wanted, values::variable::value_bytes};

/// Returns which arrays of a file must be read whole.
pub fn wanted(hierarchy: &Hierarchy, layout: &Layout) -> Wanted {
    let mut wanted = Wanted::default();
    if layout.along.is_empty() {
        return wanted;
    }
    let times = time_arrays(hierarchy, layout.inline_limit);
    for (path, roles) in roles(hierarchy, layout) {
        let Some(array) = hierarchy.array(&path) else { continue };
        if needs_values(&path, array, &roles, layout, &times) {
            wanted.values.insert(path);
        } else if roles.contains(&DimRole::Invariant) && !Layout::has(&layout.assume_equal, &path) {
            wanted.digests.insert(path);
        }
    }
    wanted
}

fn needs_values(
    path: &NodePath,
    array: &Array,
    roles: &[DimRole],
    layout: &Layout,
    times: &BTreeSet<NodePath>,
) -> bool {
    value_bytes(array).is_some()
        && (is_copied(path, array, roles, times.contains(path)) || may_be_copied(array, roles, layout))
}
