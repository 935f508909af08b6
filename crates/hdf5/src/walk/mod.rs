//! Fetches structures level by level: all ranges of a level in one batch.

mod batch;
pub(crate) mod btree2;
mod io;

pub(crate) use io::Io;
