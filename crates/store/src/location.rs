use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::{StoreError, error::without_query};

/// The location of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// A path on a local disk.
    Local(PathBuf),
    /// A URL on an HTTP server.
    Http(Url),
    /// An object in a bucket or container. The key is as the user wrote it: `%` and `?` have no special meaning.
    Bucket {
        /// Service that holds the bucket.
        service: Service,
        /// `scheme://bucket`.
        bucket: String,
        /// Key of the object, without a leading slash.
        key: String,
    },
    /// A URL that a foreign store resolves.
    Foreign(String),
}

/// An object storage service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// Amazon S3 and compatible services.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage and Data Lake.
    Azure,
}

/// Marks the escaped name of a local file that is not UTF-8. No file name contains it.
const NOT_UTF8: char = '\0';

/// Why such a file is not read.
const NO_TEXT: &str =
    "its path is not UTF-8, but urls in references are: rename it, or make a symbolic link to it";

/// Returns the name of a local file as text. One that is not UTF-8 is escaped, and cannot be opened by it.
pub(crate) fn name_as_text(name: &OsStr) -> Cow<'_, str> {
    match name.to_str() {
        Some(text) => text.into(),
        None => format!("{NOT_UTF8}{}", escaped(name)).into(),
    }
}

/// Returns a path for messages, with bytes that are not UTF-8 as `\xe9`.
fn shown(path: &Path) -> String {
    escaped(path.as_os_str()).replace(NOT_UTF8, "")
}

/// Replaces bytes that are not UTF-8 by escapes, such as `\xe9`.
fn escaped(text: &OsStr) -> String {
    let mut escaped = String::new();
    for chunk in text.as_encoded_bytes().utf8_chunks() {
        escaped.push_str(chunk.valid());
        escaped.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    escaped
}

impl Location {
    /// Parses a path or URL.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            if let Some(advice) = gdal_path(text) {
                return invalid(without_query(text), format!("a path that only GDAL opens, {advice}"));
            }
            return Ok(Self::Local(absolute(Path::new(text), text)?));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => local_url(text, rest),
            "http" | "https" => http_url(text),
            "s3" | "s3a" => bucket(Service::S3, "s3", rest, text),
            "gs" | "gcs" => bucket(Service::Google, "gs", rest, text),
            "az" | "azure" | "adl" => bucket(Service::Azure, "az", rest, text),
            "abfs" => bucket(Service::Azure, "abfs", rest, text),
            "abfss" => bucket(Service::Azure, "abfss", rest, text),
            _ => invalid(
                text,
                format!("unknown scheme {scheme:?}, expected a path or file, http, https, s3, gs, az, abfs"),
            ),
        }
    }

    /// Parses a folder, or a bucket and a prefix of keys, which may be empty and may end in a slash.
    pub(crate) fn parse_prefix(text: &str) -> Result<Self, StoreError> {
        let bucket_of = |(scheme, rest): (&str, &str)| {
            let name = rest.split_once('/').map_or(rest, |(bucket, _)| bucket);
            let key = rest.get(name.len()..).unwrap_or_default();
            let key = key.strip_prefix('/').unwrap_or(key);
            let whole = Self::parse(&format!("{scheme}://{name}/x")).ok()?;
            match whole {
                Self::Bucket { service, bucket, .. } => {
                    Some(Self::Bucket { service, bucket, key: key.to_owned() })
                }
                _ => None,
            }
        };
        match text.split_once("://").and_then(bucket_of) {
            Some(prefix) => Ok(prefix),
            None => Self::parse(text),
        }
    }

    /// Refuses a local path that is not UTF-8: its URL would be dangling.
    pub(crate) fn check_text(&self) -> Result<(), StoreError> {
        match self {
            Self::Local(path) => match path.to_str() {
                Some(text) if !text.contains(NOT_UTF8) => Ok(()),
                _ => invalid(&shown(path), NO_TEXT),
            },
            _ => Ok(()),
        }
    }

    /// Returns the URL that readers open. Paths and keys are not escaped, as fsspec expects.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Local(path) => format!("file://{}", path.display()),
            Self::Http(url) => url.to_string(),
            Self::Bucket { bucket, key, .. } => format!("{bucket}/{key}"),
            Self::Foreign(url) => url.clone(),
        }
    }

    /// Returns the name for messages, without the query of a URL, which may contain a signature.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            Self::Http(url) => without_query(url.as_str()).to_owned(),
            Self::Foreign(url) => without_query(url).to_owned(),
            Self::Bucket { .. } => self.url(),
        }
    }
}

/// Returns the absolute URL of a path or URL, as references contain it.
pub fn url_of(location: &str) -> Result<String, StoreError> {
    Location::parse(location).map(|location| location.url())
}

/// Returns the location of a key below a folder, a prefix or a URL. Characters with a meaning in URLs, such as `%` and `?`, are
/// part of the key.
pub fn below(folder: &str, key: &str) -> String {
    let folder = folder.trim_end_matches('/');
    match Location::parse_prefix(folder) {
        Ok(Location::Http(mut url)) => {
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop_if_empty().extend(key.split('/'));
            }
            url.into()
        }
        // Of these, only file URLs are decoded.
        _ if folder.starts_with("file:") => format!("{folder}/{}", key.replace('%', "%25")),
        _ => format!("{folder}/{key}"),
    }
}

/// Returns the path of a location on a local disk; `None` for one behind a server, and for an invalid one.
pub fn local_path(location: &str) -> Option<PathBuf> {
    match Location::parse(location) {
        Ok(Location::Local(path)) => Some(path),
        _ => None,
    }
}

/// Returns what to use in place of a path such as `/vsis3/bucket/a.nc`, which GDAL gives a meaning.
fn gdal_path(text: &str) -> Option<String> {
    let (handler, rest) = text.strip_prefix("/vsi")?.split_once('/')?;
    if Path::new(text).exists() {
        return None;
    }
    Some(match handler.trim_end_matches("_streaming") {
        "s3" => format!("use s3://{rest}"),
        "gs" => format!("use gs://{rest}"),
        "az" => format!("use az://{rest}"),
        "adls" => format!("use abfs://{rest}"),
        "curl" => format!("use {}", without_query(rest)),
        "zip" | "tar" | "gzip" | "7z" | "rar" => "extract the file from its archive first".to_owned(),
        _ => "use the path or url of the file".to_owned(),
    })
}

/// Returns the names of the files and folders in a local folder; `None` if there are more than `most`, or if it cannot be
/// listed. Names that are not UTF-8 are omitted.
pub fn names_in(folder: &str, most: usize) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(local_path(&format!("{folder}/"))?).ok()?;
    let names: Vec<_> = entries.take(most.saturating_add(1)).collect();
    let names = Some(names).filter(|names| names.len() <= most)?;
    Some(names.into_iter().filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Returns whether the text before `://` can be a scheme, rather than the start of an unusual path.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn local_url(text: &str, rest: &str) -> Result<Location, StoreError> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return invalid(text, "expected file:/// and an absolute path");
    }
    let as_written = Path::new(path);
    if !as_written.exists()
        // What `Url` takes for a query, a fragment or a slash is part of the name.
        && let Ok(url) = Url::parse(&text.replace('?', "%3F").replace('#', "%23").replace('\\', "%5C"))
        && let Ok(decoded) = url.to_file_path()
        && decoded.exists()
    {
        return Ok(Location::Local(absolute(&decoded, text)?));
    }
    Ok(Location::Local(absolute(as_written, text)?))
}

fn http_url(text: &str) -> Result<Location, StoreError> {
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::IdnaError) => {
            return invalid(text, "the host name is not ASCII: give it in its encoded form, xn--…");
        }
        Err(error) => return invalid(text, format!("not a url: {error}")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        let reason = "credentials in the url would be written into the references: remove them";
        return Err(StoreError::location("http url with a user name", reason));
    }
    url.set_fragment(None);
    Ok(Location::Http(url))
}

fn bucket(service: Service, scheme: &str, rest: &str, text: &str) -> Result<Location, StoreError> {
    match rest.split_once('/') {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() && !key.ends_with('/') => {
            Ok(Location::Bucket { service, bucket: format!("{scheme}://{bucket}"), key: key.to_owned() })
        }
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
            invalid(text, "a key that ends in a slash names a folder, expected the key of an object")
        }
        _ => invalid(text, "expected a bucket and the key of an object"),
    }
}

/// Makes a path absolute; if it contains `..`, symbolic links in its folder are resolved first.
fn absolute(path: &Path, text: &str) -> Result<PathBuf, StoreError> {
    if text.is_empty() {
        return invalid(text, "the path is empty");
    }
    if path.components().any(|part| part == Component::ParentDir)
        && let (Some(folder), Some(file)) = (path.parent(), path.file_name())
        && let Ok(folder) = folder.canonicalize()
    {
        return Ok(folder.join(file));
    }
    std::path::absolute(path).map_err(StoreError::at(text))
}

fn invalid<T>(text: &str, reason: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::location(without_query(text), reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf8_cannot_be_opened() {
        use std::os::unix::ffi::OsStrExt;
        let name = OsStr::from_bytes(b"caf\xe9.nc");
        let refused = Location::Local(Path::new("/d").join(name)).check_text().unwrap_err().to_string();
        assert!(refused.starts_with("/d/caf\\xe9.nc: its path is not UTF-8"), "{refused}");
        let listed = Location::parse(&format!("file:///d/{}", name_as_text(name))).unwrap();
        assert_eq!(listed.check_text().unwrap_err().to_string(), refused);
        let literal = Location::parse("/d/caf\\xe9.nc").unwrap();
        assert!(literal.check_text().is_ok(), "a name may contain a backslash");
        assert_eq!(name_as_text(OsStr::new("é")), "é");
    }

    #[test]
    fn urls_are_kept_as_readers_take_them() {
        let url = |text| Location::parse(text).unwrap().url();
        assert_eq!(url("/a b/c%20d.nc"), "file:///a b/c%20d.nc");
        assert_eq!(url("file:///a/b.nc"), "file:///a/b.nc");
        assert_eq!(url("s3a://bucket/x y?%.nc"), "s3://bucket/x y?%.nc");
        assert_eq!(url("gs://bucket/a/b"), "gs://bucket/a/b");
        assert_eq!(
            url("abfs://box@account.dfs.core.windows.net/a"),
            "abfs://box@account.dfs.core.windows.net/a"
        );
        assert_eq!(url("HTTPS://Host/a b?sig=1#part"), "https://host/a%20b?sig=1");
        assert_eq!(url("https://xn--mnchen-3ya.de/a"), "https://xn--mnchen-3ya.de/a");
        let refused = Location::parse("https://münchen.de/a").unwrap_err().to_string();
        assert!(refused.contains("the host name is not ASCII"), "{refused}");
    }

    #[test]
    fn relative_paths_become_absolute() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(Location::parse("a.nc").unwrap(), Location::Local(here.join("a.nc")));
        assert_eq!(Location::parse("src/../a.nc").unwrap(), Location::Local(here.join("a.nc")));
    }

    #[test]
    fn paths_are_those_of_local_locations() {
        let folder = tempfile::tempdir().unwrap();
        let escaped = folder.path().join("a b");
        std::fs::write(&escaped, "").unwrap();
        let url = format!("file://{}/a%20b", folder.path().display());
        assert_eq!(local_path(&url), Some(escaped));
        assert_eq!(local_path("/a/b.json"), Some("/a/b.json".into()));
        assert_eq!(local_path("s3://bucket/key"), None);
    }

    #[test]
    fn keys_are_not_urls() {
        assert_eq!(below("/d/", "a%20b/c?/0"), "/d/a%20b/c?/0");
        assert_eq!(below("file:///d", "a%20b/#"), "file:///d/a%2520b/#");
        assert_eq!(below("s3://bucket/", "a%20b?"), "s3://bucket/a%20b?");
        assert_eq!(below("https://h/s?sig=1", "a%20b/c d#?/0"), "https://h/s/a%2520b/c%20d%23%3F/0?sig=1");
        assert_eq!(below("https://h", "zarr.json"), "https://h/zarr.json");
    }

    #[test]
    fn names_keep_signatures_back() {
        assert_eq!(Location::parse("https://host/a?X-Sig=1").unwrap().name(), "https://host/a");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in
            ["", "s3://bucket", "s3:///key", "s3://bucket/folder/", "ftp://host/a", "file://a", "http://"]
        {
            assert!(Location::parse(text).is_err(), "{text}");
        }
        let error = Location::parse("https://me:secret@host/a").unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn paths_of_gdal_name_their_url() {
        for (path, advice) in [
            ("/vsis3/bucket/a.nc", "use s3://bucket/a.nc"),
            ("/vsicurl/https://host/a.tif?signature=1", "use https://host/a.tif"),
            ("/vsigs_streaming/bucket/a.tif", "use gs://bucket/a.tif"),
            ("/vsizip//vsis3/bucket/a.zip/a.tif", "extract the file from its archive first"),
            ("/vsimem/a.tif", "use the path or url of the file"),
        ] {
            let error = Location::parse(path).unwrap_err().to_string();
            assert!(error.ends_with(&format!("a path that only GDAL opens, {advice}")), "{error}");
            assert!(!error.contains("signature"), "{error}");
        }
        assert!(matches!(Location::parse("/vsigs"), Ok(Location::Local(_))));
    }
}
