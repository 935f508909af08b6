//! Where the chunks of a file lie, in Icechunk's words.

use icechunk::format::manifest::{Checksum, SecondsSinceEpoch, VirtualChunkLocation};
use icechunk::storage::ETag;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use virtualize_zarr::Source;

use crate::{IcechunkError, error::one_line};

/// What has a meaning of its own in a url. Paths and keys of sources stand as they are, so these have to be escaped.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A file that chunks lie in: the same for all its chunks.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) location: VirtualChunkLocation,
    pub(crate) checksum: Option<Checksum>,
}

/// The place of a source.
pub(crate) fn place(source: &Source) -> Result<Place, IcechunkError> {
    let refuse = |reason: String| IcechunkError::Source { url: source.url.clone(), reason };
    let url = url(&source.url).map_err(refuse)?;
    let location = VirtualChunkLocation::from_url(&url).map_err(|error| refuse(one_line(&error)))?;
    Ok(Place { location, checksum: checksum(source) })
}

/// The url of a file, with everything escaped that is not its scheme, host or path.
pub(crate) fn url(url: &str) -> Result<String, String> {
    let (scheme, rest) = url.split_once("://").ok_or("not an absolute url")?;
    match scheme {
        "http" | "https" if rest.contains(['?', '#']) => {
            Err("Icechunk does not keep the query of a url".to_owned())
        }
        "http" | "https" => Ok(url.to_owned()),
        "file" | "s3" | "gs" | "az" | "abfs" => {
            Ok(format!("{scheme}://{}", utf8_percent_encode(rest, ESCAPED)))
        }
        _ => Err(format!("Icechunk has no virtual chunk container for {scheme}://")),
    }
}

/// The url of a file as our stores take it: the reverse of [`url`].
pub(crate) fn raw(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if !matches!(scheme, "http" | "https") => {
            format!("{scheme}://{}", percent_decode_str(rest).decode_utf8_lossy())
        }
        _ => url.to_owned(),
    }
}

/// By what a reader sees that the file has changed. Weak entity tags never match, and times are whole seconds there.
fn checksum(source: &Source) -> Option<Checksum> {
    let strong = source.etag.as_ref().filter(|etag| !etag.starts_with("W/"));
    let seconds = || {
        let seconds = u32::try_from(source.modified?.checked_add(999)?.checked_div(1000)?).ok()?;
        Some(Checksum::LastModified(SecondsSinceEpoch(seconds)))
    };
    strong.map(|etag| Checksum::ETag(ETag(etag.clone()))).or_else(seconds)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_url_is_escaped() {
        let source = |url: &str| Source { url: url.to_owned(), ..Source::default() };
        for (given, expected) in [
            ("file:///d/a b%20#?.nc", "file:///d/a%20b%2520%23%3F.nc"),
            ("s3://bucket/k//x%2F.tif", "s3://bucket/k//x%252F.tif"),
            ("https://host/a%20b.tif", "https://host/a%20b.tif"),
        ] {
            assert_eq!(place(&source(given)).unwrap().location.url(), expected);
        }
        assert!(place(&source("https://host/a?signature=1")).is_err());
    }

    #[test]
    fn a_weak_tag_is_none_and_seconds_are_rounded_up() {
        let mut source =
            Source { etag: Some("W/\"1\"".to_owned()), modified: Some(1_001), ..Source::default() };
        assert_eq!(checksum(&source), Some(Checksum::LastModified(SecondsSinceEpoch(2))));
        source.etag = Some("\"1\"".to_owned());
        assert_eq!(checksum(&source), Some(Checksum::ETag(ETag("\"1\"".to_owned()))));
    }
}
