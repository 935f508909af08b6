//! Commits of a hierarchy.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use icechunk::{
    Repository, Storage,
    format::{SnapshotId, snapshot::NodeData},
    virtual_chunks::VirtualChunkContainer,
};
use serde_json::{Value, json};
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    Array, ChunkReader, Group, Hierarchy, HierarchyChunks, Node, ZarrFormat,
    node::{self, join},
};

use crate::{
    CommitRecord, IcechunkError, RepositoryLocation, Result,
    chunks::Sources,
    container::{Containers, snippet},
    error::{node_error, node_path},
    repository::{Requirements, branch_tip, has_snapshot, lock, open_or_create, prefixes},
    update::{UpdatePlan, UpdatePlanner},
    write::{Writer, delete_abandoned},
};

/// Attempts at a commit that conflicts with those of other writers.
const ATTEMPTS: u32 = 5;

/// How a commit treats existing nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Mode {
    /// Fails if a node exists, except for groups without attributes.
    #[default]
    Add,
    /// Removes the group and everything below it first.
    Replace,
    /// Replaces what an earlier commit wrote. Nodes and attributes of others stay.
    Update(CommitRecord),
    /// Extends arrays that an earlier commit wrote. The hierarchy has the chunks that are new or change, and no others.
    Extend(CommitRecord),
}

/// Options of [`commit`].
#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// Branch. It must exist, unless nothing was ever committed to the repository.
    pub branch: String,
    /// Commit message.
    pub message: String,
    /// Commit properties, such as `author`.
    pub properties: BTreeMap<String, String>,
    /// Path of the group at which the hierarchy is written; "" for the root of the repository.
    pub group: String,
    /// How existing nodes are treated.
    pub mode: Mode,
    /// Maximum number of references in a manifest. Larger arrays are split over several.
    pub references_per_manifest: u64,
    /// Maximum number of chunks in memory. A larger commit is written in parts to a temporary branch, to which the branch is then moved.
    pub chunks_in_memory: u64,
    /// Access to the repository and to the sources.
    pub store: StoreOptions,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            branch: "main".to_owned(),
            message: "virtual references".to_owned(),
            properties: BTreeMap::new(),
            group: String::new(),
            mode: Mode::Add,
            references_per_manifest: 10_000,
            chunks_in_memory: 250_000,
            store: StoreOptions::default(),
        }
    }
}

/// A completed commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Snapshot id.
    pub snapshot: String,
    /// Number of chunks that it added or replaced.
    pub chunks: u64,
    /// Python snippet that opens the branch.
    pub python: String,
    /// The url of a source of which readers cannot tell whether it changed, if there is one.
    pub unchecked: Option<String>,
}

impl Committed {
    /// Returns a note for the user if readers cannot tell whether a source changed.
    pub fn note(&self) -> Option<String> {
        let url = self.unchecked.as_deref()?;
        let url = url.split('?').next().unwrap_or(url);
        Some(format!(
            "{url}: its store has neither an entity tag nor a time that readers can compare, so they will not notice if it changes"
        ))
    }
}

/// Commits a Zarr v3 hierarchy. Creates the repository if it does not exist. Requires a tokio runtime with a timer.
///
/// # Errors
/// See [`IcechunkError`]. The branch is unchanged. A repository that was created stays, without commits.
pub async fn commit(
    hierarchy: &Hierarchy,
    location: &RepositoryLocation,
    options: &CommitOptions,
) -> Result<Committed> {
    commit_chunks(hierarchy, &mut HierarchyChunks(hierarchy), location, options).await
}

/// Commits a Zarr v3 hierarchy whose chunks come from a reader, as [`commit`] does. The manifests of the hierarchy are ignored.
/// The future blocks its thread while the reader reads.
///
/// # Errors
/// As [`commit`], and [`IcechunkError::Chunks`] if the chunks cannot be read.
pub async fn commit_chunks(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    location: &RepositoryLocation,
    options: &CommitOptions,
) -> Result<Committed> {
    if hierarchy.format != ZarrFormat::V3 {
        let reason = "the hierarchy is of Zarr v2, expected v3".to_owned();
        return Err(IcechunkError::Node { path: options.group.clone(), reason });
    }
    if let RepositoryLocation::Web(url) = location {
        let reason = "a repository on a web server can only be read (name its bucket or folder)".to_owned();
        return Err(IcechunkError::Location { location: url.clone(), reason });
    }
    let group = options.group.trim_matches('/');
    let documents = documents(hierarchy, group)?;
    let arrays = documents.iter().filter_map(|document| Some((document, document.array?)));
    let arrays: Vec<_> = arrays
        .map(|(document, array)| (format!("/{}", document.path), array.chunk_grid.counts(&array.shape)))
        .collect();
    let storage = location.connect(&options.store).await?;
    let _lock = lock(location).await?;
    let mut attempt = 1;
    loop {
        let needs = Requirements {
            containers: &Containers::default(),
            store: &options.store,
            arrays: &arrays,
            references_per_manifest: options.references_per_manifest,
        };
        let repository = open_or_create(Arc::clone(&storage), &needs).await?;
        delete_abandoned(&repository, location).await?;
        let work = CommitAttempt {
            repository: &repository,
            storage: &storage,
            documents: &documents,
            options,
            group,
            needs,
            chunks: &mut *chunks,
            sources: Sources::new(Containers::new(prefixes(repository.config())), &options.store),
        };
        match Box::pin(work.run(location)).await {
            Err(IcechunkError::Conflict { .. }) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(100) * attempt).await;
                attempt += 1;
            }
            done => return done,
        }
    }
}

/// One attempt at a commit.
struct CommitAttempt<'a> {
    repository: &'a Repository,
    storage: &'a Arc<dyn Storage + Send + Sync>,
    documents: &'a [Document<'a>],
    options: &'a CommitOptions,
    group: &'a str,
    needs: Requirements<'a>,
    chunks: &'a mut dyn ChunkReader,
    sources: Sources,
}

impl CommitAttempt<'_> {
    async fn run(mut self, location: &RepositoryLocation) -> Result<Committed> {
        let branch = &self.options.branch;
        let tip = branch_tip(self.repository, branch).await?;
        let mut writer = Writer::start(self.repository, self.options, tip.clone()).await?;
        let containers = match self.write(&mut writer, &tip).await {
            Ok(containers) => containers,
            Err(error) => {
                writer.abort().await;
                return Err(error);
            }
        };
        let chunks = writer.written;
        let snapshot = writer.finish().await?;
        // Without conditional writes, a program that does not take the lock can have undone the commit.
        let is_local = matches!(location, RepositoryLocation::Local(_));
        if is_local && !has_snapshot(self.repository, branch, &snapshot).await? {
            let reason = "a concurrent commit undid this one".to_owned();
            return Err(IcechunkError::Conflict { branch: branch.clone(), reason });
        }
        let arrays = self.documents.iter().filter(|document| document.array.is_some());
        let group = node::first_group(arrays.map(|document| document.path.as_str()));
        let python = snippet(location, self.options, group, &containers);
        let unchecked = self.sources.unchecked;
        Ok(Committed { snapshot: snapshot.to_string(), chunks, python, unchecked })
    }

    /// Removes and writes nodes as the mode requires, writes the chunks, and adds the containers that their sources need to
    /// the configuration of the repository. Returns all its containers.
    async fn write(
        &mut self,
        writer: &mut Writer<'_>,
        tip: &SnapshotId,
    ) -> Result<Vec<VirtualChunkContainer>> {
        let (record, extends) = match &self.options.mode {
            Mode::Add | Mode::Replace => (None, false),
            Mode::Update(record) => (Some(record), false),
            Mode::Extend(record) => (Some(record), true),
        };
        let plan = if let Some(record) = record {
            let on = (self.options.branch.as_str(), tip);
            UpdatePlanner::open(self.repository, record, on).await?.plan(self.documents, extends).await?
        } else {
            if self.options.mode == Mode::Replace {
                if self.group.is_empty() {
                    let mut session = writer.session.write().await;
                    session.clear().await.map_err(IcechunkError::of("removing the group"))?;
                } else {
                    writer.remove(self.group).await?;
                }
            } else {
                // No node may be overwritten, except for groups without attributes.
                let session = writer.session.read().await;
                for document in self.documents {
                    let Ok(node) = session.get_node(&node_path(&document.path)?).await else { continue };
                    let known: Option<Value> = serde_json::from_slice(&node.user_data).ok();
                    let attributes = known.as_ref().and_then(|known| known.get("attributes")?.as_object());
                    let is_empty_group = matches!(node.node_data, NodeData::Group)
                        && attributes.is_none_or(serde_json::Map::is_empty);
                    if !is_empty_group || document.array.is_some() {
                        return Err(IcechunkError::Exists { path: document.path.clone() });
                    }
                }
            }
            let written = self.documents.iter().map(|it| (it.path.clone(), it.metadata.clone()));
            UpdatePlan { removed: Vec::new(), documents: written.collect() }
        };
        // The missing groups above the one that is written, the root first.
        let mut parents = Vec::new();
        let mut above = self.group;
        while !above.is_empty() {
            above = node::parent(above);
            parents.push(above);
        }
        for path in parents.into_iter().rev() {
            let is_missing = writer.session.read().await.get_node(&node_path(path)?).await.is_err();
            if is_missing {
                let group = json!({"attributes": {}, "node_type": "group", "zarr_format": 3});
                writer.document(path, &group).await?;
            }
        }
        for path in &plan.removed {
            writer.remove(path).await?;
        }
        for (path, document) in &plan.documents {
            writer.document(path, document).await?;
        }
        for document in self.documents {
            let Some(array) = document.array else { continue };
            writer.chunks((document, array), &mut *self.chunks, &mut self.sources).await?;
        }
        self.chunks.finish().map_err(IcechunkError::of_chunks)?;
        let containers = &self.sources.containers;
        let has_all =
            containers.missing(&prefixes(self.repository.config()), &self.options.store)?.is_empty();
        if has_all {
            return Ok(self.repository.config().virtual_chunk_containers().cloned().collect());
        }
        let needs = Requirements { containers, ..self.needs };
        let repository = open_or_create(Arc::clone(self.storage), &needs).await?;
        Ok(repository.config().virtual_chunk_containers().cloned().collect())
    }
}

// Nodes of a hierarchy as Icechunk stores them: a path and a metadata document each.

/// A node to be written.
pub(crate) struct Document<'a> {
    /// Path in the repository, without a leading slash.
    pub(crate) path: String,
    /// Path in the hierarchy.
    pub(crate) inner: String,
    pub(crate) metadata: Value,
    /// The array; `None` for a group.
    pub(crate) array: Option<&'a Array>,
}

/// Returns all nodes of a hierarchy, parents first. Its root is at `prefix`, a path without leading and trailing slashes.
pub(crate) fn documents<'a>(hierarchy: &'a Hierarchy, prefix: &str) -> Result<Vec<Document<'a>>> {
    let mut all = Vec::new();
    group((prefix, ""), &hierarchy.root, &mut all)?;
    Ok(all)
}

/// Adds the nodes of a group at a path in the repository and a path in the hierarchy.
fn group<'a>((path, inner): (&str, &str), group: &'a Group, all: &mut Vec<Document<'a>>) -> Result<()> {
    all.push(Document {
        path: path.to_owned(),
        inner: inner.to_owned(),
        metadata: group.to_zarr_json(),
        array: None,
    });
    for (name, node) in &group.children {
        let (path, inner) = (join(path, name), join(inner, name));
        match node {
            Node::Group(child) => self::group((&path, &inner), child, all)?,
            Node::Array(array) => {
                let metadata = array.to_zarr_json(name);
                let metadata = metadata.map_err(|error| node_error(&path, error.to_string()))?;
                all.push(Document { path, inner, metadata, array: Some(array) });
            }
        }
    }
    Ok(())
}
