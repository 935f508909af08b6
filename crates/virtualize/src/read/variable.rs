//! Placement of the selected elements of variable length.

use std::sync::Mutex;

use bytes::Bytes;
use virtualize_zarr::{Array, FillValue};

use super::place::{Places, all};
use super::plan::{Part, Plan, Stored};
use super::run::{self, Scratch, Work, lock};
use crate::decode::{Dim, each};
use crate::error::ArrayError;
use crate::variable;

/// Places elements of variable length.
pub(super) struct PlaceVariable<'a> {
    plan: &'a Plan<'a>,
    /// Shape of the result.
    shape: Vec<usize>,
    /// Most bytes of all elements.
    most: u64,
    result: Mutex<Elements>,
}

struct Elements {
    all: Vec<Bytes>,
    bytes: u64,
}

impl<'a> PlaceVariable<'a> {
    /// Allocates memory for the result, in which all elements are missing.
    pub(super) fn new(plan: &'a Plan<'a>, shape: Vec<usize>, most: u64) -> Result<Self, ArrayError> {
        let count = shape.iter().try_fold(1_usize, |all, count| all.checked_mul(*count));
        let mut all = Vec::new();
        let reserved = count.map(|count| all.try_reserve_exact(count));
        let (Some(count), Some(Ok(()))) = (count, reserved) else {
            return Err(ArrayError::TextTooLarge(most));
        };
        let fill = fill(plan.array);
        let bytes = (fill.len() as u64).saturating_mul(count as u64);
        if bytes > most {
            return Err(ArrayError::TextTooLarge(most));
        }
        all.resize(count, fill);
        Ok(Self { plan, shape, most, result: Mutex::new(Elements { all, bytes }) })
    }

    /// Returns the elements, once all parts are placed.
    pub(super) fn into_elements(self) -> Vec<Bytes> {
        self.result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).all
    }

    fn place(&self, part: &Part<'_>, bytes: run::Bytes<'_>, scratch: &mut Scratch) -> Result<(), ArrayError> {
        let stored = all(bytes, &mut scratch.read)?;
        let values = variable::values(self.plan.array, stored, &part.shape, self.most)?;
        let elements: Vec<&[u8]> = variable::elements(&values).collect();
        let outside = || ArrayError::TooFewElements;
        let places = Places::of(self.plan, part, &self.shape, 1, true).ok_or_else(outside)?;
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
            return Err(ArrayError::TextTooLarge(self.most));
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
        placed.map_err(|error| self.plan.wrong(part.position, error))
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
fn fill(array: &Array) -> Bytes {
    match &array.fill_value {
        Some(FillValue::Text(text)) => text.clone().into(),
        Some(FillValue::Variable(bytes) | FillValue::Fixed(bytes)) => bytes.clone(),
        None => Bytes::new(),
    }
}
