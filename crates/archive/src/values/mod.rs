//! Single values of arrays and coordinates: numbers, times and text, and which of them mean "missing".

pub(crate) mod calendar;
pub(crate) mod convert;
pub(crate) mod dates;
pub(crate) mod paste;
pub(crate) mod scalar;
pub(crate) mod sentinel;
#[cfg(test)]
mod tests;
pub(crate) mod variable;

pub use scalar::{Scalar, time_value};
