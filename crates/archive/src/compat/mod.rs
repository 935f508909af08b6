//! Which files can be put together: the one place that decides it.
//!
//! A [`Signature`] is all that must be equal in files which are put together, spelled so that what means the same is
//! equal: levels of compressors are omitted, whole numbers are integers, names of a calendar are one. Files of one
//! signature are a group. [`differences`] lists what tells two signatures apart; [`storage`] decides whether the chunks of
//! files that agree can be referred to from one array.

mod difference;
pub(crate) mod roles;
pub(crate) mod signature;
#[cfg(test)]
pub(crate) mod tests;

pub use difference::Difference;
pub(crate) use difference::differences;
pub(crate) use difference::{Conversion, disagreement, numbers_agree};
pub(crate) use difference::{Conversions, form_segments};
pub(crate) use roles::{DimRole, is_coordinate, wanted};
pub(crate) use roles::{MAX_COPIED, MAX_KEPT, is_copied, is_plain};
pub(crate) use signature::decode_alike;
pub(crate) use signature::{ArraySignature, Signature};
