//! Chunks to be committed, in order of their indices.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use icechunk::format::{
    ChunkIndices,
    manifest::{Checksum, VirtualChunkRef},
};
use virtualize_store::{Condition, Listed, StoreError, StoreOptions, open_listed, probe};
use virtualize_zarr::{Array, Chunk, ChunkReader, Chunks, Source, chunk_indices};

use crate::{
    IcechunkError, StorageOptions,
    container::{Containers, root},
    location::{ChunkSource, checksums, location},
    metadata::{Document, node_error},
};

/// A chunk to be committed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum NewChunk {
    Inline(Bytes),
    Virtual(VirtualChunkRef),
}

/// Kind of a checksum.
type Kind = std::mem::Discriminant<Checksum>;

/// Converts the sources of chunks, and collects the containers that they need.
pub(crate) struct Sources {
    containers: Containers,
    store: StoreOptions,
    /// Whether requests are paid for. Those of Icechunk's readers for virtual chunks are not.
    pays: bool,
    /// Whether the store at a url accepts requests with a kind of checksum, or with none.
    accepted: HashMap<(String, Option<Kind>), bool>,
    /// The url of a source of which readers cannot tell whether it changed.
    unchecked: Option<String>,
    /// The last source, and what its chunks record.
    last: Option<(Arc<Source>, ChunkSource)>,
}

impl Sources {
    pub(crate) fn new(containers: Containers, options: &StorageOptions) -> Self {
        let StorageOptions { store, .. } = options;
        let store = StoreOptions { retries: store.retries.min(1), ..store.clone() };
        let pays = options.requester_pays();
        Self { containers, store, pays, accepted: HashMap::new(), unchecked: None, last: None }
    }

    /// Returns the url of a source of which readers cannot tell whether it changed, if there is one.
    pub(crate) fn unchecked(&self) -> Option<&str> {
        self.unchecked.as_deref()
    }

    /// Returns what the chunks of a source record; `offset` is that of one of them.
    async fn of(&mut self, source: &Arc<Source>, offset: u64) -> Result<&ChunkSource, IcechunkError> {
        let is_last = self.last.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, source));
        let converted = match self.last.take().filter(|_| is_last) {
            Some(converted) => converted,
            None => {
                let location = location(source)?;
                self.containers.add(location.url(), source)?;
                let checksum = self.checksum(source, offset).await?;
                if checksum.is_none() {
                    self.unchecked.get_or_insert_with(|| source.url.clone());
                }
                (Arc::clone(source), ChunkSource { location, checksum })
            }
        };
        Ok(&self.last.insert(converted).1)
    }

    /// Returns the best checksum that a reader can use. Each bucket and web server is requested once for each kind, with the
    /// condition that the reader sends.
    ///
    /// # Errors
    /// The source has changed, or readers cannot read ranges of it.
    async fn checksum(&mut self, source: &Source, offset: u64) -> Result<Option<Checksum>, IcechunkError> {
        let checksums = checksums(source);
        if source.url.starts_with("file:") {
            return Ok(checksums.into_iter().next());
        }
        for checksum in checksums.into_iter().map(Some).chain([None]) {
            let key = (root(&source.url), checksum.as_ref().map(std::mem::discriminant));
            let is_accepted = match self.accepted.get(&key) {
                Some(accepted) => *accepted,
                None => self.probe(source, offset, checksum.as_ref()).await?,
            };
            self.accepted.insert(key, is_accepted);
            if is_accepted {
                return Ok(checksum);
            }
        }
        Ok(None)
    }

    /// Requests a byte of a source as a reader would. If the store cannot be reached, tags count as rejected and times as
    /// accepted.
    async fn probe(
        &self,
        source: &Source,
        offset: u64,
        checksum: Option<&Checksum>,
    ) -> Result<bool, IcechunkError> {
        let refuse = |error: &dyn std::fmt::Display| {
            let reason = error.to_string();
            let reason = reason.strip_prefix(&format!("{}: ", source.url)).unwrap_or(&reason).to_owned();
            Err(IcechunkError::Source { url: source.url.clone(), reason })
        };
        let condition = checksum.map(|checksum| match checksum {
            Checksum::ETag(tag) => Condition::Tag(tag.0.trim_matches('"').to_owned()),
            Checksum::LastModified(seconds) => Condition::NotModifiedSince(i64::from(seconds.0)),
        });
        let mut options = self.store.clone();
        let pays = self.pays && source.url.starts_with("s3:");
        if pays {
            options.values.push(("aws_request_payer".to_owned(), "false".to_owned()));
        }
        match probe(&source.url, offset, condition.as_ref(), &options).await {
            Ok(()) => Ok(true),
            Err(error @ StoreError::Unreadable { .. }) => refuse(&error),
            Err(StoreError::Denied { .. }) if pays => {
                refuse(&"Icechunk's readers cannot read virtual chunks from requester-pays buckets")
            }
            Err(StoreError::Changed { .. }) => {
                let Source { url, etag, size, modified } = source.clone();
                let listed = Listed { url, size: Some(size).filter(|size| *size > 0), etag, modified };
                match open_listed(&listed, &self.store).await {
                    Err(error @ StoreError::Changed { .. }) => refuse(&error),
                    _ => Ok(false),
                }
            }
            Err(_) => Ok(!matches!(checksum, Some(Checksum::ETag(_)))),
        }
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
    pub(crate) async fn next(&mut self) -> Result<Option<(ChunkIndices, NewChunk)>, IcechunkError> {
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
                return Ok(Some((indices, self.converted(chunk).await?)));
            }
        }
    }

    async fn converted(&mut self, chunk: Chunk) -> Result<NewChunk, IcechunkError> {
        Ok(match chunk {
            Chunk::Inline(bytes) => NewChunk::Inline(bytes),
            Chunk::Reference { source, offset, length } => {
                let ChunkSource { location, checksum } = self.sources.of(&source, offset).await?.clone();
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
