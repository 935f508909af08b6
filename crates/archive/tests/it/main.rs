//! Integration tests, in one binary.

mod batch;
mod list;
