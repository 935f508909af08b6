//! Integration tests, in one binary.

mod files;
mod levels;
