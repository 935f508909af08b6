//! Chunks of an array in a snapshot, in order of their indices, one manifest after the other.

use std::sync::Arc;

use icechunk::{
    Repository,
    asset_manager::AssetManager,
    format::{
        ChunkIndices, NodeId,
        manifest::{ChunkPayload, ManifestExtents, ManifestRef},
        snapshot::NodeData,
    },
    session::Session,
};

use crate::{
    IcechunkError,
    metadata::{node_error, node_path},
};

/// An array in a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct StoredArray {
    assets: Arc<AssetManager>,
    path: String,
    node: NodeId,
    pub(crate) manifests: Vec<ManifestRef>,
}

type Entries = Box<dyn Iterator<Item = Result<(ChunkIndices, ChunkPayload), IcechunkError>> + Send>;

impl StoredArray {
    /// Finds the array at `path` in a snapshot.
    pub(crate) async fn find(
        repository: &Repository,
        session: &Session,
        path: &str,
    ) -> Result<Option<Self>, IcechunkError> {
        let Ok(node) = session.get_node(&node_path(path)?).await else { return Ok(None) };
        let NodeData::Array { manifests, .. } = node.node_data else { return Ok(None) };
        let assets = Arc::clone(repository.asset_manager());
        Ok(Some(Self { assets, path: path.to_owned(), node: node.id, manifests }))
    }

    /// Returns the chunks in order of their indices. Manifests that contain only chunks whose index along an axis is below
    /// `retained` are skipped; other manifests may contain such chunks, too.
    pub(crate) fn chunks(&self, retained: Option<(usize, u64)>) -> StoredChunks {
        let is_needed = |manifest: &&ManifestRef| {
            retained.is_none_or(|(axis, end)| {
                manifest.extents.iter().nth(axis).is_none_or(|range| u64::from(range.end) > end)
            })
        };
        let mut manifests: Vec<_> = self.manifests.iter().filter(is_needed).cloned().collect();
        manifests.sort_by_cached_key(|manifest| first(&manifest.extents));
        let mut groups: Vec<(Vec<u32>, Vec<ManifestRef>)> = Vec::new();
        for manifest in manifests {
            let end = last(&manifest.extents);
            match groups.last_mut().filter(|(reached, _)| *reached >= first(&manifest.extents)) {
                Some((reached, group)) => {
                    *reached = std::mem::take(reached).max(end);
                    group.push(manifest);
                }
                None => groups.push((end, vec![manifest])),
            }
        }
        let groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
        StoredChunks {
            array: self.clone(),
            groups: groups.into_iter(),
            current: Box::new(std::iter::empty()),
        }
    }

    async fn entries(&self, manifest: &ManifestRef) -> Result<Entries, IcechunkError> {
        let fetched = self.assets.fetch_manifest(&self.path, &manifest.object_id, 0).await;
        let fetched = fetched.map_err(IcechunkError::of("reading a manifest"))?;
        let path = self.path.clone();
        let entries = fetched.iter(self.node.clone()).map_err(IcechunkError::of("reading a manifest"))?;
        Ok(Box::new(entries.map(move |entry| {
            entry.map_err(|error| node_error(&path, format!("a manifest is damaged: {error}")))
        })))
    }
}

/// Reader of an array's chunks.
pub(crate) struct StoredChunks {
    array: StoredArray,
    /// Manifests whose indices overlap, in order.
    groups: std::vec::IntoIter<Vec<ManifestRef>>,
    current: Entries,
}

impl StoredChunks {
    /// Returns the next chunk.
    pub(crate) async fn next(&mut self) -> Result<Option<(ChunkIndices, ChunkPayload)>, IcechunkError> {
        loop {
            if let Some(entry) = self.current.next() {
                return entry.map(Some);
            }
            let Some(group) = self.groups.next() else { return Ok(None) };
            self.current = match group.as_slice() {
                [only] => self.array.entries(only).await?,
                several => self.sorted(several).await?,
            };
        }
    }

    /// Returns the chunks of manifests whose indices overlap, as other libraries write them.
    async fn sorted(&mut self, manifests: &[ManifestRef]) -> Result<Entries, IcechunkError> {
        let mut all = Vec::new();
        for manifest in manifests {
            for entry in self.array.entries(manifest).await? {
                all.push(entry?);
            }
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Box::new(all.into_iter().map(Ok)))
    }
}

/// Returns the lowest indices of a manifest's chunks.
fn first(extents: &ManifestExtents) -> Vec<u32> {
    extents.iter().map(|range| range.start).collect()
}

/// Returns the highest indices of a manifest's chunks; those above all others if the extents are unknown.
fn last(extents: &ManifestExtents) -> Vec<u32> {
    match extents.is_empty() {
        true => vec![u32::MAX],
        false => extents.iter().map(|range| range.end.saturating_sub(1)).collect(),
    }
}
