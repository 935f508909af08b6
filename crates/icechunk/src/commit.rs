//! Commits of a hierarchy.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use icechunk::{
    Repository,
    format::{SnapshotId, snapshot::SnapshotProperties},
};
use serde_json::{Value, json};
use virtualize_zarr::{Hierarchy, ZarrFormat, node::join};

use crate::{
    IcechunkError, RepositoryLocation, StorageOptions, Update,
    history::TOUCHED,
    location::{ChunkSource, chunk_source},
    lock,
    metadata::{Document, documents, node_path},
    python,
    repository::{Requirements, branch_tip, has_snapshot, open_or_create},
    update::UpdatePlanner,
    write::{Selection, Writer},
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
    /// Appends along this dimension. The caller (`virtualize_archive::commit_or_append`) turns it into an update, because the existing
    /// dataset has to be read and joined with the new one.
    Append(String),
    /// Changes what an earlier commit wrote.
    Update(Update),
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
    /// Most references in a manifest. Larger arrays are split over several.
    pub references_per_manifest: u64,
    /// Most chunks in memory. A larger commit is written in parts to a temporary branch, to which the branch is then moved.
    pub chunks_in_memory: u64,
    /// Settings of the storage and of the virtual chunk containers.
    pub storage: StorageOptions,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            branch: "main".to_owned(),
            message: "virtual references".to_owned(),
            properties: BTreeMap::new(),
            group: String::new(),
            mode: Mode::Add,
            references_per_manifest: 50_000,
            chunks_in_memory: 250_000,
            storage: StorageOptions::default(),
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
    /// Paths of updated arrays to which others have written chunks.
    pub touched: BTreeSet<String>,
}

/// Commits a Zarr v3 hierarchy. Creates the repository if it does not exist. Requires a tokio runtime with a timer.
///
/// # Errors
/// See [`IcechunkError`]. The branch is unchanged. A repository that was created stays, without commits.
pub async fn commit(
    hierarchy: &Hierarchy,
    location: &RepositoryLocation,
    options: &CommitOptions,
) -> Result<Committed, IcechunkError> {
    if hierarchy.format != ZarrFormat::V3 {
        let reason = "the hierarchy is of Zarr v2, expected v3".to_owned();
        return Err(IcechunkError::Node { path: options.group.clone(), reason });
    }
    let group = options.group.trim_matches('/');
    let documents = documents(hierarchy, group)?;
    let sources: Vec<ChunkSource> = hierarchy.sources.iter().map(chunk_source).collect::<Result<_, _>>()?;
    let needs = Requirements {
        sources: &hierarchy.sources,
        storage: &options.storage,
        arrays: chunk_counts(&documents),
        references_per_manifest: options.references_per_manifest,
    };
    let _lock = lock::acquire(location).await?;
    let mut attempt = 1;
    loop {
        let repository = open_or_create(location.connect(&options.storage).await?, &needs).await?;
        let containers: Vec<_> = repository.config().virtual_chunk_containers().cloned().collect();
        let (repository, documents, sources) = (&repository, &documents, &sources);
        let work = CommitAttempt { repository, documents, sources, options, group };
        match work.run(location).await {
            Ok(done) => {
                let Done { snapshot, chunks, touched } = done;
                let python = python::snippet(location, options, &containers);
                return Ok(Committed { snapshot: snapshot.to_string(), chunks, python, touched });
            }
            Err(IcechunkError::Conflict { .. }) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(100) * attempt).await;
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn chunk_counts(documents: &[Document<'_>]) -> Vec<(String, Vec<u64>)> {
    let arrays = documents.iter().filter_map(|document| Some((document, document.array?)));
    arrays
        .map(|(document, array)| (format!("/{}", document.path), array.chunk_grid.counts(&array.shape)))
        .collect()
}

/// One attempt at a commit.
struct CommitAttempt<'a> {
    repository: &'a Repository,
    documents: &'a [Document<'a>],
    sources: &'a [ChunkSource],
    options: &'a CommitOptions,
    group: &'a str,
}

struct Done {
    snapshot: SnapshotId,
    chunks: u64,
    touched: BTreeSet<String>,
}

impl CommitAttempt<'_> {
    async fn run(&self, location: &RepositoryLocation) -> Result<Done, IcechunkError> {
        let branch = &self.options.branch;
        let tip = branch_tip(self.repository, branch).await?;
        let done = match &self.options.mode {
            Mode::Update(update) => self.update(update, tip).await?,
            Mode::Append(dimension) => {
                let reason = format!("no update was planned along {dimension:?}");
                return Err(IcechunkError::Append { path: self.group.to_owned(), reason });
            }
            Mode::Add | Mode::Replace => self.write_all(tip).await?,
        };
        // Without conditional writes, a program that does not take the lock can have undone the commit.
        let is_local = matches!(location, RepositoryLocation::Local(_));
        match is_local && !has_snapshot(self.repository, branch, &done.snapshot).await? {
            true => Err(IcechunkError::Conflict {
                branch: branch.clone(),
                reason: "a concurrent commit undid this one".to_owned(),
            }),
            false => Ok(done),
        }
    }

    /// Changes what an earlier commit wrote.
    async fn update(&self, update: &Update, tip: SnapshotId) -> Result<Done, IcechunkError> {
        let on = (self.options.branch.as_str(), &tip);
        let mut planner =
            UpdatePlanner::open(self.repository, update, on, self.documents, self.sources).await?;
        let plan = planner.plan().await?;
        let touched = planner.touched().clone();
        let mut writer = self.writer(tip, plan.chunks(), &touched).await?;
        let written = match plan.write(&mut writer, self.sources).await {
            Ok(()) => self.create_parents(&writer).await,
            failed => failed,
        };
        finish(writer, written, touched).await
    }

    /// Writes the whole hierarchy.
    async fn write_all(&self, tip: SnapshotId) -> Result<Done, IcechunkError> {
        let chunks = self.documents.iter().filter_map(|d| d.array).map(|array| array.chunks.len()).sum();
        let mut writer = self.writer(tip, chunks, &BTreeSet::new()).await?;
        let written = self.write(&mut writer).await;
        finish(writer, written, BTreeSet::new()).await
    }

    async fn writer(
        &self,
        tip: SnapshotId,
        chunks: u64,
        touched: &BTreeSet<String>,
    ) -> Result<Writer<'_>, IcechunkError> {
        let given = self.options.properties.iter().map(|(key, value)| (key.clone(), json!(value)));
        let touched = Some((TOUCHED.to_owned(), json!(touched))).filter(|_| !touched.is_empty());
        let properties: SnapshotProperties = given.chain(touched).collect();
        let commit = (self.options.message.clone(), properties);
        let step = self.options.chunks_in_memory.max(1);
        Writer::start(self.repository, &self.options.branch, tip, commit, (chunks, step)).await
    }

    async fn write(&self, writer: &mut Writer<'_>) -> Result<(), IcechunkError> {
        match &self.options.mode {
            Mode::Replace => self.clear(writer).await?,
            _ => self.check_absent(writer).await?,
        }
        self.create_parents(writer).await?;
        for document in self.documents {
            writer.document(&document.path, &document.metadata).await?;
        }
        for document in self.documents {
            if let Some(array) = document.array {
                writer.chunks(&document.path, array, self.sources, &Selection::default()).await?;
            }
        }
        Ok(())
    }

    /// Removes the group and everything below it.
    async fn clear(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        if !self.group.is_empty() {
            return writer.remove(self.group).await;
        }
        let mut session = writer.session().write().await;
        session.clear().await.map_err(IcechunkError::of("removing the group"))
    }

    /// Checks that no node would be overwritten, except for groups without attributes.
    async fn check_absent(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        let session = writer.session().read().await;
        for document in self.documents {
            let Ok(node) = session.get_node(&node_path(&document.path)?).await else { continue };
            let has_no_attributes = || {
                let known: Option<Value> = serde_json::from_slice(&node.user_data).ok();
                let attributes = known.as_ref().and_then(|known| known.get("attributes")?.as_object());
                attributes.is_none_or(serde_json::Map::is_empty)
            };
            let is_group = matches!(node.node_data, icechunk::format::snapshot::NodeData::Group);
            if !(is_group && document.array.is_none() && has_no_attributes()) {
                return Err(IcechunkError::Exists { path: document.path.clone() });
            }
        }
        Ok(())
    }

    /// Creates missing groups above the one that is written.
    async fn create_parents(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        let Some((above, _)) =
            self.group.rsplit_once('/').or(Some(("", "")).filter(|_| !self.group.is_empty()))
        else {
            return Ok(());
        };
        let mut paths = vec![String::new()];
        for step in above.split('/').filter(|step| !step.is_empty()) {
            paths.push(join(paths.last().map_or("", String::as_str), step));
        }
        for path in paths {
            let known = writer.session().read().await.get_node(&node_path(&path)?).await.is_ok();
            if !known {
                let group = json!({"attributes": {}, "node_type": "group", "zarr_format": 3});
                writer.document(&path, &group).await?;
            }
        }
        Ok(())
    }
}

/// Completes a commit, or aborts it if writing failed.
async fn finish(
    writer: Writer<'_>,
    written: Result<(), IcechunkError>,
    touched: BTreeSet<String>,
) -> Result<Done, IcechunkError> {
    if let Err(error) = written {
        writer.abort().await;
        return Err(error);
    }
    let chunks = writer.written();
    Ok(Done { snapshot: writer.finish().await?, chunks, touched })
}
