//! Chunks to be committed, in order of their indices.

use std::sync::Arc;

use bytes::Bytes;
use icechunk::format::{ChunkIndices, manifest::VirtualChunkRef};
use virtualize_zarr::{Array, Chunk, ChunkReader, Chunks, Source, chunk_indices};

use crate::{
    IcechunkError,
    container::Containers,
    location::{ChunkSource, chunk_source},
    metadata::{Document, node_error},
};

/// A chunk to be committed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum NewChunk {
    Inline(Bytes),
    Virtual(VirtualChunkRef),
}

/// Converts the sources of chunks, and collects the containers that they need.
pub(crate) struct Sources {
    containers: Containers,
    /// The last source, and what its chunks record.
    last: Option<(Arc<Source>, ChunkSource)>,
}

impl Sources {
    pub(crate) fn new(containers: Containers) -> Self {
        Self { containers, last: None }
    }

    /// Returns what the chunks of a source record.
    fn of(&mut self, source: &Arc<Source>) -> Result<&ChunkSource, IcechunkError> {
        let is_last = self.last.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, source));
        let converted = match self.last.take().filter(|_| is_last) {
            Some(converted) => converted,
            None => {
                let converted = chunk_source(source)?;
                self.containers.add(converted.location.url(), source)?;
                (Arc::clone(source), converted)
            }
        };
        Ok(&self.last.insert(converted).1)
    }

    /// Returns the containers of all sources so far.
    pub(crate) fn containers(&self) -> &Containers {
        &self.containers
    }
}

/// Reader of the chunks of an array, which checks their order.
pub(crate) struct NewChunks<'a> {
    path: &'a str,
    chunks: Chunks<'a>,
    sources: &'a mut Sources,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// An axis, and the index along it below which chunks are not written.
    retained: Option<(usize, u64)>,
    next: u64,
}

impl<'a> NewChunks<'a> {
    pub(crate) fn open(
        reader: &'a mut dyn ChunkReader,
        sources: &'a mut Sources,
        (document, array): (&'a Document<'_>, &Array),
        retained: Option<(usize, u64)>,
    ) -> Result<Self, IcechunkError> {
        let counts = array.chunk_grid.counts(&array.shape);
        let row: u64 = counts.iter().skip(1).fold(1, |all, count| all.saturating_mul(*count));
        let start = match retained {
            Some((0, end)) => end.saturating_mul(row),
            _ => 0,
        };
        let chunks = reader.chunks(&document.inner, start).map_err(IcechunkError::of_chunks)?;
        Ok(Self { path: &document.path, chunks, sources, counts, retained, next: start })
    }

    /// Returns the next chunk.
    pub(crate) fn next(&mut self) -> Result<Option<(ChunkIndices, NewChunk)>, IcechunkError> {
        loop {
            let Some(item) = self.chunks.next() else { return Ok(None) };
            let (position, chunk) = item.map_err(IcechunkError::of_chunks)?;
            if position < self.next {
                return Err(node_error(self.path, format!("chunk {position} is out of order")));
            }
            self.next = position.saturating_add(1);
            let indices = indices(position, &self.counts).ok_or_else(|| {
                let reason = "is outside of the grid, or its index exceeds the 32 bits of Icechunk";
                node_error(self.path, format!("chunk {position} {reason}"))
            })?;
            if !is_retained(&indices, self.retained) {
                return Ok(Some((indices, self.converted(chunk)?)));
            }
        }
    }

    fn converted(&mut self, chunk: Chunk) -> Result<NewChunk, IcechunkError> {
        Ok(match chunk {
            Chunk::Inline(bytes) => NewChunk::Inline(bytes),
            Chunk::Reference { source, offset, length } => {
                let ChunkSource { location, checksum } = self.sources.of(&source)?.clone();
                NewChunk::Virtual(VirtualChunkRef { location, offset, length, checksum })
            }
        })
    }
}

/// Returns whether the index of a chunk along an axis is below a limit.
pub(crate) fn is_retained(indices: &ChunkIndices, retained: Option<(usize, u64)>) -> bool {
    retained.is_some_and(|(axis, end)| indices.0.get(axis).is_some_and(|index| u64::from(*index) < end))
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
