use std::sync::Arc;

use serde::{Deserialize, Serialize};
use virtualize_bytes::{Gate, Limits};
use virtualize_map::MapOptions;
use virtualize_remedy::Notation;
use virtualize_store::StoreOptions;
use virtualize_zarr::readers::Client;

/// Options for opening and mapping a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Access to files: credentials, endpoints, concurrency, cache.
    pub store: StoreOptions,
    /// Mapping. Its Zarr format must match the output ([`crate::Format::zarr_format`]).
    pub map: MapOptions,
    /// Upper bounds on counts and sizes in untrusted input.
    pub limits: Limits,
    /// Selection of chunks to inline although references could express them.
    pub inline: InlineOptions,
    /// Whether a DMR++ sidecar beside an HDF5 file is read instead of the file, if it suffices.
    pub dmrpp: bool,
    /// Whether sidecars of remote TIFF files are requested. Those of local files are always read.
    pub sidecars: bool,
    /// Whether any warning is an error.
    pub strict: bool,
    /// Readers that must be able to decode every array. An array that one of them cannot decode gets other metadata if
    /// that suffices, is re-encoded and inlined if it is small, and is omitted otherwise.
    pub readable_by: Vec<Client>,
    /// Reader of HDF5 files.
    pub hdf5_reader: Hdf5Reader,
    /// Gate that is asked repeatedly, while a file is opened, whether to continue.
    pub gate: Option<Arc<dyn Gate>>,
    /// Notation of options in remedies, for errors that become text in a journal or an event.
    pub notation: Notation,
}

impl Options {
    /// Returns the options for one of many files, with a separate gate if the gate provides one.
    #[must_use]
    pub fn for_file(&self) -> Self {
        let gate = self.gate.as_ref().map(|gate| gate.for_file().unwrap_or_else(|| Arc::clone(gate)));
        Self { gate, ..self.clone() }
    }
}

/// Selection of chunks to inline although references could express them, so that readers need fewer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InlineOptions {
    /// Inline chunks stored in fewer bytes than this; 0 for none.
    pub below: u64,
    /// Inline all chunks of coordinates: arrays that have the name of their only dimension, and those listed in an
    /// attribute `coordinates`.
    pub coordinates: bool,
    /// Limit in bytes of all these chunks together; each counts 128 bytes more than its length. The chunks of an array
    /// that would exceed the limit remain references, with a warning.
    pub total: u64,
}

impl Default for InlineOptions {
    fn default() -> Self {
        Self { below: 0, coordinates: false, total: 256 << 20 }
    }
}

/// Reader of HDF5 files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Hdf5Reader {
    /// The reader in Rust: any store, concurrent requests, safe on untrusted files.
    #[default]
    Native,
    /// The HDF5 C library: local files, one at a time in a process, and trusted ones only: damaged files can crash it.
    #[cfg(feature = "libhdf5")]
    Libhdf5,
}
