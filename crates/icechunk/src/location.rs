//! Locations of virtual chunks.

use icechunk::format::manifest::{Checksum, SecondsSinceEpoch, VirtualChunkLocation};
use icechunk::storage::ETag;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use virtualize_zarr::Source;

use crate::{IcechunkError, error::one_line};

/// Characters with a special meaning in urls. Source urls contain paths and keys verbatim, Icechunk wants them escaped.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A source file, as each of its virtual chunks records it.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSource {
    pub(crate) location: VirtualChunkLocation,
    pub(crate) checksum: Option<Checksum>,
}

/// Returns the location of a source.
///
/// # Errors
/// See [`encode_url`].
pub(crate) fn location(source: &Source) -> Result<VirtualChunkLocation, IcechunkError> {
    let url = encode_url(&source.url)?;
    VirtualChunkLocation::from_url(&url)
        .map_err(|error| IcechunkError::Source { url: source.url.clone(), reason: one_line(&error) })
}

/// Returns the url of a file with its path percent-encoded.
///
/// # Errors
/// The url is relative, has a query or a fragment, or Icechunk does not support its scheme.
pub(crate) fn encode_url(url: &str) -> Result<String, IcechunkError> {
    let refuse = |reason: String| Err(IcechunkError::Source { url: url.to_owned(), reason });
    let Some((scheme, rest)) = url.split_once("://") else { return refuse("not an absolute url".to_owned()) };
    match scheme {
        "http" | "https" if rest.contains(['?', '#']) => {
            refuse("Icechunk does not store the query of a url".to_owned())
        }
        "http" | "https" => Ok(url.to_owned()),
        "file" | "s3" | "gs" | "az" | "abfs" => {
            Ok(format!("{scheme}://{}", utf8_percent_encode(rest, ESCAPED)))
        }
        _ => refuse(format!("Icechunk has no virtual chunk containers for {scheme}:// urls")),
    }
}

/// Reverses [`encode_url`].
pub(crate) fn decode_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if !matches!(scheme, "http" | "https") => {
            format!("{scheme}://{}", percent_decode_str(rest).decode_utf8_lossy())
        }
        _ => url.to_owned(),
    }
}

/// Returns what readers could compare to detect that a file changed, the best first: a strong entity tag (weak ones never
/// match), and the modification time in seconds, rounded up. Readers send tags without their quotes; web servers that follow
/// RFC 9110 reject these.
pub(crate) fn checksums(source: &Source) -> Vec<Checksum> {
    let strong = source.etag.clone().filter(|etag| !etag.starts_with("W/"));
    let tag = strong.map(|etag| Checksum::ETag(ETag(etag)));
    let seconds = source.modified.and_then(|time| u32::try_from(time.checked_add(999)? / 1000).ok());
    let time = seconds.map(|seconds| Checksum::LastModified(SecondsSinceEpoch(seconds)));
    let is_web = source.url.starts_with("http");
    let order = if is_web { [time, tag] } else { [tag, time] };
    order.into_iter().flatten().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn paths_are_percent_encoded() {
        let source = |url: &str| Source { url: url.to_owned(), ..Source::default() };
        for (given, expected) in [
            ("file:///d/a b%20#?.nc", "file:///d/a%20b%2520%23%3F.nc"),
            ("s3://bucket/k//x%2F.tif", "s3://bucket/k//x%252F.tif"),
            // Parsers of urls take a backslash for a slash.
            ("file:///d/a\\b.nc", "file:///d/a%5Cb.nc"),
            ("https://host/a%20b.tif", "https://host/a%20b.tif"),
        ] {
            assert_eq!(location(&source(given)).unwrap().url(), expected);
        }
        assert!(location(&source("https://host/a?signature=1")).is_err());
    }

    #[test]
    fn weak_entity_tags_are_ignored_and_seconds_rounded_up() {
        let time = Checksum::LastModified(SecondsSinceEpoch(2));
        let tag = Checksum::ETag(ETag("\"1\"".to_owned()));
        let weak = Source {
            url: "s3://b/a".to_owned(),
            etag: Some("W/\"1\"".to_owned()),
            modified: Some(1_001),
            ..Source::default()
        };
        assert_eq!(checksums(&weak), std::slice::from_ref(&time));
        let strong = Source { etag: Some("\"1\"".to_owned()), ..weak };
        assert_eq!(checksums(&strong), [tag.clone(), time.clone()]);
        assert_eq!(checksums(&Source { url: "https://h/a".to_owned(), ..strong }), [time, tag]);
    }
}
