#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Three layers: `spec` parses one structure per file of source, as a pure function of bytes; `walk` fetches
//! directories and values, as many as possible in one batch; [`model`] is the result as plain data.
//!
//! Architecture invariants: `spec` contains no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
pub mod model;
mod spec;
mod walk;

pub use error::{Error, Structure};
pub use spec::{Ome, OmeImage, TiffData, is_tiff, parse_arcgis_code, parse_ome, parse_pam, parse_world_file};
pub use walk::read;
