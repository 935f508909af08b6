//! Existing reference sets: reading, conversion, comparison and validation.

mod convert;
mod diff;
mod read;
mod shards;
mod tables;
mod validate;

pub use convert::{convert, from_text, to_text};
pub use diff::{ChunkDifference, Difference, NodeDifference, compare, diff};
pub(crate) use read::{OpenReferences, open_references, resolved};
pub use read::{read_references, record_sources};
pub(crate) use tables::Tables;
pub use validate::{Checked, Sample, ValidationReport, validate};
