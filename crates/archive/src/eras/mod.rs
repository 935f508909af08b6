//! Groups files by what must agree.
//!
//! A [`Signature`] is all that must be equal in files which are put together, spelled so that what means the same is
//! equal: levels of compressors are left out, whole numbers are integers, names of a calendar are one. Files of one
//! signature are an era. [`differences`] says what tells two signatures apart.

pub(crate) mod attributes;
mod difference;
mod group;
mod signature;
mod stored;

pub use difference::{Difference, differences};
pub use group::{Coordinate, Era, Eras, Seen, Stretch};
pub use signature::{ArraySignature, Signature};
pub(crate) use signature::{MISSING, decode_alike, fill_value};
pub use stored::{Numbers, Stored};

#[cfg(test)]
mod tests;
