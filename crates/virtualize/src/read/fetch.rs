//! Fetches the stored bytes of an array's chunks.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_store::{Object, StoreError, StoreOptions};
use virtualize_zarr::{Array, ChunkEntry, Reference, SourceId};

use crate::{
    error::ArrayError,
    sources::{Pool, ReopenError, reopen},
    store::VirtualStore,
};

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

/// Opens the files of a store at the urls from which they were read, since they may have been relocated.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) store: &'a VirtualStore,
    pub(super) options: &'a StoreOptions,
    pub(super) pool: &'a Pool,
}

impl<'a> Files<'a> {
    fn url(&self, id: SourceId) -> Result<&'a str, ArrayError> {
        self.store.source_url(id).ok_or(ArrayError::NoSource(id.0))
    }

    fn own(&self, url: &str) -> Option<Arc<Object>> {
        self.store.shared_object().filter(|object| object.url() == url)
    }

    /// Returns whether a file can be read without waiting.
    pub(super) fn is_local(&self, id: SourceId) -> bool {
        let is_on_disk = |url: &str| url.starts_with("file:") && self.options.through.is_none();
        self.url(id).is_ok_and(|url| self.own(url).map_or_else(|| is_on_disk(url), |own| own.is_local()))
    }

    /// Opens a file, or returns it if it is open. It must be the version that was mapped.
    pub(super) async fn open(&self, id: SourceId) -> Result<Arc<Object>, ArrayError> {
        let url = self.url(id)?;
        if let Some(object) = self.own(url).or_else(|| self.pool.get(url)) {
            return Ok(object);
        }
        let recorded = self.store.hierarchy.source(id);
        let object = reopen(url, recorded, self.options).await.map_err(|error| match error {
            ReopenError::Store(error) => of_store(error),
            ReopenError::Changed { name } => ArrayError::Changed { name },
        })?;
        self.pool.keep(url, &object);
        Ok(object)
    }
}

/// Returns the error of a read from a store.
pub(super) fn of_store(error: StoreError) -> ArrayError {
    match error {
        StoreError::Changed { name, .. } => ArrayError::Changed { name },
        error => ArrayError::Store(error),
    }
}
