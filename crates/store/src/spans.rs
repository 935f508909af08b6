//! Decides which spans of a remote file to request for a set of pages: the cost model.
//!
//! With `n` requests of `b` bytes altogether over `c` connections, a level takes about `⌈n / c⌉ · latency + b / line`.
//! Closing a gap of `g` bytes between two requests saves `latency / c` if there are more requests than connections,
//! nothing otherwise, and costs `g / line`.

use std::collections::BTreeSet;

use virtualize_bytes::ByteRange;

use crate::{Minimize, network::Estimate};

/// Smallest part in bytes into which a long span is divided.
const PART: u64 = 512 << 10;
/// Size in bytes of a part if requests are to be few.
const LONG_PART: u64 = 16 << 20;

/// What one wave of requests may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) estimate: Estimate,
    pub(crate) minimize: Minimize,
    /// Maximum concurrent requests.
    pub(crate) connections: u64,
    /// Connections that are free now.
    pub(crate) free: u64,
    /// Bytes that may be read without being wanted.
    pub(crate) allowance: u64,
}

impl Means {
    /// Returns the spans to request for ascending, disjoint ranges.
    pub(crate) fn spans(self, wanted: impl IntoIterator<Item = ByteRange>) -> Vec<ByteRange> {
        let runs = adjacent(wanted);
        let merged = self.close_gaps(&runs);
        let bytes: u64 = merged.iter().map(|span| span.length).sum();
        let part = self.part(bytes);
        merged.into_iter().flat_map(|span| divide(span, part)).collect()
    }

    /// Returns the width in bytes up to which a gap is closed in any case, and the width up to which it is closed while
    /// there are more requests than free connections.
    fn widths(self) -> (u64, u64) {
        let worth = self.estimate.bytes_per_line() / self.connections.max(1);
        match self.minimize {
            Minimize::Time => (worth / 2, worth),
            Minimize::Requests => (self.estimate.bytes_per_line(), self.estimate.bytes_per_line()),
            Minimize::Bytes => (0, 0),
        }
    }

    /// Closes the narrowest gaps first.
    fn close_gaps(self, runs: &[ByteRange]) -> Vec<ByteRange> {
        let (narrow, wide) = self.widths();
        let mut gaps: Vec<_> = runs.windows(2).filter_map(gap).filter(|(width, _)| *width <= wide).collect();
        gaps.sort_unstable();
        let (mut left, mut spans) = (self.allowance, runs.len() as u64);
        let mut closed = BTreeSet::new();
        for (width, end) in gaps {
            if width > left || width > narrow && spans <= self.free {
                break;
            }
            left -= width;
            spans -= 1;
            closed.insert(end);
        }
        join(runs, |end| closed.contains(&end))
    }

    /// Returns the length into which long spans are divided: short enough to use all free connections, and long enough
    /// that a request's latency matters little.
    fn part(self, bytes: u64) -> u64 {
        let share = bytes / self.free.max(1);
        match self.minimize {
            Minimize::Requests => share.max(LONG_PART),
            Minimize::Time | Minimize::Bytes => share.max(self.estimate.bytes_per_connection() / 4).max(PART),
        }
    }
}

/// Returns the width of the gap between two ranges, and where it starts.
fn gap(pair: &[ByteRange]) -> Option<(u64, u64)> {
    let [first, second] = pair else { return None };
    Some((second.start.saturating_sub(first.end()), first.end()))
}

/// Merges ranges without gaps.
fn adjacent(wanted: impl IntoIterator<Item = ByteRange>) -> Vec<ByteRange> {
    let wanted: Vec<_> = wanted.into_iter().collect();
    join(&wanted, |_| false)
}

/// Merges ranges without gaps, and those with a gap that is closed, by where the gap starts.
fn join(runs: &[ByteRange], is_closed: impl Fn(u64) -> bool) -> Vec<ByteRange> {
    let mut spans: Vec<ByteRange> = Vec::new();
    for run in runs {
        match spans.last_mut() {
            Some(span) if run.start <= span.end() || is_closed(span.end()) => {
                span.length = span.end().max(run.end()) - span.start;
            }
            _ => spans.push(*run),
        }
    }
    spans
}

/// Divides a span into equal parts of at most `part` bytes.
fn divide(span: ByteRange, part: u64) -> impl Iterator<Item = ByteRange> {
    let count = span.length.div_ceil(part.max(1)).max(1);
    let length = span.length.div_ceil(count).next_multiple_of(crate::pages::PAGE);
    let starts =
        (0..count).map(move |at| span.start + at * length).take_while(move |start| *start < span.end());
    starts.map(move |start| ByteRange::new(start, length.min(span.end() - start)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pages::PAGE;

    /// A line on which 64 KiB take as long as a request that has one of 16 connections.
    fn means(minimize: Minimize, free: u64) -> Means {
        let estimate =
            Estimate { latency: Duration::from_millis(10), connection: 100 << 20, line: 100 << 20 };
        Means { estimate, minimize, connections: 16, free, allowance: 1 << 20 }
    }

    /// `count` pages, `distance` pages apart.
    fn pages(count: u64, distance: u64) -> Vec<ByteRange> {
        (0..count).map(|page| ByteRange::new(page * distance * PAGE, PAGE)).collect()
    }

    #[test]
    fn gaps_are_closed_only_while_connections_lack() {
        assert_eq!(means(Minimize::Time, 16).spans(pages(10, 6)).len(), 10);
        let spans = means(Minimize::Time, 16).spans(pages(40, 6)).len();
        assert!((16..24).contains(&spans), "{spans} requests; a long span is divided again");
        assert_eq!(means(Minimize::Time, 16).spans(pages(40, 20)).len(), 40, "the gaps are too wide");
        assert_eq!(means(Minimize::Time, 16).spans(pages(10, 2)).len(), 1, "narrow ones are closed anyway");
    }

    #[test]
    fn few_requests_and_few_bytes() {
        assert_eq!(means(Minimize::Requests, 16).spans(pages(7, 20)).len(), 1);
        assert_eq!(means(Minimize::Bytes, 1).spans(pages(10, 2)).len(), 10);
        assert_eq!(means(Minimize::Bytes, 1).spans(pages(10, 1)).len(), 1);
    }

    #[test]
    fn long_spans_use_all_connections() {
        let span = ByteRange::new(8 * PAGE, 64 << 20);
        assert_eq!(means(Minimize::Time, 16).spans([span]).len(), 16);
        assert_eq!(means(Minimize::Requests, 16).spans([span]).len(), 4);
        assert_eq!(means(Minimize::Time, 16).spans([ByteRange::new(0, 200 << 10)]).len(), 1);
    }

    /// Whatever the means, all wanted bytes are requested once, and no more others than allowed.
    #[test]
    fn spans_contain_what_is_wanted() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut at = 0;
            let count = random.u64(1..60);
            let mut wanted: Vec<_> = (0..count)
                .map(|_| {
                    let start = at + random.u64(0..30) * PAGE;
                    let length = random.u64(1..40) * PAGE;
                    at = start + length;
                    ByteRange::new(start, length)
                })
                .collect();
            if let Some(last) = wanted.last_mut() {
                last.length -= random.u64(0..PAGE);
            }
            let minimize = [Minimize::Time, Minimize::Requests, Minimize::Bytes];
            let estimate = Estimate {
                latency: Duration::from_micros(random.u64(0..200_000)),
                connection: random.u64(0..1 << 30),
                line: random.u64(0..1 << 34),
            };
            let means = Means {
                estimate,
                minimize: minimize[random.usize(0..3)],
                connections: random.u64(0..100),
                free: random.u64(0..100),
                allowance: random.u64(0..1 << 20),
            };
            let spans = means.spans(wanted.clone());
            assert!(spans.windows(2).all(|pair| pair[0].end() <= pair[1].start), "{means:?}");
            assert!(spans.iter().all(|span| span.start % PAGE == 0), "{means:?}");
            let bytes = |ranges: &[ByteRange]| ranges.iter().map(|range| range.length).sum::<u64>();
            assert!(bytes(&spans) - bytes(&wanted) <= means.allowance, "{means:?}");
            let all = join(&spans, |_| false);
            let contains = |range: &ByteRange| {
                all.iter().any(|span| span.start <= range.start && range.end() <= span.end())
            };
            assert!(wanted.iter().all(contains), "{means:?}");
        }
    }
}
