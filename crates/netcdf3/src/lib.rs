#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Three layers: `spec` parses one structure per file of source, as a pure function of bytes; `walk` fetches as much of the
//! header as there is; [`model`] is the result as plain data.
//!
//! Where the NetCDF Classic Format Specification leaves a choice, or a file contradicts it, this crate does what netCDF-C
//! does, or refuses the file.
//!
//! Architecture invariants: `spec` contains no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
pub mod model;
#[cfg(test)]
mod mutations;
mod spec;
mod walk;

pub use error::Error;
pub use spec::is_netcdf3;
pub use walk::read;
