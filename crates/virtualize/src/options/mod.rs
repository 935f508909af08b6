//! Options: the library's own, and those that users write, which the command, the service and Python share.

mod connection;
#[cfg(feature = "clap")]
pub mod given;
mod mapping;
mod open;
mod output;
mod source;
pub mod value;

pub use connection::ConnectionOptions;
#[cfg(feature = "clap")]
pub use given::{Given, InvalidOption};
pub use mapping::{IfdPath, MappingOptions};
pub use open::{Hdf5Reader, InlineOptions, Options};
pub use output::{IcechunkOptions, OutputFormat, WriteOptions};
pub use source::SourceOptions;
