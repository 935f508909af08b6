//! Reads the metadata of TIFF, BigTIFF and GeoTIFF files: which images they hold, and where their strips and tiles lie.

pub mod model;

/// Placeholder.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
