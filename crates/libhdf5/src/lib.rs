#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! The C library does not report some properties. The model then contains:
//! - for the version of a fill value message, `None`; for an allocation time that is not stored, the library's default;
//! - for a user-defined fill value with pointers, zeros if it is empty text or an empty sequence, else no bytes;
//! - for the reference kinds of HDF5 1.12, object references with a stored size of 64 bytes;
//! - for the end of the file and the metadata cache image, nothing: `virtualize_hdf5::complete` adds them;
//! - for a filter without a stored name, the library's name of the filter;
//! - for attributes without creation order, the library's order.
//!
//! The library can crash or hang on damaged files. Callers should read untrusted files in a separate process.
#![cfg(feature = "link")]

mod call;
mod dataset;
mod dataspace;
mod datatype;
mod layout;
mod tree;

pub use tree::read;
