#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Three layers: `spec` parses one on-disk structure per file of source, as a pure function of bytes; `walk` fetches
//! structures level by level, all ranges of a level in one batch; [`model`] is the result as plain data.
//!
//! Architecture invariants: `spec` contains no `async`, and this crate knows nothing about Zarr.
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
pub use read::{complete, read, read_sequences, resolve_elements};
pub use value::decode_element;
