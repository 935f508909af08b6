//! Elements of variable length.

use virtualize_zarr::{Array, Codec, FillValue};

use crate::decode;

/// Elements as they are found; they are laid out by their numbers.
pub(super) struct Variable {
    /// The first is what a missing one reads as.
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

    /// The numbers of a chunk's elements, 8 bytes each. Its bytes say how many there are, and before each its length, as
    /// 4 bytes little-endian (`vlen-utf8` and `vlen-bytes` of numcodecs).
    pub(super) fn chunk(&mut self, array: &Array, shape: &[u64], bytes: &[u8]) -> Result<Vec<u8>, String> {
        if !array.codecs.iter().any(|codec| matches!(codec, Codec::VlenUtf8 | Codec::VlenBytes)) {
            return Err(format!("{} without vlen-utf8 or vlen-bytes", array.data_type));
        }
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let stored = virtualize_codec::decode_variable(&array.codecs, bytes, most);
        let stored = stored.map_err(|error| error.to_string())?;
        let (count, mut rest) = number(&stored).ok_or("it ends before the number of its elements")?;
        if decode::count(shape) != Some(u64::from(count)) {
            return Err(format!("{count} elements, expected a shape of {shape:?}"));
        }
        let mut numbers = Vec::new();
        for _ in 0..count {
            let (element, after) = element(rest).ok_or("it ends within an element")?;
            numbers.extend_from_slice(&(self.known.len() as u64).to_le_bytes());
            self.add(element)?;
            rest = after;
        }
        Ok(numbers)
    }

    fn add(&mut self, element: &[u8]) -> Result<(), String> {
        let held = (element.len() + size_of::<Vec<u8>>()) as u64;
        self.bytes = self.bytes.saturating_add(held);
        if self.bytes > self.most {
            return Err(format!("the array has more than the {} bytes that are read at once", self.most));
        }
        self.known.push(element.to_vec());
        Ok(())
    }

    /// The elements of all numbers, each with its length before it.
    pub(super) fn joined(&self, numbers: &[u8]) -> Result<Vec<u8>, String> {
        let mut joined = Vec::new();
        for number in numbers.as_chunks::<8>().0 {
            let at = usize::try_from(u64::from_le_bytes(*number)).ok();
            let element = at.and_then(|at| self.known.get(at)).ok_or("an element is missing")?;
            let length = u32::try_from(element.len()).map_err(|error| error.to_string())?;
            joined.extend_from_slice(&length.to_le_bytes());
            joined.extend_from_slice(element);
            if joined.len() as u64 > self.most.saturating_mul(2) {
                return Err(format!("more than the {} bytes that are read at once", self.most));
            }
        }
        Ok(joined)
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

fn element(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}
