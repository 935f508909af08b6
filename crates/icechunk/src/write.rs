//! Writes nodes and chunks: in one commit or, if there are too many chunks for memory, in several commits to a temporary
//! branch that become visible together.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use icechunk::{
    Repository, Store,
    conflicts::detector::ConflictDetector,
    format::{ChunkIndices, Path, SnapshotId, manifest::VirtualChunkRef, snapshot::SnapshotProperties},
    repository::VersionInfo,
    session::{Session, SessionError, SessionErrorKind},
};
use serde_json::Value;
use tokio::sync::RwLock;
use virtualize_zarr::{Array, Chunk, ChunkReader, node::join};

use crate::{
    CommitOptions, IcechunkError, RepositoryLocation, Result,
    chunks::{Sources, indices},
    commit::Document,
    error::{node_error, node_path, one_line},
};

/// Maximum number of chunks in one call of the `icechunk` crate.
const BATCH: usize = 10_000;
/// Concurrent uploads of inline chunks.
const UPLOADS: usize = 16;
/// Attempts to rebase a commit onto those of other writers.
const REBASES: u16 = 20;

/// A commit in progress.
pub(crate) struct Writer<'a> {
    repository: &'a Repository,
    options: &'a CommitOptions,
    tip: SnapshotId,
    /// The temporary branch of a commit in parts.
    scratch: Option<Scratch>,
    /// Reads and removes existing nodes.
    pub(crate) session: Arc<RwLock<Session>>,
    store: Store,
    /// Chunks written since the last part.
    pending: u64,
    /// Number of chunks written.
    pub(crate) written: u64,
}

/// The temporary branch of a commit in parts.
struct Scratch {
    branch: String,
    /// Number of parts so far.
    parts: u64,
}

impl<'a> Writer<'a> {
    /// Starts a commit on top of `tip`.
    ///
    /// # Errors
    /// [`IcechunkError::Conflict`] if the branch has moved from `tip`.
    pub(crate) async fn start(
        repository: &'a Repository,
        options: &'a CommitOptions,
        tip: SnapshotId,
    ) -> Result<Self> {
        let (session, store) = open(repository, &options.branch).await?;
        if *session.read().await.snapshot_id() != tip {
            let reason = "another writer committed at the same time".to_owned();
            return Err(IcechunkError::Conflict { branch: options.branch.clone(), reason });
        }
        Ok(Self { repository, options, tip, scratch: None, session, store, pending: 0, written: 0 })
    }

    /// Returns the properties of the commit.
    fn properties(&self) -> SnapshotProperties {
        self.options
            .properties
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
            .collect()
    }

    /// Writes the document of a node.
    pub(crate) async fn document(&self, path: &str, metadata: &Value) -> Result<()> {
        let set = self.store.set(&join(path, "zarr.json"), metadata.to_string().into()).await;
        set.map_err(|error| node_error(path, one_line(&error)))
    }

    /// Removes a node and everything below it, if it exists.
    pub(crate) async fn remove(&self, path: &str) -> Result<()> {
        let mut session = self.session.write().await;
        let removed = match session.get_node(&node_path(path)?).await {
            Ok(node) => session.delete_node(node).await,
            Err(_) => Ok(()),
        };
        removed.map_err(|error| node_error(path, one_line(&error)))
    }

    /// Writes the chunks of an array.
    pub(crate) async fn chunks(
        &mut self,
        (document, array): (&Document<'_>, &Array),
        reader: &mut dyn ChunkReader,
        sources: &mut Sources,
    ) -> Result<()> {
        let path = document.path.as_str();
        let (node, counts) = (node_path(path)?, array.chunk_grid.counts(&array.shape));
        let (mut references, mut inline, mut next) = (Vec::new(), Vec::new(), 0);
        for item in reader.chunks(&document.inner, 0).map_err(IcechunkError::of_chunks)? {
            let (position, chunk) = item.map_err(IcechunkError::of_chunks)?;
            if position < next {
                return Err(node_error(path, format!("chunk {position} is out of order")));
            }
            next = position.saturating_add(1);
            let indices = indices(position, &counts).ok_or_else(|| {
                let reason = "is outside the grid, or its index exceeds the 32 bits of Icechunk";
                node_error(path, format!("chunk {position} {reason}"))
            })?;
            match chunk {
                Chunk::Inline(bytes) => inline.push((indices, bytes)),
                Chunk::Reference { source, offset, length } => {
                    references.push((indices, sources.reference(&source, offset, length).await?));
                }
            }
            if references.len() + inline.len() >= BATCH {
                self.write_batch(&node, std::mem::take(&mut references), std::mem::take(&mut inline)).await?;
            }
        }
        self.write_batch(&node, references, inline).await
    }

    async fn write_batch(
        &mut self,
        node: &Path,
        references: Vec<(ChunkIndices, VirtualChunkRef)>,
        inline: Vec<(ChunkIndices, Bytes)>,
    ) -> Result<()> {
        let path = node.as_str().trim_start_matches('/');
        let failed = |error: SessionError| node_error(path, one_line(&error));
        let count = (references.len() + inline.len()) as u64;
        self.pending += count;
        self.written += count;
        let set = self.store.set_virtual_refs(node, false, references).await;
        set.map_err(|error| node_error(path, one_line(&error)))?;
        // Small inline chunks are stored in the manifest, others as native chunks.
        let session = self.session.read().await;
        let writes = inline.into_iter().map(|(indices, bytes)| {
            let writer = session.get_chunk_writer(node, &indices);
            async move {
                let payload = writer.map_err(failed)?(bytes).await;
                payload.map(|payload| (indices, payload)).map_err(failed)
            }
        });
        let payloads: Vec<_> = stream::iter(writes).buffered(UPLOADS).try_collect().await?;
        drop(session);
        let mut session = self.session.write().await;
        for (indices, payload) in payloads {
            session.set_chunk_ref(node.clone(), indices, Some(payload)).await.map_err(failed)?;
        }
        drop(session);
        if self.pending < self.options.chunks_in_memory.max(1) {
            return Ok(());
        }
        // A commit to a temporary branch frees the memory of the chunks. (Amending one commit instead would rewrite the list
        // of all its chunks each time.)
        let parts = self.scratch.as_ref().map_or(0, |scratch| scratch.parts) + 1;
        let message = format!("{} (part {parts})", self.options.message);
        let snapshot = self.commit_pending(message).await?;
        let branch = match self.scratch.take() {
            Some(scratch) => scratch.branch,
            None => {
                let branch = format!("{PREFIX}{}", SnapshotId::random());
                let made = self.repository.create_branch(&branch, &snapshot).await;
                made.map_err(IcechunkError::of("creating a temporary branch"))?;
                branch
            }
        };
        let opened = open(self.repository, &branch).await;
        self.scratch = Some(Scratch { branch, parts });
        (self.session, self.store) = opened?;
        self.pending = 0;
        Ok(())
    }

    /// Commits pending chunks: to the temporary branch or, before there is one, to no branch.
    async fn commit_pending(&self, message: String) -> Result<SnapshotId> {
        let mut session = self.session.write().await;
        let commit = session.commit(message).properties(self.properties()).allow_empty(true);
        let commit = if self.scratch.is_none() { commit.anonymous() } else { commit };
        commit.execute().await.map_err(IcechunkError::of("writing references"))
    }

    /// Completes the commit: makes it visible on the branch.
    pub(crate) async fn finish(self) -> Result<SnapshotId> {
        let Some(Scratch { branch, .. }) = &self.scratch else {
            let detector = ConflictDetector;
            let mut session = self.session.write().await;
            let commit =
                session.commit(&self.options.message).properties(self.properties()).allow_empty(true);
            let done = commit.rebase(&detector, REBASES).execute().await;
            let branch = self.options.branch.clone();
            return done.map_err(|error| match &error.kind {
                SessionErrorKind::Conflict { .. } => {
                    IcechunkError::Conflict { branch, reason: "other writers kept committing".to_owned() }
                }
                SessionErrorKind::RebaseFailed { conflicts, .. } => {
                    let conflicts: Vec<_> =
                        conflicts.iter().map(|conflict| format!("{conflict:?}")).collect();
                    IcechunkError::Conflict { branch, reason: conflicts.join(", ") }
                }
                _ => IcechunkError::of("committing")(error),
            });
        };
        let moved = match self.commit_pending(self.options.message.clone()).await {
            Ok(snapshot) => {
                let moved =
                    self.repository.reset_branch(&self.options.branch, &snapshot, Some(&self.tip)).await;
                moved.map(|()| snapshot).map_err(|error| IcechunkError::Conflict {
                    branch: self.options.branch.clone(),
                    reason: one_line(&error),
                })
            }
            Err(error) => Err(error),
        };
        delete_branch(self.repository, branch).await;
        moved
    }

    /// Aborts the commit. The branch is unchanged.
    pub(crate) async fn abort(self) {
        if let Some(scratch) = &self.scratch {
            delete_branch(self.repository, &scratch.branch).await;
        }
    }
}

async fn open(repository: &Repository, branch: &str) -> Result<(Arc<RwLock<Session>>, Store)> {
    let session = repository.writable_session(branch).await;
    let session = Arc::new(RwLock::new(session.map_err(IcechunkError::of("opening the branch"))?));
    let store = Store::from_session(Arc::clone(&session)).await;
    Ok((session, store))
}

/// Start of the names of temporary branches.
const PREFIX: &str = "virtualize-";
/// Time without a new part after which the writer of a temporary branch in a bucket counts as dead.
const SILENCE: Duration = Duration::from_secs(6 * 60 * 60);

/// Deletes a temporary branch.
async fn delete_branch(repository: &Repository, branch: &str) {
    if let Err(error) = repository.delete_branch(branch).await {
        tracing::warn!("cannot delete the temporary branch {branch}: {}", one_line(&error));
    }
}

/// Deletes the temporary branches that killed processes left. The lock of a local repository excludes that one is in use; in
/// a bucket, one counts as abandoned after hours without a new part.
pub(crate) async fn delete_abandoned(repository: &Repository, location: &RepositoryLocation) -> Result<()> {
    let branches = repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
    let is_ours =
        |branch: &&String| branch.strip_prefix(PREFIX).is_some_and(|id| SnapshotId::try_from(id).is_ok());
    for branch in branches.iter().filter(is_ours) {
        if matches!(location, RepositoryLocation::Local(_)) || is_silent(repository, branch).await {
            tracing::info!("{branch}: a temporary branch of a process that was killed, removed");
            delete_branch(repository, branch).await;
        }
    }
    Ok(())
}

/// Returns whether the last part of a temporary branch was committed long ago.
async fn is_silent(repository: &Repository, branch: &str) -> bool {
    let version = VersionInfo::BranchTipRef(branch.to_owned());
    let Ok(session) = repository.readonly_session(&version).await else { return false };
    let Ok(snapshot) = repository.lookup_snapshot(session.snapshot_id()).await else { return false };
    SystemTime::now()
        .duration_since(SystemTime::from(snapshot.flushed_at))
        .is_ok_and(|silence| silence > SILENCE)
}
