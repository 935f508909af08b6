#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! A file of source is a structure of the HDF5 File Format Specification, version 3.0: its parsers, which are pure functions
//! of bytes, and its traversal, which fetches structures level by level, all ranges of a level in one batch. [`model`] is the
//! result as plain data.
//!
//! Architecture invariants: parsers are not `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attribute;
mod btree1;
mod btree2;
mod chunk_index;
mod cursor;
mod dataspace;
mod datatype;
mod error;
mod extensible_array;
mod fill_value;
mod filters;
mod fixed_array;
mod fractal_heap;
mod global_heap;
mod graph;
mod groups;
mod io;
mod layout;
pub mod model;
#[cfg(test)]
mod mutations;
mod object_header;
mod read;
mod reference;
mod shared;
mod struct_metadata;
mod superblock;
mod symbol_tables;
#[cfg(test)]
mod testing;
mod value;
mod virtual_dataset;

pub use cursor::lookup3;
pub use error::Error;
pub use read::{complete, read, read_sequences, resolve_elements};
pub use value::decode_element;
