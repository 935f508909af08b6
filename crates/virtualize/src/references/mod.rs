//! Existing reference sets: reading, conversion, comparison and validation.

mod compare;
mod convert;
mod diff;
mod difference;
mod location;
mod meaning;
mod pairs;
mod parts;
mod pending;
mod read;
mod report;
mod resolve;
mod text;
mod validate;

pub use compare::compare;
pub use convert::convert;
pub use diff::diff;
pub use difference::{ChunkDifference, Difference, NodeDifference};
pub use location::ReadOptions;
pub use read::read_references;
pub use report::{Checked, ValidationReport};
pub use resolve::record_sources;
pub use text::{from_text, to_text};
pub use validate::{Sample, validate};
