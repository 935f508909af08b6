//! Which files can be put together: the one place that decides it.
//!
//! A [`Signature`] is all that must be equal in files which are put together, spelled so that what means the same is
//! equal: levels of compressors are left out, whole numbers are integers, names of a calendar are one. Files of one
//! signature are a group. [`differences`] lists what tells two signatures apart; [`storage`] decides whether the chunks of
//! files that agree can be referred to from one array.

mod attributes;
mod copying;
mod difference;
pub(crate) mod geometry;
mod numbers;
pub(crate) mod role;
mod signature;
mod spelling;
pub(crate) mod storage;
mod stored;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod times;
mod wanted;

pub(crate) use copying::{MAX_KEPT, is_copied, is_plain};
pub(crate) use difference::{Conversion, disagreement, numbers_agree};
pub use difference::{Difference, differences};
pub use numbers::Numbers;
pub use role::{DimRole, is_coordinate, roles};
pub use signature::{ArraySignature, Signature};
pub(crate) use spelling::decode_alike;
pub use stored::Stored;
pub use wanted::wanted;
