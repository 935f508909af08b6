//! Writes nodes and chunks: in one commit or, if there are too many chunks for memory, in several commits to a temporary
//! branch that become visible together.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use icechunk::{
    Repository, Store,
    conflicts::detector::ConflictDetector,
    format::{
        ChunkIndices, Path, SnapshotId,
        manifest::{ChunkPayload, VirtualChunkRef},
        snapshot::SnapshotProperties,
    },
    session::{Session, SessionError, SessionErrorKind},
};
use serde_json::Value;
use tokio::sync::RwLock;
use virtualize_zarr::{Array, ChunkEntry, chunk_indices};

use crate::{
    IcechunkError,
    error::one_line,
    location::ChunkSource,
    metadata::{bytes, key, node_error, node_path},
};

/// Most chunks in one call of the `icechunk` crate.
const BATCH: usize = 10_000;
/// Concurrent uploads of inline chunks.
const UPLOADS: usize = 16;
/// Attempts to rebase a commit onto those of other writers.
const REBASES: u16 = 20;

/// A commit in progress.
pub(crate) struct Writer<'a> {
    repository: &'a Repository,
    branch: &'a str,
    tip: SnapshotId,
    message: String,
    properties: SnapshotProperties,
    /// Most chunks in one part.
    part_size: u64,
    /// The temporary branch of a commit in parts.
    scratch: Option<Scratch>,
    session: Arc<RwLock<Session>>,
    store: Store,
    /// Chunks written since the last part.
    pending: u64,
    /// All chunks written.
    written: u64,
}

/// Selects the chunks of an array to write: all but these.
#[derive(Default)]
pub(crate) struct Selection {
    /// Positions of chunks that are unchanged in the repository.
    pub(crate) unchanged: HashSet<u64>,
    /// An axis, and the index along it below which chunks are unchanged.
    pub(crate) retained: Option<(usize, u64)>,
}

impl Selection {
    pub(crate) fn includes(&self, position: u64, indices: &ChunkIndices) -> bool {
        let is_retained =
            |(axis, end): (usize, u64)| indices.0.get(axis).is_some_and(|n| u64::from(*n) < end);
        !self.unchanged.contains(&position) && !self.retained.is_some_and(is_retained)
    }

    /// Returns the number of selected chunks.
    pub(crate) fn count(&self, array: &Array) -> u64 {
        if self.retained.is_none() {
            return array.chunks.len().saturating_sub(self.unchanged.len() as u64);
        }
        let counts = array.chunk_grid.counts(&array.shape);
        let included = |(position, _): &(u64, ChunkEntry<'_>)| {
            indices(*position, &counts).is_some_and(|indices| self.includes(*position, &indices))
        };
        array.chunks.iter().filter(included).count() as u64
    }
}

/// The temporary branch of a commit in parts.
struct Scratch {
    branch: String,
    /// Snapshot of the last part.
    snapshot: Option<SnapshotId>,
    /// Number of parts so far.
    parts: u64,
}

impl<'a> Writer<'a> {
    /// Starts a commit of `chunks` chunks, in parts of `part_size`, on top of `tip`.
    ///
    /// # Errors
    /// [`IcechunkError::Conflict`] if the branch has moved from `tip`.
    pub(crate) async fn start(
        repository: &'a Repository,
        branch: &'a str,
        tip: SnapshotId,
        commit: (String, SnapshotProperties),
        (chunks, part_size): (u64, u64),
    ) -> Result<Self, IcechunkError> {
        let scratch = match chunks > part_size {
            true => Some(Scratch {
                branch: format!("virtualize-{}", SnapshotId::random()),
                snapshot: None,
                parts: 0,
            }),
            false => None,
        };
        if let Some(scratch) = &scratch {
            let made = repository.create_branch(&scratch.branch, &tip).await;
            made.map_err(IcechunkError::of("creating a temporary branch"))?;
        }
        let on = scratch.as_ref().map_or(branch, |scratch| &scratch.branch);
        let (session, store) = open(repository, on).await?;
        let (message, properties) = commit;
        let is_at_tip = *session.read().await.snapshot_id() == tip;
        let (pending, written) = (0, 0);
        let writer = Self {
            repository,
            branch,
            tip,
            message,
            properties,
            part_size,
            scratch,
            session,
            store,
            pending,
            written,
        };
        if is_at_tip {
            return Ok(writer);
        }
        writer.abort().await;
        let reason = "another writer committed at the same time".to_owned();
        Err(IcechunkError::Conflict { branch: branch.to_owned(), reason })
    }

    /// Returns the session, to read and remove existing nodes.
    pub(crate) fn session(&self) -> &Arc<RwLock<Session>> {
        &self.session
    }

    /// Writes the document of a node.
    pub(crate) async fn document(&self, path: &str, metadata: &Value) -> Result<(), IcechunkError> {
        let set = self.store.set(&key(path), bytes(metadata)).await;
        set.map_err(|error| node_error(path, one_line(&error)))
    }

    /// Removes a node and everything below it, if it exists.
    pub(crate) async fn remove(&self, path: &str) -> Result<(), IcechunkError> {
        let mut session = self.session.write().await;
        let removed = match session.get_node(&node_path(path)?).await {
            Ok(node) => session.delete_node(node).await,
            Err(_) => Ok(()),
        };
        removed.map_err(|error| node_error(path, one_line(&error)))
    }

    /// Removes chunks of an array.
    pub(crate) async fn delete_chunks(
        &self,
        path: &str,
        chunks: &[ChunkIndices],
    ) -> Result<(), IcechunkError> {
        let node = node_path(path)?;
        let mut session = self.session.write().await;
        for indices in chunks {
            let set = session.set_chunk_ref(node.clone(), indices.clone(), None).await;
            set.map_err(|error| node_error(path, one_line(&error)))?;
        }
        Ok(())
    }

    /// Returns the number of chunks written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes the selected chunks of an array.
    pub(crate) async fn chunks(
        &mut self,
        path: &str,
        array: &Array,
        sources: &[ChunkSource],
        selection: &Selection,
    ) -> Result<(), IcechunkError> {
        let node = node_path(path)?;
        let counts = array.chunk_grid.counts(&array.shape);
        let (mut virtual_chunks, mut inline) = (Vec::new(), Vec::new());
        for (position, entry) in array.chunks.iter() {
            let indices = indices(position, &counts).ok_or_else(|| {
                node_error(path, format!("the index of chunk {position} exceeds the 32 bits of Icechunk"))
            })?;
            if !selection.includes(position, &indices) {
                continue;
            }
            match entry {
                ChunkEntry::Inline(bytes) => inline.push((indices, bytes.clone())),
                ChunkEntry::Reference(reference) => {
                    let source = sources.get(reference.source.index()).ok_or_else(|| {
                        node_error(path, format!("chunk {position} refers to an unknown source file"))
                    })?;
                    virtual_chunks.push((
                        indices,
                        VirtualChunkRef {
                            location: source.location.clone(),
                            offset: reference.offset,
                            length: reference.length,
                            checksum: source.checksum.clone(),
                        },
                    ));
                }
            }
            if virtual_chunks.len() + inline.len() >= BATCH {
                self.write_batch(&node, std::mem::take(&mut virtual_chunks), std::mem::take(&mut inline))
                    .await?;
            }
        }
        self.write_batch(&node, virtual_chunks, inline).await
    }

    async fn write_batch(
        &mut self,
        node: &Path,
        references: Vec<(ChunkIndices, VirtualChunkRef)>,
        inline: Vec<(ChunkIndices, Bytes)>,
    ) -> Result<(), IcechunkError> {
        let failed = |error: String| node_error(node.as_str().trim_start_matches('/'), error);
        let count = (references.len() + inline.len()) as u64;
        self.pending += count;
        self.written += count;
        let set = self.store.set_virtual_refs(node, false, references).await;
        set.map_err(|error| failed(one_line(&error)))?;
        let payloads = self.upload(node, inline).await?;
        let mut session = self.session.write().await;
        for (indices, payload) in payloads {
            let set = session.set_chunk_ref(node.clone(), indices, Some(payload)).await;
            set.map_err(|error| failed(one_line(&error)))?;
        }
        drop(session);
        match &self.scratch {
            Some(scratch) if self.pending >= self.part_size => {
                let message = format!("{} (part {})", self.message, scratch.parts + 1);
                self.commit_part(message).await
            }
            _ => Ok(()),
        }
    }

    /// Stores inline chunks: small ones in the manifest, others as native chunks.
    async fn upload(
        &self,
        node: &Path,
        inline: Vec<(ChunkIndices, Bytes)>,
    ) -> Result<Vec<(ChunkIndices, ChunkPayload)>, IcechunkError> {
        let failed =
            |error: SessionError| node_error(node.as_str().trim_start_matches('/'), one_line(&error));
        let session = self.session.read().await;
        let writes = inline.into_iter().map(|(indices, bytes)| {
            let writer = session.get_chunk_writer(node, &indices);
            async move {
                let payload = writer.map_err(failed)?(bytes).await;
                payload.map(|payload| (indices, payload)).map_err(failed)
            }
        });
        stream::iter(writes).buffered(UPLOADS).try_collect().await
    }

    /// Commits pending chunks to the temporary branch, which frees their memory. (Amending one commit instead would rewrite
    /// the list of all its chunks each time.)
    async fn commit_part(&mut self, message: String) -> Result<(), IcechunkError> {
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        {
            let mut session = self.session.write().await;
            let commit = session.commit(message).properties(self.properties.clone()).allow_empty(true);
            let done = commit.execute().await;
            scratch.snapshot = Some(done.map_err(IcechunkError::of("writing references"))?);
        }
        scratch.parts += 1;
        (self.session, self.store) = open(self.repository, &scratch.branch).await?;
        self.pending = 0;
        Ok(())
    }

    /// Completes the commit: makes it visible on the branch.
    pub(crate) async fn finish(mut self) -> Result<SnapshotId, IcechunkError> {
        if self.scratch.is_none() {
            let detector = ConflictDetector;
            let mut session = self.session.write().await;
            let commit = session.commit(&self.message).properties(self.properties.clone()).allow_empty(true);
            let done = commit.rebase(&detector, REBASES).execute().await;
            return done.map_err(|error| self.commit_error(&error));
        }
        self.commit_part(self.message.clone()).await?;
        let Some(Scratch { branch, snapshot: Some(snapshot), .. }) = &self.scratch else {
            return Err(IcechunkError::Repository {
                doing: "committing",
                reason: "no part was written".to_owned(),
            });
        };
        let moved = self.repository.reset_branch(self.branch, snapshot, Some(&self.tip)).await;
        self.delete_branch(branch).await;
        moved.map_err(|error| IcechunkError::Conflict {
            branch: self.branch.to_owned(),
            reason: one_line(&error),
        })?;
        Ok(snapshot.clone())
    }

    /// Aborts the commit. The branch is unchanged.
    pub(crate) async fn abort(self) {
        if let Some(scratch) = &self.scratch {
            self.delete_branch(&scratch.branch).await;
        }
    }

    async fn delete_branch(&self, branch: &str) {
        if let Err(error) = self.repository.delete_branch(branch).await {
            tracing::warn!("cannot delete the temporary branch {branch}: {}", one_line(&error));
        }
    }

    fn commit_error(&self, error: &SessionError) -> IcechunkError {
        let branch = self.branch.to_owned();
        match &error.kind {
            SessionErrorKind::Conflict { .. } => {
                IcechunkError::Conflict { branch, reason: "other writers kept committing".to_owned() }
            }
            SessionErrorKind::RebaseFailed { conflicts, .. } => {
                let conflicts: Vec<_> = conflicts.iter().map(|conflict| format!("{conflict:?}")).collect();
                IcechunkError::Conflict { branch, reason: conflicts.join(", ") }
            }
            _ => IcechunkError::of("committing")(error),
        }
    }
}

async fn open(repository: &Repository, branch: &str) -> Result<(Arc<RwLock<Session>>, Store), IcechunkError> {
    let session = repository.writable_session(branch).await;
    let session = Arc::new(RwLock::new(session.map_err(IcechunkError::of("opening the branch"))?));
    let store = Store::from_session(Arc::clone(&session)).await;
    Ok((session, store))
}

/// Converts a row-major position in the chunk grid to indices along each axis.
fn indices(position: u64, counts: &[u64]) -> Option<ChunkIndices> {
    let indices = chunk_indices(position, counts)?.into_iter().map(|index| u32::try_from(index).ok());
    indices.collect::<Option<_>>().map(ChunkIndices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_row_major() {
        let of = |position, counts: &[u64]| indices(position, counts).map(|indices| indices.0);
        assert_eq!(of(5, &[2, 3]), Some(vec![1, 2]));
        assert_eq!(of(6, &[2, 3]), None);
        assert_eq!(of(0, &[]), Some(vec![]));
    }
}
