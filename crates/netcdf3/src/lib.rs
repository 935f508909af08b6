#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! `header` and `layout` parse the NetCDF Classic Format Specification as pure functions of bytes; [`read()`] fetches as much
//! of the header as there is. The result is the model of `virtualize-hdf5`: a root group with a dataset for each variable.
//!
//! ```text
//! netcdf_file = header data
//! header      = magic numrecs dim_list gatt_list var_list
//! data        = non_recs recs
//! ```
//!
//! All numbers are big-endian. Counts and lengths have 4 bytes, in CDF-5 8.
//!
//! Where the NetCDF Classic Format Specification leaves a choice, or a file contradicts it, this crate does what netCDF-C
//! does, or refuses the file.
//!
//! Architecture invariants: the parsers contain no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
mod header;
mod layout;
mod model;
mod read;

pub use error::Error;
pub use header::is_netcdf3;
pub use read::read;
