//! Attributes by which CF and NetCDF give numbers their meaning, decided alike for every source format: fill values, missing
//! values, signs, packing.
//!
//! A format's mapping converts its attributes to [`CfAttributes`], and passes what its fill values say to [`FillQuestion`].

mod attribute;
mod cast;
mod fill;
mod packing;
mod sentinels;
#[cfg(test)]
mod tests;

pub(crate) use self::attribute::{CfAttribute, CfAttributes, CfValue};
pub(crate) use self::fill::{FillPlan, FillQuestion};
pub(crate) use self::packing::{check_factors, unpack, widened_packing};
pub(crate) use self::sentinels::write_sentinels;
