//! Keyword arguments as the library's options. They arrive as a JSON object with the names of the command's options.

use pyo3::PyResult;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use virtualize::{
    Options,
    options::{ConnectionOptions, MappingOptions},
    zarr::ZarrFormat,
};

use crate::error;

/// Options of one file: how it is reached, and how it is mapped.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileOptions {
    #[serde(flatten)]
    connection: ConnectionOptions,
    #[serde(flatten)]
    mapping: MappingOptions,
}

impl FileOptions {
    /// Returns the library's options for a mapping to a Zarr format.
    pub(crate) fn options(&self, format: ZarrFormat) -> Options {
        Options { notation: error::KEYWORDS, ..self.mapping.options(self.connection.options(), format) }
    }
}

/// Options, and the arguments that are none of them.
#[derive(Deserialize)]
struct All<T> {
    #[serde(flatten)]
    options: T,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// Parses options from the text of a JSON object.
///
/// # Errors
/// `OptionError` for an unknown name and for an invalid value.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    let All { options, unknown } =
        serde_json::from_str(text).map_err(|error| error::option(format!("invalid option: {error}")))?;
    match unknown.keys().next() {
        Some(name) => Err(error::option(format!("{name} is not an option"))),
        None => Ok(options),
    }
}
