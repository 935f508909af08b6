//! Positions of grids, from the values of their coordinates.

use std::collections::BTreeMap;

use virtualize_map::{Axis, describe_grids, grid_axes, regular_axis};
use virtualize_store::StoreOptions;

use crate::read::read_array_within;
use crate::store::VirtualStore;

/// Maximum size in bytes of the values along an axis.
const MAX_AXIS: u64 = 16 << 20;

/// Declares the position of arrays on grids of equal steps by the Zarr conventions `spatial` and `proj`, and that of their
/// groups. `is_wanted` selects groups; those that declare a position already are skipped. Axes that cannot be read or have
/// missing chunks do not qualify.
pub async fn declare_grids(
    store: &mut VirtualStore,
    options: &StoreOptions,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
) {
    let mut axes: BTreeMap<String, Axis> = BTreeMap::new();
    for path in grid_axes(&store.hierarchy, is_wanted) {
        let Some(array) = store.hierarchy.array(&path) else { continue };
        let all = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
        if all != Some(array.chunks.len() as u64) {
            continue;
        }
        match read_array_within(store, &path, MAX_AXIS, options).await {
            Ok(values) => {
                let axis = regular_axis(&values.data_type, &values.bytes);
                axes.extend(axis.map(|axis| (path, axis)));
            }
            Err(error) => tracing::debug!("the position of grids is not declared: {error}"),
        }
    }
    describe_grids(&mut store.hierarchy, &axes, is_wanted);
}
