//! Keyword arguments as the library's options. They arrive as a JSON object with the names of the command's options.

use std::sync::Arc;

use pyo3::PyResult;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use virtualize::{
    Options, StoreOptions,
    options::{ConnectionOptions, MappingOptions},
    zarr::{
        ZarrFormat,
        readers::{Client, Need, Reader},
    },
};

use crate::{error, foreign::PythonStore};

/// Options whose values do not appear in messages, since they may be secret.
const SECRET: [&str; 2] = ["bearer_token", "store_option"];

/// Options of one file: how it is reached, and how it is mapped.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileOptions {
    #[serde(flatten)]
    pub(crate) connection: ConnectionOptions,
    #[serde(flatten)]
    mapping: MappingOptions,
    /// The store through which files are read.
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
        options
    }

    /// Returns the library's options as the command chooses them, so that both share journals.
    pub(crate) fn command_options(&self, format: ZarrFormat) -> Options {
        Options { notation: error::KEYWORDS, ..self.mapping.options(store(&self.connection), format) }
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
        Self { mapping, ..self.clone() }.options(ZarrFormat::V3)
    }

    /// Refuses options that Zarr v2 cannot express.
    pub(crate) fn check(&self, format: ZarrFormat) -> PyResult<()> {
        match self.mapping.unpack && format == ZarrFormat::V2 {
            true => Err(error::option(
                "unpack needs a Zarr v3 output, such as format=\"zarr3-json\": Zarr v2 has no such codecs",
            )),
            false => Ok(()),
        }
    }
}

/// Returns how files are reached. As for the command, the environment may contain the bearer token.
pub(crate) fn store(connection: &ConnectionOptions) -> StoreOptions {
    let token = || std::env::var("VIRTUALIZE_BEARER_TOKEN").ok().filter(|token| !token.is_empty());
    let options = connection.options();
    let bearer_token = if connection.bearer_token.is_none() { token() } else { options.bearer_token };
    StoreOptions { bearer_token, ..options }
}

/// Refuses two options that exclude each other if both are given.
pub(crate) fn exclusive(one: (&str, bool), other: (&str, bool)) -> PyResult<()> {
    match one.1 && other.1 {
        true => Err(error::option(format!("{} cannot be combined with {}", one.0, other.0))),
        false => Ok(()),
    }
}

/// Parses options from the text of a JSON object.
///
/// # Errors
/// `OptionError` for an unknown name and for an invalid value, which it names.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    let members: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| error::option(format!("invalid options: {error}")))?;
    let parsed =
        |name: &str, value: Value| T::deserialize(Value::Object(Map::from_iter([(name.to_owned(), value)])));
    for (name, value) in &members {
        parsed(name, value.clone())
            .map_err(|error| error::option(format!("{name}: {}", reason(name, value, &error))))?;
        // No option accepts this value, so what accepts it is no option.
        if parsed(name, json!({"": []})).is_ok() {
            return Err(error::option(format!("{name} is not an option")));
        }
    }
    T::deserialize(Value::Object(members)).map_err(|error| error::option(format!("invalid options: {error}")))
}

/// Describes an invalid value in terms of Python: `expected True or False, not "yes"`.
fn reason(name: &str, value: &Value, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let Some((_, expected)) = text.rsplit_once("expected ") else { return text };
    let expected = match expected {
        "a boolean" | "true or false" => "True or False".to_owned(),
        "a string" | "path string" => "text".to_owned(),
        "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "a map" => "a mapping of text to text".to_owned(),
        other => other.replace('`', "\""),
    };
    match value {
        Value::String(_) | Value::Number(_) if !SECRET.contains(&name) => {
            format!("expected {expected}, not {value}")
        }
        Value::Bool(value) => format!("expected {expected}, not {}", if *value { "True" } else { "False" }),
        _ => format!("expected {expected}"),
    }
}
