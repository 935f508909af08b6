use serde::Deserialize;
use virtualize_zarr::ZarrFormat;

use super::{ConnectionOptions, MappingOptions, Options};

/// How a file is mapped and reached: what all commands that map files have in common, and what a configuration file
/// contains.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct SourceOptions {
    /// How the file is mapped.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub mapping: MappingOptions,
    /// How the file is reached.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub store: ConnectionOptions,
    /// Library that reads HDF5 files; the C library reads local files only
    #[cfg(feature = "libhdf5")]
    #[cfg_attr(
        feature = "clap",
        arg(long, hide = true, value_enum, default_value = "native", value_name = "READER")
    )]
    pub hdf5_reader: super::Hdf5Reader,
}

impl SourceOptions {
    /// Returns the library's options for an output of `format`.
    pub fn options(&self, format: ZarrFormat) -> Options {
        Options {
            #[cfg(feature = "libhdf5")]
            hdf5_reader: self.hdf5_reader,
            ..self.mapping.options(self.store.options(), format)
        }
    }
}
