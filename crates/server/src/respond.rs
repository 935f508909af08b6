//! Responses with entity tags, conditions and ranges (RFC 9110, sections 8.8, 13 and 14).

use std::ops::Range;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Returns a strong entity tag, including its quotation marks, of the inputs that a response depends on.
pub(crate) fn tag(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    tag_of(&digest.finalize())
}

/// Returns a strong entity tag of a digest.
pub(crate) fn tag_of(digest: &[u8]) -> String {
    format!("\"{}\"", hex::encode(digest.get(..16).unwrap_or(digest)))
}

/// Returns whether the client already has the response (If-None-Match, compared weakly).
pub(crate) fn is_current(headers: &HeaderMap, etag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == "*" || tag == etag.trim_start_matches("W/"))
}

/// Builds a response of `length` bytes, or 304 if the client has it. A cache must revalidate it before each use, unless the
/// caller sets another `Cache-Control`.
pub(crate) fn content(
    headers: &HeaderMap,
    kind: &'static str,
    etag: &str,
    length: u64,
    body: Body,
) -> Response {
    let mut response = match is_current(headers, etag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, kind)], body).into_response(),
    };
    let headers = response.headers_mut();
    if headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Builds a response of bytes in memory, whose entity tag is that of its content. The tag is weak, as compression
/// does not change it.
pub(crate) fn bytes(headers: &HeaderMap, kind: &'static str, bytes: impl Into<Bytes>) -> Response {
    let bytes = bytes.into();
    let etag = format!("W/{}", tag_of(&Sha256::digest(&bytes)));
    content(headers, kind, &etag, bytes.len() as u64, bytes.into())
}

/// Builds a response of JSON.
pub(crate) fn json(headers: &HeaderMap, text: impl Into<Bytes>) -> Response {
    bytes(headers, "application/json", text)
}

/// The requested part of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Requested {
    All,
    Part(Range<u64>),
    /// A range that does not overlap the response.
    Nothing,
}

/// Parses the requested range. Several ranges, other units, invalid ranges, and ranges of an outdated version
/// (If-Range) select the whole response.
pub(crate) fn range(headers: &HeaderMap, length: u64, etag: &str) -> Requested {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|given| given != etag) {
        return Requested::All;
    }
    let bytes = text(header::RANGE).and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = bytes.and_then(|bytes| bytes.trim().split_once('-')) else {
        return Requested::All;
    };
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Some(first), None) if last.is_empty() => first..length,
        (None, Some(count)) if first.is_empty() => length.saturating_sub(count)..length,
        _ => return Requested::All,
    };
    if part.start >= part.end { Requested::Nothing } else { Requested::Part(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn ranges_are_those_of_the_rfc() {
        let range = |text| range(&headers(header::RANGE, text), 10, "\"a\"");
        assert_eq!(range("bytes=0-3"), Requested::Part(0..4));
        assert_eq!(range("bytes=2-"), Requested::Part(2..10));
        assert_eq!(range("bytes=-4"), Requested::Part(6..10));
        assert_eq!(range("bytes=-99"), Requested::Part(0..10));
        assert_eq!(range("bytes=5-99999999999999999999999"), Requested::Part(5..10));
        for none in ["bytes=10-", "bytes=10-11", "bytes=-0"] {
            assert_eq!(range(none), Requested::Nothing, "{none}");
        }
        for all in
            ["", "bytes=", "bytes=-", "bytes=3-2", "bytes=0-1,3-4", "items=0-1", "bytes=+1-2", "bytes=a-b"]
        {
            assert_eq!(range(all), Requested::All, "{all}");
        }
    }

    #[test]
    fn tags_are_compared_weakly() {
        let matches = |text| is_current(&headers(header::IF_NONE_MATCH, text), "W/\"a\"");
        for yes in ["\"a\"", "W/\"a\"", "*", "\"b\", \"a\""] {
            assert!(matches(yes), "{yes}");
        }
        for no in ["", "\"b\"", "a", "\"a-gzip\""] {
            assert!(!matches(no), "{no}");
        }
    }
}
