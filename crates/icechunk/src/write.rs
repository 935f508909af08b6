//! Writing nodes and chunks, in one commit or, where there are very many chunks, in several that become visible at once.

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
    location::Place,
    metadata::{bytes, key, node_error, node_path},
};

/// References that are handed over at once.
const PIECE: usize = 10_000;
/// Inline chunks that are written at once.
const UPLOADS: usize = 16;
/// How often a commit is put on top of others that came between.
const REBASES: u16 = 20;

/// A commit under way.
pub(crate) struct Writer<'a> {
    repository: &'a Repository,
    branch: &'a str,
    tip: SnapshotId,
    message: String,
    properties: SnapshotProperties,
    /// Chunks that one step may hold in memory.
    step: u64,
    /// Where the steps of a big commit are kept until the last one is done.
    scratch: Option<Scratch>,
    session: Arc<RwLock<Session>>,
    store: Store,
    pending: u64,
    written: u64,
}

/// Which chunks of an array are written: all but these.
#[derive(Default)]
pub(crate) struct Selection {
    /// Positions of chunks that are in the repository as they are.
    pub(crate) same: HashSet<u64>,
    /// Axis, and the index along it below which chunks stay.
    pub(crate) kept: Option<(usize, u64)>,
}

impl Selection {
    pub(crate) fn takes(&self, position: u64, indices: &ChunkIndices) -> bool {
        let is_kept = |(axis, end): (usize, u64)| indices.0.get(axis).is_some_and(|n| u64::from(*n) < end);
        !self.same.contains(&position) && !self.kept.is_some_and(is_kept)
    }

    /// Chunks that are written.
    pub(crate) fn count(&self, array: &Array) -> u64 {
        if self.kept.is_none() {
            return array.chunks.len().saturating_sub(self.same.len() as u64);
        }
        let counts = array.chunk_grid.counts(&array.shape);
        let taken = |(position, _): &(u64, ChunkEntry<'_>)| {
            indices(*position, &counts).is_some_and(|indices| self.takes(*position, &indices))
        };
        array.chunks.iter().filter(taken).count() as u64
    }
}

struct Scratch {
    branch: String,
    /// The last step.
    snapshot: Option<SnapshotId>,
    /// How many there are.
    steps: u64,
}

impl<'a> Writer<'a> {
    /// Starts a commit of `chunks` chunks on a branch whose tip is known.
    pub(crate) async fn start(
        repository: &'a Repository,
        branch: &'a str,
        tip: SnapshotId,
        commit: (String, SnapshotProperties),
        (chunks, step): (u64, u64),
    ) -> Result<Self, IcechunkError> {
        let scratch = match chunks > step {
            true => Some(Scratch {
                branch: format!("virtualize-{}", SnapshotId::random()),
                snapshot: None,
                steps: 0,
            }),
            false => None,
        };
        if let Some(scratch) = &scratch {
            let made = repository.create_branch(&scratch.branch, &tip).await;
            made.map_err(IcechunkError::of("creating a branch for the steps"))?;
        }
        let on = scratch.as_ref().map_or(branch, |scratch| &scratch.branch);
        let (session, store) = open(repository, on).await?;
        let (message, properties) = commit;
        let is_there = *session.read().await.snapshot_id() == tip;
        let (pending, written) = (0, 0);
        let writer = Self {
            repository,
            branch,
            tip,
            message,
            properties,
            step,
            scratch,
            session,
            store,
            pending,
            written,
        };
        if is_there {
            return Ok(writer);
        }
        writer.give_up().await;
        let reason = "others committed at the same time".to_owned();
        Err(IcechunkError::Conflict { branch: branch.to_owned(), reason })
    }

    /// The session, for reading what is there and for removing it.
    pub(crate) fn session(&self) -> &Arc<RwLock<Session>> {
        &self.session
    }

    /// Writes the document of a node.
    pub(crate) async fn document(&self, path: &str, metadata: &Value) -> Result<(), IcechunkError> {
        let set = self.store.set(&key(path), bytes(metadata)).await;
        set.map_err(|error| node_error(path, one_line(&error)))
    }

    /// Removes a node, and all below a group.
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

    /// Chunks that were written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes the selected chunks of an array.
    pub(crate) async fn chunks(
        &mut self,
        path: &str,
        array: &Array,
        places: &[Place],
        selection: &Selection,
    ) -> Result<(), IcechunkError> {
        let node = node_path(path)?;
        let counts = array.chunk_grid.counts(&array.shape);
        let (mut virtual_chunks, mut inline) = (Vec::new(), Vec::new());
        for (position, entry) in array.chunks.iter() {
            let indices = indices(position, &counts).ok_or_else(|| {
                node_error(path, format!("chunk {position} has an index that Icechunk cannot hold (32 bits)"))
            })?;
            if !selection.takes(position, &indices) {
                continue;
            }
            match entry {
                ChunkEntry::Inline(bytes) => inline.push((indices, bytes.clone())),
                ChunkEntry::Reference(reference) => {
                    let place = places.get(reference.source.index());
                    let place = place
                        .ok_or_else(|| node_error(path, format!("chunk {position} is in no known file")))?;
                    virtual_chunks.push((
                        indices,
                        VirtualChunkRef {
                            location: place.location.clone(),
                            offset: reference.offset,
                            length: reference.length,
                            checksum: place.checksum.clone(),
                        },
                    ));
                }
            }
            if virtual_chunks.len() + inline.len() >= PIECE {
                self.piece(&node, std::mem::take(&mut virtual_chunks), std::mem::take(&mut inline)).await?;
            }
        }
        self.piece(&node, virtual_chunks, inline).await
    }

    async fn piece(
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
        let payloads = self.upload(node, inline).await.map_err(failed)?;
        let mut session = self.session.write().await;
        for (indices, payload) in payloads {
            let set = session.set_chunk_ref(node.clone(), indices, Some(payload)).await;
            set.map_err(|error| failed(one_line(&error)))?;
        }
        drop(session);
        match &self.scratch {
            Some(scratch) if self.pending >= self.step => {
                let message = format!("{} (part {})", self.message, scratch.steps + 1);
                self.step(message).await
            }
            _ => Ok(()),
        }
    }

    /// Writes inline chunks: small ones go into the manifest, others become objects of the repository.
    async fn upload(
        &self,
        node: &Path,
        inline: Vec<(ChunkIndices, Bytes)>,
    ) -> Result<Vec<(ChunkIndices, ChunkPayload)>, String> {
        let session = self.session.read().await;
        let writes = inline.into_iter().map(|(indices, bytes)| {
            let writer = session.get_chunk_writer(node, &indices);
            async move {
                let payload = writer.map_err(|error| one_line(&error))?(bytes).await;
                payload.map(|payload| (indices, payload)).map_err(|error| one_line(&error))
            }
        });
        stream::iter(writes).buffered(UPLOADS).try_collect().await
    }

    /// Puts what is pending onto the branch of steps, so that memory is free again. (Amending one commit again and again
    /// would write the list of all its chunks each time.)
    async fn step(&mut self, message: String) -> Result<(), IcechunkError> {
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        {
            let mut session = self.session.write().await;
            let commit = session.commit(message).properties(self.properties.clone()).allow_empty(true);
            let done = commit.execute().await;
            scratch.snapshot = Some(done.map_err(IcechunkError::of("writing references"))?);
        }
        scratch.steps += 1;
        (self.session, self.store) = open(self.repository, &scratch.branch).await?;
        self.pending = 0;
        Ok(())
    }

    /// Makes all of it visible on the branch.
    pub(crate) async fn finish(mut self) -> Result<SnapshotId, IcechunkError> {
        if self.scratch.is_none() {
            let detector = ConflictDetector;
            let mut session = self.session.write().await;
            let commit = session.commit(&self.message).properties(self.properties.clone()).allow_empty(true);
            let done = commit.rebase(&detector, REBASES).execute().await;
            return done.map_err(|error| self.refusal(&error));
        }
        self.step(self.message.clone()).await?;
        let Some(Scratch { branch, snapshot: Some(snapshot), .. }) = &self.scratch else {
            return Err(IcechunkError::Repository {
                doing: "committing",
                reason: "no step was written".to_owned(),
            });
        };
        let moved = self.repository.reset_branch(self.branch, snapshot, Some(&self.tip)).await;
        self.discard(branch).await;
        moved.map_err(|error| IcechunkError::Conflict {
            branch: self.branch.to_owned(),
            reason: one_line(&error),
        })?;
        Ok(snapshot.clone())
    }

    /// Leaves the branch as it was.
    pub(crate) async fn give_up(self) {
        if let Some(scratch) = &self.scratch {
            self.discard(&scratch.branch).await;
        }
    }

    async fn discard(&self, branch: &str) {
        if let Err(error) = self.repository.delete_branch(branch).await {
            tracing::warn!("branch {branch} of the repository could not be removed: {}", one_line(&error));
        }
    }

    fn refusal(&self, error: &SessionError) -> IcechunkError {
        let branch = self.branch.to_owned();
        match &error.kind {
            SessionErrorKind::Conflict { .. } => {
                IcechunkError::Conflict { branch, reason: "others committed all the while".to_owned() }
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

/// The indices of the chunk at a position of a grid.
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
