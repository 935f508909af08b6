//! The on-disk structures of the HDF5 File Format Specification, version 3.0, one per file. The parsers are pure
//! functions of bytes.

pub(crate) mod attribute;
pub(crate) mod btree2;
pub(crate) mod cache_image;
pub(crate) mod checksum;
pub(crate) mod chunk_btree1;
pub(crate) mod chunk_element;
pub(crate) mod chunk_grid;
mod context;
pub(crate) mod dataspace;
pub(crate) mod datatype;
pub(crate) mod extensible_array;
pub(crate) mod external_files;
pub(crate) mod file_space;
pub(crate) mod fill_value;
pub(crate) mod filter_pipeline;
pub(crate) mod fixed_array;
pub(crate) mod fractal_heap;
pub(crate) mod global_heap;
pub(crate) mod group;
#[cfg(test)]
pub(crate) mod hex;
pub(crate) mod layout;
pub(crate) mod link;
mod lookup3;
pub(crate) mod object_header;
pub(crate) mod prefix;
mod reader;
pub(crate) mod reference;
pub(crate) mod selection;
pub(crate) mod shared;
pub(crate) mod superblock;
pub(crate) mod tree_ranks;
pub(crate) mod virtual_layout;
pub(crate) mod vlen;

pub(crate) use context::Format;
pub(crate) use reader::{Reader, padding_to_eight, slice};
