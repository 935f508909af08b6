//! Existing reference sets: reading, conversion, comparison and validation.

mod convert;
mod diff;
mod read;
mod validate;

pub use convert::{convert, from_text, to_text};
pub use diff::{ChunkDifference, Difference, NodeDifference, compare, diff};
pub use read::{ReadOptions, read_references, record_sources};
pub use validate::{Checked, Sample, ValidationReport, validate};
