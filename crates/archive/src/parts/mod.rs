//! Plans and parts, through which several machines share a run.
//!
//! A plan is the list of the files. A shard is a contiguous range of it; reading a shard gives a part, which the run that
//! writes the output imports into its journal. Both are Parquet files in which any damaged byte is found; see
//! docs/archive.md, "Run on many machines". Neither contains credentials.

mod columns;
mod error;
mod items;
mod listing;
mod part;
mod place;
mod plan_file;
mod rows;
mod sealed;
mod set;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parquet::schema::{parser::parse_message_type, types::TypePtr};

pub use error::PartsError;
pub(crate) use listing::{ListingDigest, ListingId, line, parse_line};
pub(crate) use part::{Expected, PartFile, PartHeader, Spent, encode};
pub(crate) use place::write;
pub(crate) use plan_file::{PlanFile, PlanWriter, write_plan};
pub(crate) use rows::PartRow;
pub(crate) use set::{CheckedPart, PartSet, locate};
pub(crate) use shard::shards_of;
pub use shard::{ShardNumber, shard_size};

/// Parses a schema.
fn schema(text: &str) -> Result<TypePtr, sealed::Fault> {
    Ok(Arc::new(parse_message_type(text)?))
}

/// Rejects objects of another version of the format, or of the program, whose rows may differ.
fn check_version(
    name: &str,
    kind: &'static str,
    (found, expected): (u32, u32),
    program: &str,
) -> Result<(), PartsError> {
    let own = env!("CARGO_PKG_VERSION");
    if (found, program) == (expected, own) {
        return Ok(());
    }
    Err(PartsError::Version {
        name: name.to_owned(),
        kind,
        found: format!("{found} of program {program}"),
        expected: format!("{expected} of program {own}"),
    })
}
