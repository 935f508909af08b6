//! Single values of arrays and coordinates: numbers, times and text, and which of them mean "missing".

pub(crate) mod calendar;
pub(crate) mod grid;
pub(crate) mod scalar;
#[cfg(test)]
mod tests;
pub(crate) mod variable;

pub(crate) use grid::Grid;
pub(crate) use scalar::{Scalar, time_value, value_or_time};

/// Converts an index.
pub(crate) fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
