#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! Three layers: `spec` parses one on-disk structure per file of source, as a pure function of bytes; `walk` fetches
//! structures level by level, all ranges of a level in one batch; [`model`] is the result as plain data.
//!
//! Architecture invariants: `spec` contains no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attribute;
mod attributes;
mod batch;
mod btree2;
mod btree2_walk;
mod cache_image;
mod checksum;
mod chunk_btree1;
mod chunk_btree1_walk;
mod chunk_btree2;
mod chunk_columns;
mod chunk_element;
mod chunk_grid;
mod chunk_request;
mod chunks;
mod context;
mod dataspace;
mod datatype;
mod dense;
mod error;
mod extensible_array;
mod extensible_array_walk;
mod external_files;
mod file_space;
mod fill_value;
mod filter_pipeline;
mod filters;
mod fixed_array;
mod fixed_array_walk;
mod fractal_heap;
mod fractal_heaps;
mod global_heap;
mod global_heap_walk;
mod graph;
mod group;
mod groups;
mod headers;
#[cfg(test)]
mod hex;
mod io;
mod layout;
mod layouts;
mod link;
mod links;
mod lookup3;
pub mod model;
#[cfg(test)]
mod mutations;
mod object_header;
mod prefix;
mod read;
mod reader;
#[cfg(test)]
mod ready;
mod reference;
mod selection;
mod shared;
mod shared_walk;
mod sized;
mod struct_metadata;
mod superblock;
mod symbol_tables;
mod tree_ranks;
mod value;
mod virtual_layout;
mod vlen;

pub use error::Error;
pub use read::{complete, read, read_sequences, resolve_elements};
pub use value::decode_element;
