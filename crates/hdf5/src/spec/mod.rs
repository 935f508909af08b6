//! The on-disk structures of the HDF5 File Format Specification, one a file. Pure functions of bytes.

pub(crate) mod btree2;
pub(crate) mod checksum;
pub(crate) mod chunk_btree1;
pub(crate) mod chunk_element;
pub(crate) mod chunk_grid;
mod context;
pub(crate) mod extensible_array;
pub(crate) mod fixed_array;
pub(crate) mod prefix;
pub(crate) mod selection;
pub(crate) mod virtual_layout;

pub(crate) use context::Format;
