//! Reads the metadata of HDF5 files: what they hold, and where.
//!
//! Three layers: `spec` parses one on-disk structure a file, each a pure function of bytes; `walk` fetches them level by
//! level, all ranges of a level in one batch; [`model`] is the plain data that comes out.
//!
//! Architecture invariants: `spec` contains no `async`; nothing here knows Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
mod filters;
pub mod model;
#[cfg(test)]
mod mutations;
mod read;
mod spec;
mod value;
mod walk;

pub use error::Error;
pub use read::{read, resolve_elements};
pub use value::decode_element;
