//! Comparison of an array's chunks with those of earlier snapshots, in order of their indices.

use std::sync::Arc;

use bytes::Bytes;
use icechunk::{
    format::{ByteRange, ChunkIndices, manifest::ChunkPayload},
    session::{Session, get_chunk},
};
use serde_json::Value;
use virtualize_zarr::{Array, ChunkGrid};

use crate::{
    IcechunkError,
    document_diff::{same_state, shape_of},
    error::one_line,
    metadata::{Document, node_error, node_path},
    new_chunks::{NewChunk, NewChunks, is_retained},
    stored::{StoredArray, StoredChunks},
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
}

/// What the chunks of an array are compared with. By default, with nothing: all are written.
#[derive(Default)]
pub(crate) struct Comparison {
    /// The array in the earlier snapshot.
    pub(crate) base: Option<BaseArray>,
    /// The array on the branch, if others have written chunks to it since the earlier snapshot.
    pub(crate) tip: Option<StoredArray>,
    /// Whether others had written chunks to it before the earlier snapshot.
    pub(crate) is_touched: bool,
    /// An axis, and the index along it below which chunks stay as they are.
    pub(crate) retained: Option<(usize, u64)>,
}

/// An array in an earlier snapshot.
pub(crate) struct BaseArray {
    pub(crate) session: Arc<Session>,
    pub(crate) stored: StoredArray,
    /// Number of chunks along each axis, as recorded.
    pub(crate) counts: Vec<u64>,
}

/// A chunk to write, or to remove.
pub(crate) struct Change {
    pub(crate) indices: ChunkIndices,
    pub(crate) chunk: Option<NewChunk>,
}

/// Merges the chunks of up to three versions of an array: the earlier one, that of the branch, and the new one.
pub(crate) struct Merge<'a> {
    path: &'a str,
    comparison: &'a Comparison,
    base: Option<StoredChunks>,
    tip: Option<StoredChunks>,
    new: Option<NewChunks<'a>>,
    /// The next chunk of each version.
    heads: Heads,
    /// Number of new chunks along each axis.
    counts: Vec<u64>,
}

#[derive(Default)]
struct Heads {
    base: Option<(ChunkIndices, ChunkPayload)>,
    tip: Option<(ChunkIndices, ChunkPayload)>,
    new: Option<(ChunkIndices, NewChunk)>,
}

impl<'a> Merge<'a> {
    /// Starts to compare. Without `new`, returns the earlier chunks that are outside of the new grid; otherwise, the changes
    /// inside of it.
    pub(crate) async fn start(
        (path, array): (&'a str, &Array),
        comparison: &'a Comparison,
        new: Option<NewChunks<'a>>,
    ) -> Result<Self, IcechunkError> {
        let retained = comparison.retained;
        let mut this = Self {
            path,
            comparison,
            base: comparison.base.as_ref().map(|base| base.stored.chunks(retained)),
            tip: comparison.tip.as_ref().map(|tip| tip.chunks(retained)),
            new,
            heads: Heads::default(),
            counts: array.chunk_grid.counts(&array.shape),
        };
        this.next_base().await?;
        this.next_tip().await?;
        this.next_new().await?;
        Ok(this)
    }

    /// Returns the next change.
    ///
    /// # Errors
    /// Others have written the chunk.
    pub(crate) async fn next(&mut self) -> Result<Option<Change>, IcechunkError> {
        loop {
            let Heads { base, tip, new } = &self.heads;
            let [base, tip] = [base, tip].map(|head| head.as_ref().map(|(indices, _)| indices));
            let new = new.as_ref().map(|(indices, _)| indices);
            let Some(indices) = [base, tip, new].into_iter().flatten().min().cloned() else {
                return Ok(None);
            };
            let base = match base == Some(&indices) {
                true => self.next_base().await?,
                false => None,
            };
            let tip = match self.heads.tip.as_ref().is_some_and(|(at, _)| *at == indices) {
                true => self.next_tip().await?,
                false => None,
            };
            let chunk = match self.heads.new.as_ref().is_some_and(|(at, _)| *at == indices) {
                true => self.next_new().await?,
                false => None,
            };
            if self.is_changed(&indices, base.as_ref(), chunk.as_ref()).await? {
                self.check(base.as_ref(), tip.as_ref())?;
                return Ok(Some(Change { indices, chunk }));
            }
        }
    }

    /// Returns whether a chunk is to be written or removed.
    async fn is_changed(
        &mut self,
        indices: &ChunkIndices,
        base: Option<&ChunkPayload>,
        new: Option<&NewChunk>,
    ) -> Result<bool, IcechunkError> {
        match (base, new) {
            (None, None) => Ok(false),
            (None, Some(_)) => Ok(true),
            // Chunks outside of the new grid are removed before the array is resized, all others afterwards.
            (Some(_), None) => Ok(is_inside(indices, &self.counts) == self.new.is_some()),
            (Some(base), Some(new)) => Ok(!self.is_same(indices, base, new).await?),
        }
    }

    async fn is_same(
        &mut self,
        indices: &ChunkIndices,
        before: &ChunkPayload,
        now: &NewChunk,
    ) -> Result<bool, IcechunkError> {
        Ok(match (before, now) {
            (ChunkPayload::Virtual(before), NewChunk::Virtual(now)) => before == now,
            (ChunkPayload::Inline(before), NewChunk::Inline(now)) => before == now,
            (ChunkPayload::Ref(_), NewChunk::Inline(now)) => {
                let length = before.length();
                length == now.len() as u64
                    && length <= MAX_COMPARED_BYTES
                    && self.native_bytes(indices).await? == *now
            }
            _ => false,
        })
    }

    /// Fetches a chunk that is stored in the repository itself.
    async fn native_bytes(&mut self, indices: &ChunkIndices) -> Result<Bytes, IcechunkError> {
        let failed = |error| node_error(self.path, one_line(&error));
        let Some(base) = &self.comparison.base else { return Ok(Bytes::new()) };
        let reader = base.session.get_chunk_reader(&node_path(self.path)?, indices, &ByteRange::ALL).await;
        let bytes = get_chunk(reader.map_err(failed)?).await.map_err(failed)?;
        Ok(bytes.unwrap_or_default())
    }

    /// Checks that a chunk that is to be changed was not written by others.
    fn check(&self, base: Option<&ChunkPayload>, tip: Option<&ChunkPayload>) -> Result<(), IcechunkError> {
        let is_foreign = self.comparison.is_touched && base.is_some() || tip.is_some() && tip != base;
        match is_foreign {
            true => Err(overwrites(self.path)),
            false => Ok(()),
        }
    }

    /// Returns the present chunk of the earlier snapshot, and moves on to the next one that is compared.
    async fn next_base(&mut self) -> Result<Option<ChunkPayload>, IcechunkError> {
        let current = self.heads.base.take();
        if let (Some(chunks), Some(base)) = (&mut self.base, &self.comparison.base) {
            while let Some((indices, payload)) = chunks.next().await? {
                // A resize can leave chunks outside of the grid. No reader sees them.
                if !is_retained(&indices, self.comparison.retained) && is_inside(&indices, &base.counts) {
                    self.heads.base = Some((indices, payload));
                    break;
                }
            }
        }
        Ok(current.map(|(_, payload)| payload))
    }

    async fn next_tip(&mut self) -> Result<Option<ChunkPayload>, IcechunkError> {
        let current = self.heads.tip.take();
        if let Some(chunks) = &mut self.tip {
            self.heads.tip = chunks.next().await?;
        }
        Ok(current.map(|(_, payload)| payload))
    }

    async fn next_new(&mut self) -> Result<Option<NewChunk>, IcechunkError> {
        let current = self.heads.new.take();
        if let Some(chunks) = &mut self.new {
            self.heads.new = chunks.next().await?;
        }
        Ok(current.map(|(_, chunk)| chunk))
    }
}

fn is_inside(indices: &ChunkIndices, counts: &[u64]) -> bool {
    indices.0.len() == counts.len()
        && indices.0.iter().zip(counts).all(|(index, count)| u64::from(*index) < *count)
}

/// Returns the error for an array in which a commit would overwrite what others wrote.
pub(crate) fn overwrites(path: &str) -> IcechunkError {
    let reason = "others wrote chunks that this commit would overwrite".to_owned();
    IcechunkError::Foreign { path: path.to_owned(), reason }
}
