//! Fetches the pages of a remote file in waves. Reads that start at the same time, such as those of several structures
//! of one level, share a wave, so that their requests merge.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, Shared, WeakShared},
    stream,
};
use virtualize_bytes::ByteRange;

use crate::{
    Minimize, StoreError,
    object::pause,
    pages::{self, PAGE, Pages},
    remote::Remote,
    spans::Means,
};

/// Size in bytes up to which a file is fetched whole once its first bytes do not suffice: this takes less time than the
/// round trips of reading it piecewise.
const SMALL: u64 = 4 << 20;
/// Bytes that may be read without need, besides as many as are wanted, if the cache is at least eight times as large.
const SPARE: u64 = 4 << 20;

/// The pages of a wave that were wanted.
type Fetched = Result<Arc<Pages>, StoreError>;

/// A wave, which all of its callers drive. It is cancelled when the last of them is.
type Fetch = Shared<BoxFuture<'static, Fetched>>;

/// The next wave of requests of a file.
#[derive(Default)]
pub(crate) struct Waves(Mutex<Next>);

#[derive(Default)]
struct Next {
    /// Pages that callers wait for.
    wanted: BTreeSet<u64>,
    /// Pages that will be, and that may be read soon.
    expected: BTreeSet<u64>,
    possible: BTreeSet<u64>,
    fetch: Option<WeakShared<BoxFuture<'static, Fetched>>>,
}

impl fmt::Debug for Waves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waves")
    }
}

impl Waves {
    fn next(&self) -> MutexGuard<'_, Next> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remote {
    /// Announces ranges that will almost certainly be read.
    pub(crate) fn will_read(&self, ranges: &[ByteRange]) {
        self.add(&mut self.waves.next().expected, ranges);
    }

    /// Suggests ranges that may be read.
    pub(crate) fn may_read(&self, ranges: &[ByteRange]) {
        self.add(&mut self.waves.next().possible, ranges);
    }

    /// Adds the pages of ranges, until they fill half of the cache.
    fn add(&self, pages: &mut BTreeSet<u64>, ranges: &[ByteRange]) {
        let clamped = ranges.iter().map(|range| range.clamp_to(self.meta().size));
        for page in clamped.flat_map(pages::of_range) {
            if pages.len() >= self.cache.limit() / 2 {
                return;
            }
            pages.insert(page);
        }
    }

    /// Fetches pages in the next wave.
    pub(crate) fn fetch(self: &Arc<Self>, missing: BTreeSet<u64>) -> Fetch {
        let mut next = self.waves.next();
        if let Some(fetch) = next.fetch.as_ref().and_then(WeakShared::upgrade) {
            next.wanted.extend(missing);
            return fetch;
        }
        let file = Arc::clone(self);
        let wave = async move {
            pause().await;
            let next = std::mem::take(&mut *file.waves.next());
            file.fetch_wave(next).await
        };
        let fetch = wave.boxed().shared();
        next.wanted = missing;
        next.fetch = fetch.downgrade();
        fetch
    }

    /// Sends the requests of a wave.
    async fn fetch_wave(&self, next: Next) -> Fetched {
        self.meter.level();
        let start = Instant::now();
        let wanted = next.wanted.clone();
        let spans = self.spans(next);
        let bytes = spans.iter().map(|span| span.length).sum();
        let reads = spans.into_iter().map(|span| async move { Ok((span, self.request(span).await?)) });
        let mut responses = stream::iter(reads).buffer_unordered(self.concurrency);
        let mut fetched = Pages::with_capacity(wanted.len());
        while let Some((span, bytes)) = responses.try_next().await? {
            fetched.extend(self.keep(span, &bytes, |page| wanted.contains(&page))?);
        }
        self.link.network().wave(bytes, start.elapsed());
        Ok(Arc::new(fetched))
    }

    /// Returns the spans to request.
    fn spans(&self, next: Next) -> Vec<ByteRange> {
        let size = self.meta().size;
        let Next { mut wanted, mut expected, mut possible, .. } = next;
        if self.minimize == Minimize::Bytes {
            (expected, possible) = Default::default();
        } else if size <= SMALL && self.cache.holds(size) {
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
        let means = Means {
            estimate: self.link.network().estimate(),
            minimize: self.minimize,
            connections: self.concurrency as u64,
            free: self.link.free_slots() as u64,
            allowance,
        };
        means.spans(wanted.into_iter().map(|page| pages::range(page, size)))
    }

    /// Returns how many bytes may be read without need, if this many are wanted now.
    fn allowance(&self, wanted_now: u64) -> u64 {
        let (wanted, wasted) = self.cache.wanted_and_wasted();
        let wanted = wanted.saturating_add(wanted_now);
        let spare = SPARE.min(self.cache.limit() as u64 * PAGE / 8);
        let all = match self.minimize {
            Minimize::Time => wanted.saturating_add(spare),
            Minimize::Requests => wanted.saturating_mul(16).saturating_add(16 * spare),
            Minimize::Bytes => 0,
        };
        all.saturating_sub(wasted)
    }
}

fn bytes_of(pages: &BTreeSet<u64>) -> u64 {
    pages.len() as u64 * PAGE
}
