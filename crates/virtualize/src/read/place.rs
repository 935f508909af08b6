//! Placement of the selected elements of chunks in the result.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use virtualize_zarr::{Array, FillValue};

use super::{
    ahead::Cache,
    elements::Elements,
    plan::{Part, Picked, Plan, Stored},
    run::{self, Scratch, Work, read_now},
    selection::Steps,
};
use crate::{
    decode::{self, Dim, copy, each, fill, merged},
    error::ArrayError,
    sources::lock,
};

/// Places elements of fixed size.
pub(super) struct Place<'a> {
    plan: &'a Plan<'a>,
    elements: Elements<'a>,
    slabs: Slabs<'a>,
    /// Shape of the result.
    shape: Vec<usize>,
    /// A missing element.
    background: Vec<u8>,
    read: Reading<'a>,
}

/// What is known of a read: the array, and what happens to chunks whose files are missing.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// Path of the array.
    pub(super) path: &'a str,
    pub(super) cache: Option<&'a Cache>,
    /// Records that a chunk was missing or had changed; without it, that is an error.
    pub(super) missing: Option<&'a Missing<'a>>,
}

/// Receives the reason why a chunk reads as the fill value.
pub(super) type Missing<'a> = dyn Fn(ArrayError) + Sync + 'a;

impl Reading<'_> {
    /// Records that a chunk reads as the fill value, if its file cannot be read and that is no error.
    fn accept(
        &self,
        plan: &Plan<'_>,
        position: u64,
        placed: Result<(), ArrayError>,
    ) -> Result<bool, ArrayError> {
        let Err(error) = placed.map_err(|error| plan.in_chunk(position, error)) else { return Ok(false) };
        let Some(missing) = self.missing.filter(|_| error.is_of_source()) else { return Err(error) };
        missing(error);
        Ok(true)
    }
}

/// Selected elements of a part, in a source and in the result.
struct Places<'a> {
    /// One for each axis of the result.
    dims: Vec<Dim<'a>>,
    /// Offset of the first element in the source.
    from: usize,
    /// Offset of the first element in the result.
    to: usize,
}

impl<'a> Work<Part<'a>> for Place<'a> {
    fn run(
        &self,
        mut part: Part<'a>,
        bytes: Result<run::Bytes<'_>, ArrayError>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let placed = bytes.and_then(|bytes| self.place(&part, part.stored(bytes), scratch));
        if !self.read.accept(self.plan, part.position, placed)? {
            return Ok(());
        }
        part.bytes = Stored::Missing;
        let filled = self.place(&part, run::Bytes::Here(&[]), scratch);
        filled.map_err(|error| self.plan.in_chunk(part.position, error))
    }
}

impl<'a> Place<'a> {
    /// Places elements in `out`, which fits the selection.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        elements: Elements<'a>,
        shape: Vec<usize>,
        out: &'a mut [u8],
        read: Reading<'a>,
    ) -> Result<Self, ArrayError> {
        let slabs = Slabs::new(out, &shape, plan);
        Ok(Self { plan, elements, slabs, shape, background: background(plan.array)?, read })
    }

    fn place(&self, part: &Part<'_>, bytes: run::Bytes<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let outside = || ArrayError::TOO_FEW_ELEMENTS;
        let size = self.plan.element;
        let mut places = Places::of(self.plan, part, &self.shape, size).ok_or_else(outside)?;
        if let Stored::Missing = part.bytes {
            // Without a source, axes are merged by their distances in the result.
            for dim in &mut places.dims {
                if let Dim::Even { from, to, .. } = dim {
                    *from = *to;
                }
            }
            let mut write = |dims: &[Dim<'_>], _: usize, (slab, to): (&mut [u8], usize)| {
                fill(dims, &self.background, slab, to)
            };
            return self.slabs.place(&places.dims, (0, places.to), &mut write).ok_or_else(outside);
        }
        let length = self.elements.length(&part.shape)?;
        if let Some(elements) = &part.cached {
            return self.copy(&places, elements);
        }
        if let Some(to) = places.whole(length, size)
            && let Some(done) =
                self.slabs.contiguous(to, length, |out| self.directly(part, bytes, out, scratch))
        {
            return done;
        }
        let mut read = std::mem::take(&mut scratch.read);
        let done = self.copied(part, bytes, &places, &mut read, scratch);
        scratch.read = read;
        done
    }

    /// Reads or decodes a part into its place.
    fn directly(
        &self,
        part: &Part<'_>,
        bytes: run::Bytes<'_>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        match bytes {
            run::Bytes::In(object, range) if part.is_plain => {
                let read =
                    object.read_now(range.start, out).unwrap_or(Ok(0)).map_err(ArrayError::of_store)?;
                if read != out.len() {
                    return Err(ArrayError::truncated(range, object.name()));
                }
                self.elements.swap(out)
            }
            bytes => {
                let mut read = std::mem::take(&mut scratch.read);
                let stored = all(bytes, &mut read);
                let done =
                    stored.and_then(|stored| self.elements.decode_into(&part.shape, stored, out, scratch));
                scratch.read = read;
                done
            }
        }
    }

    /// Reads and decodes a part, and copies its selected elements.
    fn copied(
        &self,
        part: &Part<'_>,
        bytes: run::Bytes<'_>,
        places: &Places<'_>,
        read: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let stored = all(bytes, read)?;
        let elements = match part.is_plain && self.elements.is_native() {
            true => stored,
            false => self.elements.decode(&part.shape, stored, scratch)?,
        };
        if let Some(cache) = self.read.cache.filter(|_| !part.is_plain && matches!(part.bytes, Stored::At(_)))
        {
            cache.keep(self.read.path, part.position, elements);
        }
        self.copy(places, elements)
    }

    /// Copies the selected elements of a decoded part.
    fn copy(&self, places: &Places<'_>, elements: &[u8]) -> Result<(), ArrayError> {
        let mut write = |dims: &[Dim<'_>], from: usize, target: (&mut [u8], usize)| {
            copy(dims, self.plan.element, (elements, from), target)
        };
        let placed = self.slabs.place(&places.dims, (places.from, places.to), &mut write);
        placed.ok_or(ArrayError::TOO_FEW_ELEMENTS)
    }
}

/// Returns all stored bytes of a part.
pub(super) fn all<'b>(bytes: run::Bytes<'b>, read: &'b mut Vec<u8>) -> Result<&'b [u8], ArrayError> {
    match bytes {
        run::Bytes::Here(bytes) => Ok(bytes),
        run::Bytes::In(object, range) => {
            let bytes = read_now(object, range, read)?;
            match bytes.len() as u64 == range.length {
                true => Ok(bytes),
                false => Err(ArrayError::truncated(range, object.name())),
            }
        }
    }
}

impl<'a> Places<'a> {
    /// Returns the places of the selected elements of a part, of `size` bytes each, in a result of the given shape.
    fn of(plan: &Plan<'_>, part: &'a Part<'_>, shape: &[usize], size: usize) -> Option<Self> {
        let parts = match &part.picked {
            Picked::Points(pairs) => {
                let dims = vec![Dim::Each { pairs, base: 0, from: size, to: size }];
                return Some(Self { dims, from: 0, to: 0 });
            }
            Picked::Axes(parts) => parts,
        };
        let mut from_strides = vec![0_usize; parts.len()];
        let mut stride = size;
        for axis in plan.order.iter().rev() {
            *from_strides.get_mut(*axis)? = stride;
            stride = stride.checked_mul(usize::try_from(*part.shape.get(*axis)?).ok()?)?;
        }
        let bytes = |index: u64, stride: usize| usize::try_from(index).ok()?.checked_mul(stride);
        let mut places = Self { dims: Vec::with_capacity(parts.len()), from: 0, to: 0 };
        let mut to_stride = size;
        for ((part, count), from_stride) in parts.iter().zip(shape).zip(from_strides).rev() {
            let dim = match part.steps {
                Steps::Even { from, step, count, to } => {
                    let start = bytes(from.checked_sub(part.base)?, from_stride)?;
                    places.from = places.from.checked_add(start)?;
                    places.to = places.to.checked_add(bytes(to, to_stride)?)?;
                    let step = if count > 1 { step } else { 1 };
                    let count = usize::try_from(count).ok()?;
                    Dim::Even { count, from: bytes(step, from_stride)?, to: to_stride }
                }
                Steps::Each(pairs) => Dim::Each { pairs, base: part.base, from: from_stride, to: to_stride },
            };
            places.dims.push(dim);
            to_stride = to_stride.checked_mul(*count)?;
        }
        places.dims.reverse();
        Some(places)
    }

    /// Returns the offset in the result if the elements are all `length` bytes of the source, in the same order.
    fn whole(&self, length: usize, size: usize) -> Option<usize> {
        let is_whole = match merged(self.dims.clone()).as_slice() {
            [] => length == size,
            [Dim::Even { count, from, to }] => {
                *from == size && *to == size && count.checked_mul(size) == Some(length)
            }
            _ => false,
        };
        (is_whole && self.from == 0).then_some(self.to)
    }
}

/// Returns the little-endian bytes of a missing element.
pub(super) fn background(array: &Array) -> Result<Vec<u8>, ArrayError> {
    let zero = || FillValue::zero(&array.data_type);
    match array.fill_value.clone().unwrap_or_else(zero) {
        FillValue::Fixed(bytes) if array.data_type.size() == Some(bytes.len() as u64) => Ok(bytes.to_vec()),
        _ => Err(ArrayError::invalid("its fill value is not an element of its type")),
    }
}

/// Places elements of variable length.
pub(super) struct PlaceVariable<'a> {
    plan: &'a Plan<'a>,
    /// Shape of the result.
    shape: Vec<usize>,
    /// Maximum number of bytes of all elements.
    most: u64,
    result: Mutex<Variable>,
    read: Reading<'a>,
}

struct Variable {
    all: Vec<Bytes>,
    bytes: u64,
}

impl<'a> PlaceVariable<'a> {
    /// Allocates memory for the result, in which all elements are missing.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        shape: Vec<usize>,
        most: u64,
        read: Reading<'a>,
    ) -> Result<Self, ArrayError> {
        let count = shape.iter().try_fold(1_usize, |all, count| all.checked_mul(*count));
        let mut all = Vec::new();
        let reserved = count.map(|count| all.try_reserve_exact(count));
        let (Some(count), Some(Ok(()))) = (count, reserved) else {
            return Err(ArrayError::text_too_large(most));
        };
        let fill = variable_fill(plan.array);
        let bytes = (fill.len() as u64).saturating_mul(count as u64);
        if bytes > most {
            return Err(ArrayError::text_too_large(most));
        }
        all.resize(count, fill);
        Ok(Self { plan, shape, most, result: Mutex::new(Variable { all, bytes }), read })
    }

    /// Returns the elements, once all parts are placed.
    pub(super) fn into_elements(self) -> Vec<Bytes> {
        self.result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).all
    }

    fn place(&self, part: &Part<'_>, bytes: run::Bytes<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let stored = all(bytes, &mut scratch.read)?;
        let values = decode::variable(self.plan.array, stored, &part.shape, self.most)?;
        let elements: Vec<&[u8]> = decode::variable_elements(&values).collect();
        let outside = || ArrayError::TOO_FEW_ELEMENTS;
        let places = Places::of(self.plan, part, &self.shape, 1).ok_or_else(outside)?;
        let mut pairs = Vec::new();
        collect(&places.dims, places.from, places.to, &mut pairs).ok_or_else(outside)?;
        let mut together = Vec::new();
        let mut ends = Vec::with_capacity(pairs.len());
        for (from, _) in &pairs {
            together.extend_from_slice(elements.get(*from).ok_or_else(outside)?);
            ends.push(together.len());
        }
        let together = Bytes::from(together);
        let mut result = lock(&self.result);
        result.bytes = result.bytes.saturating_add(together.len() as u64);
        if result.bytes > self.most {
            return Err(ArrayError::text_too_large(self.most));
        }
        let mut start = 0;
        for ((_, to), end) in pairs.into_iter().zip(ends) {
            *result.all.get_mut(to).ok_or_else(outside)? = together.slice(start..end);
            start = end;
        }
        Ok(())
    }
}

impl<'a> Work<Part<'a>> for PlaceVariable<'a> {
    fn run(
        &self,
        part: Part<'a>,
        bytes: Result<run::Bytes<'_>, ArrayError>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        if let Stored::Missing = part.bytes {
            return Ok(());
        }
        let placed = bytes.and_then(|bytes| self.place(&part, part.stored(bytes), scratch));
        self.read.accept(self.plan, part.position, placed).map(drop)
    }
}

/// Collects the indices of elements in the source and in the result.
fn collect(dims: &[Dim<'_>], from: usize, to: usize, pairs: &mut Vec<(usize, usize)>) -> Option<()> {
    if dims.is_empty() {
        pairs.push((from, to));
        return Some(());
    }
    each(dims, |dims, from, to| collect(dims, from, to, pairs), from, to)
}

/// Returns a missing element.
pub(super) fn variable_fill(array: &Array) -> Bytes {
    match &array.fill_value {
        Some(FillValue::Text(text)) => text.clone().into(),
        Some(FillValue::Variable(bytes) | FillValue::Fixed(bytes)) => bytes.clone(),
        None => Bytes::new(),
    }
}

/// Length of a slab in bytes, where the chunks do not suggest another.
pub(super) const SLAB: usize = 1 << 20;
/// Maximum number of slabs.
const MAX_SLABS: usize = 1 << 16;

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
        let rows = rows.max((out.len() / row).div_ceil(MAX_SLABS));
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
        Some(lock(self.slabs.get(slab)?))
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
