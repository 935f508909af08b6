//! What a request gets.

use std::{
    fs::{File, Metadata},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    time::UNIX_EPOCH,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use hyper::{Request, Response, StatusCode, body::Incoming, header, http};
use percent_encoding::percent_decode_str;

pub(crate) enum Content {
    File(File),
    Memory(Bytes),
}

impl Content {
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let length = usize::try_from(range.end - range.start).unwrap();
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(range.start).unwrap();
                Ok(bytes.slice(start..start + length))
            }
            Self::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(bytes.into())
            }
        }
    }
}

/// What a request gets: the bytes `range` of `content`.
pub(crate) struct Answer {
    pub(crate) head: http::response::Builder,
    pub(crate) name: String,
    pub(crate) content: Content,
    pub(crate) range: Range<u64>,
}

impl Answer {
    fn memory(status: StatusCode, kind: &str, text: String) -> Self {
        let head = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
        Self { head, name: String::new(), range: 0..text.len() as u64, content: Content::Memory(text.into()) }
    }

    pub(crate) fn xml(text: String) -> Self {
        Self::memory(StatusCode::OK, "application/xml", text)
    }

    fn empty(status: StatusCode) -> Self {
        Self::memory(status, "text/plain", String::new())
    }

    pub(crate) fn error(error: &io::Error) -> Self {
        let text = r#"<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>"#.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::memory(StatusCode::NOT_FOUND, "application/xml", text),
            _ => Self::memory(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
        }
    }
}

/// Answers with a file or a range of it.
pub(crate) fn object(root: &Path, request: &Request<Incoming>) -> io::Result<Answer> {
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
    let key = path.trim_start_matches('/').split_once('/').map_or("", |(_bucket, key)| key);
    if key.split('/').any(|part| part == "..") {
        return Ok(Answer::empty(StatusCode::BAD_REQUEST));
    }
    let file = File::open(root.join(key))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let header_of = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    if header_of(header::IF_MATCH).is_some_and(|expected| expected != "*" && expected != tag(&metadata)) {
        return Ok(Answer::empty(StatusCode::PRECONDITION_FAILED));
    }
    let name = key.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(part(file, &metadata, name, header_of(header::RANGE)))
}

fn part(file: File, metadata: &Metadata, name: String, requested: Option<&str>) -> Answer {
    let size = metadata.len();
    let Some(range) = requested.map_or(Some(0..size), |range| parse_range(range, size)) else {
        let mut answer = Answer::empty(StatusCode::RANGE_NOT_SATISFIABLE);
        answer.head = answer.head.header(header::CONTENT_RANGE, format!("bytes */{size}"));
        return answer;
    };
    let mut head = Response::builder()
        .header(header::ETAG, tag(metadata))
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::LAST_MODIFIED, modified(metadata, "%a, %d %b %Y %H:%M:%S GMT"));
    if requested.is_some() {
        let text = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        head = head.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, text);
    }
    Answer { head, name, content: Content::File(file), range }
}

/// The bytes that a header such as `bytes=0-99`, `bytes=100-` or `bytes=-100` asks for, if there are any.
fn parse_range(text: &str, size: u64) -> Option<Range<u64>> {
    let range = match text.strip_prefix("bytes=")?.split_once('-')? {
        ("", last) => size.saturating_sub(last.parse().ok()?)..size,
        (first, "") => first.parse().ok()?..size,
        (first, last) => first.parse().ok()?..last.parse::<u64>().ok()?.saturating_add(1).min(size),
    };
    (!range.is_empty()).then_some(range)
}

pub(crate) fn tag(metadata: &Metadata) -> String {
    let modified =
        metadata.modified().and_then(|time| time.duration_since(UNIX_EPOCH).map_err(io::Error::other));
    format!("\"{:x}-{:x}\"", metadata.len(), modified.unwrap_or_default().as_nanos())
}

pub(crate) fn modified(metadata: &Metadata, format: &str) -> String {
    let time = metadata.modified().unwrap_or(UNIX_EPOCH);
    DateTime::<Utc>::from(time).format(format).to_string()
}
