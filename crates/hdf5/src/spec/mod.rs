//! The on-disk structures of the HDF5 File Format Specification, one a file. Pure functions of bytes.

pub(crate) mod btree2;
pub(crate) mod checksum;
mod context;
pub(crate) mod prefix;

pub(crate) use context::Format;
