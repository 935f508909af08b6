//! Replaces arrays of shards by arrays of the chunks in them, whose locations are read from the indices of the shards.

use bytes::Bytes;
use virtualize_remedy::Code;
use virtualize_zarr::{
    Array, ChunkEntry, ChunkManifest, Codec, Node, Reference, ReferencesBuilder, Sharding, SourceId, node,
};

use super::{check_size, warning};
use crate::{
    chunks::fetch,
    error::{ArrayError, Error},
    options::ReadOptions,
    store::VirtualStore,
};

/// Bytes of a reference in memory, at most.
pub(super) const REFERENCE: u64 = 40;
/// Maximum number of shards within each other.
const MAX_DEPTH: usize = 4;

/// Returns the position in the outermost grid of shards for each row-major position in the grid of the chunks.
pub(super) fn shards(array: &Array, positions: &[u64]) -> Vec<u64> {
    fn outermost(array: &Array, positions: &[u64], depth: usize) -> Option<Vec<u64>> {
        let sharding = Sharding::of(array).ok().flatten().filter(|_| depth < MAX_DEPTH)?;
        let inner = outermost(&sharding.array, positions, depth + 1);
        Some(inner.as_deref().unwrap_or(positions).iter().filter_map(|at| sharding.shard(*at)).collect())
    }
    outermost(array, positions, 0).unwrap_or_else(|| positions.to_vec())
}

/// Replaces all arrays of shards of a store. Arrays whose shards are not supported are omitted with a warning.
///
/// # Errors
/// An index cannot be read, or is damaged; more references than the limit.
pub(super) async fn expand(store: &mut VirtualStore, options: &ReadOptions) -> Result<(), Error> {
    let arrays = store.hierarchy.arrays();
    let mut work: Vec<_> = arrays
        .iter()
        .filter_map(|(path, array)| Some((path.clone(), Sharding::of(array).transpose()?, 0)))
        .collect();
    while let Some((path, sharding, depth)) = work.pop() {
        let sharding = match sharding {
            Ok(sharding) if depth < MAX_DEPTH => sharding,
            refused => {
                let reason = refused
                    .err()
                    .map_or("shards are nested too deeply".to_owned(), |error| error.to_string());
                let (parent, name) = node::split(&path);
                if let Some(group) = store.hierarchy.root.group_mut(parent) {
                    group.children.remove(name);
                }
                store.report.diagnostics.push(warning(Code::ArrayOmitted, &path, reason));
                continue;
            }
        };
        let array = chunks(store, &path, sharding, options).await?;
        if let Some(inner) = Sharding::of(&array).transpose() {
            work.push((path.clone(), inner, depth + 1));
        }
        let (parent, name) = node::split(&path);
        if let Some(group) = store.hierarchy.root.group_mut(parent) {
            group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
        }
    }
    Ok(())
}

/// Returns the array of the chunks in the shards of an array.
async fn chunks(
    store: &VirtualStore,
    path: &str,
    sharding: Sharding,
    options: &ReadOptions,
) -> Result<Array, Error> {
    let name = store.name();
    let failed = |error: ArrayError| Error::of_array(name, path, error);
    let Some(array) = store.hierarchy.array(path) else { return Ok(sharding.array) };
    let short = |position: u64| {
        failed(ArrayError::invalid(format!(
            "shard {position} has no valid index: it is damaged, or was replaced"
        )))
    };
    let mut indices: Vec<(SourceId, ReferencesBuilder)> = Vec::new();
    for (position, entry) in array.chunks.iter() {
        let ChunkEntry::Reference(shard) = entry else { continue };
        let index = sharding.index(shard).ok_or_else(|| short(position))?;
        if indices.last().is_none_or(|(source, _)| *source != index.source) {
            indices.push((index.source, ReferencesBuilder::default()));
        }
        if let Some((_, column)) = indices.last_mut() {
            column.push(position, index.offset, index.length);
        }
    }
    let references = indices.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    let manifest = ChunkManifest { references, ..ChunkManifest::default() };
    let located = Array { chunks: manifest, ..sharding.array.clone() };
    let indices =
        fetch(store, &located, options.limits.metadata_bytes, &options.store).await.map_err(failed)?;
    let mut count = 0_u64;
    let mut found = sharding.array.clone();
    let mut columns: std::collections::BTreeMap<SourceId, ReferencesBuilder> = Default::default();
    for (position, entry) in array.chunks.iter() {
        let shard = match &entry {
            ChunkEntry::Reference(shard) => *shard,
            ChunkEntry::Inline(bytes) => {
                Reference { source: SourceId(0), offset: 0, length: bytes.len() as u64 }
            }
        };
        let index = match &entry {
            ChunkEntry::Reference(_) => indices.get(&position).cloned(),
            ChunkEntry::Inline(bytes) => sharding.index(shard).and_then(|index| slice(bytes, index)),
        };
        let listed = index.and_then(|index| {
            let length = index.len().checked_sub(if sharding.has_checksum() { 4 } else { 0 })?;
            let checksum = Codec::Checksum { name: "crc32c", is_at_end: true };
            let codecs: &[Codec] = if sharding.has_checksum() { &[checksum] } else { &[] };
            let entries = virtualize_codec::decode_exact(codecs, &index, length).ok()?;
            sharding.chunks(position, shard, &entries)
        });
        for (at, reference) in listed.ok_or_else(|| short(position))? {
            count = count.saturating_add(1);
            match &entry {
                ChunkEntry::Reference(_) => {
                    columns.entry(reference.source).or_default().push(at, reference.offset, reference.length);
                }
                ChunkEntry::Inline(bytes) => {
                    found.chunks.inline.extend(slice(bytes, reference).map(|bytes| (at, bytes)));
                }
            }
        }
        check_size(name, count.saturating_mul(REFERENCE), options)?;
    }
    found.chunks.references =
        columns.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    Ok(found)
}

fn slice(bytes: &Bytes, within: Reference) -> Option<Bytes> {
    let start = usize::try_from(within.offset).ok()?;
    let end = start.checked_add(usize::try_from(within.length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}
