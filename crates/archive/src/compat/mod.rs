//! Which files are compatible: the one place that decides it.
//!
//! A [`Signature`] holds all that must be equal in files that are combined, in a canonical form: levels of compressors are
//! omitted, whole numbers are integers, and each calendar has one name. [`differences`] lists the differences between two
//! signatures; [`signature::ArrayParts::storage`] decides whether one array can refer to the chunks of files that agree.

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
