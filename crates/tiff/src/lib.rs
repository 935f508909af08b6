//! Reads the metadata of TIFF, BigTIFF and GeoTIFF files: which images they hold, and where their strips and tiles lie.
//!
//! Three layers: `spec` parses one structure a file, each a pure function of bytes; `walk` fetches directories and
//! values, all that can be named at once in one batch; [`model`] is the plain data that comes out.
//!
//! Architecture invariants: `spec` contains no `async`; nothing here knows Zarr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod error;
pub mod model;
mod spec;
mod walk;

pub use error::{Error, Structure};
pub use spec::{Ome, OmeImage, TiffData, is_tiff, parse_ome};
pub use walk::read;
