//! Merges and divides byte ranges, for all reads.

use virtualize_bytes::ByteRange;

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

#[cfg(test)]
mod tests {
    use super::*;

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
