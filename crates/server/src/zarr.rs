//! `GET /v1/zarr/{source}/{key}`: any source as a Zarr v3 store, whose chunks are read from the source by range.

use std::{ops::Range, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::stream;
use virtualize::{
    Code, Format, MapOptions, Options, StoreOptions,
    keys::{self, Chunk},
    zarr::{ChunkEntry, Reference},
};

use crate::{
    Problem,
    budget::{Budget, Share},
    client::Client,
    conditional::{Wanted, none_match, of_content, range, tag},
    context::Context,
    encode::{Content, answer, not_modified},
    query,
    sources::Mapped,
};

/// Maximum bytes of a source to read at once. A larger chunk is sent in pieces.
const PIECE: u64 = 8 << 20;
/// Path prefix of the stores.
const PREFIX: &str = "/v1/zarr/";

/// Returns the path of the store of a source. A path with a version never serves another version.
pub(crate) fn link(url: &str, version: Option<&str>) -> String {
    let version = version.map(|version| format!("~{version}")).unwrap_or_default();
    format!("{PREFIX}{}{version}/", BASE64_URL_SAFE_NO_PAD.encode(url))
}

/// A requested source, and a key of its store.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) mapped: Arc<Mapped>,
    pub(crate) options: StoreOptions,
    pub(crate) key: String,
    /// The client's part of the memory budget.
    pub(crate) memory: Budget,
    id: String,
}

/// Handles the request for a chunk or a metadata document.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = asked(&context, &client, request.uri().path(), PREFIX).await?;
    let answered = match asked.entry()? {
        Found::Document(bytes) => {
            let etag = tag(&["zarr", env!("CARGO_PKG_VERSION"), &asked.key, &String::from_utf8_lossy(bytes)]);
            Ok(answer(request.headers(), Content::Memory(bytes.clone()), "application/json", &etag))
        }
        Found::Chunk(chunk) => stored(&asked, &chunk.entry, request.headers()).await,
    };
    asked.settle(&context, answered).await
}

/// Opens the source that a path below `prefix` names, in the version that the path requires.
pub(crate) async fn asked(
    context: &Arc<Context>,
    client: &Client,
    path: &str,
    prefix: &str,
) -> Result<Asked, Problem> {
    let (source, key) = parts(path, prefix)?;
    let (url, version) = source_of(&source)?;
    let url = client.allowed.check(&url)?;
    let options = Options {
        store: context.config.store_options(&client.allowed),
        map: MapOptions { format: Format::ZARR3_JSON.zarr_format(), ..MapOptions::default() },
        limits: context.config.limits,
        ..Options::default()
    };
    let id = format!("zarr\n{}\n{url}", client.access_key);
    let mut mapped = context.sources.mapped(client, &url, &options, &id).await?;
    if version.as_ref().is_some_and(|version| *version != mapped.version) {
        // The cached file may be older than the version that the path names.
        context.sources.forget(&id).await;
        mapped = context.sources.mapped(client, &url, &options, &id).await?;
    }
    match version {
        Some(version) if version != mapped.version => {
            return Err(Problem::changed(mapped.store.name()));
        }
        Some(_) => {}
        None => context.sources.hold(&id, mapped.store.name(), &mapped).await?,
    }
    mapped.document(client).await?;
    Ok(Asked { mapped, options: options.store, key, memory: client.quota.memory.clone(), id })
}

impl Asked {
    /// Looks up the key in the store.
    pub(crate) fn entry(&self) -> Result<Found<'_>, Problem> {
        if let Some(bytes) = self.mapped.documents()?.get(&self.key) {
            return Ok(Found::Document(bytes));
        }
        let chunk = keys::chunk(&self.mapped.store.hierarchy, &self.key);
        chunk.map(Found::Chunk).ok_or_else(|| {
            Problem::not_found("no such key: it is neither a metadata document nor a stored chunk")
        })
    }

    /// Returns the response unchanged. If it reports that the file has changed, removes the file from the cache.
    pub(crate) async fn settle(
        &self,
        context: &Context,
        answered: Result<Response, Problem>,
    ) -> Result<Response, Problem> {
        if answered.as_ref().is_err_and(|problem| problem.status == StatusCode::CONFLICT) {
            context.sources.forget(&self.id).await;
        }
        answered
    }
}

/// Builds the response for a chunk in its stored form.
pub(crate) async fn stored(
    asked: &Asked,
    entry: &ChunkEntry<'_>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    match entry {
        ChunkEntry::Inline(bytes) => inline(headers, bytes),
        ChunkEntry::Reference(place) => chunk(asked, *place, headers).await,
    }
}

/// Splits a path into source and key, and decodes percent-encoding.
fn parts(path: &str, prefix: &str) -> Result<(String, String), Problem> {
    let rest = path.strip_prefix(prefix).ok_or_else(|| Problem::not_found("no such path"))?;
    let (source, key) = rest.split_once('/').unwrap_or((rest, ""));
    let decode = |name: &str, text: &str| query::decoded(name, &text.replace('+', "%2B"));
    Ok((decode("source", source)?, decode("key", key)?))
}

/// Parses a source into URL and version: the base64url of the URL, optionally with `~` and a version; or the URL
/// itself, percent-encoded.
fn source_of(source: &str) -> Result<(String, Option<String>), Problem> {
    if source.contains("://") {
        return Ok((source.to_owned(), None));
    }
    let wrong = || {
        Problem::parameter("source", "is neither a URL nor the base64url form of one").hint(
            "take the path from /v1/inspect, or encode the URL as base64url (with - and _, without padding)",
        )
    };
    let (encoded, version) = match source.split_once('~') {
        Some((encoded, version)) => (encoded, Some(version.to_owned())),
        None => (source, None),
    };
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| wrong())?;
    let url = String::from_utf8(bytes).map_err(|_| wrong())?;
    if url.is_empty() { Err(wrong()) } else { Ok((url, version)) }
}

/// The object that a key names.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    Document(&'a Bytes),
    Chunk(Chunk<'a>),
}

fn inline(headers: &HeaderMap, bytes: &Bytes) -> Result<Response, Problem> {
    let etag = of_content(bytes);
    if none_match(headers, &etag) {
        return Ok(not_modified(&etag));
    }
    let length = bytes.len() as u64;
    let part = part(headers, length, &etag)?;
    let (start, end) = match &part {
        Some(part) => (part.start, part.end),
        None => (0, length),
    };
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let sent = bytes.slice(small(start).min(bytes.len())..small(end).min(bytes.len()));
    Ok(sent_as(Body::from(sent), length, part, &etag))
}

/// Builds the response for a chunk that is stored in a source, or for a range of the chunk.
async fn chunk(asked: &Asked, place: Reference, headers: &HeaderMap) -> Result<Response, Problem> {
    let Asked { mapped, options, memory, .. } = asked;
    let at = format!("{} {} {}", place.source.0, place.offset, place.length);
    let etag = match mapped.version.as_str() {
        "" => String::new(),
        version => tag(&["chunk", version, &at]),
    };
    if !etag.is_empty() && none_match(headers, &etag) {
        return Ok(not_modified(&etag));
    }
    let part = part(headers, place.length, &etag)?;
    let mut left = part.clone().unwrap_or(0..place.length);
    let share = memory.take(PIECE.min(left.end.saturating_sub(left.start))).await?;
    let first = piece(mapped, place, &mut left, options, share).await?;
    let body = if left.is_empty() {
        Body::from(first)
    } else {
        let state = (Arc::clone(mapped), options.clone(), memory.clone(), left);
        let rest = stream::try_unfold(state, move |(mapped, options, memory, mut left)| async move {
            if left.is_empty() {
                return Ok(None);
            }
            let share = memory.wait(PIECE.min(left.end.saturating_sub(left.start))).await;
            let bytes = match share {
                Ok(share) => piece(&mapped, place, &mut left, &options, share).await,
                Err(problem) => Err(problem),
            };
            // The response is cut off, so that the client notices the error.
            let bytes = bytes.map_err(|problem| std::io::Error::other(problem.detail))?;
            Ok::<_, std::io::Error>(Some((bytes, (mapped, options, memory, left))))
        });
        Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(first)]), rest))
    };
    Ok(sent_as(body, place.length, part, &etag))
}

/// Reads the next piece of a chunk.
async fn piece(
    mapped: &Mapped,
    place: Reference,
    left: &mut Range<u64>,
    options: &StoreOptions,
    share: Share,
) -> Result<Bytes, Problem> {
    let length = PIECE.min(left.end.saturating_sub(left.start));
    let within = virtualize::ByteRange::new(left.start, length);
    let bytes = mapped.reader.read(&mapped.store, place, within, options).await?;
    mapped.traffic.request(bytes.len() as u64);
    left.start = left.start.saturating_add(length);
    Ok(share.of(bytes))
}

/// Returns the requested range of a chunk; `None` for the whole chunk.
fn part(headers: &HeaderMap, length: u64, etag: &str) -> Result<Option<Range<u64>>, Problem> {
    match range(headers, length, etag) {
        Wanted::All => Ok(None),
        Wanted::Part(part) => Ok(Some(part)),
        Wanted::Nothing => {
            let detail = format!("the chunk has {length} bytes");
            Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, Code::Range, detail))
        }
    }
}

/// Builds a response of a whole chunk or of a part of it.
fn sent_as(body: Body, length: u64, part: Option<Range<u64>>, etag: &str) -> Response {
    let mut response = body.into_response();
    if part.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let headers = response.headers_mut();
    let sent = part.as_ref().map_or(length, |part| part.end.saturating_sub(part.start));
    headers.insert(header::CONTENT_LENGTH, sent.into());
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::from_str(etag)
        && !etag.is_empty()
    {
        headers.insert(header::ETAG, etag);
    }
    if let Some(part) = part {
        let said = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
        if let Ok(said) = HeaderValue::from_str(&said) {
            headers.insert(header::CONTENT_RANGE, said);
        }
    }
    response
}
