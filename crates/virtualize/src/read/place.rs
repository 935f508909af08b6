//! Placement of the selected elements of chunks in the result.

use virtualize_zarr::{Array, FillValue};

use super::axis::{AxisPart, Steps};
use super::elements::Elements;
use super::fetch::of_store;
use super::plan::{Part, Picked, Plan, Stored};
use super::run::{Bytes, Scratch, Work, read_now};
use super::slabs::Slabs;
use crate::decode::{Dim, copy, fill, merged};
use crate::error::ArrayError;

/// Places elements of fixed size.
pub(super) struct Place<'a> {
    plan: &'a Plan<'a>,
    elements: Elements<'a>,
    slabs: Slabs<'a>,
    /// Shape of the result.
    shape: Vec<usize>,
    /// A missing element.
    background: Vec<u8>,
}

/// Selected elements of a part, in a source and in the result.
pub(super) struct Places<'a> {
    /// One for each axis of the result.
    pub(super) dims: Vec<Dim<'a>>,
    /// Offset of the first element in the source.
    pub(super) from: usize,
    /// Offset of the first element in the result.
    pub(super) to: usize,
}

impl<'a> Work<Part<'a>> for Place<'a> {
    fn run(
        &self,
        part: Part<'a>,
        bytes: Result<Bytes<'_>, ArrayError>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let placed = bytes.and_then(|bytes| self.place(&part, part.stored(bytes), scratch));
        placed.map_err(|error| match error {
            ArrayError::Changed { .. } | ArrayError::Store(_) | ArrayError::Read(_) => error,
            error => self.plan.wrong(part.position, error),
        })
    }
}

impl<'a> Place<'a> {
    /// Places elements in `out`, which fits the selection.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        elements: Elements<'a>,
        shape: Vec<usize>,
        out: &'a mut [u8],
    ) -> Result<Self, ArrayError> {
        let slabs = Slabs::new(out, &shape, plan);
        Ok(Self { plan, elements, slabs, shape, background: background(plan.array)? })
    }

    fn place(&self, part: &Part<'_>, bytes: Bytes<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let outside = || ArrayError::TooFewElements;
        let size = self.plan.element;
        if let Stored::Missing = part.bytes {
            let Places { dims, to, .. } =
                Places::of(self.plan, part, &self.shape, size, false).ok_or_else(outside)?;
            let mut write = |dims: &[Dim<'_>], _: usize, (slab, to): (&mut [u8], usize)| {
                fill(dims, &self.background, slab, to)
            };
            return self.slabs.place(&dims, (0, to), &mut write).ok_or_else(outside);
        }
        let length = self.elements.length(&part.shape)?;
        let places = Places::of(self.plan, part, &self.shape, size, true).ok_or_else(outside)?;
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
        bytes: Bytes<'_>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        match bytes {
            Bytes::In(object, range) if part.is_plain => {
                let read = object.read_now(range.start, out).unwrap_or(Ok(0)).map_err(of_store)?;
                if read != out.len() {
                    return Err(ArrayError::Truncated { range, name: object.name().to_owned() });
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
        bytes: Bytes<'_>,
        places: &Places<'_>,
        read: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), ArrayError> {
        let stored = all(bytes, read)?;
        let elements = match part.is_plain && self.elements.is_native() {
            true => stored,
            false => self.elements.decode(&part.shape, stored, scratch)?,
        };
        let mut write = |dims: &[Dim<'_>], from: usize, target: (&mut [u8], usize)| {
            copy(dims, self.plan.element, (elements, from), target)
        };
        let placed = self.slabs.place(&places.dims, (places.from, places.to), &mut write);
        placed.ok_or(ArrayError::TooFewElements)
    }
}

/// Returns all stored bytes of a part.
pub(super) fn all<'b>(bytes: Bytes<'b>, read: &'b mut Vec<u8>) -> Result<&'b [u8], ArrayError> {
    match bytes {
        Bytes::Here(bytes) => Ok(bytes),
        Bytes::In(object, range) => {
            let bytes = read_now(object, range, read)?;
            match bytes.len() as u64 == range.length {
                true => Ok(bytes),
                false => Err(ArrayError::Truncated { range, name: object.name().to_owned() }),
            }
        }
    }
}

impl<'a> Places<'a> {
    /// Returns the places of the selected elements of a part, of `size` bytes each, in a result of the given shape.
    /// Without a source, offsets in it are those in the result.
    pub(super) fn of(
        plan: &Plan<'_>,
        part: &'a Part<'_>,
        shape: &[usize],
        size: usize,
        has_source: bool,
    ) -> Option<Self> {
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
        let mut places = Self { dims: Vec::with_capacity(parts.len()), from: 0, to: 0 };
        let mut to_stride = size;
        for ((part, count), from_stride) in parts.iter().zip(shape).zip(from_strides).rev() {
            let from_stride = if has_source { from_stride } else { to_stride };
            places.push(part, from_stride, to_stride, has_source)?;
            to_stride = to_stride.checked_mul(*count)?;
        }
        places.dims.reverse();
        Some(places)
    }

    /// Adds an axis.
    fn push(
        &mut self,
        part: &AxisPart<'a>,
        from_stride: usize,
        to_stride: usize,
        has_source: bool,
    ) -> Option<()> {
        let bytes = |index: u64, stride: usize| usize::try_from(index).ok()?.checked_mul(stride);
        self.dims.push(match part.steps {
            Steps::Even { from, step, count, to } => {
                if has_source {
                    self.from = self.from.checked_add(bytes(from.checked_sub(part.base)?, from_stride)?)?;
                }
                self.to = self.to.checked_add(bytes(to, to_stride)?)?;
                let step = if has_source { step } else { 1 };
                let count = usize::try_from(count).ok()?;
                Dim::Even { count, from: bytes(step, from_stride)?, to: to_stride }
            }
            Steps::Each(pairs) => Dim::Each { pairs, base: part.base, from: from_stride, to: to_stride },
        });
        Some(())
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
fn background(array: &Array) -> Result<Vec<u8>, ArrayError> {
    let zero = || FillValue::zero(&array.data_type);
    match array.fill_value.clone().unwrap_or_else(zero) {
        FillValue::Fixed(bytes) if array.data_type.size() == Some(bytes.len() as u64) => Ok(bytes.to_vec()),
        _ => Err(ArrayError::FillValue),
    }
}
