//! Integration tests, in one binary.

mod arithmetic;
mod encoding;
mod fill_values;
mod readers;
mod reading;
mod types;
