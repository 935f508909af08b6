#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! ```text
//! patterns ──list──▶ Item ──read──▶ Member ──journal──▶ Signature, FileExtent ──plan──▶ Plan ──join──▶ Hierarchy
//! ```
//!
//! **Architecture invariant:** `values`, `compat`, `plan` and `join` are functions of values: they do no I/O. Files that
//! disagree are never merged; `compat` alone decides what that means.
//!
//! **Architecture invariant:** modules import downwards only, in the order `batch` and `scan`, `read`, `join`, `plan`,
//! `compat`, `layout`, `values`. A test of the command's crate holds the table.

mod batch;
mod compat;
mod error;
mod event;
mod file;
mod join;
mod journal;
mod layout;
pub mod list;
mod plan;
mod read;
mod scan;
mod values;

pub use batch::{
    Batch, BatchOptions, CoordSource, FileOptions, LayoutOptions, OnChange, OnFailure, RunOptions, Shard,
    ShardPlan, Target,
};
pub use compat::Difference;
pub(crate) use error::Result;
pub use error::{CombineError, Error, Problem};
pub use event::{Event, Summary};
pub use file::Item;
pub(crate) use file::{Member, Wanted};
pub(crate) use journal::Journal;
pub use journal::{FailureState, JournalError, JournalState, OutputState};
pub use layout::{Along, ArrayRule, Layout, NamePattern};
pub use plan::{OnDuplicate, OnMismatch, PlanOptions, Proposal};
pub use scan::{Coordinate, FailedFile, FileRun, FileSet, FileSets, Scan, ScanOptions, scan_inputs};
