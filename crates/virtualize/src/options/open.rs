use std::sync::Arc;

use virtualize_bytes::{Gate, Limits};
use virtualize_map::MapOptions;
use virtualize_remedy::Notation;
use virtualize_store::StoreOptions;
use virtualize_zarr::readers::Client;

/// Options of opening and mapping a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Access to files: credentials, endpoints, concurrency, cache.
    pub store: StoreOptions,
    /// Mapping. Its Zarr format has to fit the output ([`crate::Format::zarr_format`]).
    pub map: MapOptions,
    /// Upper bounds on counts and sizes in untrusted input.
    pub limits: Limits,
    /// Which chunks are inlined although references could express them.
    pub inline: InlineOptions,
    /// Fail where there are warnings.
    pub strict: bool,
    /// Readers that have to decode every array. An array that one of them does not decode gets other metadata where that
    /// suffices, is made anew inline where it is small, and is left out otherwise.
    pub readable_by: Vec<Client>,
    /// Reader of HDF5 files.
    pub hdf5_reader: Hdf5Reader,
    /// Asked repeatedly, while a file is opened, whether to go on.
    pub gate: Option<Arc<dyn Gate>>,
    /// How remedies name options, where an error becomes text in a journal or an event.
    pub notation: Notation,
}

impl Options {
    /// Returns the options for one of many files, which gets a gate of its own.
    #[must_use]
    pub fn for_file(&self) -> Self {
        let gate = self.gate.as_ref().map(|gate| gate.for_file().unwrap_or_else(|| Arc::clone(gate)));
        Self { gate, ..self.clone() }
    }
}

/// Which chunks are inlined although references could express them, so that readers need fewer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineOptions {
    /// Inline chunks stored in fewer bytes than this; 0 for none.
    pub below: u64,
    /// Inline all chunks of coordinates: arrays that have the name of their only dimension, and those that an attribute
    /// `coordinates` names.
    pub coordinates: bool,
    /// Most bytes of all these chunks together, plus 128 for each. The chunks of an array that would exceed it stay
    /// references, with a warning.
    pub total: u64,
}

impl Default for InlineOptions {
    fn default() -> Self {
        Self { below: 0, coordinates: false, total: 256 << 20 }
    }
}

/// Reader of HDF5 files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Hdf5Reader {
    /// The reader in Rust: any store, concurrent requests, safe on untrusted files.
    #[default]
    Native,
    /// The HDF5 C library: local files, one at a time in a process, and trusted ones only: damaged files can crash it.
    #[cfg(feature = "libhdf5")]
    Libhdf5,
}
