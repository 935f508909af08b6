//! Division of uncompressed chunks into boxes that are contiguous in the file.

use virtualize_zarr::{Reference, chunk_indices};

use super::axis::{AxisPart, Steps};
use super::plan::{Part, Picked, Plan, Stored};
use crate::decode;

/// Most bytes of a box.
pub(super) const PIECE: u64 = super::slabs::SLAB as u64;
/// Most bytes between two selected elements that are read together.
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
        Some(Part { position: self.position, shape, bytes, picked, is_plain: true })
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

/// Returns whether the selected indices extend from the first to the last of the chunk.
fn is_spanned(part: &AxisPart<'_>) -> bool {
    part.bounds().is_some_and(|(first, last)| first == part.base && last - first + 1 == part.size)
}
