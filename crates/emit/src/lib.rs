//! Writes virtual Zarr hierarchies as reference files.
//!
//! Architecture invariants: this crate decides nothing and reads no source; the same hierarchy gives the same bytes.

mod consolidated;
mod folder;
mod format;
mod formats;
mod json;
mod parquet_column;
mod parquet_folder;
mod references;
mod sink;

use std::io;

use virtualize_zarr::{Hierarchy, MetadataError, ZarrFormat};

pub use format::Format;
pub use parquet_folder::MOST_RECORDS;
pub use sink::Sink;

use format::Writer;

/// Error of writing a hierarchy.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// The sink failed.
    #[error("writing references: {0}")]
    Io(#[from] io::Error),
    /// The hierarchy was mapped for the other Zarr format.
    #[error("the hierarchy was mapped for Zarr {found:?}, not for Zarr {expected:?}")]
    Format {
        /// What the output needs.
        expected: ZarrFormat,
        /// What the hierarchy is.
        found: ZarrFormat,
    },
    /// The other of [`write()`] and [`write_files`] writes the format.
    #[error("the format is {}", if *several { "several files, not one" } else { "one file, not several" })]
    Files {
        /// Whether the format is several files.
        several: bool,
    },
    /// The format cannot express an array.
    #[error("array {path}: {error}")]
    Metadata {
        /// The array.
        path: String,
        /// What it cannot express.
        error: MetadataError,
    },
    /// No client would find a node of this name.
    #[error("node {path}: the name {name:?} cannot be part of a Zarr key")]
    Name {
        /// The group it is in.
        path: String,
        /// Its name.
        name: String,
    },
    /// Readers would not find the chunks of a node of this name.
    #[error(
        "node {path}: names that start with .z or have #, ? or % cannot be written as Parquet, where readers would \
         not find the chunks; write JSON"
    )]
    FileName {
        /// The node.
        path: String,
    },
    /// Too many rows per Parquet file.
    #[error("record size {found}: at most {most}")]
    RecordSize {
        /// The requested number.
        found: u32,
        /// The maximum.
        most: u32,
    },
    /// An offset or length that a signed integer cannot hold.
    #[error("array {path}: offset or length of chunk {position} is 2^63 or more")]
    Offset {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
    },
    /// A chunk that readers of Parquet would mistake for a whole file.
    #[error(
        "array {path}: chunk {position} is 0 bytes at offset 0, which means the whole file in Parquet; write JSON"
    )]
    Empty {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
    },
    /// A Parquet table cannot be written.
    #[error("array {path}: {reason}")]
    Parquet {
        /// The array.
        path: String,
        /// Why.
        reason: String,
    },
    /// A chunk position outside the array's grid.
    #[error("array {path}: chunk {position} is outside its grid of {counts:?} chunks")]
    Position {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
        /// Chunks along each axis.
        counts: Vec<u64>,
    },
    /// A chunk in a source that the hierarchy does not list.
    #[error("array {path}: chunk {position} lies in source {source_index}, but there are {sources}")]
    Source {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
        /// Index of its source.
        source_index: u32,
        /// Number of sources of the hierarchy.
        sources: usize,
    },
}

/// Returns whether clients find a node of this name: not empty, not `.` or `..`, without slashes (nor backslashes, which
/// zarr-python converts), and not the name of a metadata document.
pub fn is_valid_name(name: &str) -> bool {
    let reserved = ["", ".", "..", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"];
    !reserved.contains(&name) && !name.contains(['/', '\\'])
}

/// Writes a hierarchy as one file. Metadata is also consolidated, so that xarray opens the references without a warning.
///
/// # Errors
/// [`EmitError`]. What was written before an error is not a valid file.
pub fn write(hierarchy: &Hierarchy, format: Format, out: &mut impl io::Write) -> Result<(), EmitError> {
    check(hierarchy, format)?;
    match format.writer() {
        Writer::File(write) => write(hierarchy, out),
        Writer::Folder(_) => Err(EmitError::Files { several: true }),
    }
}

/// Writes a hierarchy as several files; those that readers open first are written last.
///
/// # Errors
/// [`EmitError`]. What was written before an error is not a valid output.
pub fn write_files(hierarchy: &Hierarchy, format: Format, sink: &mut dyn Sink) -> Result<(), EmitError> {
    check(hierarchy, format)?;
    match format.writer() {
        Writer::Folder(write) => write(hierarchy, format, sink),
        Writer::File(_) => Err(EmitError::Files { several: false }),
    }
}

/// Returns the metadata documents of a hierarchy by key, such as `a/zarr.json`, starting with the root's, which contains the
/// consolidated metadata.
///
/// # Errors
/// [`EmitError`] if the format cannot express a node.
pub fn metadata(hierarchy: &Hierarchy) -> Result<Vec<(String, serde_json::Value)>, EmitError> {
    consolidated::documents(hierarchy)
}

fn check(hierarchy: &Hierarchy, format: Format) -> Result<(), EmitError> {
    let expected = format.zarr_format();
    match hierarchy.format == expected {
        true => Ok(()),
        false => Err(EmitError::Format { expected, found: hierarchy.format }),
    }
}
