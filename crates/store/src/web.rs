//! GET requests to web servers.
//!
//! Servers differ more than `object_store` allows for: some send a range without `Content-Length`, or without the size of
//! the file. GDAL and fsspec read their files, so this crate does.

use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use object_store::{
    GetOptions, GetRange, HeaderValue, ObjectMeta,
    client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody},
    path::Path,
};
use reqwest::Method;
use url::Url;
use virtualize_bytes::ReadErrorKind;

use crate::{
    StoreError,
    clients::Seen,
    error,
    link::{Failure, Tried},
};

/// Maximum number of bytes of an error document that are read.
const DOCUMENT: usize = 4096;

/// A file on a web server.
#[derive(Debug)]
pub(crate) struct WebFile {
    client: HttpClient,
    url: Url,
    /// Name for messages.
    name: String,
    /// Size of the file, if responses do not state it.
    size: OnceLock<u64>,
    /// Whether all ranges had their length and the size of the file.
    is_complete: AtomicBool,
}

/// A successful response.
pub(crate) struct WebResponse {
    pub(crate) meta: ObjectMeta,
    /// The range of the body; `None` if the server did not announce its length.
    pub(crate) range: Option<Range<u64>>,
    pub(crate) body: HttpResponseBody,
}

impl WebFile {
    pub(crate) fn new(client: HttpClient, url: Url, name: String) -> Self {
        Self { client, url, name, size: OnceLock::new(), is_complete: AtomicBool::new(true) }
    }

    /// Returns whether all ranges so far had their length and the size of the file.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    /// Requests a range, or the whole file.
    pub(crate) async fn get(&self, options: &GetOptions, seen: &Seen) -> Result<WebResponse, Tried<Failure>> {
        let wanted = match &options.range {
            Some(GetRange::Bounded(range)) => Some(range.clone()),
            _ => None,
        };
        let range =
            wanted.as_ref().map(|range| format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        let method = if options.head { Method::HEAD } else { Method::GET };
        let response = self.send(method, range, options, seen).await?;
        let length = header(&response, "content-length").and_then(|text| text.parse::<u64>().ok());
        let refused = |reason: String| Err(Tried::Final(StoreError::unavailable(&self.name, reason).into()));
        let (size, range) = match (response.status().as_u16(), wanted) {
            (206, Some(wanted)) => {
                let text = header(&response, "content-range").unwrap_or_default();
                let Some((sent, total)) = content_range(text) else {
                    return refused(format!(
                        "the server sent a part of the file with Content-Range {text:?}"
                    ));
                };
                if length.is_none() || total.is_none() {
                    self.is_complete.store(false, Ordering::Relaxed);
                }
                let size = match total {
                    Some(total) => total,
                    // The range ends where the file does.
                    None if sent.end < wanted.end => *self.size.get_or_init(|| sent.end),
                    None => self.find_size(options, seen).await?,
                };
                if sent != (wanted.start..wanted.end.min(size)) {
                    return refused(format!("the server sent {text}, expected bytes {wanted:?}"));
                }
                (size, Some(sent))
            }
            (200, Some(_)) => return Err(Tried::Final(Failure::NoRanges)),
            (200, None) => (length.unwrap_or_default(), length.map(|length| 0..length)),
            (_, _) => return refused(format!("the server answers {}", response.status())),
        };
        let modified =
            header(&response, "last-modified").and_then(|text| DateTime::parse_from_rfc2822(text).ok());
        let meta = ObjectMeta {
            location: Path::default(),
            last_modified: modified.map(|time| time.with_timezone(&Utc)).unwrap_or_default(),
            size,
            e_tag: header(&response, "etag").map(str::to_owned),
            version: None,
        };
        Ok(WebResponse { meta, range, body: response.into_body() })
    }

    /// Returns the size of a file whose server sends ranges without it: that of a HEAD response, or else the end of the
    /// last byte.
    async fn find_size(&self, options: &GetOptions, seen: &Seen) -> Result<u64, Tried<Failure>> {
        if let Some(size) = self.size.get() {
            return Ok(*size);
        }
        let plain = GetOptions { extensions: options.extensions.clone(), ..GetOptions::default() };
        let head = self.send(Method::HEAD, None, &plain, seen).await;
        let length = head.as_ref().ok().and_then(|head| header(head, "content-length")?.parse().ok());
        let size = match length.filter(|length| *length > 0) {
            Some(length) => Some(length),
            None => {
                let last = self.send(Method::GET, Some("bytes=-1".to_owned()), &plain, seen).await?;
                content_range(header(&last, "content-range").unwrap_or_default()).map(|(range, _)| range.end)
            }
        };
        let Some(size) = size else {
            let reason = "the server does not state the size of the file";
            return Err(Tried::Final(StoreError::unavailable(&self.name, reason).into()));
        };
        Ok(*self.size.get_or_init(|| size))
    }

    /// Sends a request; a status other than 200 and 206 is an error.
    async fn send(
        &self,
        method: Method,
        range: Option<String>,
        options: &GetOptions,
        seen: &Seen,
    ) -> Result<HttpResponse, Tried<Failure>> {
        let condition =
            options.if_unmodified_since.map(|time| time.format("%a, %d %b %Y %H:%M:%S GMT").to_string());
        let headers =
            [("range", range), ("if-match", options.if_match.clone()), ("if-unmodified-since", condition)];
        let headers = headers.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        match send(&self.client, &self.url, &self.name, (method, HttpRequestBody::empty()), headers, seen)
            .await
        {
            Ok(response) => Ok(response),
            Err(Tried::Passing(error)) => Err(Tried::Passing(error)),
            Err(Tried::Final(error)) if seen.status() == 416 => Err(Tried::Final(Failure::PastEnd(error))),
            Err(Tried::Final(error)) => Err(Tried::Final(Failure::Other(error))),
        }
    }
}

/// Sends a request to a web server, and returns a response with a status of success.
pub(crate) async fn send<'a>(
    client: &HttpClient,
    url: &Url,
    name: &str,
    (method, body): (Method, HttpRequestBody),
    headers: impl Iterator<Item = (&'static str, &'a str)>,
    seen: &Seen,
) -> Result<HttpResponse, Tried> {
    let invalid = |what: &str| Tried::Final(StoreError::unavailable(name, what));
    let mut request = HttpRequest::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.as_str().parse().map_err(|_| invalid("not a url"))?;
    for (header, value) in headers {
        let value =
            HeaderValue::from_str(value).map_err(|_| invalid("the value of a header is not valid"))?;
        request.headers_mut().insert(header, value);
    }
    request.extensions_mut().insert(seen.clone());
    let sent = client.execute(request).await;
    let response = sent.map_err(|failed| match error::of_ours(&failed).map(|error| error.of_file(name)) {
        Some(error) if error.kind() == ReadErrorKind::Unavailable => Tried::Passing(error),
        Some(error) => Tried::Final(error),
        None => Tried::Passing(StoreError::unavailable(name, error::innermost(&failed))),
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let document = start_of(response.into_body()).await;
    let reason = error::with_document(&status.to_string(), &document);
    let name = name.to_owned();
    if let Some(expired) = error::expired(&name, &document) {
        return Err(Tried::Final(expired));
    }
    Err(match status.as_u16() {
        // Azure, for a request without a signature.
        409 if document.contains("PublicAccessNotPermitted") => {
            Tried::Final(StoreError::Denied { name, reason, identity: seen.identity() })
        }
        404 | 410 => Tried::Final(StoreError::NotFound { name }),
        401 | 403 => Tried::Final(StoreError::Denied { name, reason, identity: seen.identity() }),
        412 => Tried::Final(StoreError::Changed { name, reason: "its etag differs".to_owned() }),
        _ if seen.is_passing() => Tried::Passing(StoreError::Unavailable { name, reason }),
        _ => Tried::Final(StoreError::Unavailable { name, reason }),
    })
}

/// Reads the start of an error document.
async fn start_of(body: HttpResponseBody) -> String {
    let mut start = BytesMut::new();
    let mut parts = body.bytes_stream();
    while start.len() < DOCUMENT
        && let Ok(Some(part)) = parts.try_next().await
    {
        start.extend_from_slice(&part);
    }
    start.truncate(DOCUMENT);
    String::from_utf8_lossy(&start).into_owned()
}

/// Reads a body of at most `limit` bytes; `None` if it is longer.
pub(crate) async fn read_body(
    body: HttpResponseBody,
    limit: u64,
) -> Result<Option<Bytes>, object_store::client::HttpError> {
    let mut bytes = BytesMut::new();
    let mut parts = body.bytes_stream();
    while let Some(part) = parts.try_next().await? {
        if (bytes.len() as u64).saturating_add(part.len() as u64) > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Some(bytes.freeze()))
}

/// Reads a document of at most `limit` bytes; `None` if it is longer.
pub(crate) async fn read_all(response: HttpResponse, name: &str, limit: u64) -> Result<Option<Bytes>, Tried> {
    let broken = |error| Tried::Passing(StoreError::unavailable(name, error::innermost(&error)));
    read_body(response.into_body(), limit).await.map_err(broken)
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Parses `bytes 0-9/100`, or `bytes 0-9/*` for an unknown size.
fn content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let end = last.trim().parse::<u64>().ok()?.checked_add(1)?;
    let start = start.trim().parse().ok().filter(|start| *start < end)?;
    match size.trim() {
        "*" => Some((start..end, None)),
        size => Some((start..end, Some(size.parse().ok().filter(|size| end <= *size)?))),
    }
}

/// Returns whether bytes are the start of an HTML page.
pub(crate) fn is_html(bytes: &[u8]) -> bool {
    let start = bytes.get(..bytes.len().min(256)).unwrap_or_default();
    let text =
        String::from_utf8_lossy(start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start)).to_ascii_lowercase();
    let text = text.trim_start();
    text.starts_with("<!doctype html") || text.starts_with("<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_responses() {
        assert_eq!(content_range("bytes 0-9/100"), Some((0..10, Some(100))));
        assert_eq!(content_range("bytes 5-5/*"), Some((5..6, None)));
        for wrong in ["", "bytes */100", "bytes 9-5/100", "bytes 0-100/100", "0-9/100", "bytes 0-9"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
        assert_eq!(content_range("bytes 0-18446744073709551615/*"), None);
    }

    #[test]
    fn pages_are_recognized_by_their_start() {
        assert!(is_html(b"\xef\xbb\xbf \n<!DOCTYPE html><title>Sign in</title>"));
        assert!(is_html(b"<HTML lang=en>"));
        assert!(
            !is_html(b"\x89HDF\r\n\x1a\n") && !is_html(b"<?xml version='1.0'?><Dataset>") && !is_html(b"")
        );
    }
}
