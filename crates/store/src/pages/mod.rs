//! Pages of remote files: their cache, how ranges are merged and divided, and waves of concurrent reads.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use virtualize_bytes::ByteRange;

use crate::StoreError;

/// Page size in bytes. Only the last page of a file may be shorter.
pub(crate) const PAGE: u64 = 8 << 10;

/// Pages by number.
pub(crate) type Pages = HashMap<u64, Bytes>;

/// Cache of pages; evicts the oldest first.
#[derive(Debug)]
pub(crate) struct Cache {
    kept: Mutex<Kept>,
    /// Maximum number of pages.
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    pages: HashMap<u64, Page>,
    /// Numbers of the pages, oldest first.
    age: VecDeque<u64>,
    /// Bytes of pages that a caller wanted, and of all pages that were fetched.
    wanted: u64,
    fetched: u64,
}

#[derive(Debug)]
struct Page {
    bytes: Bytes,
    /// Whether a caller wanted it.
    is_wanted: bool,
}

impl Cache {
    /// Creates a cache that holds at most this many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { kept: Mutex::default(), limit: (bytes / PAGE).try_into().unwrap_or(usize::MAX) }
    }

    /// Returns whether a file of this size in bytes fits.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        usize::try_from(bytes.div_ceil(PAGE)).is_ok_and(|pages| pages <= self.limit)
    }

    /// Returns the number of pages that fit.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the wanted pages that are cached, and the numbers of the missing ones.
    pub(crate) fn split(&self, wanted: BTreeSet<u64>) -> (Pages, BTreeSet<u64>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        let mut here = Pages::with_capacity(wanted.len());
        let mut missing = BTreeSet::new();
        for number in wanted {
            let Some(page) = kept.pages.get_mut(&number) else {
                missing.insert(number);
                continue;
            };
            if !std::mem::replace(&mut page.is_wanted, true) {
                kept.wanted += page.bytes.len() as u64;
            }
            here.insert(number, page.bytes.clone());
        }
        (here, missing)
    }

    /// Drops all pages.
    pub(crate) fn clear(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }

    /// Removes the pages that are cached from a set.
    pub(crate) fn retain_missing(&self, pages: &mut BTreeSet<u64>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| !kept.pages.contains_key(page));
    }

    /// Returns the bytes of pages that a caller wanted so far, and of those that nobody wanted.
    pub(crate) fn wanted_and_wasted(&self) -> (u64, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.wanted, kept.fetched.saturating_sub(kept.wanted))
    }

    /// Inserts a page, and evicts the oldest pages beyond the limit.
    pub(crate) fn insert(&self, page: u64, bytes: Bytes, is_wanted: bool) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.fetched += bytes.len() as u64;
        kept.wanted += if is_wanted { bytes.len() as u64 } else { 0 };
        if kept.pages.insert(page, Page { bytes, is_wanted }).is_none() {
            kept.age.push_back(page);
        }
        while kept.age.len() > self.limit {
            if let Some(oldest) = kept.age.pop_front() {
                kept.pages.remove(&oldest);
            }
        }
    }
}

/// Returns `length` bytes of `bytes` from `start`; empty if the range is out of bounds.
pub(crate) fn slice(bytes: &Bytes, start: u64, length: u64) -> Bytes {
    let end = start.saturating_add(length);
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= bytes.len() => bytes.slice(start..end),
        _ => Bytes::new(),
    }
}

/// Returns the numbers of the pages that cover ranges within the file.
pub(crate) fn of(ranges: &[ByteRange]) -> BTreeSet<u64> {
    ranges.iter().copied().flat_map(of_range).collect()
}

/// Returns the numbers of the pages that cover a range within the file.
pub(crate) fn of_range(range: ByteRange) -> std::ops::Range<u64> {
    let end = if range.length > 0 { range.end().div_ceil(PAGE) } else { 0 };
    range.start / PAGE..end
}

/// Returns the byte range of a page in a file of `size` bytes.
pub(crate) fn range(page: u64, size: u64) -> ByteRange {
    ByteRange::new(page.saturating_mul(PAGE), PAGE).clamp_to(size)
}

/// Splits the bytes of a run of pages into single pages.
pub(crate) fn cut(run: ByteRange, bytes: &Bytes) -> impl Iterator<Item = (u64, Bytes)> {
    let pages = run.start / PAGE..run.end().div_ceil(PAGE);
    pages.map(move |page| {
        let start = page * PAGE - run.start;
        (page, slice(bytes, start, PAGE.min(run.length - start)))
    })
}

/// Assembles the bytes of a range from pages; `None` if a page is missing.
pub(crate) fn assemble(range: ByteRange, pages: &Pages) -> Option<Bytes> {
    if range.length == 0 {
        return Some(Bytes::new());
    }
    let (first, last) = (range.start / PAGE, (range.end() - 1) / PAGE);
    if first == last {
        return Some(slice(pages.get(&first)?, range.start % PAGE, range.length));
    }
    let mut whole = BytesMut::with_capacity(usize::try_from(range.length).ok()?);
    for page in first..=last {
        let bytes = pages.get(&page)?;
        let start = range.start.max(page * PAGE) - page * PAGE;
        let end = range.end().min((page + 1) * PAGE) - page * PAGE;
        whole.extend_from_slice(&slice(bytes, start, end - start));
    }
    Some(whole.freeze())
}

#[cfg(test)]
mod test_model;

/// Ranges merged into spans, each fetched with one read.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Spans to fetch, in ascending order of start.
    pub(crate) spans: Vec<ByteRange>,
    /// Index of the span that contains each requested range, in the order of the request.
    pub(crate) span_of: Vec<usize>,
}

/// Merges ranges separated by at most `gap` bytes into spans of at most `longest` bytes. A range longer than that stays
/// whole.
pub(crate) fn merge(ranges: &[ByteRange], gap: u64, longest: u64) -> Plan {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&at| ranges.get(at).map(|range| range.start));
    let mut plan = Plan { spans: Vec::new(), span_of: vec![0; ranges.len()] };
    for at in order {
        let Some(&range) = ranges.get(at) else { continue };
        match plan.spans.last_mut() {
            Some(span) if joins(*span, range, gap, longest) => {
                span.length = span.end().max(range.end()) - span.start;
            }
            _ => plan.spans.push(range),
        }
        if let Some(place) = plan.span_of.get_mut(at) {
            *place = plan.spans.len() - 1;
        }
    }
    plan
}

/// Returns whether a span may grow to contain a range that does not start before it.
fn joins(span: ByteRange, range: ByteRange, gap: u64, longest: u64) -> bool {
    let inside = range.end() <= span.end();
    let near = range.start <= span.end().saturating_add(gap);
    inside || (near && range.end() - span.start <= longest)
}

/// Divides a span into equal parts of at most `part` bytes, which start at multiples of `unit` from its start.
pub(crate) fn divide(span: ByteRange, part: u64, unit: u64) -> impl Iterator<Item = ByteRange> {
    let count = span.length.div_ceil(part.max(1)).max(1);
    let length = span.length.div_ceil(count).next_multiple_of(unit.max(1));
    let starts =
        (0..count).map(move |at| span.start + at * length).take_while(move |start| *start < span.end());
    starts.map(move |start| ByteRange::new(start, length.min(span.end() - start)))
}

/// The pages of a wave that were wanted.
pub(crate) type Fetched = Result<Arc<Pages>, StoreError>;

/// A wave in progress. Each of its callers polls it; it is cancelled when the last of them is.
pub(crate) type Fetch = Shared<BoxFuture<'static, Fetched>>;

/// Pages to fetch in one wave.
#[derive(Default)]
pub(crate) struct Wave {
    /// Those that callers wait for.
    pub(crate) wanted: BTreeSet<u64>,
    /// Those that will be read soon.
    pub(crate) expected: BTreeSet<u64>,
    /// Those that may be read soon.
    pub(crate) possible: BTreeSet<u64>,
}

/// The next wave of requests of a file.
#[derive(Default)]
pub(crate) struct Waves(Mutex<Next>);

#[derive(Default)]
struct Next {
    wave: Wave,
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

    /// Adds ranges within the file that will almost certainly be read (`is_certain`) or may be read, until there are this
    /// many pages of either kind.
    pub(crate) fn announce(&self, ranges: impl Iterator<Item = ByteRange>, is_certain: bool, most: usize) {
        let mut next = self.next();
        let Wave { expected, possible, .. } = &mut next.wave;
        let pages = if is_certain { expected } else { possible };
        for page in ranges.flat_map(of_range) {
            if pages.len() >= most {
                return;
            }
            pages.insert(page);
        }
    }

    /// Joins the next wave. The first caller makes it: `fetch` takes the pages of all callers with [`Waves::take`].
    pub(crate) fn join<F>(&self, wanted: BTreeSet<u64>, fetch: impl FnOnce() -> F) -> Fetch
    where
        F: Future<Output = Fetched> + Send + 'static,
    {
        let mut next = self.next();
        if let Some(fetch) = next.fetch.as_ref().and_then(WeakShared::upgrade) {
            next.wave.wanted.extend(wanted);
            return fetch;
        }
        let fetch = fetch().boxed().shared();
        next.wave.wanted = wanted;
        next.fetch = fetch.downgrade();
        fetch
    }

    /// Waits until all reads that start now have joined, and returns the pages of the wave. Later reads join another one.
    pub(crate) async fn take(&self) -> Wave {
        pause().await;
        std::mem::take(&mut *self.next()).wave
    }
}

/// Yields once, so that a task that reads local files, which never waits otherwise, can be cancelled, and so that
/// concurrent reads of a remote file join.
pub(crate) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Bytes {
        (0..PAGE * 3 + 5).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn ranges_come_out_of_their_pages() {
        let file = file();
        let run = ByteRange::new(0, file.len() as u64);
        let pages: Pages = cut(run, &file).collect();
        assert_eq!(pages.len(), 4);
        for (start, length) in [(0, 1), (PAGE - 1, 2), (5, PAGE * 3), (PAGE * 3, 5), (PAGE, PAGE), (7, 0)] {
            let part = assemble(ByteRange::new(start, length), &pages).unwrap();
            assert_eq!(part, slice(&file, start, length), "{length} bytes at {start}");
        }
    }

    #[test]
    fn a_missing_page_is_noticed() {
        assert_eq!(assemble(ByteRange::new(0, 1), &Pages::new()), None);
    }

    #[test]
    fn the_oldest_page_goes_first() {
        let cache = Cache::new(2 * PAGE);
        for page in [7, 3, 5] {
            cache.insert(page, Bytes::from_static(b"x"), true);
        }
        let (here, missing) = cache.split(BTreeSet::from([3, 5, 7]));
        assert_eq!((here.len(), missing), (2, BTreeSet::from([7])));
    }

    #[test]
    fn pages_are_wasted_until_they_are_wanted() {
        let cache = Cache::new(8 * PAGE);
        for (page, is_wanted) in [(1, true), (2, false), (3, false)] {
            cache.insert(page, Bytes::from_static(b"xy"), is_wanted);
        }
        assert_eq!(cache.wanted_and_wasted(), (2, 4));
        for _ in 0..2 {
            cache.split(BTreeSet::from([1, 3]));
            assert_eq!(cache.wanted_and_wasted(), (4, 2));
        }
    }

    fn plan(ranges: &[(u64, u64)], gap: u64, longest: u64) -> (Vec<(u64, u64)>, Vec<usize>) {
        let ranges: Vec<_> = ranges.iter().map(|&(start, length)| ByteRange::new(start, length)).collect();
        let Plan { spans, span_of } = merge(&ranges, gap, longest);
        (spans.into_iter().map(|span| (span.start, span.length)).collect(), span_of)
    }

    #[test]
    fn neighbours_merge_whatever_their_order() {
        assert_eq!(plan(&[(100, 10), (0, 10), (14, 6)], 4, 1000), (vec![(0, 20), (100, 10)], vec![1, 0, 0]));
    }

    #[test]
    fn a_gap_too_wide_or_a_span_too_long_keeps_them_apart() {
        assert_eq!(plan(&[(0, 10), (15, 5)], 4, 1000).0, [(0, 10), (15, 5)]);
        assert_eq!(plan(&[(0, 10), (10, 10)], 4, 15).0, [(0, 10), (10, 10)]);
    }

    #[test]
    fn overlap_and_containment() {
        assert_eq!(plan(&[(0, 100), (20, 10), (90, 20)], 0, 1000), (vec![(0, 110)], vec![0, 0, 0]));
        assert_eq!(plan(&[(0, 100), (20, 10)], 0, 50), (vec![(0, 100)], vec![0, 0]), "inside costs nothing");
        assert_eq!(plan(&[], 0, 1), (vec![], vec![]));
    }

    #[test]
    fn long_spans_are_divided_into_equal_parts() {
        let parts = |length, part| divide(ByteRange::new(8, length), part, 4).collect::<Vec<_>>();
        assert_eq!(parts(10, 100), [ByteRange::new(8, 10)]);
        assert_eq!(parts(22, 10), [ByteRange::new(8, 8), ByteRange::new(16, 8), ByteRange::new(24, 6)]);
    }
}
