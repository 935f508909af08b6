use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use virtualize_bytes::ByteRange;

use crate::local::slice;

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
mod model;
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
}
