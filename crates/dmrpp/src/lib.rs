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
//! - `types`, `fill`: data types and fill values
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attribute;
mod chunks;
mod document;
mod error;
mod fill;
#[cfg(test)]
mod tests;
mod types;
mod variable;
mod xml;

use virtualize_bytes::{ByteRange, Limits, ReadRanges};
use virtualize_hdf5::model::File;

pub use error::Error;

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
/// [`Error::Malformed`] if it is not a DMR++ document; [`Error::Incomplete`] if only the data file tells what its references
/// contain; [`Error::Limit`] if it exceeds a limit.
pub async fn read(sidecar: &dyn ReadRanges, data: DataFile<'_>, limits: &Limits) -> Result<File, Error> {
    if sidecar.size() > limits.structure_bytes {
        let problem = format!("{} bytes, the limit is {}", sidecar.size(), limits.structure_bytes);
        return Err(Error::Limit { line: 1, element: "document".to_owned(), problem });
    }
    let bytes = sidecar.read_ranges(&[ByteRange::new(0, sidecar.size())]).await?.pop().unwrap_or_default();
    let text = xml::decode(&bytes)?;
    document::parse(&text, data, limits, sidecar)
}
