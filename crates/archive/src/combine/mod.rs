//! Joins files that agree along dimensions.
//!
//! [`wanted`] says which arrays of a file must be read, [`Brief::of`] what must be known of it to find its place,
//! [`plan`] gives each file its place, and [`combine`] joins the references of those that are of one era.
//!
//! What varies along a dimension ([`places`]): with [`crate::Along::Concat`] the arrays that have it; with
//! [`crate::Along::Stack`] the data variables, and not the coordinates (arrays named by their only dimension, or by
//! attributes such as `coordinates`, `bounds`, `grid_mapping`). All others must be equal in all files, and come from
//! the first.

#[allow(dead_code)]
pub(crate) mod calendar;
#[allow(dead_code)]
mod error;
pub(crate) mod places;
mod time;

pub use error::{CombineError, Note};
pub use places::{Place, is_coordinate, places, wanted};
