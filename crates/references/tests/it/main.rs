//! Integration tests, in one binary.

mod every_codec;
mod json;
mod parquet;
mod write;
