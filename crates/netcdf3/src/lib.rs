#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! `header` and `layout` parse the NetCDF Classic Format Specification as pure functions of bytes; [`read`] fetches as much
//! of the header as there is. The result is the model of `virtualize-hdf5`: a root group with a dataset for each variable.
//!
//! ```text
//! netcdf_file = header data
//! header      = magic numrecs dim_list gatt_list var_list
//! data        = non_recs recs
//! ```
//!
//! All numbers are big-endian. Counts and lengths have 4 bytes, in CDF-5 8.
//!
//! Where the NetCDF Classic Format Specification leaves a choice, or a file contradicts it, this crate does what netCDF-C
//! does, or refuses the file.
//!
//! Architecture invariants: the parsers contain no `async`, and this crate knows nothing about Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod header;
mod layout;
mod model;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, Limits, ReadError, ReadRanges};
use virtualize_hdf5::model::File;

pub use header::is_netcdf3;

/// Error of reading a structure. The message is one line: structure, offset, what was found and what was expected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The file contradicts the specification.
    #[error("{structure} at {offset:#x}: {problem}")]
    Malformed {
        /// Name of the structure as in the specification.
        structure: &'static str,
        /// Offset of the structure from the start of the file.
        offset: u64,
        /// What was found, and what was expected.
        problem: String,
    },
    /// The file ends within the header.
    #[error("{structure} at {offset:#x}: {range} needed, beyond the end of the file at {size:#x}")]
    Truncated {
        /// Name of the structure.
        structure: &'static str,
        /// Offset of the structure.
        offset: u64,
        /// The missing range, of which a part may exist.
        range: ByteRange,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The file exceeds one of [`virtualize_bytes::Limits`].
    #[error("{structure} at {offset:#x}: {problem}")]
    Limit {
        /// Name of the structure.
        structure: &'static str,
        /// Offset of the structure.
        offset: u64,
        /// The count or size found, and the limit.
        problem: String,
    },
    /// The file does not start with a NetCDF classic signature.
    #[error("magic at 0x0: no NetCDF classic signature, expected `CDF`, then 1, 2 or 5")]
    NotNetcdf3,
    /// Fetching bytes failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error for a file that contradicts the specification.
    fn malformed(structure: &'static str, offset: u64, problem: impl Into<String>) -> Self {
        Self::Malformed { structure, offset, problem: problem.into() }
    }

    /// Creates an error for an exceeded limit.
    fn limit(structure: &'static str, offset: u64, problem: impl Into<String>) -> Self {
        Self::Limit { structure, offset, problem: problem.into() }
    }
}

/// Bytes of the first request: all of most headers.
const FIRST: u64 = 64 << 10;

/// Factor by which the requested bytes grow while the header is not complete.
const GROWTH: u64 = 4;

/// Reads the header of a file, but no data.
///
/// # Errors
/// The file is not NetCDF classic, its header is damaged or exceeds a limit, or bytes cannot be fetched. Like netCDF-C,
/// refuses a file whose variables overlap each other or the header.
pub async fn read(source: &dyn ReadRanges, limits: &Limits) -> Result<File> {
    let size = source.size();
    let mut header = Bytes::new();
    let mut wanted = FIRST;
    loop {
        let here = header.len() as u64;
        let rest = ByteRange::new(here, wanted.saturating_sub(here));
        let more = source.read_ranges(&[rest]).await?.pop().unwrap_or_default();
        header = if header.is_empty() { more } else { [header, more].concat().into() };
        match header::parse(&header, size, limits) {
            Ok(header) => {
                source.hold("dimensions, attributes and variables", header.weight())?;
                return Ok(header.into_file());
            }
            Err(Error::Truncated { range, .. }) if header.len() as u64 == wanted && range.end() <= size => {
                wanted = range.end().max(wanted.saturating_mul(GROWTH)).min(size);
                if range.end() > limits.structure_bytes {
                    let problem = format!("more than {} bytes, the limit", limits.structure_bytes);
                    return Err(Error::limit("header", 0, problem));
                }
            }
            Err(error) => return Err(error),
        }
    }
}
