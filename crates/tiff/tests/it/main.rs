//! Integration tests, in one binary.

mod hostile;
mod read;
mod support;
