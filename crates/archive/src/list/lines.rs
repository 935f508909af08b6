//! Lists of files: one path, URL or JSON object per line.

use std::{io::BufRead, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use virtualize::{ErrorClass, Remedy};
use virtualize_store::{StoreError, fetch, url_of};

use super::{Files, Found, ListError, ListOptions, Result, is_web, stac::resolve};
use crate::{Item, values::calendar};

/// Maximum size of a list in bytes, unless it is standard input or a local file.
const LARGEST: u64 = 2 << 30;
/// Maximum size of a line in bytes.
const LONGEST: usize = 1 << 20;

/// Returns the files that a list names.
pub(super) fn files(location: String, options: Arc<ListOptions>) -> Files {
    let lines = async move { begin(location, &options).await };
    stream::once(lines).try_flatten().boxed()
}

/// Opens a list. Standard input and local files are streamed, unless access is restricted; anything else is fetched
/// whole.
async fn begin(location: String, options: &ListOptions) -> Result<Files> {
    let guarded = options.store.allowed.is_some();
    if location == "-" && !guarded {
        return Ok(Lines::new("standard input", None, std::io::BufReader::new(std::io::stdin())).stream());
    }
    let url = url_of(&location)?;
    if let Some(path) = url.strip_prefix("file://").filter(|_| !guarded) {
        let file = std::fs::File::open(path).map_err(|error| StoreError::io(&location, &error))?;
        return Ok(Lines::new(&location, None, std::io::BufReader::new(file)).stream());
    }
    let bytes: Bytes = fetch(&url, LARGEST, &options.store).await?;
    let name = url.split('?').next().unwrap_or(&url).to_owned();
    let from = Some(url);
    Ok(Lines::new(&name, from, std::io::Cursor::new(bytes)).stream())
}

/// Lines that are read one at a time.
struct Lines<R> {
    name: String,
    /// Base of relative paths; `None` for the working directory.
    from: Option<String>,
    reader: R,
    line: u64,
}

impl<R: BufRead + Send + 'static> Lines<R> {
    fn new(name: &str, from: Option<String>, reader: R) -> Self {
        Self { name: name.to_owned(), from, reader, line: 0 }
    }

    fn stream(mut self) -> Files {
        stream::iter(std::iter::from_fn(move || self.next().transpose())).boxed()
    }

    /// Returns the file of the next line that is neither empty nor a comment.
    fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = std::io::Read::take(&mut self.reader, LONGEST as u64);
            let count =
                limited.read_until(b'\n', &mut bytes).map_err(|error| self.failed(error.to_string()))?;
            self.line += 1;
            if count == 0 {
                return Ok(None);
            }
            if count == LONGEST {
                return Err(self.failed(format!("longer than {LONGEST} bytes")));
            }
            let text = String::from_utf8(bytes).map_err(|_| self.failed("is not UTF-8".to_owned()))?;
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() && !text.starts_with('#') {
                let item = item(text, self.from.as_deref()).map_err(|reason| self.failed(reason))?;
                return Ok(Some(Found::File(item)));
            }
        }
    }

    fn failed(&self, reason: String) -> ListError {
        let remedy = Remedy::advice("write a path, a url, or a JSON object with \"url\" on each line");
        let message = format!("{}, line {}: {reason}", self.name, self.line);
        ListError::invalid(ErrorClass::Conflict, message, remedy)
    }
}

/// Parses a line that is not empty.
fn item(text: &str, from: Option<&str>) -> Result<Item, String> {
    let item = match text.starts_with('{') {
        true => object(serde_json::from_str(text).map_err(|error| error.to_string())?)?,
        false => Item::of(text),
    };
    if item.url.ends_with('/') && !is_web(&item.url) && !from.is_some_and(is_web) {
        return Err(format!("{:?} is a folder, expected a file", item.url));
    }
    let url = match from {
        Some(from) => resolve(from, &item.url)?,
        None => item.url.clone(),
    };
    let url = url_of(&url).map_err(|error| error.to_string())?;
    Ok(Item { url, ..item })
}

/// A file as a JSON line of a list.
#[derive(Serialize, Deserialize)]
struct JsonLine {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<Time>,
    /// Properties whose names may be those of the members above.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    properties: Map<String, Value>,
    /// Other members, which are properties, too.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "modified is neither a time nor a number of milliseconds")]
enum Time {
    Milliseconds(i64),
    Text(String),
}

/// Converts a JSON line into an item.
fn object(line: JsonLine) -> Result<Item, String> {
    let JsonLine { url, size, etag, modified, properties, others: mut all } = line;
    let modified = match modified {
        Some(Time::Text(text)) => Some(parse_time(&text)?),
        Some(Time::Milliseconds(milliseconds)) => Some(milliseconds),
        None => None,
    };
    all.extend(properties);
    Ok(Item { url, size, etag, modified, properties: all })
}

/// Returns a file as the line of a list.
pub(crate) fn line(item: &Item) -> Vec<u8> {
    let Item { url, size, etag, modified, properties } = item.clone();
    let (modified, others) = (modified.map(Time::Milliseconds), Map::new());
    let line = json!(JsonLine { url, size, etag, modified, properties, others });
    format!("{line}\n").into_bytes()
}

/// Parses an RFC 3339 time, or a date (midnight UTC), as milliseconds since 1970-01-01T00:00:00Z.
fn parse_time(text: &str) -> Result<i64, String> {
    let time = calendar::parse_time(text).and_then(|time| i64::try_from(time.div_euclid(1_000_000)).ok());
    time.ok_or_else(|| {
        format!(
            "{text:?} is not a time, expected a time such as 2024-02-29 or 2024-02-29T12:00:00Z (RFC 3339)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &'static str, from: Option<&str>) -> Vec<Result<Item, String>> {
        let mut lines = Lines::new("list", from.map(str::to_owned), text.as_bytes());
        let next = || lines.next().transpose();
        let found = std::iter::from_fn(next).take(20).map(|found| match found {
            Ok(Found::File(item)) => Ok(item),
            Ok(Found::NoAsset(_)) => Err("asset".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        found.collect()
    }

    #[test]
    fn lines_are_paths_urls_or_objects() {
        let text = "\u{feff}# a list\r\n\r\ns3://b/a b[1].nc\r\n  https://host/a.nc?x=1  \n\
                    {\"url\": \"s3://b/c.nc\", \"size\": 7, \"etag\": \"e\", \"modified\": \"1970-01-02\", \"run\": 3}";
        let items: Vec<_> = items(text, None).into_iter().map(Result::unwrap).collect();
        assert_eq!(items[0], Item::of("s3://b/a b[1].nc"));
        assert_eq!(items[1], Item::of("https://host/a.nc?x=1"));
        let properties = Map::from_iter([("run".to_owned(), Value::from(3))]);
        let etag = Some("e".to_owned());
        let expected =
            Item { size: Some(7), etag, modified: Some(86_400_000), properties, ..Item::of("s3://b/c.nc") };
        assert_eq!(items[2], expected);
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn files_are_lines() {
        let properties =
            ["url", "size", "properties"].map(|name| (name.to_owned(), json!({ "a": [1, "x"] })));
        let (etag, properties) = (Some("\"e\"".to_owned()), Map::from_iter(properties));
        let whole = Item { size: Some(7), etag, modified: Some(-5), properties, ..Item::of("s3://b/c d.nc") };
        for item in [Item::of("file:///a"), whole] {
            assert_eq!(object(serde_json::from_slice(&line(&item)).unwrap()), Ok(item.clone()));
            let text = String::from_utf8(line(&item)).unwrap();
            assert_eq!(self::item(text.trim_end(), None), Ok(item));
        }
    }

    #[test]
    fn relative_paths_start_where_they_should() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(items("a.nc", None)[0], Ok(Item::of(format!("file://{}/a.nc", here.display()))));
        assert_eq!(items("../a b.nc", Some("s3://b/x/list.txt"))[0], Ok(Item::of("s3://b/a b.nc")));
        assert_eq!(items("y/a.nc", Some("https://h/x/list.txt?q"))[0], Ok(Item::of("https://h/x/y/a.nc")));
    }

    #[test]
    fn invalid_entries_name_their_line() {
        for (text, expected) in [
            ("\n{\"size\": 3}", "list, line 2: missing field `url`"),
            ("{\"url\": \"s3://b/a\", \"size\": -1}", "expected u64 at line 1 column"),
            ("{\"url\": \"s3://b/a\", \"modified\": \"soon\"}", "RFC 3339"),
            ("{\"url\": \"s3://b/a\", \"modified\": true}", "modified is neither"),
            ("{", "line 1"),
            ("s3://b/x/", "is a folder"),
            ("ftp://b/x", "ftp"),
            ("s3://b", "expected a bucket and the key"),
        ] {
            let error = items(text, None).remove(0).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
