use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectMeta};
use virtualize_bytes::ByteRange;

use crate::{
    Listed, StoreError, StoreOptions,
    connect::in_region,
    link::{Failure, Link},
    list::opaque_tag,
    location::Location,
    meter::Meter,
    pages::{self, Cache, PAGE, Pages},
    pages::{Fetched, Wave, Waves},
    web,
};

/// Bytes fetched when a file is opened, so that a small file needs no second request.
const FIRST: u64 = 16 * PAGE;

/// Size in bytes up to which a file is fetched whole once its first bytes do not suffice: this takes less time than the
/// round trips of reading it piecewise.
const SMALL: u64 = 4 << 20;
/// Number of unneeded bytes that may be read besides as many as are wanted, if the cache is at least eight times as large.
const SPARE: u64 = 4 << 20;

/// Maximum gap in bytes across which reads are merged: about what all connections together transfer while a request waits.
const GAP: u64 = 32 << 10;
/// Smallest part in bytes into which a long span is divided, so that several connections read it.
const PART: u64 = 512 << 10;

/// Number of requests for a file on a web server after a response with another entity tag.
const MIRRORS: usize = 16;

/// An object on a remote server.
#[derive(Debug)]
pub(crate) struct Remote {
    link: Link,
    /// Size, entity tag and modification time when the object was opened.
    meta: ObjectMeta,
    /// Whether the entity tag identifies the version.
    is_tagged: AtomicBool,
    cache: Cache,
    concurrency: usize,
    meter: Arc<Meter>,
    waves: Waves,
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
    let length = listed.size.filter(|size| *size <= options.small_file).map_or(FIRST, |size| size.max(1));
    let (range, name) = (ByteRange::new(0, length), &location.name());
    let check = |meta: &ObjectMeta, with_tag: bool| {
        let etag = listed.etag.clone().filter(|_| with_tag);
        Listed { etag, ..listed.clone() }.compare(name, &Listed::of_object("", meta))
    };
    let found = in_region(location, options, || async move {
        let link = Link::new(location, options)?;
        let answer = versioned(&link, range, listed.demanded(), meter, check).await?;
        Ok((link, answer))
    });
    let opened = match found.await {
        Ok((link, (mut meta, bytes, is_tagged))) => {
            check_content(&link, &bytes)?;
            let length = bytes.len() as u64;
            if !is_tagged {
                meta.e_tag = listed.etag.clone();
            }
            let remote = Remote {
                link,
                meta,
                is_tagged: AtomicBool::new(is_tagged),
                cache: Cache::new(options.cache_bytes),
                concurrency: options.concurrency.max(1),
                meter: Arc::clone(meter),
                waves: Waves::default(),
            };
            remote.keep(ByteRange::new(0, length), &bytes, |_| true)?;
            Opened::Ranges(Arc::new(remote))
        }
        Err(Failure::NoRanges) => {
            whole(&Link::new(location, options)?, listed, options.whole_limit, meter).await?
        }
        Err(Failure::PastEnd(refused)) => {
            empty(&Link::new(location, options)?, listed, refused, meter).await?
        }
        Err(Failure::Other(error)) => return Err(error),
    };
    meter.waited(start);
    Ok(opened)
}

/// Refuses a web page that was sent instead of a file, with a status of success.
fn check_content(link: &Link, bytes: &[u8]) -> Result<(), StoreError> {
    let is_page = link.is_web() && web::is_html(bytes);
    if is_page { Err(StoreError::Page { name: link.name.clone() }) } else { Ok(()) }
}

/// Requests a range of a version of a file: `check` compares a response with it, with or without the entity tag. Also
/// returns whether the tag was compared.
///
/// The mirrors of a web server, and proxies in front of them, may send tags of their own. If a tag differs, the request is
/// repeated until a response has the expected tag. If no tag occurs twice, the tags say nothing about the file, and its size
/// and modification time are compared alone.
async fn versioned(
    link: &Link,
    range: ByteRange,
    tag: Option<String>,
    meter: &Meter,
    check: impl Fn(&ObjectMeta, bool) -> Result<(), StoreError>,
) -> Result<(ObjectMeta, Bytes, bool), Failure> {
    let plain =
        GetOptions { range: Some(GetRange::Bounded(range.start..range.end())), ..GetOptions::default() };
    let conditional = GetOptions { if_match: tag, ..plain.clone() };
    let changed = match link.get(conditional, meter, |meta| check(meta, true)).await {
        Err(Failure::Other(changed @ StoreError::Changed { .. })) if link.is_web() => changed,
        other => return other.map(|(meta, bytes)| (meta, bytes, true)),
    };
    let others = Mutex::new(BTreeSet::new());
    for _ in 0..MIRRORS {
        let counted = |meta: &ObjectMeta| {
            let differs = check(meta, true);
            if let (Err(_), Some(tag)) = (&differs, &meta.e_tag) {
                others.lock().unwrap_or_else(PoisonError::into_inner).insert(tag.clone());
            }
            differs
        };
        match link.get(plain.clone(), meter, counted).await {
            Err(Failure::Other(StoreError::Changed { .. })) => {}
            other => return other.map(|(meta, bytes)| (meta, bytes, true)),
        }
    }
    let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
    if others.len() < MIRRORS {
        return Err(Failure::Other(changed));
    }
    let dated = |meta: &ObjectMeta| {
        if meta.last_modified.timestamp() > 0 { check(meta, false) } else { Err(changed.clone()) }
    };
    link.get(plain, meter, dated).await.map(|(meta, bytes)| (meta, bytes, false))
}

/// Downloads a file whole.
async fn whole(link: &Link, listed: &Listed, limit: u64, meter: &Meter) -> Result<Opened, StoreError> {
    let accept = |meta: &ObjectMeta| {
        listed.compare(&link.name, &Listed::of_object("", meta))?;
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
    check_content(link, &bytes)?;
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
    let check = |meta: &ObjectMeta| listed.compare(&link.name, &Listed::of_object("", meta));
    match link.get(head, meter, check).await {
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

    /// Announces ranges that will almost certainly be read (`is_certain`) or may be read: as many as fill half of the cache.
    pub(crate) fn announce(&self, ranges: &[ByteRange], is_certain: bool) {
        let clamped = ranges.iter().map(|range| range.clamp_to(self.meta.size));
        self.waves.announce(clamped, is_certain, self.cache.limit() / 2);
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
            let file = Arc::clone(self);
            let fetch = async move { file.fetch(file.waves.take().await).await };
            let fetched = self.waves.join(missing.clone(), || fetch).await?;
            pages.extend(missing.into_iter().filter_map(|page| Some((page, fetched.get(&page)?.clone()))));
            self.meter.waited(start);
        }
        let parts = clamped.iter().map(|range| pages::assemble(*range, &pages));
        parts.collect::<Option<_>>().ok_or_else(|| self.link.unavailable("a page is missing".to_owned()))
    }

    /// Sends the requests of a wave.
    async fn fetch(&self, wave: Wave) -> Fetched {
        self.meter.level();
        let wanted = wave.wanted.clone();
        let spans = self.spans(wave);
        let reads = spans.into_iter().map(|span| async move { Ok((span, self.request(span).await?)) });
        let mut responses = stream::iter(reads).buffer_unordered(self.concurrency);
        let mut fetched = Pages::with_capacity(wanted.len());
        while let Some((span, bytes)) = responses.try_next().await? {
            fetched.extend(self.keep(span, &bytes, |page| wanted.contains(&page))?);
        }
        Ok(Arc::new(fetched))
    }

    /// Returns the spans to request.
    fn spans(&self, wave: Wave) -> Vec<ByteRange> {
        let size = self.meta.size;
        let Wave { mut wanted, mut expected, mut possible } = wave;
        if size <= SMALL && self.cache.holds(size) {
            expected = pages::of(&[ByteRange::new(0, size)]);
        }
        self.cache.retain_missing(&mut expected);
        wanted.extend(expected);
        let mut allowance = self.allowance(bytes_of(&wanted));
        self.cache.retain_missing(&mut possible);
        possible.retain(|page| !wanted.contains(page));
        if bytes_of(&possible) <= allowance {
            allowance -= bytes_of(&possible);
            wanted.extend(possible);
        }
        let ranges: Vec<_> = wanted.into_iter().map(|page| pages::range(page, size)).collect();
        let length = |ranges: &[ByteRange]| ranges.iter().map(|range| range.length).sum::<u64>();
        let mut spans = pages::merge(&ranges, GAP, u64::MAX).spans;
        if length(&spans) - length(&ranges) > allowance {
            spans = pages::merge(&ranges, 0, u64::MAX).spans;
        }
        let part = (length(&spans) / (self.link.free_slots() as u64).max(1)).max(PART);
        spans.into_iter().flat_map(|span| pages::divide(span, part, PAGE)).collect()
    }

    /// Returns how many unneeded bytes may be read if this many are wanted now.
    fn allowance(&self, wanted_now: u64) -> u64 {
        let (wanted, wasted) = self.cache.wanted_and_wasted();
        let spare = SPARE.min(self.cache.limit() as u64 * PAGE / 8);
        wanted.saturating_add(wanted_now).saturating_add(spare).saturating_sub(wasted)
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
        self.check_length(range, &bytes)?;
        Ok(bytes)
    }

    /// Requests a range on condition of the entity tag. Also compares the response with the opened version, since not
    /// every server honours the condition. A range past the end means that the file became shorter.
    async fn request(&self, range: ByteRange) -> Result<Bytes, StoreError> {
        let is_tagged = self.is_tagged.load(Ordering::Relaxed);
        let tag = self.meta.e_tag.clone().filter(|tag| is_tagged && !tag.starts_with("W/"));
        let check = |meta: &ObjectMeta, with_tag| self.unchanged(meta, with_tag && is_tagged);
        let answer = versioned(&self.link, range, tag, &self.meter, check).await;
        let (_, bytes, with_tag) = answer.map_err(|failure| match failure {
            Failure::PastEnd(_) => self.link.changed("it became shorter"),
            other => other.described(&self.link),
        })?;
        if !with_tag {
            self.is_tagged.store(false, Ordering::Relaxed);
        }
        tracing::trace!("{}: {range}", self.link.name);
        Ok(bytes)
    }

    fn check_length(&self, range: ByteRange, bytes: &Bytes) -> Result<(), StoreError> {
        if range.length == bytes.len() as u64 {
            return Ok(());
        }
        Err(self.link.unavailable(format!("{} bytes came, expected {range}", bytes.len())))
    }

    /// Caches the pages of a span, and returns those that are wanted.
    fn keep(
        &self,
        span: ByteRange,
        bytes: &Bytes,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<(u64, Bytes)>, StoreError> {
        self.check_length(span, bytes)?;
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
    fn unchanged(&self, now: &ObjectMeta, with_tag: bool) -> Result<(), StoreError> {
        let was = &self.meta;
        let [tag, tag_was] = [now, was].map(|meta| meta.e_tag.as_deref().map(opaque_tag));
        let reason = if with_tag && tag != tag_was {
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

fn bytes_of(pages: &BTreeSet<u64>) -> u64 {
    pages.len() as u64 * PAGE
}
