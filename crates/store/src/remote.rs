use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, path::Path,
};
use tokio::sync::Semaphore;
use virtualize_bytes::ByteRange;

use crate::{
    StoreError, StoreOptions,
    connect::connect,
    location::Location,
    meter::Meter,
    pages::{self, Cache, PAGE},
    plan,
};

/// Bytes fetched when a file is opened: a small file needs no second request.
const FIRST: u64 = 16 * PAGE;
/// Gap in bytes across which two reads become one: what a connection brings in a few milliseconds.
const GAP: u64 = 8 * PAGE;
/// Longest read that merges ranges, in bytes, so that large batches go over several connections.
const LONGEST: u64 = 1 << 20;
/// A file of at most so many bytes is fetched whole once its first bytes do not suffice: over a network that takes less
/// time than the round trips of a walk through it.
const SMALL: u64 = 4 << 20;

/// An object behind a network.
#[derive(Debug)]
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    meta: ObjectMeta,
    cache: Cache,
    slots: Semaphore,
}

/// What opening found: an object to be read by ranges, or all of it.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Its first bytes are in the cache.
    Ranges(Box<Remote>),
    /// The server sends no parts, or there is nothing to send.
    Whole(Bytes, ObjectMeta),
}

/// Opens an object with one request for its first bytes.
pub(crate) async fn open(
    location: &Location,
    options: &StoreOptions,
    meter: &Meter,
) -> Result<Opened, StoreError> {
    let start = Instant::now();
    let (store, path) = connect(location, options)?;
    let name = location.name();
    let first = GetOptions { range: Some(GetRange::Bounded(0..FIRST)), ..GetOptions::default() };
    let opened = match store.get_opts(&path, first).await {
        Ok(result) => {
            let (meta, bytes) = (result.meta.clone(), body(result, &name).await?);
            meter.request(bytes.len() as u64);
            let remote = Remote::new(store, path, name, meta, options);
            remote.keep(ByteRange::new(0, bytes.len() as u64), &bytes)?;
            Opened::Ranges(Box::new(remote))
        }
        Err(Error::NotSupported { .. }) => whole(&store, &path, &name, options.whole_limit, meter).await?,
        Err(error) if error.to_string().contains("416 ") => empty(&store, &path, &name, error).await?,
        Err(error) => return Err(StoreError::remote(&name, &error)),
    };
    meter.waited(start);
    Ok(opened)
}

/// Downloads a file whole.
async fn whole(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    name: &str,
    limit: u64,
    meter: &Meter,
) -> Result<Opened, StoreError> {
    let failed = |error| StoreError::remote(name, &error);
    let result = store.get_opts(path, GetOptions::default()).await.map_err(failed)?;
    let meta = result.meta.clone();
    if meta.size > limit {
        return Err(StoreError::NoRanges { name: name.to_owned(), limit });
    }
    tracing::info!("{name}: the server cannot send parts of the file, {} bytes are downloaded", meta.size);
    let bytes = body(result, name).await?;
    meter.request(bytes.len() as u64);
    Ok(Opened::Whole(bytes, meta))
}

/// No range of an empty object can be fetched: asks for its size instead.
async fn empty(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    name: &str,
    refused: Error,
) -> Result<Opened, StoreError> {
    match store.head(path).await {
        Ok(meta) if meta.size == 0 => Ok(Opened::Whole(Bytes::new(), meta)),
        _ => Err(StoreError::remote(name, &refused)),
    }
}

/// The bytes of an answer, all of them.
async fn body(result: GetResult, name: &str) -> Result<Bytes, StoreError> {
    let expected = result.range.end.saturating_sub(result.range.start);
    let bytes = result.bytes().await.map_err(|error| StoreError::remote(name, &error))?;
    if bytes.len() as u64 != expected {
        let reason = format!("the server sent {} bytes, expected {expected}", bytes.len());
        return Err(StoreError::Unavailable { name: name.to_owned(), reason });
    }
    Ok(bytes)
}

impl Remote {
    fn new(
        store: Arc<dyn ObjectStore>,
        path: Path,
        name: String,
        meta: ObjectMeta,
        options: &StoreOptions,
    ) -> Self {
        let slots = Semaphore::new(options.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Self { store, path, name, meta, cache: Cache::new(options.cache_bytes), slots }
    }

    pub(crate) fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    pub(crate) async fn read_ranges(
        &self,
        ranges: &[ByteRange],
        meter: &Meter,
    ) -> Result<Vec<Bytes>, StoreError> {
        let clamped: Vec<_> = ranges.iter().map(|range| range.clamp_to(self.meta.size)).collect();
        let (mut pages, mut missing) = self.cache.split(pages::of(&clamped));
        if !missing.is_empty() {
            let start = Instant::now();
            if self.meta.size <= SMALL && self.cache.holds(self.meta.size) {
                missing = self.cache.split(pages::of(&[ByteRange::new(0, self.meta.size)])).1;
            }
            for (run, bytes) in self.fetch(&missing, meter).await? {
                pages.extend(self.keep(run, &bytes)?);
            }
            meter.waited(start);
        }
        let parts = clamped.iter().map(|range| pages::assemble(*range, &pages));
        parts.collect::<Option<_>>().ok_or_else(|| self.unavailable("a page is missing".to_owned()))
    }

    /// Fetches pages, neighbours together.
    async fn fetch(&self, missing: &[u64], meter: &Meter) -> Result<Vec<(ByteRange, Bytes)>, StoreError> {
        let wanted: Vec<_> = missing.iter().map(|page| pages::range(*page, self.meta.size)).collect();
        let runs = plan::merge(&wanted, GAP, LONGEST).spans;
        let reads = runs.into_iter().map(|run| async move { Ok((run, self.request(run, meter).await?)) });
        stream::iter(reads).buffer_unordered(self.slots.available_permits().max(1)).try_collect().await
    }

    /// One request. It names the etag, and the answer is held against what was found on opening, since not every
    /// server heeds it.
    async fn request(&self, range: ByteRange, meter: &Meter) -> Result<Bytes, StoreError> {
        let _slot = self.slots.acquire().await.map_err(|error| self.unavailable(error.to_string()))?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.start..range.end())),
            if_match: self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(&self.path, options).await.map_err(|error| self.failed(&error))?;
        self.unchanged(&result.meta)?;
        let bytes = body(result, &self.name).await?;
        meter.request(bytes.len() as u64);
        tracing::trace!("{}: {range}", self.name);
        Ok(bytes)
    }

    /// Puts the pages of a run into the cache, and returns them.
    fn keep(&self, run: ByteRange, bytes: &Bytes) -> Result<Vec<(u64, Bytes)>, StoreError> {
        if run.length != bytes.len() as u64 {
            return Err(self.unavailable(format!("{} bytes came, expected {run}", bytes.len())));
        }
        let pages: Vec<_> = pages::cut(run, bytes).collect();
        for (page, bytes) in &pages {
            self.cache.insert(*page, bytes.clone());
        }
        Ok(pages)
    }

    fn unchanged(&self, now: &ObjectMeta) -> Result<(), StoreError> {
        let was = &self.meta;
        let reason = if now.e_tag != was.e_tag {
            "its etag differs".to_owned()
        } else if now.size != was.size {
            format!("{} bytes, expected {}", now.size, was.size)
        } else if now.last_modified != was.last_modified {
            "its modification time differs".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::Changed { name: self.name.clone(), reason })
    }

    /// A range that can no longer be had means that the file became shorter.
    fn failed(&self, error: &Error) -> StoreError {
        if error.to_string().contains("416 ") {
            return StoreError::Changed { name: self.name.clone(), reason: "it became shorter".to_owned() };
        }
        StoreError::remote(&self.name, error)
    }

    fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Unavailable { name: self.name.clone(), reason }
    }
}
