#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! A sidecar is a DAP4 document (DMR) with elements of the namespace `dmrpp` that say where the chunks are. The parser pulls
//! one element after the other and keeps no tree: chunks become columns as they are read.
//!
//! - `xml`: elements, text, lines for errors, bounds on chunks and memory
//! - `document`: groups, dimensions, variables; objects of the model and their links
//! - `attribute`, `variable`, `chunks`: one element each
//! - `fill`: fill values
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attribute;
mod chunks;
mod document;
mod fill;
#[cfg(test)]
mod tests;
mod variable;
mod xml;

use virtualize_bytes::{ByteRange, Limits, ReadError, ReadRanges};
use virtualize_hdf5::model::File;

/// Error of reading a sidecar. The message is one line.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The document contradicts the format, exceeds a limit, or leaves open what the references contain.
    #[error("line {line}: {element}: {problem}")]
    Unusable {
        /// Line in the document, from 1.
        line: u64,
        /// Name of the element, and the variable to which it belongs.
        element: String,
        /// What was found and what was expected, or what is unknown.
        problem: String,
    },
    /// Fetching bytes failed, or the memory budget is exhausted.
    #[error(transparent)]
    Read(#[from] ReadError),
}

type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error at the start of the document. [`document::parse`] sets the line and the element.
    fn new(problem: impl Into<String>) -> Self {
        Self::Unusable { line: 1, element: "document".to_owned(), problem: problem.into() }
    }
}

/// The file that a sidecar describes.
#[derive(Clone, Copy, Debug)]
pub struct DataFile<'a> {
    /// Name without its folder.
    pub name: &'a str,
    /// Size in bytes.
    pub size: u64,
}

/// Returns whether a file that starts with `head` is a DMR++ document.
pub fn is_dmrpp(head: &[u8]) -> bool {
    let head = head.get(..head.len().min(4096)).unwrap_or_default();
    let has = |text: &[u8]| head.windows(text.len()).any(|part| part == text);
    head.trim_ascii_start().starts_with(b"<") && has(b"<Dataset") && has(b"://xml.opendap.org/dap/dmrpp/")
}

/// Reads a sidecar.
///
/// # Errors
/// It is not a DMR++ document, exceeds a limit, or only the data file tells what its references contain; or bytes cannot be
/// fetched.
pub async fn read(sidecar: &dyn ReadRanges, data: DataFile<'_>, limits: &Limits) -> Result<File> {
    if sidecar.size() > limits.structure_bytes {
        return Err(Error::new(format!("{} bytes, the limit is {}", sidecar.size(), limits.structure_bytes)));
    }
    let bytes = sidecar.read_ranges(&[ByteRange::new(0, sidecar.size())]).await?.pop().unwrap_or_default();
    document::parse(&xml::decode(&bytes)?, data, limits, sidecar)
}
