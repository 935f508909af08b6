//! Huffman codes (T.81, annexes C and F) and the bits of a scan.

use super::malformed;
use crate::CodecFailure;

/// Most bits of a code.
const LONGEST: usize = 16;

/// A table of codes.
#[derive(Clone, Debug)]
pub(super) struct Huffman {
    /// By length: the first code, the number of codes, and the place of the first one's value.
    lengths: [(u32, u32, usize); LONGEST],
    values: Vec<u8>,
}

impl Huffman {
    /// Parses 16 numbers of codes by length, then the values. Returns the table and its length in bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, usize), CodecFailure> {
        let (counts, rest) =
            bytes.split_first_chunk::<LONGEST>().ok_or_else(|| malformed("a table is cut off"))?;
        let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
        let values = rest.get(..total).filter(|values| values.len() <= 256);
        let values = values.ok_or_else(|| malformed("a table is cut off"))?.to_vec();
        let mut lengths = [(0, 0, 0); LONGEST];
        let (mut code, mut place) = (0_u32, 0_usize);
        for (bits, (length, count)) in lengths.iter_mut().zip(counts).enumerate() {
            *length = (code, u32::from(*count), place);
            code = code.saturating_add(u32::from(*count));
            place = place.saturating_add(usize::from(*count));
            if code > 2 << bits {
                return Err(malformed("a table has more codes than bits allow"));
            }
            code = code.saturating_mul(2);
        }
        Ok((Self { lengths, values }, LONGEST.saturating_add(total)))
    }

    /// Returns a table of lengths of DC differences, which libjpeg limits.
    pub(super) fn of_dc(self) -> Result<Self, CodecFailure> {
        match self.values.iter().find(|value| **value > 15) {
            Some(value) => Err(malformed(format!("a DC difference of {value} bits"))),
            None => Ok(self),
        }
    }

    /// Reads the value of the next code.
    pub(super) fn next(&self, bits: &mut Bits<'_>) -> Result<u8, CodecFailure> {
        let mut code = 0_u32;
        for (first, count, place) in &self.lengths {
            code = code << 1 | bits.bit()?;
            let index = code.wrapping_sub(*first);
            if code >= *first && index < *count {
                let at = usize::try_from(index).ok().and_then(|index| place.checked_add(index));
                return at
                    .and_then(|at| self.values.get(at))
                    .copied()
                    .ok_or_else(|| malformed("a code without value"));
            }
        }
        Err(malformed("an unknown code"))
    }
}

/// Bits of a scan, most significant first. A byte of ones is followed by a zero, which does not count, or is a marker.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    rest: &'a [u8],
    byte: u8,
    left: u8,
}

impl<'a> Bits<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest, byte: 0, left: 0 }
    }

    pub(super) fn bit(&mut self) -> Result<u32, CodecFailure> {
        if self.left == 0 {
            (self.byte, self.rest) = match *self.rest {
                [0xff, 0, ref rest @ ..] => (0xff, rest),
                [0xff, ..] | [] => return Err(malformed("the data end before the image does")),
                [byte, ref rest @ ..] => (byte, rest),
            };
            self.left = 8;
        }
        self.left -= 1;
        Ok(u32::from(self.byte >> self.left & 1))
    }

    /// Reads a difference or coefficient of so many bits (T.81, F.2.2.1).
    pub(super) fn signed(&mut self, bits: u8) -> Result<i32, CodecFailure> {
        if bits > 15 {
            return Err(malformed(format!("a coefficient of {bits} bits")));
        }
        let mut value = 0_i32;
        for _ in 0..bits {
            value = value << 1 | i32::from(self.bit()? == 1);
        }
        let is_negative = bits > 0 && value >> (bits - 1) == 0;
        Ok(if is_negative { value - (1 << bits) + 1 } else { value })
    }

    /// Skips to the byte after the next restart marker.
    pub(super) fn restart(&mut self, number: u8) -> Result<(), CodecFailure> {
        self.left = 0;
        while let [0xff, 0xff, ..] = self.rest {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        match *self.rest {
            [0xff, marker, ref rest @ ..] if marker == 0xd0 + number % 8 => self.rest = rest,
            _ => return Err(malformed("no restart marker where one should be")),
        }
        Ok(())
    }
}
