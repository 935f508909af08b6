//! Quantized errors of predictions (`SZ3/quantizer/IntegerQuantizer.hpp`).
//!
//! ```text
//! 1  kind   8  error bound   4  radius   8  number of values without a prediction   these values
//! ```

use super::{NAME, cut_off, number::Number, reader::Reader};
use crate::{CodecFailure, corrupt};

/// Restores values from predictions.
pub(super) struct Quantizer<T> {
    /// Half the width of a bin.
    pub(super) bound: f64,
    /// The code of an error of zero.
    radius: i32,
    exact: std::vec::IntoIter<T>,
}

impl<T: Number> Quantizer<T> {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, CodecFailure> {
        let [kind] = reader.array()?;
        if kind != 2 {
            return Err(corrupt(NAME, format!("a quantizer of kind {kind}")));
        }
        let (bound, radius) = (reader.f64()?, reader.i32()?);
        Ok(Self { bound, radius, exact: reader.values()?.into_iter() })
    }

    /// Returns the value with this code; 0 stands for the next value that is stored as it is.
    pub(super) fn recover(&mut self, predicted: T, code: i32) -> Result<T, CodecFailure> {
        match code {
            0 => self.exact.next().ok_or_else(cut_off),
            _ => {
                let bins = code.wrapping_sub(self.radius).wrapping_mul(2);
                Ok(T::from_f64(predicted.to_f64() + f64::from(bins) * self.bound))
            }
        }
    }
}
