//! Collection of variable-length elements, which are placed by number.

use virtualize_zarr::{Array, FillValue};

use crate::array_error::ArrayError;
use crate::variable;

/// Distinct elements, numbered in the order of first occurrence.
pub(super) struct Variable {
    /// Known elements by number. The first is the fill value.
    known: Vec<Vec<u8>>,
    bytes: u64,
    most: u64,
}

impl Variable {
    pub(super) fn new(fill: Option<&FillValue>, most: u64) -> Self {
        let fill = match fill {
            Some(FillValue::Text(text)) => text.clone().into_bytes(),
            Some(FillValue::Variable(bytes) | FillValue::Fixed(bytes)) => bytes.to_vec(),
            None => Vec::new(),
        };
        Self { known: vec![fill], bytes: 0, most }
    }

    /// Adds the elements of a chunk. Returns their numbers, 8 bytes each.
    pub(super) fn chunk(
        &mut self,
        array: &Array,
        shape: &[u64],
        bytes: &[u8],
    ) -> Result<Vec<u8>, ArrayError> {
        let stored = variable::values(array, bytes, shape, self.most)?;
        let mut numbers = Vec::new();
        for element in variable::elements(&stored) {
            numbers.extend_from_slice(&(self.known.len() as u64).to_le_bytes());
            self.add(element)?;
        }
        Ok(numbers)
    }

    fn add(&mut self, element: &[u8]) -> Result<(), ArrayError> {
        let held = (element.len() + size_of::<Vec<u8>>()) as u64;
        self.bytes = self.bytes.saturating_add(held);
        if self.bytes > self.most {
            return Err(ArrayError::TextTooLarge(self.most));
        }
        self.known.push(element.to_vec());
        Ok(())
    }

    /// Returns the elements of the given numbers, each preceded by its length.
    pub(super) fn joined(&self, numbers: &[u8]) -> Result<Vec<u8>, ArrayError> {
        let mut joined = Vec::new();
        for number in numbers.as_chunks::<8>().0 {
            let at = usize::try_from(u64::from_le_bytes(*number)).ok();
            let element = at.and_then(|at| self.known.get(at)).ok_or(ArrayError::TooFewElements)?;
            let length = u32::try_from(element.len()).map_err(|_| ArrayError::TextTooLarge(self.most))?;
            joined.extend_from_slice(&length.to_le_bytes());
            joined.extend_from_slice(element);
            if joined.len() as u64 > self.most.saturating_mul(2) {
                return Err(ArrayError::TextTooLarge(self.most));
            }
        }
        Ok(joined)
    }
}
