//! Reads structures level by level: all ranges of a level in one batch.

pub(crate) mod attributes;
mod batch;
pub(crate) mod btree2;
mod chunk_btree1;
mod chunk_btree2;
mod chunk_columns;
mod chunk_request;
mod chunks;
mod dense;
mod extensible_array;
mod fixed_array;
mod fractal_heaps;
pub(crate) mod global_heap;
pub(crate) mod graph;
mod groups;
pub(crate) mod headers;
mod io;
pub(crate) mod layouts;
mod links;
#[cfg(test)]
pub(crate) mod ready;
pub(crate) mod shared;
mod sized;
pub(crate) mod struct_metadata;
pub(crate) mod symbol_tables;

pub(crate) use io::Io;
