//! Many files as one dataset: lists them, reads each one's metadata once, groups files by what must agree, and combines
//! those that do along one or more dimensions.
//!
//! The way of the data:
//!
//! ```text
//! patterns ──list──▶ Item ──read──▶ Member ──journal──▶ eras ──combine──▶ Hierarchy ──emit──▶ references
//! ```
//!
//! Architecture invariant: [`eras`] and [`combine`] are functions of values; they wait for nothing and read nothing. What
//! disagrees is never merged.

mod batch;
mod compat;
mod error;
mod event;
mod item;
mod join;
mod journal;
mod layout;
pub mod list;
mod member;
mod plan;
mod read;
#[cfg(feature = "icechunk")]
mod repository;
mod scan;
mod values;

pub use batch::{
    Batch, BatchBuilder, BatchOptions, CombineOptions, FileOptions, LayoutOptions, RunOptions, Target,
};
pub use compat::{
    ArraySignature, Difference, DimRole, Numbers, Signature, Stored, differences, is_coordinate, roles,
    wanted,
};
pub use error::{CombineError, Error, Note, OptionConflict, Problem};
pub use event::{Event, Summary};
pub use item::Item;
pub use join::combine;
pub use journal::{Journal, JournalError, OptionDifference, journal_beside};
pub use layout::{Along, Layout, NamePattern, catalogue_value, given};
pub use member::{Member, Wanted};
pub use plan::{
    Block, Direction, Extent, FileExtent, Known, LeftOut, OnDuplicate, OnMismatch, Plan, PlanOptions,
    PlannedEra, Range, Selection, Signatures, plan,
};
#[cfg(feature = "icechunk")]
pub use repository::commit_or_append;
pub use scan::{Coordinate, Era, Eras, FailedFile, Scan, ScanOptions, Seen, Stretch, scan, scan_inputs};

pub use values::{Scalar, time_value};
