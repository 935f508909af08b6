//! Positions of grids, from the values of their coordinates.

use std::collections::BTreeMap;

use virtualize_map::{Axis, describe_grids, grid_axes, regular_axis};
use virtualize_store::StoreOptions;
use virtualize_zarr::cf::conventions;
use virtualize_zarr::{
    Array, Chunk, ChunkManifest, ChunkReader, Group, Hierarchy, Node, ReferencesBuilder, Source, SourceId,
    ZarrFormat,
};

use crate::read::read_array_within;
use crate::store::VirtualStore;

/// Maximum size in bytes of the values along an axis.
const MAX_AXIS: u64 = 16 << 20;
/// Maximum number of chunks of the values along an axis.
const MAX_CHUNKS: u64 = 4096;

/// Declares the position of arrays on grids of equal steps, and that of their groups, by the Zarr conventions `spatial` and
/// `proj`. Groups that declare a position already are skipped, as are axes that cannot be read or have missing chunks.
pub(crate) async fn declare_grids(store: &mut VirtualStore, options: &StoreOptions) {
    let is_wanted = |_: &str| true;
    let mut axes = BTreeMap::new();
    for path in grid_axes(&store.hierarchy, &is_wanted) {
        if store.hierarchy.array(&path).is_some_and(|array| is_complete(array, array.chunks.len())) {
            let axis = axis(store, &path, options).await;
            axes.extend(axis.map(|axis| (path, axis)));
        }
    }
    describe_grids(&mut store.hierarchy, &axes, &is_wanted);
}

/// Declares positions as for a single file, in a store whose chunks are read from `chunks`. `is_wanted` selects groups.
pub async fn declare_joined_grids(
    store: &mut VirtualStore,
    chunks: &mut (dyn ChunkReader + '_),
    options: &StoreOptions,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
) {
    let mut axes = BTreeMap::new();
    for path in grid_axes(&store.hierarchy, is_wanted) {
        let format = store.hierarchy.format;
        let Some(array) = store.hierarchy.array(&path) else { continue };
        if let Some(alone) = alone(array, format, &path, chunks) {
            let axis = axis(&alone, AXIS, options).await;
            axes.extend(axis.map(|axis| (path, axis)));
        }
    }
    describe_grids(&mut store.hierarchy, &axes, is_wanted);
    conventions::describe_levels(&mut store.hierarchy);
}

/// Returns whether an array of this many chunks has all of them, and not too many.
fn is_complete(array: &Array, chunks: u64) -> bool {
    let all = array.chunk_grid.counts(&array.shape).iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
    all == Some(chunks) && chunks <= MAX_CHUNKS
}

async fn axis(store: &VirtualStore, path: &str, options: &StoreOptions) -> Option<Axis> {
    match read_array_within(store, path, MAX_AXIS, options).await {
        Ok(values) => regular_axis(&values.data_type, &values.bytes),
        Err(error) => {
            tracing::debug!("no position is declared: {error}");
            None
        }
    }
}

/// Path of the array in a store that has no other.
const AXIS: &str = "axis";

/// Returns a store of one array; `None` if it lacks chunks.
fn alone(
    array: &Array,
    format: ZarrFormat,
    path: &str,
    chunks: &mut (dyn ChunkReader + '_),
) -> Option<VirtualStore> {
    if !is_complete(array, chunks.count(path).ok()?) {
        return None;
    }
    let mut by_source: Vec<(Source, ReferencesBuilder)> = Vec::new();
    let mut manifest = ChunkManifest::default();
    for item in chunks.chunks(path, 0).ok()? {
        match item.ok()? {
            (position, Chunk::Inline(bytes)) => drop(manifest.inline.insert(position, bytes)),
            (position, Chunk::Reference { source, offset, length }) => {
                let at = by_source.iter().position(|(known, _)| *known == *source);
                let at = at.unwrap_or_else(|| {
                    by_source.push(((*source).clone(), ReferencesBuilder::default()));
                    by_source.len() - 1
                });
                by_source.get_mut(at)?.1.push(position, offset, length);
            }
        }
    }
    let mut hierarchy = Hierarchy::new(format);
    for (source, builder) in by_source {
        let id = SourceId(u32::try_from(hierarchy.sources.len()).ok()?);
        hierarchy.sources.push(source);
        manifest.references.extend(builder.finish(id));
    }
    let array = Array { chunks: manifest, ..array.clone() };
    hierarchy.root =
        Group { children: [(AXIS.to_owned(), Node::Array(Box::new(array)))].into(), ..Group::default() };
    Some(VirtualStore::of(hierarchy, path))
}
