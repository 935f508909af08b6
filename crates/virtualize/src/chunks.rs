//! Reads the stored bytes of chunks from the files of a store.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind, ReadRanges};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Array, ChunkEntry, Reference, SourceId};

use crate::{
    error::{ArrayError, Error},
    sources::{Pool, is_version, reopen},
    store::VirtualStore,
};

/// Reads chunks of one store, with one request each. A file that changed since it was mapped is an error.
#[derive(Debug, Default)]
pub struct ChunkReader {
    pool: Pool,
}

impl ChunkReader {
    /// Returns the bytes of a chunk in a file; `within` is relative to the chunk.
    ///
    /// # Errors
    /// [`Error::Store`] and [`Error::Read`]; the file changed since it was mapped.
    pub async fn read(
        &self,
        store: &VirtualStore,
        place: Reference,
        within: ByteRange,
        options: &StoreOptions,
    ) -> Result<Bytes, Error> {
        let within = within.clamp_to(place.length);
        let range = ByteRange::new(place.offset.saturating_add(within.start), within.length);
        let object = Files { store, options, pool: &self.pool, interrupt: None }.open(place.source).await;
        let object = object.map_err(|error| match error {
            ArrayError::Invalid(reason) => {
                ReadError::new(ReadErrorKind::Invalid, format!("{}: {reason}", store.name())).into()
            }
            error => Error::of_array(store.name(), "", error),
        })?;
        let bytes = object.read_once(range).await?;
        if bytes.len() as u64 != within.length {
            let message =
                format!("{}: {} bytes at {range}, expected {}", store.name(), bytes.len(), within.length);
            return Err(ReadError::new(ReadErrorKind::Changed, message).into());
        }
        Ok(bytes)
    }
}

/// The files of a store. They are opened at the urls from which they were read, since they may have been relocated.
#[derive(Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) store: &'a VirtualStore,
    pub(crate) options: &'a StoreOptions,
    pub(crate) pool: &'a Pool,
    /// Returns whether the read is to stop.
    pub(crate) interrupt: Option<&'a Interrupt>,
}

/// Function that is called repeatedly during a read, and returns whether to stop it.
pub type Interrupt = dyn Fn() -> bool + Send + Sync;

/// Time between two looks at the interrupt while requests are on their way.
const PATIENCE: Duration = Duration::from_millis(50);

/// Awaits a future, unless a function that is called repeatedly stops it: then returns `None`. Without the context of a
/// tokio runtime, nothing stops it.
pub(crate) async fn interruptible<T>(
    future: impl Future<Output = T>,
    interrupt: Option<&dyn Fn() -> bool>,
) -> Option<T> {
    let Some(interrupt) = interrupt.filter(|_| tokio::runtime::Handle::try_current().is_ok()) else {
        return Some(future.await);
    };
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(PATIENCE, &mut future).await {
            Ok(done) => return Some(done),
            Err(_) if interrupt() => return None,
            Err(_) => {}
        }
    }
}

impl<'a> Files<'a> {
    fn url(&self, id: SourceId) -> Result<&'a str, ArrayError> {
        let url = self.store.source_url(id);
        url.ok_or_else(|| ArrayError::invalid(format!("there is no source {}", id.0)))
    }

    fn own(&self, url: &str) -> Option<&'a Arc<Object>> {
        self.store.object.as_ref().filter(|object| object.url() == url)
    }

    /// Returns whether a file can be read without waiting.
    pub(crate) fn is_local(&self, id: SourceId) -> bool {
        let is_on_disk = |url: &str| url.starts_with("file:") && self.options.through.is_none();
        self.url(id).is_ok_and(|url| self.own(url).map_or_else(|| is_on_disk(url), |own| own.is_local()))
    }

    /// Opens a file, or returns it if it is open. It must be the version that was mapped.
    pub(crate) async fn open(&self, id: SourceId) -> Result<Arc<Object>, ArrayError> {
        let url = self.url(id)?;
        if let Some(own) = self.own(url) {
            return Ok(Arc::clone(own));
        }
        let recorded = self.store.hierarchy.source(id);
        if let Some(object) = self.pool.get(url) {
            // Chunks may have been recorded with several versions of a file.
            return is_version(&object, recorded).map(|()| object);
        }
        let object = reopen(url, recorded, self.options).await?;
        self.pool.keep(url, &object);
        Ok(object)
    }
}

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
                let text = format!(
                    "its chunks are stored in more than {most} bytes, which is all that is read at once"
                );
                return Err(ArrayError::invalid(text));
            }
            by_source.entry(reference.source).or_default().push((position, reference));
        }
    }
    let pool = Pool::default();
    let files = Files { store, options, pool: &pool, interrupt: None };
    let reads = by_source.into_iter().map(|(id, chunks)| async move {
        let object = files.open(id).await?;
        let ranges: Vec<_> = chunks.iter().map(|(_, at)| ByteRange::new(at.offset, at.length)).collect();
        let read = object.read_ranges(&ranges).await?;
        object.verify()?;
        let checked = chunks.iter().zip(ranges).zip(read).map(|(((position, _), range), bytes)| {
            let is_whole = bytes.len() as u64 == range.length;
            is_whole.then_some((*position, bytes)).ok_or_else(|| ArrayError::truncated(range, object.name()))
        });
        checked.collect::<Result<Vec<_>, ArrayError>>()
    });
    let concurrency = options.concurrency.clamp(1, 16);
    let all: Vec<Vec<(u64, Bytes)>> = stream::iter(reads).buffer_unordered(concurrency).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}
