//! Responses in a content coding that the client accepts.

use std::{
    fs::File,
    io::{self, Cursor},
    ops::Range,
    sync::{Arc, OnceLock},
};

use async_compression::{
    Level,
    tokio::bufread::{GzipEncoder, ZstdEncoder},
    zstd::CParameter,
};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, stream::try_unfold};
use tokio::{
    io::{AsyncBufRead, AsyncReadExt},
    sync::OnceCell,
};
use tokio_util::io::{ReaderStream, StreamReader};

use crate::{
    Problem,
    budget::Share,
    conditional::{none_match, of_content},
};

/// Minimum size of a response to compress, in bytes.
const SHORT: u64 = 1024;
/// Bytes read from a file at once.
const PIECE: usize = 64 << 10;

/// The content of a response.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Memory(Bytes),
    /// A whole file and its length. Reads are positioned, so that concurrent responses can share the file.
    File(Arc<Kept>, u64),
}

/// A file that is being sent, and its share of the disk, which is held while the file is open.
#[derive(Debug)]
pub(crate) struct Kept {
    file: File,
    _share: Option<Share>,
}

impl Kept {
    pub(crate) fn new(file: File, share: Option<Share>) -> Arc<Self> {
        Arc::new(Self { file, _share: share })
    }
}

/// Static content, whose entity tag and compressed forms are computed once.
#[derive(Debug)]
pub(crate) struct Fixed {
    kind: &'static str,
    text: &'static str,
    etag: OnceLock<String>,
    gzip: OnceCell<Bytes>,
    zstd: OnceCell<Bytes>,
}

impl Fixed {
    pub(crate) const fn new(kind: &'static str, text: &'static str) -> Self {
        Self { kind, text, etag: OnceLock::new(), gzip: OnceCell::const_new(), zstd: OnceCell::const_new() }
    }

    /// Returns the media type.
    #[cfg(test)]
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// Builds the response, in a coding that the client accepts.
    pub(crate) async fn answer(&self, headers: &HeaderMap) -> Response {
        let etag = self.etag.get_or_init(|| of_content(self.text.as_bytes()));
        if none_match(headers, etag) {
            return not_modified(etag);
        }
        let plain = Bytes::from_static(self.text.as_bytes());
        let coding = if (plain.len() as u64) < SHORT { Coding::Identity } else { coding(headers) };
        let coded = || async { whole(coding, Content::Memory(plain.clone())).await };
        let bytes = match coding {
            Coding::Identity => Ok(&plain),
            Coding::Gzip => self.gzip.get_or_try_init(coded).await,
            Coding::Zstd => self.zstd.get_or_try_init(coded).await,
        };
        match bytes {
            Ok(bytes) => {
                let length = bytes.len() as u64;
                finished(Body::from(bytes.clone()), coding, Some(length), self.kind, etag)
            }
            Err(_) => Problem::internal().into_response(),
        }
    }
}

/// Encodes the whole content.
async fn whole(coding: Coding, content: Content) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    match coding {
        Coding::Identity => content.reader().read_to_end(&mut bytes).await?,
        Coding::Gzip => GzipEncoder::new(content.reader()).read_to_end(&mut bytes).await?,
        Coding::Zstd => lean_zstd(content.reader()).read_to_end(&mut bytes).await?,
    };
    Ok(bytes.into())
}

/// A content coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Content {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    pub(crate) fn reader(self) -> Box<dyn AsyncBufRead + Send + Unpin> {
        match self {
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
            Self::File(file, length) => Box::new(Box::pin(StreamReader::new(pieces(file, 0..length)))),
        }
    }
}

/// Builds the response: 304, or the content, compressed if the client accepts that.
pub(crate) fn answer(headers: &HeaderMap, content: Content, kind: &'static str, etag: &str) -> Response {
    if none_match(headers, etag) {
        return not_modified(etag);
    }
    let length = content.length();
    let coding = if length < SHORT { Coding::Identity } else { coding(headers) };
    let body = match (coding, content) {
        (Coding::Identity, Content::Memory(bytes)) => Body::from(bytes),
        (Coding::Identity, Content::File(file, length)) => Body::from_stream(pieces(file, 0..length)),
        (Coding::Gzip, content) => stream(GzipEncoder::new(content.reader())),
        (Coding::Zstd, content) => stream(lean_zstd(content.reader())),
    };
    let length = (coding == Coding::Identity).then_some(length);
    finished(body, coding, length, kind, etag)
}

/// Builds a response from an encoded body.
fn finished(body: Body, coding: Coding, length: Option<u64>, kind: &'static str, etag: &str) -> Response {
    let mut response = body.into_response();
    let all = response.headers_mut();
    if let Some(length) = length {
        all.insert(header::CONTENT_LENGTH, length.into());
    }
    let coded = |name: &str| format!("{}-{name}\"", etag.trim_end_matches('"'));
    let etag = match coding {
        Coding::Identity => etag.to_owned(),
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

/// Builds a response from JSON that was generated for this request only. Its entity tag is that of its content.
pub(crate) fn json(headers: &HeaderMap, text: String) -> Response {
    let etag = of_content(text.as_bytes());
    answer(headers, Content::Memory(text.into()), "application/json", &etag)
}

/// Builds a 304 response.
pub(crate) fn not_modified(etag: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    described(response.headers_mut(), etag);
    response
}

/// Adds the headers for caches. A cache must revalidate a response before each use, which is cheap if nothing has
/// changed.
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

/// Selects the supported coding that the client prefers (RFC 9110, section 12.5.3); zstd among equals.
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

/// Parses a coding and its weight; 1 if the weight is absent, 0 if it is invalid.
fn weighed(text: &str) -> (String, f32) {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let weight =
        parameters.trim().strip_prefix("q=").map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0));
    (name.trim().to_ascii_lowercase(), weight)
}

/// Returns an encoder that needs less than 1 MiB of memory.
fn lean_zstd<R: AsyncBufRead>(reader: R) -> ZstdEncoder<R> {
    let lean = [CParameter::window_log(17), CParameter::hash_log(15), CParameter::chain_log(15)];
    ZstdEncoder::with_quality_and_params(reader, Level::Default, &lean)
}

/// Streams a range of a file in pieces.
pub(crate) fn pieces(
    file: Arc<Kept>,
    range: Range<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    try_unfold((file, range), |(file, range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(PIECE).min(PIECE);
        let (shared, start) = (Arc::clone(&file), range.start);
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            read_at(&shared.file, &mut piece, start).map(|()| piece)
        });
        let piece = read.await.map_err(io::Error::other)??;
        Ok(Some((Bytes::from(piece), (file, start.saturating_add(length as u64)..range.end))))
    })
}

/// Reads at an offset, without moving the cursor of the file.
#[cfg(unix)]
fn read_at(file: &File, piece: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, piece, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut piece: &mut [u8], mut at: u64) -> io::Result<()> {
    while !piece.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, piece, at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        piece = piece.get_mut(count..).unwrap_or_default();
        at = at.saturating_add(count as u64);
    }
    Ok(())
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
