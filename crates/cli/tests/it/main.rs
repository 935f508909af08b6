//! Integration tests, in one binary.

mod command;
mod help;
