#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! `spec` parses the structures, as pure functions of bytes; [`read()`] fetches directories and values, as many as possible
//! in one batch; [`model`] is the result as plain data.
//!
//! Architecture invariants: `spec` contains no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
pub mod model;
mod read;
mod spec;

pub use error::{Error, Structure};
pub use read::read;
pub use spec::{Ome, OmeImage, TiffData, is_tiff, parse_arcgis_code, parse_ome, parse_pam, parse_world_file};
