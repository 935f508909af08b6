//! Integration tests, in one binary.

mod decoder;
mod oracle;
mod round_trip;
