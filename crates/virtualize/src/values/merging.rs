//! Merging of neighbouring ranges, which are read together.

use std::cmp::Reverse;

use virtualize_bytes::ByteRange;
use virtualize_zarr::{Reference, SourceId};

use crate::array_error::ArrayError;

/// Number of items whose ranges are sorted together.
const WINDOW: usize = 256;

/// Items whose bytes are read together.
pub(super) struct Batch<P> {
    /// The file; `None` for items without bytes in files.
    pub(super) source: Option<SourceId>,
    pub(super) span: ByteRange,
    /// Items, each with its range.
    pub(super) items: Vec<(P, ByteRange)>,
}

/// Which ranges are read together.
#[derive(Clone, Copy)]
pub(super) struct Merging {
    /// Most bytes between two ranges.
    pub(super) gap: u64,
    /// Most bytes that several ranges span together.
    pub(super) longest: u64,
}

/// Reading from a disk costs little more for two ranges than for one, and less while the bytes stay in the cache of a
/// core.
pub(super) const LOCAL: Merging = Merging { gap: 4 << 10, longest: 256 << 10 };

/// Forms batches of items.
pub(super) struct Batches<P, I> {
    items: I,
    /// Items in descending order of their places.
    window: Vec<(P, Option<Reference>)>,
    merging: Merging,
}

impl<P, I: Iterator<Item = Result<(P, Option<Reference>), ArrayError>>> Batches<P, I> {
    pub(super) fn new(items: I, merging: Merging) -> Self {
        Self { items, window: Vec::new(), merging }
    }

    /// Returns the next batch; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Batch<P>>, ArrayError> {
        if self.window.is_empty() {
            for item in self.items.by_ref().take(WINDOW) {
                self.window.push(item?);
            }
            let place = |place: &Option<Reference>| place.map(|place| (place.source, place.offset));
            self.window.sort_by_key(|(_, at)| Reverse(place(at)));
        }
        let Some((first, place)) = self.window.pop() else { return Ok(None) };
        let range = range_of(place);
        let source = place.map(|place| place.source);
        let mut batch = Batch { source, span: range, items: vec![(first, range)] };
        while let Some((item, place)) = self.window.pop_if(|(_, place)| batch.accepts(*place, self.merging)) {
            let range = range_of(place);
            batch.span.length = batch.span.end().max(range.end()) - batch.span.start;
            batch.items.push((item, range));
        }
        Ok(Some(batch))
    }
}

fn range_of(place: Option<Reference>) -> ByteRange {
    place.map_or(ByteRange::new(0, 0), |place| ByteRange::new(place.offset, place.length))
}

impl<P> Batch<P> {
    /// Returns whether a range that does not start before the batch is to be read with it.
    fn accepts(&self, place: Option<Reference>, merging: Merging) -> bool {
        let range = range_of(place);
        place.map(|place| place.source) == self.source
            && range.start <= self.span.end().saturating_add(merging.gap)
            && (range.end() <= self.span.end() || range.end() - self.span.start <= merging.longest)
    }
}
