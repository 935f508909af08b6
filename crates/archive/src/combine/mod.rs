//! Joins files that agree along dimensions.
//!
//! [`wanted`] says which arrays of a file must be read, [`Brief::of`] what must be known of it to find its place,
//! [`plan`] gives each file its place, and [`combine`] joins the references of those that are of one era.
//!
//! What varies along a dimension ([`places`]): with [`crate::Along::Concat`] the arrays that have it; with
//! [`crate::Along::Stack`] the data variables, and not the coordinates (arrays named by their only dimension, or by
//! attributes such as `coordinates`, `bounds`, `grid_mapping`). All others must be equal in all files, and come from
//! the first.

mod absent;
mod alike;
mod along;
mod attributes;
mod brief;
mod coordinate;
mod copied;
mod finish;
mod geometry;
mod grow;
pub(crate) mod join;
mod natural;
mod numbers;
mod overlap;
mod part;
pub(crate) mod places;
mod plan;
mod refer;
pub(crate) mod store;
#[cfg(test)]
mod tests;
pub(crate) mod time;
mod unify;

pub use crate::error::{CombineError, Note};
pub use crate::layout::{NamePattern, catalogue_value, given};
pub use crate::values::{Scalar, time_value};
pub(crate) use alike::{merge, numbers_agree};
pub(crate) use brief::coordinates;
pub use brief::{Brief, Direction, Extent, Range, Taken};
pub use join::combine;
pub use places::{Place, is_coordinate, places, wanted};
pub use plan::{Block, Kinds, Known, LeftOut, OnDuplicate, OnMismatch, Plan, PlanOptions, PlannedEra, plan};
pub(crate) use store::may_be_copied;
