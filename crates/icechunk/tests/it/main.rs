//! Integration tests, in one binary.

mod crashes;
mod parts;
mod read;
mod updates;
