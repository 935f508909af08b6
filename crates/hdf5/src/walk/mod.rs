//! Fetches structures level by level: all ranges of a level in one batch.

mod batch;
pub(crate) mod btree2;
mod chunk_btree1;
mod chunk_btree2;
mod chunk_columns;
pub(crate) mod chunks;
mod extensible_array;
mod fixed_array;
mod io;

pub(crate) use io::Io;
