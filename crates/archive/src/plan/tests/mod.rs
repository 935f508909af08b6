//! Where files go.

mod extents;
mod merge;
mod overlaps;
mod plan;
mod scale;
mod text;
