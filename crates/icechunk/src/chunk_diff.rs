//! Comparison of an array's chunks with those of an earlier snapshot.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures::TryStreamExt;
use icechunk::{
    format::{ByteRange, ChunkIndices, Path, manifest::ChunkPayload},
    session::{Session, get_chunk},
};
use serde_json::Value;
use virtualize_zarr::{Array, ChunkEntry, ChunkGrid, chunk_position};

use crate::{
    IcechunkError,
    document_diff::{same_state, shape_of},
    error::one_line,
    location::ChunkSource,
    metadata::{Document, node_error, node_path},
};

/// Largest native chunk, in bytes, that is compared by content. A larger one is written again.
const MAX_COMPARED_BYTES: u64 = 16 << 20;

/// Chunks of an array that an append leaves unchanged by construction and that are therefore not compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retained {
    None,
    /// Chunks whose index along `axis` is below `end`. `complete` if the earlier snapshot has no other chunks.
    Below {
        axis: usize,
        end: u64,
        complete: bool,
    },
    All,
}

impl Retained {
    /// Returns the chunks of `array` that stay when it grows along `dimension` only.
    pub(crate) fn new(
        dimension: Option<&str>,
        recorded: &Value,
        document: &Document<'_>,
        array: &Array,
    ) -> Self {
        let (Some(dimension), Some(before)) = (dimension, shape_of(recorded)) else { return Self::None };
        let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return Self::None };
        let mut resized = document.metadata.clone();
        if let Some(members) = resized.as_object_mut() {
            members.insert("shape".to_owned(), before.clone().into());
        }
        if !same_state(recorded, &resized) || before.len() != array.shape.len() {
            return Self::None;
        }
        let Some(axis) = array.dimension_names.iter().position(|name| name.as_deref() == Some(dimension))
        else {
            return if before == array.shape { Self::All } else { Self::None };
        };
        let mut lengths = before.iter().zip(&array.shape).enumerate();
        let only_grows =
            lengths.all(|(at, (before, now))| if at == axis { before <= now } else { before == now });
        match (before.get(axis), chunk.get(axis)) {
            (Some(length), Some(chunk)) if only_grows => {
                let chunk = (*chunk).max(1);
                Self::Below { axis, end: length / chunk, complete: length % chunk == 0 }
            }
            _ => Self::None,
        }
    }

    /// Returns the axis and the end, exclusive, of the retained indices along it.
    pub(crate) fn along(self) -> Option<(usize, u64)> {
        match self {
            Self::Below { axis, end, .. } => Some((axis, end)),
            _ => None,
        }
    }

    fn contains(self, indices: &ChunkIndices) -> bool {
        self.along().is_some_and(|(axis, end)| indices.0.get(axis).is_some_and(|n| u64::from(*n) < end))
    }
}

/// Differences between the chunks of an array and those of an earlier snapshot.
#[derive(Default)]
pub(crate) struct ChunkDiff {
    /// Positions of unchanged chunks.
    pub(crate) unchanged: HashSet<u64>,
    /// Earlier chunks that were replaced or removed.
    pub(crate) changed: HashMap<ChunkIndices, ChunkPayload>,
    /// Earlier chunks that were removed.
    pub(crate) removed: Vec<ChunkIndices>,
}

/// An array in an earlier snapshot.
pub(crate) struct BaseArray<'a> {
    pub(crate) session: &'a Session,
    /// Path without a leading slash.
    pub(crate) path: &'a str,
    /// The document that was recorded for it.
    pub(crate) recorded: &'a Value,
}

impl BaseArray<'_> {
    /// Compares the chunks of `array`, except for retained ones, with those of the snapshot.
    pub(crate) async fn diff(
        &self,
        array: &Array,
        retained: Retained,
        sources: &[ChunkSource],
    ) -> Result<ChunkDiff, IcechunkError> {
        let mut diff = ChunkDiff::default();
        if matches!(retained, Retained::Below { complete: true, .. }) {
            return Ok(diff);
        }
        let node = node_path(self.path)?;
        let (true, Ok(before)) =
            (self.session.get_array(&node).await.is_ok(), Array::from_zarr_json(self.recorded))
        else {
            return Ok(diff);
        };
        let counts = array.chunk_grid.counts(&array.shape);
        let counts_before = before.array.chunk_grid.counts(&before.array.shape);
        let failed = |error| node_error(self.path, one_line(&error));
        let chunks = self.session.array_chunk_iterator(&node).await;
        let mut chunks = std::pin::pin!(chunks);
        while let Some(chunk) = chunks.try_next().await.map_err(failed)? {
            let index = || chunk.coord.0.iter().map(|n| u64::from(*n));
            // A resize can leave chunks outside of the grid. No reader sees them.
            if retained.contains(&chunk.coord) || chunk_position(index(), &counts_before).is_none() {
                continue;
            }
            let position = chunk_position(index(), &counts);
            match position.and_then(|position| Some((position, array.chunks.get(position)?))) {
                Some((position, entry))
                    if self.is_same(&node, &chunk.coord, &chunk.payload, &entry, sources).await? =>
                {
                    diff.unchanged.insert(position);
                    continue;
                }
                Some(_) => {}
                None => diff.removed.push(chunk.coord.clone()),
            }
            diff.changed.insert(chunk.coord, chunk.payload);
        }
        Ok(diff)
    }

    async fn is_same(
        &self,
        node: &Path,
        indices: &ChunkIndices,
        before: &ChunkPayload,
        now: &ChunkEntry<'_>,
        sources: &[ChunkSource],
    ) -> Result<bool, IcechunkError> {
        Ok(match (before, now) {
            (ChunkPayload::Virtual(before), ChunkEntry::Reference(now)) => {
                let same = |source: &ChunkSource| {
                    source.location == before.location && source.checksum == before.checksum
                };
                sources.get(now.source.index()).is_some_and(same)
                    && (before.offset, before.length) == (now.offset, now.length)
            }
            (ChunkPayload::Inline(before), ChunkEntry::Inline(now)) => before == *now,
            (ChunkPayload::Ref(_), ChunkEntry::Inline(now)) => {
                let length = before.length();
                length == now.len() as u64
                    && length <= MAX_COMPARED_BYTES
                    && self.native_bytes(node, indices).await? == **now
            }
            _ => false,
        })
    }

    /// Fetches a chunk that is stored in the repository itself.
    async fn native_bytes(&self, node: &Path, indices: &ChunkIndices) -> Result<Bytes, IcechunkError> {
        let failed = |error| node_error(self.path, one_line(&error));
        let reader = self.session.get_chunk_reader(node, indices, &ByteRange::ALL).await;
        let bytes = get_chunk(reader.map_err(failed)?).await.map_err(failed)?;
        Ok(bytes.unwrap_or_default())
    }
}
