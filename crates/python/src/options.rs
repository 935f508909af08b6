//! Keyword arguments as the library's options. They arrive as a JSON object with the names of the command's options.

use std::sync::Arc;

use clap::Args;
use pyo3::PyResult;
use serde::{Deserialize, de::DeserializeOwned};
use virtualize::{
    Options,
    options::{
        ArchiveOptions, MappingOptions, SourceOptions,
        given::{InvalidOption, Members, parse_with_config},
    },
    zarr::{
        ZarrFormat,
        readers::{Client, Need, Reader},
    },
};

use crate::{error, runtime::PythonStore};

/// Options of one file: how it is reached, and how it is mapped.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) archive: ArchiveOptions,
    /// The store through which files are read.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) through: Option<PythonStore>,
}

impl FileOptions {
    /// Returns the library's options for a mapping to a Zarr format.
    pub(crate) fn options(&self, format: ZarrFormat) -> Options {
        let mut options = self.command_options(format);
        // Attributes of the file would not describe values that were unpacked.
        options.map.source_attributes = !options.map.unpack;
        options.store.through = self.through.clone().map(|store| Arc::new(store) as _);
        options.version = self.archive.version().unwrap_or_default();
        options.rewrite.clone_from(&self.archive.rewrite);
        options
    }

    /// Returns the library's options as the command chooses them, so that both share journals.
    pub(crate) fn command_options(&self, format: ZarrFormat) -> Options {
        Options { notation: error::KEYWORDS, ..self.source.options(format) }
    }

    /// Returns whether no reader is named that must be able to decode the chunks.
    pub(crate) fn names_no_reader(&self) -> bool {
        self.source.mapping.readable_by.is_empty()
    }

    /// Returns the library's options for a mapping to Zarr v3 whose chunks this package decodes: nothing has to be
    /// changed or left out for other readers.
    pub(crate) fn own(&self) -> Options {
        let readable_by = vec![Client { reader: Reader::Virtualize, has: Need::ALL.to_vec() }];
        let mapping = MappingOptions { readable_by, ..self.source.mapping.clone() };
        let source = SourceOptions { mapping, ..self.source.clone() };
        Self { source, ..self.clone() }.options(ZarrFormat::V3)
    }

    /// Refuses options that Zarr v2 cannot express.
    pub(crate) fn check(&self, format: ZarrFormat) -> PyResult<()> {
        match self.source.mapping.unpack && format == ZarrFormat::V2 {
            true => Err(error::option(
                "unpack needs a Zarr v3 output, such as format=\"zarr3-json\": Zarr v2 has no such codecs",
            )),
            false => Ok(()),
        }
    }
}

/// Refuses two options that exclude each other if both are given.
pub(crate) fn exclusive(one: (&str, bool), other: (&str, bool)) -> PyResult<()> {
    match one.1 && other.1 {
        true => Err(error::option(format!("{} cannot be combined with {}", one.0, other.0))),
        false => Ok(()),
    }
}

/// Parses options from the text of a JSON object, which may name a configuration file as `config`.
///
/// # Errors
/// `OptionError` for an unknown name and for an invalid value, which it names.
pub(crate) fn parse<T: Args + DeserializeOwned>(text: &str) -> PyResult<T> {
    let members: Members =
        serde_json::from_str(text).map_err(|error| error::option(format!("invalid options: {error}")))?;
    parse_with_config(members).map_err(|InvalidOption { name, reason, is_unknown }| {
        // In terms of Python.
        let reason = if is_unknown { reason.replace('-', "_") } else { reason };
        let reason = reason.replace("true or false", "True or False").replace("not true", "not True");
        error::option(format!("{name}: {}", reason.replace("not false", "not False")))
    })
}
