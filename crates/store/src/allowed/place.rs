//! Canonical form in which URLs are compared.

use std::path::PathBuf;

use percent_encoding::{percent_decode, percent_decode_str};
use url::Url;

use crate::{StoreError, error::without_query};

/// Maximum length of a URL in bytes.
const LONGEST: usize = 4096;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Scheme, host and port, or scheme and bucket; `file://` alone.
    origin: String,
    /// Path segments: percent-decoded for web servers and local disks, verbatim for buckets.
    segments: Vec<Vec<u8>>,
    /// Canonical form.
    url: String,
}

impl Place {
    /// Parses the URL of a file.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let place = Self::read(url).map_err(|reason| invalid(url, reason))?;
        match place.segments.is_empty() && !place.origin.starts_with("http") {
            true => Err(invalid(url, "names no file")),
            false => Ok(place),
        }
    }

    /// Parses a prefix of URLs. A trailing slash has no meaning.
    pub(super) fn parse_prefix(prefix: &str) -> Result<Self, StoreError> {
        let text = match prefix.split_once("://") {
            Some(("file", "/")) => prefix,
            Some((_, rest)) if rest.contains('/') => prefix.strip_suffix('/').unwrap_or(prefix),
            _ => prefix,
        };
        Self::read(text).map_err(|reason| invalid(prefix, reason))
    }

    /// Returns the canonical form.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether another place is equal to this one or below it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.origin == other.origin && other.segments.starts_with(&self.segments)
    }

    /// Returns whether the place is on a web server named `localhost`.
    pub(super) fn is_localhost(&self) -> bool {
        let host = self.origin.strip_prefix("http://").or_else(|| self.origin.strip_prefix("https://"));
        host.is_some_and(|host| host == "localhost" || host.starts_with("localhost:"))
    }

    /// Returns the path of a local place, verbatim; `None` for other places.
    pub(super) fn local_path(&self) -> Option<PathBuf> {
        (self.origin == "file://").then(|| PathBuf::from(self.url.trim_start_matches("file://")))
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("longer than 4096 bytes");
        }
        if text.contains(|c: char| c.is_control() || c == '\\') {
            return Err("holds a control character or a backslash");
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("not an absolute URL, such as s3://bucket/key or file:///folder/file")?;
        match scheme.to_ascii_lowercase().as_str() {
            "file" => local(rest),
            scheme @ ("http" | "https") => web(scheme, rest),
            "s3" | "s3a" => bucket("s3", rest),
            "gs" | "gcs" => bucket("gs", rest),
            "az" | "azure" | "adl" => bucket("az", rest),
            scheme @ ("abfs" | "abfss") => bucket(scheme, rest),
            _ => Err("unknown scheme, expected file, http, https, s3, gs, az, abfs or abfss"),
        }
    }
}

fn local(rest: &str) -> Result<Place, &'static str> {
    let path = rest.strip_prefix('/').ok_or("expected file:/// and an absolute path")?;
    if path.contains(['?', '#']) {
        return Err(
            "holds a question mark or a hash, of which it is not known whether they are part of the name",
        );
    }
    let segments = segments(path, true)?;
    Ok(Place { origin: "file://".to_owned(), segments, url: format!("file:///{path}") })
}

fn bucket(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let may_have_account = scheme.starts_with("abfs");
    if bucket.is_empty() || (bucket.contains('@') && !may_have_account) {
        return Err("expected a bucket and the key of an object");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if !bucket.chars().all(plain) || matches!(bucket, "." | "..") {
        return Err("no name of a bucket");
    }
    let origin = format!("{scheme}://{bucket}");
    let url = if key.is_empty() { origin.clone() } else { format!("{origin}/{key}") };
    segments(key, true)?;
    Ok(Place { segments: segments(key, false)?, origin, url })
}

fn web(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    if rest.contains(['?', '#']) {
        return Err("urls with a query or fragment are not taken: they may hold credentials");
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || authority.contains('@') {
        return Err("expected a host without a user name");
    }
    let segments = segments(path, true)?;
    let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| "not a url")?;
    let (host, port) = (url.host_str().ok_or("not a url")?, url.port());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let origin = format!("{scheme}://{host}{port}");
    Ok(Place { origin, segments, url: url.to_string() })
}

/// Splits a path into segments. Rejects a segment that is not a plain name after zero, one or two rounds of
/// percent-decoding.
fn segments(path: &str, decode: bool) -> Result<Vec<Vec<u8>>, &'static str> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let segment = |segment: &str| {
        let decoded: Vec<u8> = percent_decode_str(segment).collect();
        let twice: Vec<u8> = percent_decode(&decoded).collect();
        let is_name = |name: &[u8]| {
            !matches!(name, b"" | b"." | b"..")
                && !name.iter().any(|byte| matches!(byte, 0..0x20 | 0x7f | b'/' | b'\\'))
        };
        match is_name(segment.as_bytes()) && is_name(&decoded) && is_name(&twice) {
            true => Ok(if decode { decoded } else { segment.as_bytes().to_vec() }),
            false => Err("holds an empty segment, a step such as `..`, or an escaped slash"),
        }
    };
    path.split('/').map(segment).collect()
}

/// Builds the error for an invalid URL, and omits parts of the URL that may be secret.
fn invalid(url: &str, reason: &str) -> StoreError {
    let shown = match url.split_once("://").and_then(|(_, rest)| rest.split('/').next()) {
        Some(authority) if authority.contains('@') => "url",
        _ => without_query(url).split('#').next().unwrap_or_default(),
    };
    let shown: String = shown.chars().filter(|c| !c.is_control()).take(200).collect();
    let name = if shown.is_empty() { "url".to_owned() } else { shown };
    StoreError::Location { name, reason: reason.to_owned() }
}
