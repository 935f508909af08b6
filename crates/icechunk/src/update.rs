//! Updates of what an earlier commit wrote: an extension at the end, or a replacement in one commit.
//!
//! Nodes and attributes of other writers stay as they are. A commit that would overwrite their changes fails.

use std::collections::{BTreeMap, BTreeSet};

use icechunk::{
    Repository,
    format::{
        SnapshotId,
        snapshot::{NodeData, NodeSnapshot},
    },
    repository::VersionInfo,
    session::Session,
};
use serde_json::{Map, Value};
use virtualize_zarr::{Array, Hierarchy, cf::attributes::decides_values, node};

use crate::{
    IcechunkError, Result,
    commit::{Document, documents},
    error::{document_of, node_error, node_path},
    repository::has_snapshot,
};

/// Members of an array's document, besides its attributes, that determine its values.
const STATE: [&str; 6] = ["shape", "data_type", "chunk_grid", "fill_value", "codecs", "dimension_names"];

/// The result of an earlier commit, to be extended or replaced.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CommitRecord {
    /// Snapshot id of that commit, which must be in the history of the branch. With `None`, the recorded nodes are replaced
    /// whatever others changed in them.
    pub snapshot: Option<String>,
    /// The documents (`zarr.json`) that the commit wrote, by path. Other nodes are never changed or removed.
    pub documents: BTreeMap<String, Value>,
}

/// Returns the documents of all nodes of a hierarchy whose root is the group at `prefix`, by path.
///
/// # Errors
/// [`IcechunkError::Node`] for an array that Zarr v3 cannot describe.
pub fn documents_of(hierarchy: &Hierarchy, prefix: &str) -> Result<BTreeMap<String, Value>> {
    let documents = documents(hierarchy, prefix.trim_matches('/'))?;
    Ok(documents.into_iter().map(|document| (document.path, document.metadata)).collect())
}

/// The nodes to remove, then the documents to write.
pub(crate) struct UpdatePlan {
    /// Paths, children first.
    pub(crate) removed: Vec<String>,
    /// Paths and documents, parents first.
    pub(crate) documents: Vec<(String, Value)>,
}

/// Plans an update of a branch.
pub(crate) struct UpdatePlanner<'a> {
    record: &'a CommitRecord,
    /// The recorded snapshot.
    base: Option<Session>,
    /// The newest snapshot of the branch.
    tip: Session,
}

impl<'a> UpdatePlanner<'a> {
    /// Opens the recorded snapshot and the tip of the branch.
    ///
    /// # Errors
    /// [`IcechunkError::History`] if the branch does not contain the recorded snapshot.
    pub(crate) async fn open(
        repository: &Repository,
        record: &'a CommitRecord,
        (branch, tip): (&str, &SnapshotId),
    ) -> Result<Self> {
        let session = async |snapshot: &SnapshotId| {
            let opened = repository.readonly_session(&VersionInfo::SnapshotId(snapshot.clone())).await;
            opened.map_err(IcechunkError::of("opening the snapshot"))
        };
        let base = match &record.snapshot {
            None => None,
            Some(text) => match SnapshotId::try_from(text.as_str()) {
                Ok(id) if has_snapshot(repository, branch, &id).await? => Some(session(&id).await?),
                _ => {
                    let (branch, snapshot) = (branch.to_owned(), text.clone());
                    return Err(IcechunkError::History { branch, snapshot });
                }
            },
        };
        Ok(Self { record, base, tip: session(tip).await? })
    }

    /// Plans the update. With `extends`, arrays keep their chunks; otherwise the recorded arrays are removed first.
    ///
    /// # Errors
    /// The update would overwrite what others wrote.
    pub(crate) async fn plan(&self, documents: &[Document<'_>], extends: bool) -> Result<UpdatePlan> {
        let groups = documents.iter().filter(|document| document.array.is_none());
        let groups: BTreeSet<&str> = groups.map(|document| document.path.as_str()).collect();
        let (mut removed, mut current) = (Vec::new(), BTreeMap::new());
        for (path, recorded) in self.record.documents.iter().rev() {
            let Some(document) = self.current(path, recorded).await? else { continue };
            let is_obsolete = is_array(&document)
                || !groups.contains(path.as_str()) && !self.has_other_children(path, &removed).await?;
            if is_obsolete && !extends {
                removed.push(path.clone());
            }
            current.insert(path.as_str(), document);
        }
        let mut written = Vec::new();
        for Document { path, metadata, array, .. } in documents {
            let known = self.record.documents.get(path).zip(current.get(path.as_str()));
            let known = known.filter(|(recorded, current)| {
                [recorded, current].iter().all(|it| is_array(it) == array.is_some())
            });
            let merged = known
                .map_or_else(|| metadata.clone(), |(recorded, current)| merge(recorded, current, metadata));
            if !removed.contains(path)
                && let Ok(node) = self.tip.get_node(&node_path(path)?).await
            {
                match known {
                    Some((_, current)) if *current == merged => continue,
                    Some(_) => {}
                    // A group of others stays as it is.
                    None if array.is_none() && matches!(node.node_data, NodeData::Group) => continue,
                    None => return Err(IcechunkError::Exists { path: path.clone() }),
                }
            }
            written.push((path.clone(), merged));
        }
        self.check_foreign_dimensions(documents).await?;
        Ok(UpdatePlan { removed, documents: written })
    }

    /// Returns the current document of a recorded node. Without a recorded snapshot, `None` if the node was removed.
    ///
    /// # Errors
    /// With a recorded snapshot: [`IcechunkError::Foreign`] if others removed, replaced or changed the node or its chunks.
    pub(crate) async fn current(&self, path: &str, recorded: &Value) -> Result<Option<Value>> {
        let foreign = |reason: String| Err(IcechunkError::Foreign { path: path.to_owned(), reason });
        let node = self.tip.get_node(&node_path(path)?).await.ok();
        let current = node.as_ref().map(|node| document_of(path, node)).transpose()?;
        let Some(base) = &self.base else { return Ok(current) };
        let (Some(node), Some(current)) = (node, current) else {
            return foreign("the node was removed".to_owned());
        };
        match (is_array(recorded), is_array(&current)) {
            (false, false) => return Ok(Some(current)),
            (true, true) => {}
            _ => return foreign("the node was replaced by one of another kind".to_owned()),
        }
        if let Some(reason) = difference(recorded, &current) {
            return foreign(reason);
        }
        let before = base.get_node(&node_path(path)?).await;
        let before = before.map_err(IcechunkError::of("reading the last commit of this dataset"))?;
        let manifests = |node: NodeSnapshot| match node.node_data {
            NodeData::Array { manifests, .. } => manifests,
            NodeData::Group => Vec::new(),
        };
        if manifests(before) != manifests(node) {
            return foreign("other writers changed its chunks".to_owned());
        }
        Ok(Some(current))
    }

    async fn has_other_children(&self, group: &str, removed: &[String]) -> Result<bool> {
        let failed = IcechunkError::of("listing the group");
        for node in self.tip.list_nodes(&node_path(group)?).await.map_err(&failed)? {
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

    /// Checks that arrays of others still have the same lengths along the dimensions that they share with arrays of this
    /// dataset in the same group. xarray cannot open a group in which they differ.
    async fn check_foreign_dimensions(&self, documents: &[Document<'_>]) -> Result<()> {
        // The recorded and the new length of each dimension, by group and name.
        let mut lengths: BTreeMap<(&str, String), (Option<u64>, u64)> = BTreeMap::new();
        for document in documents.iter().filter(|document| document.array.is_some()) {
            let before = self.record.documents.get(&document.path).map(dimensions).unwrap_or_default();
            for (axis, (name, now)) in dimensions(&document.metadata).into_iter().enumerate() {
                let before = before.get(axis).map(|(_, length)| *length);
                if !name.is_empty() {
                    lengths.insert((node::parent(&document.path), name), (before, now));
                }
            }
        }
        let failed = || IcechunkError::of("listing the nodes");
        for node in self.tip.list_nodes(&node_path("")?).await.map_err(failed())? {
            let node = node.map_err(failed())?;
            let path = node.path.as_str().trim_start_matches('/');
            let is_ours = self.record.documents.contains_key(path)
                || documents.iter().any(|document| document.path == path);
            if is_ours {
                continue;
            }
            for (name, length) in dimensions(&document_of(path, &node)?) {
                let key = (node::parent(path), name);
                if let Some((before, now)) = lengths.get(&key)
                    && length != *now
                    && Some(length) == *before
                {
                    let reason = format!(
                        "this array of another writer has {length} elements along {:?}, and the dataset now has {now}: xarray could not open them together (resize the array first, or move it to another group)",
                        key.1
                    );
                    return Err(node_error(path, reason));
                }
            }
        }
        Ok(())
    }
}

fn is_array(document: &Value) -> bool {
    document.get("node_type").and_then(Value::as_str) == Some("array")
}

/// Returns the names and lengths of an array's dimensions; unnamed ones have the name "".
fn dimensions(document: &Value) -> Vec<(String, u64)> {
    let members = |name: &str| document.get(name).and_then(Value::as_array).into_iter().flatten();
    let pairs = members("dimension_names").zip(members("shape"));
    pairs
        .map(|(name, length)| (name.as_str().unwrap_or("").to_owned(), length.as_u64().unwrap_or(0)))
        .collect()
}

/// Describes the first difference between the documents of an array that affects its values.
fn difference(before: &Value, now: &Value) -> Option<String> {
    let text = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
    // Other libraries serialize the same metadata differently, so unequal members need not differ in meaning.
    let normalized = |document: &Value| {
        let mut array = Array::from_zarr_json(document).ok()?.array;
        array.attributes = Map::new();
        array.to_zarr_json("").ok()
    };
    if let Some(member) = STATE.iter().find(|member| before.get(**member) != now.get(**member))
        && normalized(before).is_none_or(|before| normalized(now) != Some(before))
    {
        let (before, now) = (text(before.get(*member)), text(now.get(*member)));
        return Some(format!("{member} was {before} and is now {now}"));
    }
    let (before, now) = (attributes(before), attributes(now));
    let differs = |name: &&String| decides_values(name) && before.get(*name) != now.get(*name);
    let name = before.keys().chain(now.keys()).find(differs)?;
    let (before, now) = (text(before.get(name)), text(now.get(name)));
    Some(format!("attribute {name} was {before} and is now {now}"))
}

/// Returns `new` with the attributes that others have set in `current`. An attribute that does not determine values is
/// changed only if its value is still the recorded one.
fn merge(recorded: &Value, current: &Value, new: &Value) -> Value {
    let [recorded, current, ours] = [recorded, current, new].map(attributes);
    let mut merged = current.clone();
    for name in ours.keys().chain(recorded.keys()).chain(current.keys()) {
        let (before, now) = (recorded.get(name), ours.get(name));
        if !decides_values(name) && (before == now || current.get(name) != before) {
            continue;
        }
        match now {
            Some(value) => merged.insert(name.clone(), value.clone()),
            None => merged.remove(name),
        };
    }
    let mut document = new.clone();
    if let Some(members) = document.as_object_mut() {
        members.insert("attributes".to_owned(), merged.into());
    }
    document
}

fn attributes(document: &Value) -> Map<String, Value> {
    document.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default()
}
