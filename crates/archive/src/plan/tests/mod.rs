//! Where files go.

mod merge;
mod plan;
mod scale;
mod text;
