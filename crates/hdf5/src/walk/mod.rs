//! Fetches structures level by level: all ranges of a level in one batch.

mod io;

pub(crate) use io::Io;
