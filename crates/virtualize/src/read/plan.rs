//! The parts of chunks that a selection needs, one after the other.

use std::{cmp::Reverse, sync::Arc};

use virtualize_bytes::ByteRange;
use virtualize_zarr::{
    Array, ChunkGrid, Codec, Reference, References, SourceId, chunk_indices, chunk_position,
};

use super::{
    run::{Bytes, Extent},
    selection::{Axis, AxisPart, AxisSelection, Selection, Steps},
};
use crate::{
    decode::{self, chunk_name, stored_order},
    error::ArrayError,
};

/// A selection of an array, as parts of chunks.
pub(super) struct Plan<'a> {
    pub(super) array: &'a Array,
    /// Number of chunks along each axis.
    counts: Vec<u64>,
    /// Axis `i` of stored elements is axis `order[i]` of the array.
    pub(super) order: Vec<usize>,
    /// Bytes of a stored element.
    pub(super) element: usize,
    pick: Pick<'a>,
    /// Columns of the manifest, each with its first and last position, in ascending order.
    columns: Vec<(u64, u64, &'a References)>,
    /// Whether each column ends before the next one begins.
    is_disjoint: bool,
}

enum Pick<'a> {
    Axes(Vec<Axis<'a>>),
    Points {
        lists: &'a [Vec<u64>],
        /// Grid of the array, without selected indices.
        axes: Vec<Axis<'a>>,
        /// Position of a chunk and number of a point, in ascending order.
        sorted: Vec<(u64, u64)>,
    },
}

/// Decoded chunks that are contiguous in the result.
pub(super) struct Run {
    /// The axis along which chunks follow each other; each spans the selection along all later ones.
    pub(super) axis: usize,
    /// Selected indices along this axis in the first chunk.
    pub(super) first: usize,
    /// Selected indices along this axis in each other chunk.
    pub(super) length: usize,
}

/// Elements of one chunk that belong to the selection: of a whole chunk, or of a box of an uncompressed one.
pub(super) struct Part<'a> {
    /// Row-major position of the chunk in the grid.
    pub(super) position: u64,
    /// Shape of the chunk or box, in the order of the array's axes.
    pub(super) shape: Vec<u64>,
    /// Location of the stored bytes of the chunk or box.
    pub(super) bytes: Stored<'a>,
    pub(super) picked: Picked<'a>,
    /// Whether the bytes are bare elements.
    pub(super) is_plain: bool,
    /// The decoded chunk, if it is in the cache.
    pub(super) cached: Option<Arc<[u8]>>,
}

/// Location of stored bytes.
#[derive(Clone, Copy)]
pub(super) enum Stored<'a> {
    /// They read as the fill value.
    Missing,
    Inline(&'a [u8]),
    At(Reference),
}

/// Selected elements of a part.
pub(super) enum Picked<'a> {
    Axes(Vec<AxisPart<'a>>),
    /// Index in the part, row-major, and index in the result.
    Points(Vec<(u64, u64)>),
}

impl<'a> Plan<'a> {
    /// Plans how a selection that fits the array is read.
    pub(super) fn new(array: &'a Array, selection: &'a Selection) -> Result<Self, ArrayError> {
        let rank = array.shape.len();
        let grid = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.len(),
            ChunkGrid::Rectilinear(edges) => edges.len(),
        };
        if grid != rank {
            return Err(ArrayError::invalid(format!("{rank} axes, and a chunk grid of {grid}")));
        }
        let pick = match selection {
            Selection::Axes(axes) => Pick::Axes(grouped(array, axes)?),
            Selection::Points(lists) => points(array, lists)?,
        };
        let bounds = |column: &'a References| {
            let last = column.len().checked_sub(1)?;
            Some((column.get(0)?.0, column.get(last)?.0, column))
        };
        let mut columns: Vec<_> = array.chunks.references.iter().filter_map(bounds).collect();
        columns.sort_unstable_by_key(|(first, last, _)| (*first, *last));
        let mut end = None;
        let longest = columns.iter().map(|(first, last, _)| {
            let overlap = end.is_some_and(|end| end >= *first);
            end = end.max(Some(*last));
            overlap
        });
        let is_disjoint = !longest.fold(false, |any, overlap| any | overlap);
        Ok(Self {
            array,
            counts: array.chunk_grid.counts(&array.shape),
            order: stored_order(&array.codecs, rank)?,
            // Elements of variable length are placed by number.
            element: usize::try_from(array.data_type.size().unwrap_or(8)).unwrap_or(usize::MAX),
            pick,
            columns,
            is_disjoint,
        })
    }

    /// Checks that all chunks of the array are in its grid.
    pub(super) fn check_positions(&self) -> Result<(), ArrayError> {
        let referenced = self.columns.iter().map(|(_, last, _)| *last).max();
        let last = referenced.max(self.array.chunks.inline.keys().next_back().copied());
        let count = decode::count(&self.counts).unwrap_or(u64::MAX);
        match last.filter(|last| *last >= count) {
            Some(position) => {
                let text = format!("position {position} is outside a grid of {:?} chunks", self.counts);
                Err(ArrayError::invalid(text))
            }
            None => Ok(()),
        }
    }

    /// Returns the number of chunks that contain selected elements.
    pub(super) fn chunks(&self) -> u64 {
        match &self.pick {
            Pick::Axes(axes) => axes.iter().fold(1, |all, axis| all.saturating_mul(axis.touched())),
            Pick::Points { sorted, .. } => sorted.chunk_by(|one, other| one.0 == other.0).count() as u64,
        }
    }

    /// Returns the positions of the chunks that contain selected elements.
    pub(super) fn positions(&self) -> Vec<u64> {
        match &self.pick {
            Pick::Axes(_) => self.whole_parts().map_while(Result::ok).map(|part| part.position).collect(),
            Pick::Points { sorted, .. } => sorted.iter().map(|(position, _)| *position).collect(),
        }
    }

    /// Returns the axes of the selection, if it is one along each axis.
    pub(super) fn axes(&self) -> Option<&[Axis<'a>]> {
        match &self.pick {
            Pick::Axes(axes) => Some(axes),
            Pick::Points { .. } => None,
        }
    }

    /// Returns whether stored chunks of the array are bare elements, so that any part of them can be read.
    pub(super) fn is_plain(&self) -> bool {
        let keeps = |codec: &Codec| matches!(codec, Codec::Transpose { .. } | Codec::Bytes { .. });
        self.array.data_type.size().is_some() && self.array.codecs.iter().all(keeps)
    }

    /// Returns the length along which decoded chunks are contiguous in the result, if they are.
    pub(super) fn run(&self) -> Option<Run> {
        let axes = self.axes().filter(|_| !self.is_plain() && self.order.is_sorted())?;
        let axis = axes.iter().rposition(|axis| !axis.is_whole())?;
        let (first, length) = axes.get(axis)?.run()?;
        Some(Run { axis, first, length })
    }

    /// Adds the indices of a chunk to an error.
    pub(super) fn in_chunk(&self, position: u64, error: ArrayError) -> ArrayError {
        error.in_chunk(&chunk_name(&chunk_indices(position, &self.counts).unwrap_or_default()))
    }

    /// Returns the size of reading all parts.
    pub(super) fn extent(&self, is_local: bool) -> Extent {
        let size = self.element.max(1) as u64;
        let largest = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0);
        let chunk = match &self.array.chunk_grid {
            ChunkGrid::Regular(chunk) => decode::count(chunk),
            ChunkGrid::Rectilinear(edges) => {
                decode::count(&edges.iter().map(|sizes| largest(sizes)).collect::<Vec<_>>())
            }
        };
        let chunk = chunk.unwrap_or(u64::MAX).saturating_mul(size);
        let chunks = self.chunks();
        let bytes = chunks.saturating_mul(chunk);
        let (items, held) = match self.is_plain() {
            true => (chunks.max(bytes / PIECE), PIECE),
            false => (chunks, chunk.saturating_mul(3)),
        };
        Extent { items, bytes, held, is_local }
    }

    /// Returns all parts. Uncompressed chunks are divided into boxes.
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts { plan: self, next: 0, point: 0, blocks: None, divides: self.is_plain() }
    }

    /// Returns all parts, each of a whole chunk.
    pub(super) fn whole_parts(&self) -> Parts<'_> {
        Parts { divides: false, ..self.parts() }
    }

    /// Returns the location of a chunk.
    fn stored(&self, position: u64) -> Stored<'_> {
        if let Some(bytes) = self.array.chunks.inline.get(&position) {
            return Stored::Inline(bytes);
        }
        let ahead = self.columns.partition_point(|(first, ..)| *first <= position);
        let before = self.columns.get(..ahead).unwrap_or_default();
        let near =
            if self.is_disjoint { before.get(ahead.saturating_sub(1)..).unwrap_or_default() } else { before };
        let mut near = near.iter().filter(|(_, last, _)| *last >= position);
        near.find_map(|(_, _, column)| column.find(position)).map_or(Stored::Missing, Stored::At)
    }
}

/// The parts of a plan, in row-major order of their chunks.
pub(super) struct Parts<'p> {
    pub(super) plan: &'p Plan<'p>,
    /// Number of the next touched chunk.
    next: u64,
    /// Number of the next point.
    point: usize,
    /// The rest of the current chunk.
    blocks: Option<Blocks<'p>>,
    divides: bool,
}

impl<'p> Iterator for Parts<'p> {
    type Item = Result<Part<'p>, ArrayError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(part) = self.blocks.as_mut().and_then(Iterator::next) {
                return Some(Ok(part));
            }
            self.blocks = None;
            let (plan, found) = match &self.plan.pick {
                Pick::Axes(axes) => (self.plan, self.next_chunk(axes)?),
                Pick::Points { lists, axes, sorted } => {
                    return Some(self.next_points(lists, axes, sorted)?.ok_or(ArrayError::TOO_FEW_ELEMENTS));
                }
            };
            let Some(part) = found else { return Some(Err(ArrayError::TOO_FEW_ELEMENTS)) };
            match Blocks::of(plan, &part).filter(|_| self.divides) {
                Some(blocks) => self.blocks = Some(blocks),
                None => return Some(Ok(part)),
            }
        }
    }
}

impl<'p> Parts<'p> {
    /// Returns the part of the next touched chunk: `None` after the last, `Some(None)` if it is not in the grid.
    fn next_chunk(&mut self, axes: &'p [Axis<'p>]) -> Option<Option<Part<'p>>> {
        let touched: Vec<u64> = axes.iter().map(Axis::touched).collect();
        let at = chunk_indices(self.next, &touched)?;
        self.next += 1;
        let plan = self.plan;
        let parts = axes.iter().zip(at).map(|(axis, n)| axis.part(n)).collect::<Option<Vec<_>>>();
        Some(parts.and_then(|parts| {
            let position = chunk_position(parts.iter().map(|part| part.chunk), &plan.counts)?;
            Some(Part {
                position,
                shape: parts.iter().map(|part| part.size).collect(),
                bytes: plan.stored(position),
                picked: Picked::Axes(parts),
                is_plain: false,
                cached: None,
            })
        }))
    }

    /// Returns the part with the next points: all in one chunk, or a single one of an uncompressed chunk.
    fn next_points(
        &mut self,
        lists: &[Vec<u64>],
        axes: &[Axis<'_>],
        sorted: &[(u64, u64)],
    ) -> Option<Option<Part<'p>>> {
        let plan = self.plan;
        let rest = sorted.get(self.point..)?;
        let position = rest.first()?.0;
        let bytes = plan.stored(position);
        let here = rest.partition_point(|(other, _)| *other == position);
        let mut part = || {
            let at = chunk_indices(position, &plan.counts)?;
            let extents =
                axes.iter().zip(at).map(|(axis, at)| axis.extent(at)).collect::<Option<Vec<_>>>()?;
            let shape: Vec<u64> = extents.iter().map(|(_, size)| *size).collect();
            let index = |point: u64| {
                let point = usize::try_from(point).ok()?;
                plan.order.iter().try_fold(0_u64, |all, axis| {
                    let (base, size) = extents.get(*axis)?;
                    let at = lists.get(*axis)?.get(point)?.checked_sub(*base)?;
                    all.checked_mul(*size)?.checked_add(at)
                })
            };
            let picked = Picked::Points(Vec::new());
            let whole = Part { position, shape, bytes, picked, is_plain: false, cached: None };
            if let Some(reference) = whole.plain_reference(plan).filter(|_| self.divides) {
                let point = rest.first()?.1;
                let offset = index(point)?.checked_mul(plan.element as u64)?;
                let place = Reference {
                    offset: reference.offset.checked_add(offset)?,
                    length: plan.element as u64,
                    ..reference
                };
                self.point += 1;
                let shape = vec![1; whole.shape.len()];
                let picked = Picked::Points(vec![(0, point)]);
                return Some(Part { shape, bytes: Stored::At(place), picked, is_plain: true, ..whole });
            }
            let points = rest.get(..here)?.iter().map(|(_, point)| Some((index(*point)?, *point)));
            self.point += here;
            Some(Part { picked: Picked::Points(points.collect::<Option<_>>()?), ..whole })
        };
        Some(part())
    }
}

impl<'a> Part<'a> {
    /// Returns the bytes that were read, or the inline ones.
    pub(super) fn stored<'b>(&self, read: Bytes<'b>) -> Bytes<'b>
    where
        'a: 'b,
    {
        match self.bytes {
            Stored::Inline(bytes) => Bytes::Here(bytes),
            Stored::Missing | Stored::At(_) => read,
        }
    }

    /// Returns the location of a chunk that stores all its elements as they are.
    pub(super) fn plain_reference(&self, plan: &Plan<'_>) -> Option<Reference> {
        let bytes = decode::count(&self.shape)?.checked_mul(plan.element as u64)?;
        match self.bytes {
            Stored::At(reference) if plan.is_plain() && reference.length >= bytes => Some(reference),
            _ => None,
        }
    }
}

/// Groups the selected indices along each axis by chunks.
fn grouped<'a>(array: &'a Array, axes: &[AxisSelection]) -> Result<Vec<Axis<'a>>, ArrayError> {
    match &array.chunk_grid {
        ChunkGrid::Regular(chunk) => {
            axes.iter().zip(chunk).map(|(axis, size)| Axis::regular(axis, *size)).collect()
        }
        ChunkGrid::Rectilinear(edges) => {
            axes.iter().zip(edges).map(|(axis, sizes)| Axis::rectilinear(axis, sizes)).collect()
        }
    }
}

/// Sorts points by the chunks that contain them.
fn points<'a>(array: &'a Array, lists: &'a [Vec<u64>]) -> Result<Pick<'a>, ArrayError> {
    let nothing = AxisSelection::Range { start: 0, step: 1, count: 0 };
    let axes = grouped(array, &vec![nothing; lists.len()])?;
    let counts = array.chunk_grid.counts(&array.shape);
    // Without axes, there is one point.
    let count = lists.first().map_or(1, Vec::len);
    let position = |point: usize| {
        let chunk = |(axis, list): (&Axis<'_>, &Vec<u64>)| {
            axis.chunk_of(list.get(point).copied().unwrap_or(u64::MAX))
        };
        chunk_position(axes.iter().zip(lists).map(chunk), &counts).ok_or(ArrayError::TOO_FEW_ELEMENTS)
    };
    let sorted = (0..count).map(|point| Ok((position(point)?, point as u64)));
    let mut sorted = sorted.collect::<Result<Vec<_>, ArrayError>>()?;
    sorted.sort_unstable();
    Ok(Pick::Points { lists, axes, sorted })
}

/// Maximum number of bytes of a box.
pub(super) const PIECE: u64 = super::place::SLAB as u64;
/// Maximum number of bytes between two selected elements that are read together.
const GAP: u64 = 4 << 10;
/// Chunks of at most this many bytes are read whole.
const SMALL: u64 = 16 << 10;

/// The boxes of a chunk that contain selected elements, in the order of the file.
pub(super) struct Blocks<'p> {
    position: u64,
    reference: Reference,
    order: &'p [usize],
    parts: Vec<AxisPart<'p>>,
    element: u64,
    /// Bytes of one index along each stored axis.
    inner: Vec<u64>,
    /// The stored axis that is divided. Boxes have one index along those before it, and all along those after it.
    divided: usize,
    /// Indices of a box along the divided axis; `None` for single selected ones.
    step: Option<u64>,
    /// Number of boxes along each stored axis, up to the divided one.
    counts: Vec<u64>,
    next: u64,
}

impl<'p> Blocks<'p> {
    /// Divides a chunk; `None` if it is to be read whole.
    pub(super) fn of(plan: &'p Plan<'p>, part: &Part<'p>) -> Option<Self> {
        let (Picked::Axes(parts), reference) = (&part.picked, part.plain_reference(plan)?) else {
            return None;
        };
        let element = plan.element as u64;
        let bytes = decode::count(&part.shape)?.checked_mul(element)?;
        let last = plan.order.len().checked_sub(1)?;
        if bytes <= SMALL {
            return None;
        }
        let stored = |at: usize| parts.get(*plan.order.get(at)?);
        let mut inner = vec![element; plan.order.len()];
        for at in (0..last).rev() {
            *inner.get_mut(at)? = inner.get(at + 1)?.checked_mul(stored(at + 1)?.size)?;
        }
        let mut divided = last;
        // Whether the selected indices extend from the first to the last of the chunk.
        let is_spanned = |part: &AxisPart<'_>| {
            part.bounds().is_some_and(|(first, last)| first == part.base && last - first + 1 == part.size)
        };
        while divided > 0 && is_spanned(stored(divided)?) && *inner.get(divided - 1)? <= PIECE {
            divided -= 1;
        }
        let along = stored(divided)?;
        let (first, end) = along.bounds().map(|(first, last)| (first, last + 1))?;
        let row = (*inner.get(divided)?).max(1);
        let step = match along.steps {
            Steps::Even { step, .. } if step == 1 || step.saturating_mul(row) <= GAP => {
                Some((PIECE / row).max(1))
            }
            _ => None,
        };
        let mut counts = (0..divided).map(|at| Some(stored(at)?.count())).collect::<Option<Vec<_>>>()?;
        counts.push(step.map_or(along.count(), |step| (end - first).div_ceil(step)));
        let (position, parts, order) = (part.position, parts.clone(), plan.order.as_slice());
        Some(Self { position, reference, order, parts, element, inner, divided, step, counts, next: 0 })
    }

    fn block(&self, at: &[u64]) -> Option<Part<'p>> {
        let mut parts = self.parts.clone();
        let mut offset = 0_u64;
        for (stored, n) in at.iter().enumerate() {
            let part = parts.get_mut(*self.order.get(stored)?)?;
            let start = part.base;
            *part = match self.step.filter(|_| stored == self.divided) {
                None => part.single(*n)?,
                Some(step) => {
                    let (first, last) = part.bounds()?;
                    let first = first + n * step;
                    part.narrowed(first, step.min(last + 1 - first))
                }
            };
            offset += (part.base - start) * self.inner.get(stored)?;
        }
        let shape: Vec<u64> = parts.iter().map(|part| part.size).collect();
        let length = decode::count(&shape)? * self.element;
        let reference =
            Reference { offset: self.reference.offset.checked_add(offset)?, length, ..self.reference };
        let (bytes, picked) = (Stored::At(reference), Picked::Axes(parts));
        Some(Part { position: self.position, shape, bytes, picked, is_plain: true, cached: None })
    }
}

impl<'p> Iterator for Blocks<'p> {
    type Item = Part<'p>;

    fn next(&mut self) -> Option<Part<'p>> {
        let at = chunk_indices(self.next, &self.counts)?;
        self.next += 1;
        self.block(&at)
    }
}

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
    /// Maximum number of bytes between two ranges.
    pub(super) gap: u64,
    /// Maximum number of bytes that several ranges span together.
    pub(super) longest: u64,
}

/// Reading from a disk costs little more for two ranges than for one, and less while the bytes stay in the cache of a
/// core.
pub(super) const LOCAL: Merging = Merging { gap: 4 << 10, longest: 256 << 10 };

/// Items with their locations in files.
pub(super) type Items<'i, P> =
    Box<dyn Iterator<Item = Result<(P, Option<Reference>), ArrayError>> + Send + 'i>;

/// Forms batches of items.
pub(super) struct Batches<'i, P> {
    items: Items<'i, P>,
    /// Items in descending order of their places.
    window: Vec<(P, Option<Reference>)>,
    merging: Merging,
}

impl<'i, P> Batches<'i, P> {
    pub(super) fn new(items: Items<'i, P>, merging: Merging) -> Self {
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
