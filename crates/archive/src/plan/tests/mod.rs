//! Where files go.

mod merge;
mod plan;
