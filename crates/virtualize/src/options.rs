//! Options: the library's own, and those that users write, which the command, the service and Python share.

mod connection;
mod mapping;
mod output;
pub mod value;

use std::sync::Arc;

use virtualize_bytes::{Gate, Limits};
use virtualize_map::MapOptions;
use virtualize_remedy::Notation;
use virtualize_store::StoreOptions;
use virtualize_zarr::readers::Client;

pub use connection::ConnectionOptions;
pub use mapping::{IfdPath, MappingOptions};
pub use output::{IcechunkOptions, OutputFormat, WriteOptions};

/// Everything that a user can choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How files are reached.
    pub store: StoreOptions,
    /// How they are mapped; its Zarr format is to fit what will be written ([`crate::Format::zarr_format`]).
    pub map: MapOptions,
    /// How much a file may ask for.
    pub limits: Limits,
    /// Which chunks are carried inline though references could say them.
    pub carry: CarryOptions,
    /// Warnings are a failure.
    pub strict: bool,
    /// Arrays that one of these would not decode are spelled otherwise where that helps, made anew inline where they are
    /// small, and else left out.
    pub readable_by: Vec<Client>,
    /// Who reads HDF5 files.
    pub hdf5_reader: Hdf5Reader,
    /// Asked, while a file is opened, whether to go on.
    pub gate: Option<Arc<dyn Gate>>,
    /// How remedies name options, where an error becomes text in a journal or an event.
    pub notation: Notation,
}

impl Options {
    /// The same for one of many files.
    #[must_use]
    pub fn for_file(&self) -> Self {
        let gate = self.gate.as_ref().map(|gate| gate.for_file().unwrap_or_else(|| Arc::clone(gate)));
        Self { gate, ..self.clone() }
    }
}

/// Which chunks are carried inline though references could say them, so that readers need fewer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarryOptions {
    /// Chunks that are stored in less than so many bytes; 0 for none.
    pub below: u64,
    /// All chunks of coordinates: arrays that have the name of their one dimension, and those that attributes
    /// `coordinates` name.
    pub coordinates: bool,
    /// Most bytes of all these chunks together, with 128 for each. An array that would pass it stays as it is, with a
    /// warning.
    pub total: u64,
}

impl Default for CarryOptions {
    fn default() -> Self {
        Self { below: 0, coordinates: false, total: 256 << 20 }
    }
}

/// Who reads HDF5 files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Hdf5Reader {
    /// Our own reader: any store, many requests at once, made for files that are not trusted.
    #[default]
    Native,
    /// The HDF5 C library: local files, one at a time in a process, and only such as are trusted: damaged ones can
    /// crash it.
    #[cfg(feature = "libhdf5")]
    Libhdf5,
}
