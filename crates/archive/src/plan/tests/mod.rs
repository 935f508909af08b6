//! Where files go.

mod extents;
mod grid;
mod merge;
mod overlaps;
mod plan;
mod scale;
mod sets;
mod steps;
mod text;
