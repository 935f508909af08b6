//! Query parameters. Each must be known, occur once, and be valid before the service opens a source.

use axum::http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Map, Value};
use virtualize::{
    Code, Format, Options,
    options::{MappingOptions, OutputFormat, value::parse_digits},
    zarr::ZarrFormat,
};
use virtualize_remedy::similar;

use crate::{
    auth::Client,
    config::Config,
    problem::{MAPPING, Problem},
};

/// Maximum length of a value, in bytes.
const LONGEST: usize = 8192;
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
    /// Cache key of URL, options and access of the client: everything that a mapping depends on, except the source itself.
    pub(crate) key: String,
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
            if found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::parameter(&shown, "occurs more than once"));
            }
            found.push((name, value));
        }
        found.sort();
        Ok(Self(found))
    }

    /// Parses the query of an endpoint for a source: its URL, mapping options, and `others`.
    pub(crate) fn of_source(uri: &Uri, others: &[&str]) -> Result<Self, Problem> {
        Self::read(uri, &[&MAPPING, others, &["url"]].concat())
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
        let fits = parse_digits(text).filter(|number| (least..=most).contains(number));
        fits.map(Some)
            .ok_or_else(|| Problem::parameter(name, format!("expected a number from {least} to {most}")))
    }

    /// Returns the requested source and the options to map it, within the service's limits for one file.
    pub(crate) fn wanted(&self, config: &Config, client: &Client) -> Result<Wanted, Problem> {
        let url = client.check(self.url()?)?;
        let format = format(self.get("format"))?;
        let mut key = format!("{}\n{url}", client.access_key);
        let mut members = Map::new();
        for (name, value) in self.0.iter().filter(|(name, _)| MAPPING.contains(&name.as_str())) {
            key += &format!("\n{name}={value}");
            if name != "format" {
                members.insert(name.replace('-', "_"), Value::from(value.as_str()));
            }
        }
        let mapping: MappingOptions = deserialize(members)?;
        let most = config.file_memory;
        for (name, value) in [("inline-limit", mapping.inline_limit), ("inline", mapping.inline)] {
            if value.is_some_and(|value| value > most) {
                return Err(Problem::parameter(name, format!("expected a number from 0 to {most}")));
            }
        }
        if mapping.split_contiguous == Some(0) {
            return Err(Problem::parameter("split-contiguous", "expected a number from 1 on"));
        }
        if mapping.ifd.len() > IMAGES {
            return Err(Problem::parameter("ifd", format!("expected at most {IMAGES} images")));
        }
        if mapping.unpack && format.zarr_format() == ZarrFormat::V2 {
            let reason = "needs a Zarr v3 format: Zarr v2 has no such codecs";
            return Err(Problem::parameter("unpack", reason).hint("give format=zarr3-json"));
        }
        let mut options = mapping.options(config.store_options(&client.allowed), format.zarr_format());
        options.map.inline_limit = options.map.inline_limit.min(most);
        options.inline.total = options.inline.total.min(most);
        options.limits = config.limits;
        Ok(Wanted { url, options, format, key })
    }
}

/// Deserializes options. A problem names the parameter, but not its value, which may be a secret.
fn deserialize(members: Map<String, Value>) -> Result<MappingOptions, Problem> {
    for (name, value) in &members {
        let one = Map::from_iter([(name.clone(), value.clone())]);
        MappingOptions::deserialize(Value::Object(one)).map_err(|error| {
            // `unknown variant "x", expected "a" or "b"`
            let text = error.to_string();
            let reason = text.rsplit_once(", expected ").map(|(_, expected)| format!("expected {expected}"));
            Problem::parameter(&name.replace('_', "-"), reason.unwrap_or(text))
        })?;
    }
    MappingOptions::deserialize(Value::Object(members)).map_err(|error| Problem::parameter("query", error))
}

/// Asks whether a similar parameter was meant.
fn meant(name: &str, known: &[&str]) -> String {
    let similar = similar(name, known.iter().copied());
    similar.map(|similar| format!("did you mean \"{similar}\"? ")).unwrap_or_default()
}

/// Returns the format to write, which must be one that a response can hold.
fn format(name: Option<&str>) -> Result<Format, Problem> {
    let Some(name) = name else { return Ok(Format::KERCHUNK_JSON) };
    match name.parse() {
        Ok(OutputFormat::References(format)) if !format.is_several_files() => Ok(format),
        Ok(_) => {
            let detail = format!("format: {name} has several files, and a response is one");
            Err(Problem::new(StatusCode::NOT_ACCEPTABLE, Code::FormatRepository, detail)
                .hint("choose another format, or write it with the command"))
        }
        Err(_) => Err(Problem::parameter("format", "expected kerchunk-json or zarr3-json")),
    }
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
