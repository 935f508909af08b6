//! The on-disk structures of the HDF5 File Format Specification, one a file. Pure functions of bytes.

mod context;

pub(crate) use context::Format;
