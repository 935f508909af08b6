//! Reads the metadata of HDF5 files: what they hold, and where.

pub mod model;

/// Placeholder.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
