//! Keyword arguments as the library's options. They arrive as a JSON object with the names of the command's options.

use pyo3::PyResult;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use virtualize::{
    Options,
    options::{ConnectionOptions, MappingOptions},
    zarr::{
        ZarrFormat,
        readers::{Client, Need, Reader},
    },
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
        let mut options = self.mapping.options(self.connection.options(), format);
        options.notation = error::KEYWORDS;
        options.map.source_attributes = true;
        options
    }

    /// Returns whether no reader is named that must be able to decode the chunks.
    pub(crate) fn names_no_reader(&self) -> bool {
        self.mapping.readable_by.is_empty()
    }

    /// Returns the library's options for a mapping to Zarr v3 whose chunks this package decodes: nothing has to be
    /// changed or left out for other readers.
    pub(crate) fn own(&self) -> Options {
        let readable_by = vec![Client { reader: Reader::Virtualize, has: Need::ALL.to_vec() }];
        let mapping = MappingOptions { readable_by, ..self.mapping.clone() };
        Self { mapping, connection: self.connection.clone() }.options(ZarrFormat::V3)
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
