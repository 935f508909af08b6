//! Fetches the stored bytes of an array's chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Array, ChunkEntry, Reference, SourceId};

use crate::array_error::ArrayError;
use crate::sources::{ReopenError, reopen};
use crate::store::VirtualStore;

/// Fetches the referenced chunks of an array by position, with one call per file.
///
/// # Errors
/// The stored chunks have more than `most` bytes together; a file has changed or cannot be read.
pub(crate) async fn fetch(
    store: &VirtualStore,
    array: &Array,
    most: u64,
    options: &StoreOptions,
) -> Result<BTreeMap<u64, Bytes>, ArrayError> {
    let mut by_source: BTreeMap<SourceId, Vec<(u64, Reference)>> = BTreeMap::new();
    let mut bytes = 0_u64;
    for (position, entry) in array.chunks.iter() {
        if let ChunkEntry::Reference(reference) = entry {
            bytes = bytes.saturating_add(reference.length);
            if bytes > most {
                return Err(ArrayError::StoredTooLarge(most));
            }
            by_source.entry(reference.source).or_default().push((position, reference));
        }
    }
    let reads = by_source.into_iter().map(|(id, chunks)| of_source(store, id, chunks, options));
    let concurrency = options.concurrency.clamp(1, 16);
    let all: Vec<Vec<(u64, Bytes)>> = stream::iter(reads).buffer_unordered(concurrency).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

async fn of_source(
    store: &VirtualStore,
    id: SourceId,
    chunks: Vec<(u64, Reference)>,
    options: &StoreOptions,
) -> Result<Vec<(u64, Bytes)>, ArrayError> {
    let object = open(store, id, options).await?;
    let ranges: Vec<_> = chunks.iter().map(|(_, part)| ByteRange::new(part.offset, part.length)).collect();
    let parts = object.read_ranges(&ranges).await?;
    object.verify()?;
    let mut read = Vec::with_capacity(chunks.len());
    for ((position, part), bytes) in chunks.into_iter().zip(parts) {
        if bytes.len() as u64 != part.length {
            let range = ByteRange::new(part.offset, part.length);
            return Err(ArrayError::Truncated { range, name: object.name().to_owned() });
        }
        read.push((position, bytes));
    }
    Ok(read)
}

/// Opens a source at the url from which it was read, since it may have been relocated.
async fn open(store: &VirtualStore, id: SourceId, options: &StoreOptions) -> Result<Arc<Object>, ArrayError> {
    let url = store.source_url(id).ok_or(ArrayError::NoSource(id.0))?;
    if let Some(own) = store.shared_object().filter(|object| object.url() == url) {
        return Ok(own);
    }
    reopen(url, store.hierarchy.source(id), options).await.map_err(|error| match error {
        ReopenError::Store(error) => error.into(),
        ReopenError::Changed { name } => ArrayError::Changed { name },
    })
}
