//! Integration tests, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod diagnostics;
mod gate;
mod keys;
mod mapping;
mod mapping_tiff;
mod netcdf3;
mod open_references;
mod oracle;
mod replay;
mod selections;
mod source_attributes;
mod validate;
mod values;
