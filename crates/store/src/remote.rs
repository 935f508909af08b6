use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectMeta};
use virtualize_bytes::ByteRange;

use crate::{
    Listed, Minimize, StoreError, StoreOptions,
    link::{Failure, Link},
    location::Location,
    meter::Meter,
    pages::{self, Cache, PAGE},
    region,
    waves::Waves,
};

/// Bytes fetched when a file is opened, so that a small file needs no second request.
const FIRST: u64 = 16 * PAGE;

/// An object on a remote server.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) link: Link,
    /// Size, entity tag and modification time when the object was opened.
    meta: ObjectMeta,
    pub(crate) cache: Cache,
    pub(crate) concurrency: usize,
    pub(crate) minimize: Minimize,
    pub(crate) meter: Arc<Meter>,
    pub(crate) waves: Waves,
}

/// Result of opening: an object to read by ranges, or its whole content.
#[derive(Debug)]
pub(crate) enum Opened {
    /// The first bytes are in the cache.
    Ranges(Arc<Remote>),
    /// The server does not support range requests, or the object is empty.
    Whole(Bytes, ObjectMeta),
}

/// Opens an object with one request for its first bytes, or for all bytes of a small file whose size is listed. Fails
/// if the object differs from its listing.
pub(crate) async fn open(
    location: &Location,
    listed: &Listed,
    options: &StoreOptions,
    meter: &Arc<Meter>,
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
            let remote = Remote {
                link,
                meta,
                cache: Cache::new(options.cache_bytes),
                concurrency: options.concurrency.max(1),
                minimize: options.minimize,
                meter: Arc::clone(meter),
                waves: Waves::default(),
            };
            remote.keep(ByteRange::new(0, length), &bytes, |_| true)?;
            Opened::Ranges(Arc::new(remote))
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

/// Opens an empty object, which has no ranges to fetch: requests its size instead.
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

    /// Drops all cached pages.
    pub(crate) fn drop_cached(&self) {
        self.cache.clear();
    }

    /// Reads ranges through the cache, and fetches missing pages together with those of concurrent calls.
    pub(crate) async fn read_ranges(
        self: &Arc<Self>,
        ranges: &[ByteRange],
    ) -> Result<Vec<Bytes>, StoreError> {
        let clamped: Vec<_> = ranges.iter().map(|range| range.clamp_to(self.meta.size)).collect();
        let (mut pages, missing) = self.cache.split(pages::of(&clamped));
        if !missing.is_empty() {
            let start = Instant::now();
            let fetched = self.fetch(missing.clone()).await?;
            pages.extend(missing.into_iter().filter_map(|page| Some((page, fetched.get(&page)?.clone()))));
            self.meter.waited(start);
        }
        let parts = clamped.iter().map(|range| pages::assemble(*range, &pages));
        parts.collect::<Option<_>>().ok_or_else(|| self.link.unavailable("a page is missing".to_owned()))
    }

    /// Reads a range with one request, unless all of it is cached.
    pub(crate) async fn read_once(&self, range: ByteRange) -> Result<Bytes, StoreError> {
        let range = range.clamp_to(self.meta.size);
        let (pages, missing) = self.cache.split(pages::of(&[range]));
        if missing.is_empty()
            && let Some(bytes) = pages::assemble(range, &pages)
        {
            return Ok(bytes);
        }
        let start = Instant::now();
        let bytes = self.request(range).await?;
        self.meter.waited(start);
        match bytes.len() as u64 == range.length {
            true => Ok(bytes),
            false => Err(self.link.unavailable(format!("{} bytes came, expected {range}", bytes.len()))),
        }
    }

    /// Requests a range on condition of the entity tag. Also compares the response with the opened version, since not
    /// every server honours the condition. A range past the end means that the file became shorter.
    pub(crate) async fn request(&self, range: ByteRange) -> Result<Bytes, StoreError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.start..range.end())),
            if_match: self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
            ..GetOptions::default()
        };
        let answer = self.link.get(options, &self.meter, |meta| self.unchanged(meta)).await;
        let (_, bytes) = answer.map_err(|failure| match failure {
            Failure::PastEnd(_) => self.link.changed("it became shorter"),
            other => other.described(&self.link),
        })?;
        tracing::trace!("{}: {range}", self.link.name);
        Ok(bytes)
    }

    /// Caches the pages of a span, and returns those that are wanted.
    pub(crate) fn keep(
        &self,
        span: ByteRange,
        bytes: &Bytes,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<(u64, Bytes)>, StoreError> {
        if span.length != bytes.len() as u64 {
            return Err(self.link.unavailable(format!("{} bytes came, expected {span}", bytes.len())));
        }
        let mut wanted = Vec::new();
        for (page, bytes) in pages::cut(span, bytes) {
            self.cache.insert(page, bytes.clone(), is_wanted(page));
            if is_wanted(page) {
                wanted.push((page, bytes));
            }
        }
        Ok(wanted)
    }

    /// Checks that a response belongs to the version that was opened.
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
