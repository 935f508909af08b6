//! Reference sets that are there already: read, said in another format, compared, and checked against their sources.

mod compare;
mod convert;
mod diff;
mod meaning;
mod parts;
mod pending;
mod read;
mod resolve;
mod text;
mod validate;

pub use compare::compare;
pub use convert::convert;
pub use diff::{ChunkDifference, Difference, NodeDifference, diff};
pub use read::{ReadOptions, read_references};
pub use resolve::record_sources;
pub use text::{from_text, to_text};
pub use validate::{Checked, Sample, ValidationReport, validate};
