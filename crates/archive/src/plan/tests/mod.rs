//! Where files go.

mod eras;
mod extents;
mod grid;
mod merge;
mod overlaps;
mod plan;
mod scale;
mod steps;
mod text;
