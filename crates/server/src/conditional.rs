//! Entity tags, conditions and ranges (RFC 9110, sections 8.8, 13 and 14).

use std::ops::Range;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

/// Returns a strong entity tag, including its quotation marks, of the inputs that a response depends on.
pub(crate) fn tag(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    format!("\"{}\"", hexadecimal(&digest.finalize(), 16))
}

/// Returns a strong entity tag of the content of a response.
pub(crate) fn of_content(content: &[u8]) -> String {
    format!("\"{}\"", hexadecimal(&Sha256::digest(content), 16))
}

/// Returns the first bytes of a digest in hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8], bytes: usize) -> String {
    hex::encode(digest.get(..bytes).unwrap_or(digest))
}

/// Returns whether the client already has the response (If-None-Match, compared weakly). Tags of the same response in
/// another content coding end in the name of the coding.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let wanted = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = wanted.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == "*" || tag == etag || uncoded(tag) == etag)
}

/// Returns a tag without the name of its content coding.
fn uncoded(tag: &str) -> String {
    ["-gzip\"", "-zstd\""]
        .iter()
        .find_map(|end| tag.strip_suffix(end))
        .map_or_else(String::new, |tag| format!("{tag}\""))
}

/// The requested part of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    All,
    Part(Range<u64>),
    /// A range that does not overlap the response.
    Nothing,
}

/// Parses the requested range. Several ranges, other units, invalid ranges, and ranges of an outdated version
/// (If-Range) select the whole response.
pub(crate) fn range(headers: &HeaderMap, length: u64, etag: &str) -> Wanted {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|wanted| wanted != etag) {
        return Wanted::All;
    }
    let bytes = text(header::RANGE).and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = bytes.and_then(|bytes| bytes.trim().split_once('-')) else {
        return Wanted::All;
    };
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Some(first), None) if last.is_empty() => first..length,
        (None, Some(count)) if first.is_empty() => length.saturating_sub(count)..length,
        _ => return Wanted::All,
    };
    if part.start >= part.end { Wanted::Nothing } else { Wanted::Part(part) }
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
        assert_eq!(range("bytes=0-3"), Wanted::Part(0..4));
        assert_eq!(range("bytes=2-"), Wanted::Part(2..10));
        assert_eq!(range("bytes=-4"), Wanted::Part(6..10));
        assert_eq!(range("bytes=-99"), Wanted::Part(0..10));
        assert_eq!(range("bytes=5-99999999999999999999999"), Wanted::Part(5..10));
        for none in ["bytes=10-", "bytes=10-11", "bytes=-0"] {
            assert_eq!(range(none), Wanted::Nothing, "{none}");
        }
        for all in
            ["", "bytes=", "bytes=-", "bytes=3-2", "bytes=0-1,3-4", "items=0-1", "bytes=+1-2", "bytes=a-b"]
        {
            assert_eq!(range(all), Wanted::All, "{all}");
        }
    }

    #[test]
    fn tags_are_compared_weakly() {
        let matches = |text| none_match(&headers(header::IF_NONE_MATCH, text), "\"a\"");
        for yes in ["\"a\"", "W/\"a\"", "*", "\"b\", \"a\"", "\"a-gzip\"", "W/\"a-zstd\""] {
            assert!(matches(yes), "{yes}");
        }
        for no in ["", "\"b\"", "a", "\"a-br\""] {
            assert!(!matches(no), "{no}");
        }
    }
}
