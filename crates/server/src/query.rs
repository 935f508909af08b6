//! Parameters of requests: each is known, comes once, and is checked before anything is opened.

use axum::http::Uri;
use serde_json::{Map, Value};
use virtualize::{
    CarryOptions, ChunkGridChoice, Format, InvalidNodata, MapOptions, Options, zarr::ZarrFormat,
};
use virtualize_store::Allowed;

use crate::{Config, Problem, context::Context, guard::Client};

/// Parameters of mapping, which all endpoints that read a source take.
pub(crate) const OF_MAPPING: [&str; 14] = [
    "chunk-grid",
    "follow-external",
    "format",
    "ifd",
    "inline-below",
    "inline-coordinates",
    "inline-limit",
    "invalid-nodata",
    "missing-value-convention",
    "readable-by",
    "split-contiguous",
    "stack",
    "strict",
    "unpack",
];
/// Longest value, in bytes.
const LONGEST: usize = 8192;
/// Most images of a TIFF that are named.
const IMAGES: usize = 1000;

/// The parameters of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// A source, and how it is to be mapped.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Canonical url.
    pub(crate) url: String,
    pub(crate) options: Options,
    pub(crate) format: Format,
    /// Url, options and reach of the client in one text: what an answer depends on beside the source.
    pub(crate) key: String,
    pub(crate) client: Client,
}

impl Parameters {
    /// Reads a query string. Names must be among those that are known.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let query = uri.query().unwrap_or_default();
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded("query", name)?, decoded("query", value)?);
            let shown: String = name.chars().take(40).collect();
            if !known.contains(&name.as_str()) {
                return Err(Problem::parameter(&shown, "is not known here")
                    .hint(format!("known are {}", known.join(", "))));
            }
            if found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::parameter(&shown, "comes more than once"));
            }
            found.push((name, value));
        }
        found.sort();
        Ok(Self(found))
    }

    /// Those of mapping, as members of a JSON object, whose names have `_` for `-`.
    pub(crate) fn of_members(members: &Map<String, Value>) -> Result<Self, Problem> {
        let pair = |(name, value): (&String, &Value)| {
            let (shown, name) = (name.chars().take(40).collect::<String>(), name.replace('_', "-"));
            if name == "format" || !OF_MAPPING.contains(&name.as_str()) {
                return Err(Problem::parameter(&shown, "is not known here"));
            }
            match value {
                Value::String(text) if text.len() <= LONGEST => Ok((name, text.clone())),
                Value::Bool(_) | Value::Number(_) => Ok((name, value.to_string())),
                _ => Err(Problem::parameter(&shown, "expected a text, a number, true or false")),
            }
        };
        members.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn is_set(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(_) => Err(Problem::parameter(name, "expected true or false")),
        }
    }

    /// A whole number in bounds.
    pub(crate) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number =
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.map(Some)
            .ok_or_else(|| Problem::parameter(name, format!("expected a number from {least} to {most}")))
    }

    /// The source and how it is to be mapped. Options cannot pass what the service gives to one file.
    pub(crate) fn wanted(&self, context: &Context, client: &Client) -> Result<Wanted, Problem> {
        let url = self.get("url").filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| Problem::parameter("url", "is missing"))?;
        let url = client.allowed.check(url)?;
        let format = format(self.get("format"))?;
        let options = self.options(&context.config, &client.allowed, format.zarr_format())?;
        let others = self.0.iter().filter(|(name, _)| OF_MAPPING.contains(&name.as_str()));
        let key = others
            .fold(format!("{}\n{url}", client.reach), |key, (name, value)| format!("{key}\n{name}={value}"));
        Ok(Wanted { url, options, format, key, client: client.clone() })
    }

    /// How sources are reached and mapped.
    pub(crate) fn options(
        &self,
        config: &Config,
        allowed: &Allowed,
        format: ZarrFormat,
    ) -> Result<Options, Problem> {
        let carry = CarryOptions {
            below: self.number("inline-below", 0, config.file_memory)?.unwrap_or(0),
            coordinates: self.is_set("inline-coordinates")?,
            total: config.file_memory.min(CarryOptions::default().total),
        };
        let readers = self.get("readable-by").unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let readable_by =
            readers.map(|name| name.parse().map_err(|error| Problem::parameter("readable-by", error)));
        Ok(Options {
            store: config.store_options(allowed),
            map: self.map(config, format)?,
            limits: config.limits,
            carry,
            strict: self.is_set("strict")?,
            readable_by: readable_by.collect::<Result<_, _>>()?,
            ..Options::default()
        })
    }

    fn map(&self, config: &Config, format: ZarrFormat) -> Result<MapOptions, Problem> {
        let usual = MapOptions::default();
        let most = config.file_memory;
        let unpack = self.is_set("unpack")?;
        if unpack && format == ZarrFormat::V2 {
            return Err(Problem::parameter(
                "unpack",
                "needs a format of Zarr v3: Zarr v2 has no such codecs",
            )
            .hint("give format=zarr3-json"));
        }
        Ok(MapOptions {
            format,
            invalid_nodata: match self.get("invalid-nodata") {
                None | Some("error") => InvalidNodata::Error,
                Some("warn") => InvalidNodata::Warn,
                Some(_) => return Err(Problem::parameter("invalid-nodata", "expected error or warn")),
            },
            inline_limit: self.number("inline-limit", 0, most)?.unwrap_or(usual.inline_limit.min(most)),
            ifds: self.get("ifd").map(images).transpose()?.unwrap_or_default(),
            chunk_grid: match self.get("chunk-grid") {
                None | Some("regular") => ChunkGridChoice::Regular,
                Some("rectilinear") => ChunkGridChoice::Rectilinear,
                Some(_) => return Err(Problem::parameter("chunk-grid", "expected regular or rectilinear")),
            },
            stack: self.is_set("stack")?,
            split_contiguous: self.number("split-contiguous", 1, u64::MAX)?,
            unpack,
            missing_value_convention: self.is_set("missing-value-convention")?,
            follow_external: self.is_set("follow-external")?,
            ..usual
        })
    }
}

/// What is to be written.
fn format(name: Option<&str>) -> Result<Format, Problem> {
    match name {
        None | Some("kerchunk-json") => Ok(Format::KerchunkJson),
        Some("zarr3-json") => Ok(Format::Zarr3Json),
        Some("kerchunk-parquet") => Ok(Format::KerchunkParquet { record_size: Format::RECORD_SIZE }),
        Some("zarr3") => Ok(Format::Zarr3),
        Some("icechunk") => {
            let detail = "format: commits to a repository, which is no answer";
            let status = axum::http::StatusCode::NOT_ACCEPTABLE;
            Err(Problem::new(status, "format-repository", detail)
                .hint("take a job, which commits to one, or another format"))
        }
        Some(_) => {
            Err(Problem::parameter("format", "expected kerchunk-json, zarr3-json, kerchunk-parquet or zarr3"))
        }
    }
}

/// Images of a TIFF: `0,2,0/1`.
fn images(text: &str) -> Result<Vec<Vec<usize>>, Problem> {
    let wrong = || Problem::parameter("ifd", "expected numbers such as 2, or 0/1, with commas between");
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    let images: Vec<_> = text.split(',').take(IMAGES + 1).collect();
    if images.len() > IMAGES {
        return Err(Problem::parameter("ifd", "names too many images"));
    }
    images.into_iter().map(|image| image.split('/').map(number).collect()).collect()
}

/// Percent-decoded text without control characters.
pub(crate) fn decoded(name: &str, text: &str) -> Result<String, Problem> {
    if text.len() > LONGEST {
        return Err(Problem::parameter(name, "is too long"));
    }
    let text = text.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&text).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::parameter(name, "is no UTF-8 text"))?;
    match decoded.chars().any(char::is_control) {
        true => Err(Problem::parameter(name, "holds a control character")),
        false => Ok(decoded.into_owned()),
    }
}
