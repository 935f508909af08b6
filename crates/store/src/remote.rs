use std::time::Instant;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectMeta};
use virtualize_bytes::ByteRange;

use crate::{
    Listed, StoreError, StoreOptions,
    link::{Failure, Link},
    location::Location,
    meter::Meter,
    pages::{self, Cache, PAGE},
    plan, region,
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
    link: Link,
    meta: ObjectMeta,
    cache: Cache,
    concurrency: usize,
}

/// What opening found: an object to be read by ranges, or all of it.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Its first bytes are in the cache.
    Ranges(Box<Remote>),
    /// The server sends no parts, or there is nothing to send.
    Whole(Bytes, ObjectMeta),
}

/// Opens an object with one request for its first bytes, or for all of a small file whose size is listed. What is listed
/// must be what is found.
pub(crate) async fn open(
    location: &Location,
    listed: &Listed,
    options: &StoreOptions,
    meter: &Meter,
) -> Result<Opened, StoreError> {
    let start = Instant::now();
    let mut link = Link::new(location, options)?;
    let length = listed.size.filter(|size| *size <= options.small_file).map_or(FIRST, |size| size.max(1));
    let first = GetOptions {
        range: Some(GetRange::Bounded(0..length)),
        if_match: listed.demanded(),
        ..GetOptions::default()
    };
    let mut found = link.get(first.clone(), meter, |meta| listed.check(&link.name, meta)).await;
    if let Err(Failure::Other(error)) = &found
        && region::learned(location, error, options)
    {
        link = Link::new(location, options)?;
        found = link.get(first, meter, |meta| listed.check(&link.name, meta)).await;
    }
    let opened = match found {
        Ok((meta, bytes)) => {
            let length = bytes.len() as u64;
            let cache = Cache::new(options.cache_bytes);
            let remote = Remote { link, meta, cache, concurrency: options.concurrency.max(1) };
            remote.keep(ByteRange::new(0, length), &bytes)?;
            Opened::Ranges(Box::new(remote))
        }
        Err(Failure::NoRanges) => whole(&link, listed, options.whole_limit, meter).await?,
        Err(Failure::PastEnd(refused)) => empty(&link, listed, refused, meter).await?,
        Err(Failure::Other(error)) => return Err(error),
    };
    meter.waited(start);
    Ok(opened)
}

/// Downloads a file whole.
async fn whole(link: &Link, listed: &Listed, limit: u64, meter: &Meter) -> Result<Opened, StoreError> {
    let accept = |meta: &ObjectMeta| {
        listed.check(&link.name, meta)?;
        if meta.size > limit {
            return Err(StoreError::NoRanges { name: link.name.clone(), limit });
        }
        let size = meta.size;
        tracing::info!(
            "{}: the server does not support range requests; downloading all {size} bytes",
            link.name
        );
        Ok(())
    };
    let (meta, bytes) =
        link.get(GetOptions::default(), meter, accept).await.map_err(|it| it.described(link))?;
    Ok(Opened::Whole(bytes, meta))
}

/// No range of an empty object can be fetched: asks for its size instead.
async fn empty(
    link: &Link,
    listed: &Listed,
    refused: StoreError,
    meter: &Meter,
) -> Result<Opened, StoreError> {
    let head = GetOptions { head: true, ..GetOptions::default() };
    match link.get(head, meter, |meta| listed.check(&link.name, meta)).await {
        Ok((meta, bytes)) if meta.size == 0 => Ok(Opened::Whole(bytes, meta)),
        Err(Failure::Other(changed @ StoreError::Changed { .. })) => Err(changed),
        _ => Err(refused),
    }
}

impl Remote {
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
        parts.collect::<Option<_>>().ok_or_else(|| self.link.unavailable("a page is missing".to_owned()))
    }

    /// A range by one request, unless all of it is in the cache.
    pub(crate) async fn read_once(&self, range: ByteRange, meter: &Meter) -> Result<Bytes, StoreError> {
        let range = range.clamp_to(self.meta.size);
        let (pages, missing) = self.cache.split(pages::of(&[range]));
        if missing.is_empty()
            && let Some(bytes) = pages::assemble(range, &pages)
        {
            return Ok(bytes);
        }
        let start = Instant::now();
        let bytes = self.request(range, meter).await?;
        meter.waited(start);
        match bytes.len() as u64 == range.length {
            true => Ok(bytes),
            false => Err(self.link.unavailable(format!("{} bytes came, expected {range}", bytes.len()))),
        }
    }

    /// Fetches pages, neighbours together.
    async fn fetch(&self, missing: &[u64], meter: &Meter) -> Result<Vec<(ByteRange, Bytes)>, StoreError> {
        let wanted: Vec<_> = missing.iter().map(|page| pages::range(*page, self.meta.size)).collect();
        let runs = plan::merge(&wanted, GAP, LONGEST).spans;
        let reads = runs.into_iter().map(|run| async move { Ok((run, self.request(run, meter).await?)) });
        stream::iter(reads).buffer_unordered(self.concurrency).try_collect().await
    }

    /// One request. It names the etag, and the answer is held against what was found on opening, since not every
    /// server heeds it. A range that can no longer be had means that the file became shorter.
    async fn request(&self, range: ByteRange, meter: &Meter) -> Result<Bytes, StoreError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.start..range.end())),
            if_match: self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
            ..GetOptions::default()
        };
        let answer = self.link.get(options, meter, |meta| self.unchanged(meta)).await;
        let (_, bytes) = answer.map_err(|failure| match failure {
            Failure::PastEnd(_) => self.link.changed("it became shorter"),
            other => other.described(&self.link),
        })?;
        tracing::trace!("{}: {range}", self.link.name);
        Ok(bytes)
    }

    /// Puts the pages of a run into the cache, and returns them.
    fn keep(&self, run: ByteRange, bytes: &Bytes) -> Result<Vec<(u64, Bytes)>, StoreError> {
        if run.length != bytes.len() as u64 {
            return Err(self.link.unavailable(format!("{} bytes came, expected {run}", bytes.len())));
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
        Err(self.link.changed(reason))
    }
}
