//! Fetches directories and values, in as few batches of ranges as the format permits.

mod chain;
mod io;
mod tree;

pub use tree::read;
