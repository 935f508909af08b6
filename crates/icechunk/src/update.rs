//! Updates of what an earlier commit wrote.
//!
//! The planner compares the new state with the recorded one, node by node and chunk by chunk, and plans to write only what
//! differs. Nodes, attributes and chunks of other writers stay as they are; if a change would overwrite them, the commit
//! fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use icechunk::{
    Repository,
    format::{
        SnapshotId,
        snapshot::{NodeData, NodeSnapshot},
    },
    repository::VersionInfo,
    session::Session,
};
use serde_json::Value;
use virtualize_zarr::{Array, Hierarchy, node};

use crate::{
    IcechunkError,
    comparison::{BaseArray, Comparison, Retained, overwrites},
    document_diff::{difference, dimensions, document_of, is_array, merge, same_state, shape_of},
    metadata::{Document, documents, node_path},
    repository::has_snapshot,
    stored::StoredArray,
    update_plan::{Change, UpdatePlan},
};

/// What an earlier commit wrote.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Update {
    /// Snapshot id of that commit, which must be in the history of the branch. With `None`, the recorded nodes are taken
    /// as they are on the branch now, whoever changed them.
    pub base: Option<String>,
    /// The documents (`zarr.json`) that the commit wrote, by path. Other nodes are never changed or removed.
    pub documents: BTreeMap<String, Value>,
    /// The dimension along which arrays only grow: their chunks below the recorded length are not compared.
    pub grows: Option<String>,
    /// Paths of arrays to which others have written chunks since.
    pub touched: BTreeSet<String>,
}

/// Returns the documents of all nodes of a hierarchy whose root is the group at `prefix`, by path.
///
/// # Errors
/// [`IcechunkError::Node`] for an array that Zarr v3 cannot describe.
pub fn documents_of(hierarchy: &Hierarchy, prefix: &str) -> Result<BTreeMap<String, Value>, IcechunkError> {
    let documents = documents(hierarchy, prefix.trim_matches('/'))?;
    Ok(documents.into_iter().map(|document| (document.path, document.metadata)).collect())
}

/// Plans an update of a branch.
pub(crate) struct UpdatePlanner<'a> {
    repository: &'a Repository,
    update: &'a Update,
    documents: &'a [Document<'a>],
    base: Arc<Session>,
    tip: Session,
    /// Arrays to which others wrote chunks, including those of earlier updates.
    touched: BTreeSet<String>,
}

impl<'a> UpdatePlanner<'a> {
    /// Opens the earlier snapshot and the tip of the branch.
    pub(crate) async fn open(
        repository: &'a Repository,
        update: &'a Update,
        (branch, tip): (&str, &SnapshotId),
        documents: &'a [Document<'a>],
    ) -> Result<Self, IcechunkError> {
        let base = match &update.base {
            Some(base) => in_history(repository, branch, base).await?,
            None => tip.clone(),
        };
        let session = async |snapshot: &SnapshotId| {
            let opened = repository.readonly_session(&VersionInfo::SnapshotId(snapshot.clone())).await;
            opened.map_err(IcechunkError::of("opening the snapshot"))
        };
        let (base, tip) = (Arc::new(session(&base).await?), session(tip).await?);
        Ok(Self { repository, update, documents, base, tip, touched: update.touched.clone() })
    }

    /// Returns the paths of arrays to which others have written chunks. A later update needs them.
    pub(crate) fn touched(&self) -> &BTreeSet<String> {
        &self.touched
    }

    /// Returns why the first recorded node that others changed can no longer be updated.
    pub(crate) async fn first_conflict(&mut self) -> Result<Option<IcechunkError>, IcechunkError> {
        for (path, recorded) in &self.update.documents {
            match self.tip_node(path, recorded).await {
                Ok(_) => {}
                Err(error @ IcechunkError::Foreign { .. }) => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Compares the new state with the recorded one.
    ///
    /// # Errors
    /// The update would overwrite what others wrote.
    pub(crate) async fn plan(&mut self) -> Result<UpdatePlan<'a>, IcechunkError> {
        let removed = self.removed_nodes().await?;
        let mut changes = Vec::new();
        let documents = self.documents;
        for document in documents {
            changes.extend(self.change(document).await?);
        }
        self.check_foreign_dimensions(&removed).await?;
        Ok(UpdatePlan { removed, changes })
    }

    async fn change(&mut self, document: &'a Document<'a>) -> Result<Option<Change<'a>>, IcechunkError> {
        let path = &document.path;
        let Some(recorded) = self.update.documents.get(path) else {
            return self.create(document).await;
        };
        let Some(node) = self.tip_node(path, recorded).await? else {
            return Ok(Some(Change::create(document)));
        };
        let current = document_of(path, &node)?;
        let Some(array) = document.array.filter(|_| is_array(recorded)) else {
            if is_array(recorded) || document.array.is_some() {
                return self.recreate(document, &current).await.map(Some);
            }
            let merged = merge(recorded, &current, &document.metadata);
            return Ok(Some(Change::metadata_only(document, (merged != current).then_some(merged))));
        };
        let rank = |document| shape_of(document).map(|shape| shape.len());
        if rank(&current) != rank(&document.metadata) {
            return self.recreate(document, &current).await.map(Some);
        }
        self.change_array(document, array, recorded, &current).await.map(Some)
    }

    async fn change_array(
        &mut self,
        document: &'a Document<'a>,
        array: &Array,
        recorded: &Value,
        current: &Value,
    ) -> Result<Change<'a>, IcechunkError> {
        let path = &document.path;
        let merged = merge(recorded, current, &document.metadata);
        let is_unchanged =
            same_state(current, &document.metadata) && merged.get("attributes") == current.get("attributes");
        let mut change = Change::metadata_only(document, (!is_unchanged).then_some(merged));
        change.chunks = match Retained::new(self.update.grows.as_deref(), recorded, document, array) {
            Retained::All => {
                self.note_touched(path).await?;
                None
            }
            retained => Some(self.comparison(path, recorded, retained).await?),
        };
        Ok(change)
    }

    /// Returns what the chunks of an array are compared with.
    async fn comparison(
        &self,
        path: &str,
        recorded: &Value,
        retained: Retained,
    ) -> Result<Comparison, IcechunkError> {
        let stored = StoredArray::find(self.repository, &self.base, path).await?;
        let tip = match self.update.base {
            Some(_) => StoredArray::find(self.repository, &self.tip, path).await?,
            None => None,
        };
        let is_touched = self.update.base.is_some() && self.update.touched.contains(path);
        let manifests = |array: &Option<StoredArray>| array.as_ref().map(|array| array.manifests.clone());
        let tip = tip.filter(|tip| manifests(&stored).as_ref() != Some(&tip.manifests));
        let base = match (stored, Array::from_zarr_json(recorded)) {
            (Some(_), _) if matches!(retained, Retained::Below { complete: true, .. }) => None,
            (Some(stored), Ok(recorded)) => {
                let counts = recorded.array.chunk_grid.counts(&recorded.array.shape);
                Some(BaseArray { session: Arc::clone(&self.base), stored, counts })
            }
            _ => None,
        };
        Ok(Comparison { base, tip, is_touched, retained: retained.along() })
    }

    /// Replaces a node of another kind or rank.
    async fn recreate(
        &mut self,
        document: &'a Document<'a>,
        current: &Value,
    ) -> Result<Change<'a>, IcechunkError> {
        let path = &document.path;
        if is_array(current) {
            self.check_array(path).await?;
        } else if self.has_other_children(path, &[]).await? {
            return Err(IcechunkError::Exists { path: path.clone() });
        }
        Ok(Change { recreate: true, ..Change::create(document) })
    }

    /// Creates a node that no earlier commit wrote. Only a group may exist in its place, and it stays.
    async fn create(&self, document: &'a Document<'a>) -> Result<Option<Change<'a>>, IcechunkError> {
        match self.tip.get_node(&node_path(&document.path)?).await {
            Err(_) => Ok(Some(Change::create(document))),
            Ok(node) if document.array.is_none() && matches!(node.node_data, NodeData::Group) => Ok(None),
            Ok(_) => Err(IcechunkError::Exists { path: document.path.clone() }),
        }
    }

    /// Returns a recorded node from the tip of the branch. Without a base, `None` if it was removed.
    ///
    /// # Errors
    /// With a base: [`IcechunkError::Foreign`] if others removed, replaced or changed the node.
    async fn tip_node(&self, path: &str, recorded: &Value) -> Result<Option<NodeSnapshot>, IcechunkError> {
        let foreign =
            |reason: &str| Err(IcechunkError::Foreign { path: path.to_owned(), reason: reason.to_owned() });
        let strict = self.update.base.is_some();
        let Ok(node) = self.tip.get_node(&node_path(path)?).await else {
            return if strict { foreign("the node was removed") } else { Ok(None) };
        };
        if !strict {
            return Ok(Some(node));
        }
        let current = document_of(path, &node)?;
        match (is_array(recorded), is_array(&current)) {
            (true, true) => match difference(recorded, &current) {
                Some(reason) => foreign(&reason),
                None => Ok(Some(node)),
            },
            (false, false) => Ok(Some(node)),
            _ => foreign("the node was replaced by one of another kind"),
        }
    }

    /// Returns the recorded nodes that the new state does not have, children first, except for groups that contain nodes of
    /// others.
    async fn removed_nodes(&mut self) -> Result<Vec<String>, IcechunkError> {
        let new: BTreeSet<&str> = self.documents.iter().map(|document| document.path.as_str()).collect();
        let mut removed = Vec::new();
        for (path, recorded) in self.update.documents.iter().rev() {
            if new.contains(path.as_str()) || self.tip_node(path, recorded).await?.is_none() {
                continue;
            }
            if is_array(recorded) {
                self.check_array(path).await?;
            } else if self.has_other_children(path, &removed).await? {
                continue;
            }
            removed.push(path.clone());
        }
        Ok(removed)
    }

    async fn has_other_children(&self, group: &str, removed: &[String]) -> Result<bool, IcechunkError> {
        let nodes = self.tip.list_nodes(&node_path(group)?).await;
        for node in nodes.map_err(IcechunkError::of("listing the group"))? {
            let node = node.map_err(IcechunkError::of("listing the group"))?;
            let path = node.path.as_str().trim_start_matches('/');
            let is_below =
                path.strip_prefix(group).is_some_and(|rest| group.is_empty() || rest.starts_with('/'));
            if is_below && path != group && !removed.iter().any(|removed| removed == path) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records and returns whether others wrote chunks to an array since the base.
    async fn note_touched(&mut self, path: &str) -> Result<bool, IcechunkError> {
        let node = node_path(path)?;
        let manifests = async |session: &Session| match session.get_node(&node).await {
            Ok(NodeSnapshot { node_data: NodeData::Array { manifests, .. }, .. }) => manifests,
            _ => Vec::new(),
        };
        let is_touched = manifests(&self.base).await != manifests(&self.tip).await;
        if is_touched {
            self.touched.insert(path.to_owned());
        }
        Ok(is_touched)
    }

    /// Checks that an array which is about to be removed has no chunks of others.
    async fn check_array(&mut self, path: &str) -> Result<(), IcechunkError> {
        if self.update.base.is_none() {
            return Ok(());
        }
        let before = self.update.touched.contains(path);
        match self.note_touched(path).await? || before {
            true => Err(overwrites(path)),
            false => Ok(()),
        }
    }

    /// Checks that arrays of others still have the same lengths along the dimensions that they share with arrays of this
    /// dataset in the same group. xarray cannot open a group in which they differ.
    async fn check_foreign_dimensions(&self, removed: &[String]) -> Result<(), IcechunkError> {
        let lengths = self.dimension_lengths();
        let nodes = self.tip.list_nodes(&node_path("")?).await;
        for node in nodes.map_err(IcechunkError::of("listing the nodes"))? {
            let node = node.map_err(IcechunkError::of("listing the nodes"))?;
            let path = node.path.as_str().trim_start_matches('/').to_owned();
            let is_ours = self.update.documents.contains_key(&path)
                || removed.contains(&path)
                || self.documents.iter().any(|document| document.path == path);
            let (Some(lengths), false) = (lengths.get(node::parent(&path)), is_ours) else { continue };
            for (name, length) in dimensions(&document_of(&path, &node)?) {
                let Some((now, before)) = lengths.get(name.as_str()) else { continue };
                if length != *now && Some(length) == *before {
                    let reason = format!(
                        "the array is not part of this dataset and has {length} elements along {name:?}; clients could not open it next to arrays with {now}: resize it first, or move it to another group"
                    );
                    return Err(IcechunkError::Append { path, reason });
                }
            }
        }
        Ok(())
    }

    /// Returns the new and the recorded length of each dimension, by group and name.
    fn dimension_lengths(&self) -> BTreeMap<&str, BTreeMap<&str, (u64, Option<u64>)>> {
        let mut lengths: BTreeMap<&str, BTreeMap<&str, (u64, Option<u64>)>> = BTreeMap::new();
        for document in self.documents {
            let Some(array) = document.array else { continue };
            let before = self.update.documents.get(&document.path).and_then(shape_of);
            for (axis, name) in array.dimension_names.iter().enumerate() {
                let (Some(name), Some(now)) = (name, array.shape.get(axis)) else { continue };
                let before = before.as_ref().and_then(|shape| shape.get(axis).copied());
                lengths.entry(node::parent(&document.path)).or_default().insert(name, (*now, before));
            }
        }
        lengths
    }
}

/// Returns the id of a snapshot that is the tip of a branch or one of its ancestors.
async fn in_history(
    repository: &Repository,
    branch: &str,
    snapshot: &str,
) -> Result<SnapshotId, IcechunkError> {
    let lost = || IcechunkError::History { branch: branch.to_owned(), snapshot: snapshot.to_owned() };
    let id = SnapshotId::try_from(snapshot).map_err(|_| lost())?;
    match has_snapshot(repository, branch, &id).await? {
        true => Ok(id),
        false => Err(lost()),
    }
}
