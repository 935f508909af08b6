//! What the HDF5 C library says of a file, in the same model as `virtualize-hdf5`: the second opinion in tests, and a
//! reader for files of the local disk that a user can ask for.
//!
//! Without the feature `link` this crate is empty, so that the workspace builds with Rust alone; with it, the C library
//! is built from source, which needs a C compiler and CMake 3.26 or newer.
//!
//! What the C library does not tell, and what the model holds instead:
//! - the version of a fill value message: `None`; an allocation time that the file does not give: the library's default;
//! - the user's fill value of a type with pointers: zeros for empty text or an empty sequence, else no bytes;
//! - which reference of HDF5 1.12 a type means: object; the stored size of such references: 64;
//! - a filter without a name: the name that the library knows it by;
//! - storage order of attributes that are not tracked: the library's own order.
//!
//! The library can crash or hang on damaged files. Whoever reads files of unknown origin does so in a process of its own.
#![cfg(feature = "link")]

mod attribute;
mod call;
mod chunks;
mod dataset;
mod dataspace;
mod datatype;
mod format;
mod layout;
mod links;
mod selection;
mod tree;
mod value;

pub use tree::read;
