//! Query parameters. Each must be known, occur once (except `label`), and be valid before the service opens a source.

use axum::http::Uri;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
#[cfg(feature = "icechunk")]
use virtualize::Code;
use virtualize::{
    Format, Options,
    options::{MappingOptions, OutputFormat},
    zarr::ZarrFormat,
};
use virtualize_remedy::similar;
use virtualize_store::Allowed;

use crate::{Config, Problem, api::OF_MAPPING, client::Client};

/// Maximum length of a value, in bytes.
const LONGEST: usize = 8192;
/// The parameter that may occur more than once.
const REPEATED: &str = "label";
/// Maximum number of TIFF images in one request.
const IMAGES: usize = 1000;

/// The query parameters of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// A requested source, and how to map it.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Canonical URL.
    pub(crate) url: String,
    pub(crate) options: Options,
    pub(crate) format: Format,
    /// Cache key of URL, options and access of the client: everything that a response depends on, except the source
    /// itself.
    pub(crate) key: String,
    pub(crate) client: Client,
}

impl Parameters {
    /// Parses a query string, whose names must be among `known`.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default();
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded("query", name)?, decoded("query", value)?);
            let shown: String = name.chars().take(40).collect();
            if !known.contains(&name.as_str()) {
                return Err(Problem::parameter(&shown, "is not a parameter of this request").hint(format!(
                    "{}the parameters are {}",
                    meant(&name, known),
                    known.join(", ")
                )));
            }
            if name != REPEATED && found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::parameter(&shown, "occurs more than once"));
            }
            found.push((name, value));
        }
        found.sort();
        Ok(Self(found))
    }

    /// Converts members of a JSON document, whose names have `_` for `-`.
    pub(crate) fn of_members(members: &Map<String, Value>) -> Result<Self, Problem> {
        let text = |(name, value): (&String, &Value)| match plain(value) {
            Some(text) if text.len() <= LONGEST => Ok((name.replace('_', "-"), text)),
            _ => Err(Problem::parameter(name, "expected a text, number, truth value, or a list of these")),
        };
        let mut found: Vec<_> = members.iter().map(text).collect::<Result<_, _>>()?;
        found.sort();
        Ok(Self(found))
    }

    /// Returns these parameters and one more.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut found = self.0.clone();
        found.push((name.to_owned(), value.to_owned()));
        found.sort();
        Self(found)
    }

    /// Returns the format to write.
    pub(crate) fn format(&self) -> Result<Format, Problem> {
        format(self.get("format"))
    }

    /// Returns the value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the URL of a source or folder.
    pub(crate) fn url(&self) -> Result<&str, Problem> {
        let url = self.get("url").filter(|url| !url.is_empty());
        url.ok_or_else(|| Problem::parameter("url", "is missing"))
    }

    /// Returns the path of an array, without the slash at its start.
    pub(crate) fn array(&self) -> Result<String, Problem> {
        let path = self.get("array").ok_or_else(|| Problem::parameter("array", "is missing"))?;
        Ok(path.trim_start_matches('/').to_owned())
    }

    /// Returns a whole number, which must be from `least` to `most`.
    pub(crate) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number =
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.map(Some)
            .ok_or_else(|| Problem::parameter(name, format!("expected a number from {least} to {most}")))
    }

    /// Returns the requested source and the options to map it, within the service's limits for one file.
    pub(crate) fn wanted(&self, config: &Config, client: &Client) -> Result<Wanted, Problem> {
        let url = client.allowed.check(self.url()?)?;
        let format = self.format()?;
        let options = self.options(config, &client.allowed, format.zarr_format())?;
        let others = self.0.iter().filter(|(name, _)| OF_MAPPING.contains(&name.as_str()));
        let key = others.fold(format!("{}\n{url}", client.access_key), |key, (name, value)| {
            format!("{key}\n{name}={value}")
        });
        Ok(Wanted { url, options, format, key, client: client.clone() })
    }

    /// Returns the options to open and map sources.
    fn options(&self, config: &Config, allowed: &Allowed, format: ZarrFormat) -> Result<Options, Problem> {
        let of_mapping =
            self.0.iter().filter(|(name, _)| name != "format" && OF_MAPPING.contains(&name.as_str()));
        let members = of_mapping.map(|(name, value)| (name.replace('-', "_"), Value::from(value.as_str())));
        options(members.collect(), |name| name.replace('_', "-"), config, allowed, format)
    }
}

/// Converts members of [`MappingOptions`] into the options to open and map sources. Problems name the members as
/// `shown` does. Values above the service's limits for one file are refused.
pub(crate) fn options(
    members: Map<String, Value>,
    shown: impl Fn(&str) -> String,
    config: &Config,
    allowed: &Allowed,
    format: ZarrFormat,
) -> Result<Options, Problem> {
    let mapping: MappingOptions = deserialize(members, &shown)?;
    let most = config.file_memory;
    for (name, value) in [("inline_limit", mapping.inline_limit), ("inline", mapping.inline)] {
        if value.is_some_and(|value| value > most) {
            return Err(Problem::parameter(&shown(name), format!("expected a number from 0 to {most}")));
        }
    }
    if mapping.split_contiguous == Some(0) {
        return Err(Problem::parameter(&shown("split_contiguous"), "expected a number from 1 on"));
    }
    if mapping.ifd.len() > IMAGES {
        return Err(Problem::parameter("ifd", format!("expected at most {IMAGES} images")));
    }
    if mapping.unpack && format == ZarrFormat::V2 {
        let reason = "needs a Zarr v3 format: Zarr v2 has no such codecs";
        return Err(Problem::parameter("unpack", reason).hint("give format=zarr3-json"));
    }
    let mut options = mapping.options(config.store_options(allowed), format);
    options.map.inline_limit = options.map.inline_limit.min(most);
    options.inline.total = options.inline.total.min(most);
    options.limits = config.limits;
    Ok(options)
}

/// Deserializes members of JSON; a problem names the member, as `shown` does, but not its value, which may be a secret.
pub(crate) fn deserialize<T: DeserializeOwned>(
    members: Map<String, Value>,
    shown: impl Fn(&str) -> String,
) -> Result<T, Problem> {
    for (name, value) in &members {
        let one = Map::from_iter([(name.clone(), value.clone())]);
        T::deserialize(Value::Object(one))
            .map_err(|error| Problem::parameter(&shown(name), reason(&error)))?;
    }
    T::deserialize(Value::Object(members)).map_err(|error| Problem::parameter("body", reason(&error)))
}

/// Asks whether a similar parameter was meant.
fn meant(name: &str, known: &[&str]) -> String {
    let similar = similar(name, known.iter().copied());
    similar.map(|similar| format!("did you mean \"{similar}\"? ")).unwrap_or_default()
}

/// Returns a value as a query contains it: a list is separated by commas.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(values) if !values.iter().any(Value::is_array) => {
            Some(values.iter().map(plain).collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => None,
    }
}

/// Returns the expected values from a message, without the actual one: `unknown variant "x", expected "a" or "b"`.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(", expected ").map_or(text.clone(), |(_, expected)| format!("expected {expected}"))
}

/// Returns the format to write, which must be one that a response can hold.
fn format(name: Option<&str>) -> Result<Format, Problem> {
    match name.map(str::parse).transpose() {
        Ok(format) => match format.unwrap_or_default() {
            OutputFormat::References(format) => Ok(format),
            #[cfg(feature = "icechunk")]
            OutputFormat::Icechunk => Err(repository()),
        },
        Err(_) => {
            let names = Format::ALL.map(Format::name).join(", ");
            Err(Problem::parameter("format", format!("expected one of {names}")))
        }
    }
}

/// Returns the problem of a format that commits to a repository.
#[cfg(feature = "icechunk")]
fn repository() -> Problem {
    let status = axum::http::StatusCode::NOT_ACCEPTABLE;
    Problem::new(
        status,
        Code::FormatRepository,
        "format: icechunk commits to a repository and has no response body",
    )
    .hint("choose another format; `virtualize batch` commits")
}

/// Decodes percent-encoded text, which must not contain control characters.
pub(crate) fn decoded(name: &str, text: &str) -> Result<String, Problem> {
    if text.len() > LONGEST {
        return Err(Problem::parameter(name, "is too long"));
    }
    let text = text.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&text).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::parameter(name, "is not UTF-8"))?;
    match decoded.chars().any(char::is_control) {
        true => Err(Problem::parameter(name, "contains a control character")),
        false => Ok(decoded.into_owned()),
    }
}
