//! Options: the library's own, and those that users write, which the command, the service and Python share.

mod connection;
mod mapping;
mod open;
mod output;
pub mod value;

pub use connection::ConnectionOptions;
pub use mapping::{IfdPath, MappingOptions};
pub use open::{Hdf5Reader, InlineOptions, Options};
pub use output::{IcechunkOptions, OutputFormat, WriteOptions};
