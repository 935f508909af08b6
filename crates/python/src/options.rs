//! Keyword arguments as the library's options. They arrive as a JSON object with the names of the command's options.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use pyo3::{exceptions::PyUnicodeEncodeError, prelude::*};
use serde::{Deserialize, de::DeserializeOwned};
use virtualize::{
    ArrayReader, Options,
    options::{
        ArchiveOptions, MappingOptions, SourceOptions,
        given::{InvalidOption, Members, parse_with_config},
        value::{parse_limit, size},
    },
    zarr::{
        ZarrFormat,
        readers::{Client, Need, Reader},
    },
};

use crate::{error, runtime::PythonStore};

/// Extracts a path or URL: text, or an object of `os.PathLike`.
///
/// # Errors
/// `OptionError` for a path that is not UTF-8.
pub(crate) fn location_of(location: &Bound<'_, PyAny>) -> PyResult<String> {
    let path = location.py().import("os")?.call_method1("fspath", (location,))?;
    match path.extract::<String>() {
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(path.py()) => {
            let shown = path.call_method1("encode", ("utf-8", "backslashreplace"))?;
            let shown = String::from_utf8_lossy(shown.extract()?).into_owned();
            Err(error::option(format!(
                "{shown}: its path is not UTF-8, but urls in references are: rename it, or make a symbolic link to it"
            )))
        }
        text => text,
    }
}

/// Options of one file: how it is reached, and how it is mapped.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) source: SourceOptions,
    /// The store through which files are read.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) through: Option<PythonStore>,
}

/// Options of `open`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) file: FileOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) archive: ArchiveOptions,
    /// Memory for decoded chunks of which only a part was read.
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    #[serde(deserialize_with = "size")]
    cache: Option<u64>,
    /// What happens if the file of a chunk is missing or has changed.
    #[arg(long, value_enum, default_value_t)]
    on_error: OnError,
}

/// What happens if the file of a chunk is missing or has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum OnError {
    /// An exception is raised.
    #[default]
    Raise,
    /// The chunk reads as the fill value, with a warning.
    Fill,
}

/// Default size of the cache of decoded chunks in bytes.
const CACHE: u64 = 256 << 20;

impl OpenOptions {
    /// Returns the library's options for a mapping.
    ///
    /// # Errors
    /// More than one of branch, tag and snapshot is given.
    pub(crate) fn with_archive(&self, mapping: Options) -> PyResult<Options> {
        let version = self.archive.version();
        let version = version.map_err(|error| error::option(format!("branch, tag, snapshot: {error}")))?;
        Ok(Options { version, rewrite_url: self.archive.rewrite_url.clone(), ..mapping })
    }

    /// Returns a reader with the options for reading.
    pub(crate) fn reader(&self, reader: ArrayReader) -> ArrayReader {
        let reader = reader.with_cache(self.cache.unwrap_or(CACHE));
        if self.on_error == OnError::Fill { reader.filling() } else { reader }
    }
}

impl FileOptions {
    /// Returns the library's options for a mapping to a Zarr format.
    pub(crate) fn options(&self, format: ZarrFormat) -> Options {
        let mut options = self.command_options(format);
        // Attributes of the file would not describe values that were unpacked.
        options.map.source_attributes = !options.map.unpack;
        options.store.through = self.through.clone().map(|store| Arc::new(store) as _);
        options
    }

    /// Returns the library's options as the command chooses them, so that both share journals.
    pub(crate) fn command_options(&self, format: ZarrFormat) -> Options {
        Options { notation: error::KEYWORDS, ..self.source.options(format) }
    }

    /// Returns the library's options for a mapping to Zarr v3 whose chunks this package decodes: nothing has to be
    /// changed or omitted for other readers.
    pub(crate) fn own(&self) -> Options {
        let readable_by = vec![Client { reader: Reader::Virtualize, has: Need::ALL.to_vec() }];
        let mapping = MappingOptions { readable_by, ..self.source.mapping.clone() };
        let source = SourceOptions { mapping, ..self.source.clone() };
        Self { source, ..self.clone() }.options(ZarrFormat::V3)
    }

    /// Refuses options that Zarr v2 cannot express.
    pub(crate) fn check(&self, format: ZarrFormat) -> PyResult<()> {
        if !self.source.mapping.unpack || format != ZarrFormat::V2 {
            return Ok(());
        }
        let reason =
            "unpack needs a Zarr v3 output, such as format=\"zarr3-json\": Zarr v2 has no such codecs";
        Err(error::option(reason))
    }
}

/// Refuses two options that exclude each other if both are given.
pub(crate) fn exclusive(one: (&str, bool), other: (&str, bool)) -> PyResult<()> {
    if !(one.1 && other.1) {
        return Ok(());
    }
    Err(error::option(format!("{} cannot be combined with {}", one.0, other.0)))
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
