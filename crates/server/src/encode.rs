//! Answers in the coding that a client takes.

use std::io::{self, Cursor};

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use tokio::io::{AsyncBufRead, BufReader};
use tokio_util::io::ReaderStream;

use crate::conditional::{none_match, of_content};

/// Answers that are shorter are sent as they are.
const SHORT: u64 = 1024;
/// Bytes of a piece of a file.
const PIECE: usize = 64 << 10;

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    /// From its beginning, with its length.
    File(std::fs::File, u64),
}

/// A content coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    fn reader(self) -> Box<dyn AsyncBufRead + Send + Unpin> {
        match self {
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
            Self::File(file, _) => Box::new(BufReader::with_capacity(PIECE, tokio::fs::File::from_std(file))),
        }
    }
}

/// The answer: not modified, or the content, compressed where the client takes that.
pub(crate) fn answer(headers: &HeaderMap, content: Content, kind: &'static str, etag: &str) -> Response {
    if none_match(headers, etag) {
        return not_modified(etag);
    }
    let length = content.length();
    let coding = if length < SHORT { Coding::Identity } else { coding(headers) };
    let mut response = match (coding, content) {
        (Coding::Identity, Content::Memory(bytes)) => Body::from(bytes).into_response(),
        (Coding::Identity, file) => stream(file.reader()).into_response(),
        (Coding::Gzip, content) => stream(GzipEncoder::new(content.reader())).into_response(),
        (Coding::Zstd, content) => stream(ZstdEncoder::new(content.reader())).into_response(),
    };
    let all = response.headers_mut();
    let coded = |name: &str| format!("{}-{name}\"", etag.trim_end_matches('"'));
    let etag = match coding {
        Coding::Identity => {
            all.insert(header::CONTENT_LENGTH, length.into());
            etag.to_owned()
        }
        Coding::Gzip => {
            all.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            coded("gzip")
        }
        Coding::Zstd => {
            all.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
            coded("zstd")
        }
    };
    all.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    described(all, &etag);
    response
}

/// JSON that was made for this request alone, so that its content is its tag.
pub(crate) fn json(headers: &HeaderMap, text: String) -> Response {
    let etag = of_content(text.as_bytes());
    answer(headers, Content::Memory(text.into()), "application/json", &etag)
}

/// 304.
pub(crate) fn not_modified(etag: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    described(response.headers_mut(), etag);
    response
}

/// What a cache must know. Answers are asked for again each time, which is cheap where nothing changed.
fn described(headers: &mut HeaderMap, etag: &str) {
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
}

fn stream(reader: impl tokio::io::AsyncRead + Send + 'static) -> Body {
    Body::from_stream(ReaderStream::with_capacity(reader, PIECE))
}

/// The coding that a client likes best of those that are here (RFC 9110, section 12.5.3); zstd among equals.
fn coding(headers: &HeaderMap) -> Coding {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let wanted: Vec<(String, f32)> = values.flat_map(|value| value.split(',')).map(weighed).collect();
    let weight = |name: &str| {
        let named = |wanted_name: &str| {
            wanted.iter().find(|(name, _)| name == wanted_name).map(|(_, weight)| *weight)
        };
        named(name).or_else(|| named("*")).unwrap_or(0.0)
    };
    match (weight("zstd"), weight("gzip")) {
        (zstd, gzip) if zstd > 0.0 && zstd >= gzip => Coding::Zstd,
        (_, gzip) if gzip > 0.0 => Coding::Gzip,
        _ => Coding::Identity,
    }
}

fn weighed(text: &str) -> (String, f32) {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let weight =
        parameters.trim().strip_prefix("q=").map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
    (name.trim().to_ascii_lowercase(), weight)
}

/// All bytes of what was spooled: in memory where they are there, else a file.
pub(crate) fn spooled(mut spool: tempfile::SpooledTempFile, length: u64) -> io::Result<Content> {
    io::Seek::rewind(&mut spool)?;
    match spool.into_inner() {
        tempfile::SpooledData::InMemory(cursor) => Ok(Content::Memory(cursor.into_inner().into())),
        tempfile::SpooledData::OnDisk(file) => Ok(Content::File(file, length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_coding_is_taken() {
        let coding =
            |text: &str| coding(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, text.parse().unwrap())]));
        assert_eq!(coding("gzip, deflate, br"), Coding::Gzip);
        assert_eq!(coding("gzip, zstd"), Coding::Zstd);
        assert_eq!(coding("gzip;q=1, zstd;q=0.5"), Coding::Gzip);
        assert_eq!(coding("*"), Coding::Zstd);
        assert_eq!(coding("zstd;q=0, *;q=0.1"), Coding::Gzip);
        for none in ["", "identity", "br", "gzip;q=0", "gzip;q=x"] {
            assert_eq!(coding(none), Coding::Identity, "{none}");
        }
    }
}
