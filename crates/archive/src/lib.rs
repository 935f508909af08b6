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
    ShardPlan, Target, shard_size,
};
pub use compat::{
    ArraySignature, Difference, DimRole, Numbers, Signature, Stored, differences, is_coordinate, roles,
    wanted,
};
pub(crate) use error::Result;
pub use error::{CombineError, Error, Note, Problem};
pub use event::{Event, Summary};
pub use file::{Item, Member, Wanted};
pub use journal::{
    FailureState, Journal, JournalError, JournalErrorKind, JournalState, OptionDifference, OutputState,
    journal_beside,
};
pub use layout::{Along, ArrayRule, Layout, NamePattern, given};
pub use plan::{
    Block, Cure, Direction, Extent, FileExtent, Files, Known, LeftOut, OnDuplicate, OnMismatch, Plan,
    PlanOptions, PlannedEra, Range, Selection, Selections, Signatures, Units, plan,
};
pub use scan::{Coordinate, Era, Eras, FailedFile, Scan, ScanOptions, Stretch, scan_inputs};
pub use values::{Grid, Scalar, time_value, value_or_time};
