//! The buffer of the selected elements, divided so that several threads can write to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use crate::decode::{Dim, each, merged};

/// Length of a slab in bytes, where the chunks do not suggest another.
pub(super) const SLAB: usize = 1 << 20;
/// Largest number of slabs.
const MOST: usize = 1 << 16;

/// Writes elements to a slab: receives their axes, the offset of the first one in the source, and that in the slab.
type Write<'w> = dyn FnMut(&[Dim<'_>], usize, (&mut [u8], usize)) -> Option<()> + 'w;

/// A buffer of elements in row-major order, divided along its slowest axes into slabs.
pub(super) struct Slabs<'a> {
    slabs: Vec<Mutex<&'a mut [u8]>>,
    /// Number of axes before a row.
    axes: usize,
    /// Bytes of a row: of one index along these axes.
    row: usize,
    /// Rows of the first slab.
    first: usize,
    /// Rows of each other slab; the last may have fewer.
    rows: usize,
}

impl<'a> Slabs<'a> {
    /// Divides a buffer for the elements of a selection of the given shape.
    pub(super) fn new(out: &'a mut [u8], shape: &[usize], plan: &Plan<'_>) -> Self {
        let row_of = |axes: usize| {
            shape.iter().skip(axes).fold(plan.element, |row, length| row.saturating_mul(*length)).max(1)
        };
        let (axes, rows, first) = match plan.run() {
            Some(run) => {
                let row = row_of(run.axis + 1);
                let leads = shape.iter().take(run.axis).any(|count| *count > 1);
                let several = if leads { 1 } else { SLAB / row.saturating_mul(run.length).max(1) };
                (run.axis + 1, run.length.saturating_mul(several.max(1)), if leads { 0 } else { run.first })
            }
            None => {
                let axes = (1..shape.len()).find(|axes| row_of(*axes) <= SLAB).unwrap_or(shape.len());
                (axes, (SLAB / row_of(axes)).max(1), 0)
            }
        };
        let row = row_of(axes);
        let rows = rows.max((out.len() / row).div_ceil(MOST));
        let first = if first == 0 { rows } else { first };
        let (head, rest) = out.split_at_mut(first.saturating_mul(row).min(out.len()));
        let others = rest.chunks_mut(rows.saturating_mul(row)).map(Mutex::new);
        Self { slabs: std::iter::once(Mutex::new(head)).chain(others).collect(), axes, row, first, rows }
    }

    /// Returns number, first row, and last row + 1 of the slab with a row.
    fn of_row(&self, row: usize) -> (usize, usize, usize) {
        match row.checked_sub(self.first) {
            None => (0, 0, self.first),
            Some(after) => {
                let start = after / self.rows * self.rows + self.first;
                (after / self.rows + 1, start, start.saturating_add(self.rows))
            }
        }
    }

    fn lock(&self, slab: usize) -> Option<MutexGuard<'_, &'a mut [u8]>> {
        Some(self.slabs.get(slab)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls a function with the bytes of elements that are contiguous in the buffer, if they are in one slab.
    pub(super) fn contiguous<T>(
        &self,
        to: usize,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        let (slab, start, _) = self.of_row(to / self.row);
        let to = to.checked_sub(start.checked_mul(self.row)?)?;
        let mut slab = self.lock(slab)?;
        slab.get_mut(to..to.checked_add(length)?).map(write)
    }

    /// Calls a function for each slab with elements of a part. `None` if elements are outside.
    pub(super) fn place(
        &self,
        dims: &[Dim<'_>],
        (from, to): (usize, usize),
        write: &mut Write<'_>,
    ) -> Option<()> {
        self.at_depth(dims, self.axes, (from, to), write)
    }

    fn at_depth(
        &self,
        dims: &[Dim<'_>],
        axes: usize,
        (from, to): (usize, usize),
        write: &mut Write<'_>,
    ) -> Option<()> {
        match (axes, dims.split_first()) {
            (2.., Some(_)) => {
                each(dims, |dims, from, to| self.at_depth(dims, axes - 1, (from, to), write), from, to)
            }
            (1, Some((dim, inner))) => self.along(*dim, inner, (from, to), write),
            _ => {
                let mut slab = self.lock(0)?;
                write(&merged(dims.to_vec()), from, (&mut slab, to))
            }
        }
    }

    /// Divides the elements along the last axis before a row.
    fn along(
        &self,
        dim: Dim<'_>,
        inner: &[Dim<'_>],
        (mut from, mut to): (usize, usize),
        write: &mut Write<'_>,
    ) -> Option<()> {
        match dim {
            Dim::Even { mut count, from: step, to: stride } => {
                while count > 0 {
                    let row = to / self.row;
                    let (number, start, end) = self.of_row(row);
                    let here = count.min((end - row).div_ceil((stride / self.row).max(1)));
                    let mut dims = vec![Dim::Even { count: here, from: step, to: stride }];
                    dims.extend_from_slice(inner);
                    let mut slab = self.lock(number)?;
                    write(&merged(dims), from, (&mut slab, to - start * self.row))?;
                    (from, to, count) = (from + here * step, to + here * stride, count - here);
                }
                Some(())
            }
            Dim::Each { .. } => {
                let inner = merged(inner.to_vec());
                let mut current: Option<(usize, MutexGuard<'_, &'a mut [u8]>)> = None;
                let one = |_: &[Dim<'_>], from: usize, to: usize| {
                    let (number, start, _) = self.of_row(to / self.row);
                    if current.as_ref().is_none_or(|(held, _)| *held != number) {
                        drop(current.take());
                        current = Some((number, self.lock(number)?));
                    }
                    let (_, slab) = current.as_mut()?;
                    write(&inner, from, (slab, to - start * self.row))
                };
                each(&[dim], one, from, to)
            }
        }
    }
}
