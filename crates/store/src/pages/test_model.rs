//! Random reads through a cache of pages, against the file (`PROPTEST_CASES=10000`):
//!
//! - each read has the bytes of the file, or names the pages to fetch
//! - the cache holds the last pages that were inserted first, at most as many as fit
//! - as many bytes are wanted or wasted as were fetched

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Reads ranges, and inserts the missing pages.
    Read(Vec<(u64, u64)>),
    /// Inserts pages that nobody has wanted yet, such as those of a gap.
    Prefetch(u64, u64),
    Clear,
}

fn steps() -> impl Strategy<Value = (u64, u64, Vec<Step>)> {
    (1_u64..12 * PAGE, 0_u64..8).prop_flat_map(|(size, limit)| {
        let range = (0..size, 0..3 * PAGE);
        let step = prop_oneof![
            8 => vec(range, 1..4).prop_map(Step::Read),
            3 => (0..size / PAGE + 1, 0_u64..4).prop_map(|(first, count)| Step::Prefetch(first, count)),
            1 => Just(Step::Clear),
        ];
        (Just(size), Just(limit), vec(step, 1..30))
    })
}

fn byte(at: u64) -> u8 {
    u8::try_from((at * 31 + at / PAGE) % 251).unwrap()
}

fn bytes(range: ByteRange) -> Bytes {
    (range.start..range.end()).map(byte).collect()
}

/// Inserts a page into the cache of the model.
fn hold(held: &mut Vec<u64>, page: u64, limit: u64) {
    if !held.contains(&page) {
        held.push(page);
    }
    if held.len() as u64 > limit {
        held.remove(0);
    }
}

proptest! {
    #[test]
    fn reads_have_the_bytes_of_the_file((size, limit, steps) in steps()) {
        let cache = Cache::new(limit * PAGE);
        // Pages that the cache holds, oldest first, and all bytes that were fetched.
        let (mut held, mut fetched) = (Vec::<u64>::new(), 0);
        for step in steps {
            match step {
                Step::Read(ranges) => {
                    let ranges: Vec<_> =
                        ranges.into_iter().map(|(start, length)| ByteRange::new(start, length).clamp_to(size)).collect();
                    let wanted = of(&ranges);
                    let (mut pages, missing) = cache.split(wanted.clone());
                    let expected: BTreeSet<_> = wanted.iter().copied().filter(|page| !held.contains(page)).collect();
                    prop_assert_eq!(&missing, &expected);
                    for page in missing {
                        let content = bytes(range(page, size));
                        fetched += content.len() as u64;
                        cache.insert(page, content.clone(), true);
                        pages.insert(page, content);
                        hold(&mut held, page, limit);
                    }
                    for range in ranges {
                        prop_assert_eq!(assemble(range, &pages), Some(bytes(range)));
                    }
                }
                Step::Prefetch(first, count) => {
                    let end = (first + count).min(size.div_ceil(PAGE));
                    let run = ByteRange::new(first * PAGE, (end.saturating_sub(first)) * PAGE).clamp_to(size);
                    for (page, content) in cut(run, &bytes(run)) {
                        fetched += content.len() as u64;
                        cache.insert(page, content, false);
                        hold(&mut held, page, limit);
                    }
                }
                Step::Clear => {
                    cache.clear();
                    (held, fetched) = (Vec::new(), 0);
                }
            }
            let mut all: BTreeSet<_> = (0..size.div_ceil(PAGE)).collect();
            cache.retain_missing(&mut all);
            prop_assert!(held.iter().all(|page| !all.contains(page)));
            prop_assert_eq!(all.len() as u64 + held.len() as u64, size.div_ceil(PAGE));
            let (wanted, wasted) = cache.wanted_and_wasted();
            prop_assert_eq!(wanted + wasted, fetched);
        }
    }
}
