//! Writes virtual Zarr hierarchies as reference files.
//!
//! Architecture invariants: nothing is decided here and no source is read; the same hierarchy gives the same bytes.

mod consolidated;
mod folder;
mod json;
mod parquet_column;
mod parquet_folder;
mod references;
mod sink;

use std::{io, num::NonZeroU32};

use virtualize_zarr::{Hierarchy, MetadataError, ZarrFormat};

pub use parquet_folder::MOST_RECORDS;
pub use sink::Sink;

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// kerchunk's JSON, version 1, with the keys of Zarr v2: `.zarray`, `x/0.1`.
    KerchunkJson,
    /// The same JSON with the keys of Zarr v3: `zarr.json`, `x/c/0/1`.
    Zarr3Json,
    /// A folder or prefix with the metadata of Zarr v3 as files, inline chunks as files, and `references.json`.
    Zarr3,
    /// kerchunk's Parquet layout (Zarr v2): a folder or prefix with `.zmetadata`, and files `NAME/refs.N.parq`.
    KerchunkParquet {
        /// Chunks of a file, at most [`MOST_RECORDS`].
        record_size: NonZeroU32,
    },
}

/// Why a hierarchy could not be written.
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
    /// An array that the format cannot say.
    #[error("array {path}: {error}")]
    Metadata {
        /// The array.
        path: String,
        /// What cannot be said.
        error: MetadataError,
    },
    /// No client finds a node of such a name.
    #[error("node {path}: the name {name:?} cannot be part of a Zarr key")]
    Name {
        /// The group it is in.
        path: String,
        /// Its name.
        name: String,
    },
    /// A node in whose files readers would look for chunks in vain.
    #[error(
        "node {path}: names that start with .z or have #, ? or % cannot be written as Parquet, where readers would \
         not find the chunks; write JSON"
    )]
    FileName {
        /// The node.
        path: String,
    },
    /// More rows a file than can be held.
    #[error("record size {found}: at most {most}")]
    RecordSize {
        /// What was asked for.
        found: u32,
        /// What can be.
        most: u32,
    },
    /// A chunk where signed numbers do not reach.
    #[error("array {path}: offset or length of chunk {position} is 2^63 or more")]
    Offset {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
    },
    /// A chunk that readers of Parquet would take for a whole file.
    #[error(
        "array {path}: chunk {position} is 0 bytes at offset 0, by which Parquet says the whole file; write JSON"
    )]
    Empty {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
    },
    /// A table that cannot be written.
    #[error("array {path}: {reason}")]
    Parquet {
        /// The array.
        path: String,
        /// Why.
        reason: String,
    },
    /// A chunk outside the array's grid.
    #[error("array {path}: chunk {position} is outside its grid of {counts:?} chunks")]
    Position {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
        /// Chunks along each axis.
        counts: Vec<u64>,
    },
    /// A chunk in a file that the hierarchy does not name.
    #[error("array {path}: chunk {position} lies in source {source_index}, but there are {sources}")]
    Source {
        /// The array.
        path: String,
        /// Row-major position of the chunk.
        position: u64,
        /// The source it lies in.
        source_index: u32,
        /// How many sources the hierarchy has.
        sources: usize,
    },
}

impl Format {
    /// Rows of a Parquet file where nothing else is said, as kerchunk has it.
    pub const RECORD_SIZE: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

    /// The Zarr format a hierarchy has to be mapped for.
    pub fn zarr_format(self) -> ZarrFormat {
        match self {
            Self::KerchunkJson | Self::KerchunkParquet { .. } => ZarrFormat::V2,
            Self::Zarr3Json | Self::Zarr3 => ZarrFormat::V3,
        }
    }

    /// Whether it is written as several files, in a folder or below a prefix.
    pub fn is_several_files(self) -> bool {
        match self {
            Self::KerchunkJson | Self::Zarr3Json => false,
            Self::Zarr3 | Self::KerchunkParquet { .. } => true,
        }
    }
}

/// Whether clients find a node of this name: not empty, no steps up or aside, no slash (also not backward, which
/// zarr-python turns round), none of the names of metadata documents.
pub fn is_valid_name(name: &str) -> bool {
    let reserved = ["", ".", "..", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"];
    !reserved.contains(&name) && !name.contains(['/', '\\'])
}

/// Writes a hierarchy as one file. Metadata is consolidated as well, so that xarray opens the references without a
/// warning.
///
/// # Errors
/// See [`EmitError`]. What was written before an error is no valid file.
pub fn write(hierarchy: &Hierarchy, format: Format, out: &mut impl io::Write) -> Result<(), EmitError> {
    check(hierarchy, format, false)?;
    references::write(hierarchy, out)
}

/// Writes a hierarchy as several files: those that readers open first are put last.
///
/// # Errors
/// See [`EmitError`]. What was put before an error is no valid output.
pub fn write_files(hierarchy: &Hierarchy, format: Format, sink: &mut dyn Sink) -> Result<(), EmitError> {
    check(hierarchy, format, true)?;
    match format {
        Format::KerchunkParquet { record_size } => parquet_folder::write(hierarchy, record_size, sink),
        _ => folder::write(hierarchy, sink),
    }
}

/// The metadata documents of a hierarchy by their keys such as `a/zarr.json`: the root's, with the consolidated metadata,
/// first.
///
/// # Errors
/// What cannot be said, see [`EmitError`].
pub fn metadata(hierarchy: &Hierarchy) -> Result<Vec<(String, serde_json::Value)>, EmitError> {
    consolidated::documents(hierarchy)
}

fn check(hierarchy: &Hierarchy, format: Format, several: bool) -> Result<(), EmitError> {
    if format.is_several_files() != several {
        return Err(EmitError::Files { several: !several });
    }
    let expected = format.zarr_format();
    if hierarchy.format != expected {
        return Err(EmitError::Format { expected, found: hierarchy.format });
    }
    Ok(())
}
