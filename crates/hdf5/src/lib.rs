#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! A file of source is a structure of the HDF5 File Format Specification, version 3.0: its parsers, which are pure functions
//! of bytes, and its traversal, which fetches structures level by level, all ranges of a level in one batch. [`model`] is the
//! result as plain data.
//!
//! Architecture invariants: parsers are not `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod attribute;
mod btree1;
mod btree2;
mod chunk_index;
mod cursor;
mod dataspace;
mod datatype;
mod extensible_array;
mod fill_value;
mod filters;
mod fixed_array;
mod fractal_heap;
mod global_heap;
mod groups;
mod io;
mod layout;
pub mod model;
mod object_header;
mod read;
mod reference;
mod shared;
mod struct_metadata;
mod superblock;
mod symbol_tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod value;
mod virtual_dataset;

use virtualize_bytes::{ByteRange, ReadError};

pub use cursor::lookup3;
pub use read::{complete, read, read_sequences, resolve_elements};
pub use value::decode_element;

/// Error of reading a structure. The message is one line: structure, address, what was found and what was expected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {address:#x}: {problem}")]
    Malformed {
        /// Name of the structure as in the specification.
        structure: &'static str,
        /// Address of the structure.
        address: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file ends before the structure does.
    #[error("{structure} at {address:#x}: {range} needed, beyond the end of the file")]
    Truncated {
        /// Name of the structure.
        structure: &'static str,
        /// Address of the structure.
        address: u64,
        /// The missing range, of which a part may exist.
        range: ByteRange,
    },
    /// The structure is valid, but this reader does not support it.
    #[error("{structure} at {address:#x}: {problem}")]
    Unsupported {
        /// Name of the structure.
        structure: &'static str,
        /// Address of the structure.
        address: u64,
        /// The unsupported feature.
        problem: String,
    },
    /// The file exceeds one of [`virtualize_bytes::Limits`].
    #[error("{structure} at {address:#x}: {problem}")]
    Limit {
        /// Name of the structure.
        structure: &'static str,
        /// Address of the structure.
        address: u64,
        /// The count or size found, and the limit.
        problem: String,
    },
    /// There is no signature at offset 0 or at any power of two from 512.
    #[error("no HDF5 signature at offset 0, 512, 1024, …")]
    NotHdf5,
    /// Fetching bytes failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// Creates an error for a file that contradicts the specification.
    pub(crate) fn malformed(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { structure, address, problem: problem.into() }
    }

    /// Creates an error for a valid but unsupported structure.
    pub(crate) fn unsupported(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Unsupported { structure, address, problem: problem.into() }
    }

    /// Creates an error for an exceeded limit.
    pub(crate) fn limit(structure: &'static str, address: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure, address, problem: problem.into() }
    }

    /// Appends the name of the affected item to the message.
    #[must_use]
    pub(crate) fn within(mut self, what: &str) -> Self {
        match &mut self {
            Self::Malformed { problem, .. }
            | Self::Unsupported { problem, .. }
            | Self::Limit { problem, .. } => {
                *problem = format!("{problem} ({what})");
            }
            Self::Truncated { .. } | Self::NotHdf5 | Self::Read(_) => {}
        }
        self
    }
}
