//! Writing: a hierarchy as one file, or as several files in a [`Sink`].
//!
//! Architecture invariants: nothing here makes decisions or reads a source; the same hierarchy produces the same bytes.

mod folder;
mod format;
mod json;
mod metadata;
#[cfg(feature = "parquet")]
mod parquet;
mod recognize;

use std::{io, ops::ControlFlow};

use virtualize_zarr::{Chunk, ChunkReadError, ChunkReader, Hierarchy, HierarchyChunks, ZarrFormat};

pub use format::{Format, MAX_RECORDS};
pub use recognize::{DOCUMENTS, foreign_file};

use format::Writer;

/// Error while writing a hierarchy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The sink failed.
    #[error("writing references: {0}")]
    Io(#[from] io::Error),
    /// The hierarchy was mapped for the other Zarr format.
    #[error("the hierarchy was mapped for Zarr {found:?}, not for Zarr {expected:?}")]
    Format {
        /// Zarr format that the output requires.
        expected: ZarrFormat,
        /// Zarr format of the hierarchy.
        found: ZarrFormat,
    },
    /// The format needs [`write_files`] instead of [`write()`], or the reverse.
    #[error("the format is {}", if *several { "several files, not one" } else { "one file, not several" })]
    Files {
        /// Whether the format consists of several files.
        several: bool,
    },
    /// A node name that no client could look up.
    #[error("node {path}: the name {name:?} cannot be part of a Zarr key")]
    Name {
        /// Path of the group that contains the node.
        path: String,
        /// Name of the node.
        name: String,
    },
    /// More rows per Parquet file than permitted.
    #[error("record size {found}: at most {most}")]
    RecordSize {
        /// Requested number of rows.
        found: u32,
        /// Largest permitted number of rows.
        most: u32,
    },
    /// An array or node that cannot be written. The message names it.
    #[error("{0}")]
    Invalid(String),
    /// The chunks of an array could not be read.
    #[error(transparent)]
    Chunks(ChunkReadError),
}

impl EmitError {
    /// Creates an error about the array at a path without a leading slash.
    fn array(path: &str, problem: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("array /{path}: {problem}"))
    }
}

/// Returns whether clients can find a node of this name. A valid name is not empty, `.`, `..` or the name of a
/// metadata document. It contains neither slashes nor backslashes, which zarr-python converts.
pub fn is_valid_name(name: &str) -> bool {
    let reserved = ["", ".", "..", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"];
    !reserved.contains(&name) && !name.contains(['/', '\\'])
}

/// Writes a hierarchy as one file. The file includes consolidated metadata, so that xarray opens it without a warning.
///
/// # Errors
/// [`EmitError`]. The bytes written before an error are not a valid file.
pub fn write(hierarchy: &Hierarchy, format: Format, out: &mut impl io::Write) -> Result<(), EmitError> {
    write_chunks(hierarchy, &mut HierarchyChunks(hierarchy), format, out)
}

/// Writes a hierarchy whose chunks come from a reader as one file, as [`write()`] does. The manifests of the hierarchy are
/// ignored.
///
/// # Errors
/// As [`write()`].
pub fn write_chunks(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    format: Format,
    out: &mut impl io::Write,
) -> Result<(), EmitError> {
    check(hierarchy, format)?;
    match format.writer() {
        Writer::File(write) => write(hierarchy, chunks, out),
        Writer::Folder(_) => Err(EmitError::Files { several: true }),
    }
}

/// Writes a hierarchy as several files. The files that readers open first are written last.
///
/// # Errors
/// [`EmitError`]. The files written before an error are not a valid output.
pub fn write_files(hierarchy: &Hierarchy, format: Format, sink: &mut dyn Sink) -> Result<(), EmitError> {
    write_files_chunks(hierarchy, &mut HierarchyChunks(hierarchy), format, sink)
}

/// Writes a hierarchy whose chunks come from a reader as several files, as [`write_files`] does. The manifests of the
/// hierarchy are ignored.
///
/// # Errors
/// As [`write_files`].
pub fn write_files_chunks(
    hierarchy: &Hierarchy,
    chunks: &mut dyn ChunkReader,
    format: Format,
    sink: &mut dyn Sink,
) -> Result<(), EmitError> {
    check(hierarchy, format)?;
    match format.writer() {
        Writer::Folder(write) => write(hierarchy, chunks, format, sink),
        Writer::File(_) => Err(EmitError::Files { several: false }),
    }
}

/// Returns the metadata documents of a hierarchy by key, such as `a/zarr.json`. The root's document comes first and
/// contains the consolidated metadata.
///
/// # Errors
/// [`EmitError`] if the format cannot express a node.
pub fn metadata(hierarchy: &Hierarchy) -> Result<Vec<(String, serde_json::Value)>, EmitError> {
    metadata::documents(hierarchy)
}

fn check(hierarchy: &Hierarchy, format: Format) -> Result<(), EmitError> {
    let expected = format.zarr_format();
    match hierarchy.format == expected {
        true => Ok(()),
        false => Err(EmitError::Format { expected, found: hierarchy.format }),
    }
}

/// Passes the chunks of the array at `path`, in a grid of `counts` chunks along each axis, to a function, which returns
/// whether to continue. Positions ascend and are inside the grid.
fn visit_chunks(
    reader: &mut dyn ChunkReader,
    path: &str,
    counts: &[u64],
    mut visit: impl FnMut(u64, &Chunk<'_>) -> Result<ControlFlow<()>, EmitError>,
) -> Result<(), EmitError> {
    let (total, mut next, mut failed) = (grid_total(counts), 0, None);
    let read = reader.visit(path, 0, &mut |position, chunk| {
        let problem = if position >= total {
            format!("chunk {position} is outside its grid of {counts:?} chunks")
        } else if position < next {
            format!("chunk {position} is out of order, expected {next} or a later one")
        } else {
            next = position.saturating_add(1);
            return visit(position, chunk).unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            });
        };
        failed = Some(EmitError::array(path, problem));
        ControlFlow::Break(())
    });
    match failed {
        Some(error) => Err(error),
        None => read.map_err(EmitError::Chunks),
    }
}

/// Returns the number of chunks of a grid, at most 2⁶³.
fn grid_total(counts: &[u64]) -> u64 {
    counts.iter().fold(1_u64, |product, n| product.saturating_mul(*n)).min(1 << 63)
}

/// Receives the files of an output that is a folder or a prefix. Implementations stage the files until all are
/// written, and publish the last one last: it is the root's metadata, without which no reader opens the rest.
pub trait Sink {
    /// Creates the file of a key such as `a/zarr.json`: names separated by slashes. Each key is used once. The caller
    /// flushes and drops the file, which completes it, before it creates the next one.
    ///
    /// # Errors
    /// A key that was used before or that leads outside the output, and I/O errors.
    fn create(&mut self, key: &str) -> io::Result<Box<dyn io::Write + Send + '_>>;

    /// Writes a whole file.
    ///
    /// # Errors
    /// As [`Sink::create`].
    fn put(&mut self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(key)?;
        file.write_all(bytes)?;
        file.flush()
    }
}
