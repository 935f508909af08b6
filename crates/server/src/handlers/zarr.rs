//! `/v1/zarr` and `/v1/plain`: any source as a Zarr v3 store, whose chunks are read from the source by range.
//!
//! The path of a store has the version of its source, so that a client never mixes two versions: a redirect for each
//! key of a path without a version could lead to metadata of one version and chunks of another.

use std::{ops::Range, sync::Arc, time::SystemTime};

use axum::{
    Extension,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use virtualize::{
    ArrayReader, ByteRange, ChunkAddress, Code, Format, MapOptions, Options, chunk_size, decode_chunk,
    keys::{self, Chunk},
    zarr::{Array, ChunkEntry, Codec, Hierarchy, Reference, chunk_position},
};

use crate::{
    app::Service,
    auth::Client,
    budget::{Budget, on_thread},
    config::Config,
    openapi::Binary,
    problem::Problem,
    query::Wanted,
    respond::{self, Requested, is_current, range, tag, tag_of},
    sources::Mapped,
};

/// Maximum bytes of a source to read at once. A larger chunk is sent in pieces.
const PIECE: u64 = 8 << 20;
/// Size of a piece when the memory for pieces is used up, in bytes.
const SMALL_PIECE: u64 = 64 << 10;
/// Maximum size in bytes of a decoded chunk, and of a stored one that is decoded.
const MAX_DECODED: u64 = 64 << 20;

/// Names of metadata documents that readers of Zarr request.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"];

/// Returns the path of the store of a source in a version.
pub(crate) fn path(url: &str, version: &str) -> String {
    format!("/v1/zarr/{}~{version}", BASE64_URL_SAFE_NO_PAD.encode(url))
}

/// The path of a store.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the path")]
pub(crate) struct StorePath {
    /// URL of the source as base64url without padding, `~`, and a version, as `/v1/inspect` returns it. Without a
    /// version, or with the percent-encoded URL, only for the root, which redirects to the current version.
    #[param(
        min_length = 1,
        max_length = 8192,
        pattern = r"^([A-Za-z0-9_-]+=*(~[0-9a-f]+)?|[a-z0-9]+://[^\x00-\x1f\x7f-\x9f]+)$"
    )]
    source: String,
}

/// The key of an object in a store.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the path")]
pub(crate) struct Key {
    /// Key of the Zarr v3 store: `zarr.json`, `a/zarr.json`, `a/c/0/0`.
    #[param(min_length = 1, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    key: String,
}

/// Parses a source into URL and version: the base64url of the URL, optionally with `~` and a version; or the URL.
fn parse(source: &str) -> Result<(String, Option<&str>), Problem> {
    if source.contains("://") {
        return Ok((source.to_owned(), None));
    }
    let (encoded, version) =
        source.split_once('~').map_or((source, None), |(url, version)| (url, Some(version)));
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).ok();
    let url = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| {
        Problem::parameter("source", "is neither a URL nor the base64url form of one").hint(
            "take the path from /v1/inspect, or encode the URL as base64url (with - and _, without padding)",
        )
    })?;
    Ok((url, version))
}

/// Returns the cache key of a store, without its version.
fn key(client: &Client, url: &str) -> String {
    format!("zarr\n{}\n{url}", client.access_key)
}

/// Returns what is mapped for the store of an allowed URL.
fn wanted(service: &Service, client: &Client, url: String) -> Wanted {
    let format = Format::ZARR3_JSON;
    let options = Options {
        store: service.config.store_options(&client.allowed),
        map: MapOptions { format: format.zarr_format(), ..MapOptions::default() },
        limits: service.config.limits,
        ..Options::default()
    };
    Wanted { key: key(client, &url), url, options, format }
}

/// Opens the store that a path names.
pub(crate) async fn open(service: &Service, client: &Client, source: &str) -> Result<Arc<Mapped>, Problem> {
    let (url, version) = parse(source)?;
    let url = client.check(&url)?;
    let version = version.ok_or_else(|| {
        Problem::parameter("source", "has no version")
            .hint("request /v1/zarr/{source} first: it redirects to the path of the current version")
    })?;
    let mapped = match service.sources.cached(&key(client, &url), version).await {
        Some(mapped) => mapped,
        None => Box::pin(service.sources.at(&wanted(service, client, url), version)).await?,
    };
    if mapped.documents.get().is_none() {
        let share = service.sources.memory.take(mapped.described()).await?;
        let mapped = Arc::clone(&mapped);
        on_thread(|_| async move { mapped.documents(false).map(drop) }, share).await??;
    }
    Ok(mapped)
}

pub(crate) fn parameter<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    path.map(|Path(parameters)| parameters).map_err(|_| Problem::parameter("source", "is not UTF-8"))
}

/// Root of a file's Zarr store
///
/// With a version: the metadata of the root group. Without one: a redirect to the path with the current version. A
/// client must read all of a store below the path with the version, which never shows another version.
#[utoipa::path(get, path = "/v1/zarr/{source}", tag = "One file", params(StorePath), responses(
    (status = 200, description = "Metadata of the root group", body = serde_json::Value),
    (status = 304, description = "Not modified"),
    (status = 307, description = "The path with the current version"),
    Problem,
))]
pub(crate) async fn root(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let source = parameter(path)?;
    let (url, version) = parse(&source)?;
    if version.is_some() {
        let key = RequestedKey { decoded: "zarr.json", raw: "zarr.json" };
        return object(&service, &client, &source, key, &headers, false).await;
    }
    let wanted = wanted(&service, &client, client.check(&url)?);
    let mapped = service.sources.current(&wanted).await?;
    let mut redirect = Redirect::temporary(&self::path(&wanted.url, &mapped.version)).into_response();
    redirect.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(redirect)
}

/// A file as a Zarr v3 store: metadata, and chunks as ranges of the file
#[utoipa::path(get, path = "/v1/zarr/{source}/{*key}", tag = "One file", params(StorePath, Key), responses(
    (status = 200, description = "A metadata document, or a stored chunk", content(
        (inline(Binary) = "application/octet-stream"), (serde_json::Value = "application/json"))),
    (status = 206, description = "Part of a chunk", body = inline(Binary), content_type = "application/octet-stream"),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn zarr(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (source, key) = parameter(path)?;
    object(&service, &client, &source, RequestedKey::new(&key, &uri)?, &headers, false).await
}

/// A requested key, decoded and as it is in the path. Readers such as fsspec do not encode the `%` of names.
#[derive(Clone, Copy)]
struct RequestedKey<'a> {
    decoded: &'a str,
    raw: &'a str,
}

impl<'a> RequestedKey<'a> {
    /// # Errors
    /// A query: keys have none, so it is the rest of a name with a `?` that is not encoded.
    fn new(decoded: &'a str, uri: &'a Uri) -> Result<Self, Problem> {
        if uri.query().is_some() {
            return Err(Problem::parameter("key", "has a query").hint("encode ? in a name as %3F"));
        }
        let raw = uri.path().splitn(5, '/').nth(4).unwrap_or(decoded);
        Ok(Self { decoded, raw })
    }
}

/// Responds with an object of the store with stored chunks or, with `decoded`, of the one with decoded chunks.
async fn object(
    service: &Service,
    client: &Client,
    source: &str,
    key: RequestedKey<'_>,
    headers: &HeaderMap,
    decoded: bool,
) -> Result<Response, Problem> {
    let answer = async {
        let mapped = open(service, client, source).await?;
        let key = mapped.key(key)?;
        let response = match mapped.entry(key, decoded)? {
            Entry::Document(bytes) if decoded => {
                let path = key.strip_suffix("zarr.json").unwrap_or_default().trim_end_matches('/');
                respond::json(headers, plain_document(mapped.store.view(), path, bytes)?)
            }
            Entry::Document(bytes) => respond::json(headers, bytes.clone()),
            Entry::Chunk(chunk) if !decoded || mapped.is_plain(&chunk)? => {
                stored(&mapped, &service.pieces, &chunk.entry, headers).await?
            }
            entry => {
                let etag = mapped.tag(&["plain", &mapped.version, key]);
                let bytes = match entry {
                    _ if is_current(headers, &etag) => Bytes::new(),
                    Entry::Chunk(chunk) => self::decoded(&mapped, &service.responses, chunk).await?,
                    Entry::Combined(address) => combined(&mapped, &service.responses, address).await?,
                    Entry::Document(_) => return Err(Problem::internal()),
                };
                respond::content(headers, BINARY, &etag, bytes.len() as u64, bytes.into())
            }
        };
        Ok(mapped.of_version(&service.config, response))
    };
    // Readers take 404 for a missing chunk, which has the fill value: a source that does not exist is a conflict.
    answer.await.map_err(|problem: Problem| match (problem.status, problem.code) {
        (StatusCode::NOT_FOUND, code) if code != Code::NotFound => {
            Problem { status: StatusCode::CONFLICT, ..problem }
        }
        _ => problem,
    })
}

/// The object that a key names.
enum Entry<'a> {
    Document(&'a Bytes),
    Chunk(Chunk<'a>),
    /// A chunk of an array that consists of segments.
    Combined(ChunkAddress),
}

/// A mapped file as a store.
impl Mapped {
    /// Lets caches keep the response of a path with a version, unless files of that version may change unnoticed.
    pub(crate) fn of_version(&self, config: &Config, mut response: Response) -> Response {
        if self.is_fixed {
            let value = if config.needs_token() {
                // A browser keeps the response for this token alone.
                response.headers_mut().append(header::VARY, HeaderValue::from_static("authorization"));
                "private, max-age=31536000, immutable"
            } else {
                "public, max-age=31536000, immutable"
            };
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
        }
        response
    }

    /// Returns an entity tag of these inputs. If files may change unnoticed, no two responses have the same.
    pub(crate) fn tag(&self, inputs: &[&str]) -> String {
        if self.is_fixed {
            return tag(inputs);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        tag(&[&now.as_nanos().to_string()])
    }

    /// Returns whether a key is within an array.
    fn is_in_array(&self, key: &str) -> bool {
        let store = &self.store;
        let mut prefixes = key.match_indices('/').filter_map(|(at, _)| key.get(..at));
        prefixes.any(|path| store.hierarchy.array(path).or_else(|| store.view().array(path)).is_some())
    }

    /// Returns the key that a client means: the one that exists.
    ///
    /// # Errors
    /// Both exist.
    fn key<'a>(&self, RequestedKey { decoded, raw }: RequestedKey<'a>) -> Result<&'a str, Problem> {
        if raw == decoded || !self.is_in_array(raw) {
            return Ok(decoded);
        }
        if self.is_in_array(decoded) {
            let why = format!("names both {raw:?} and {decoded:?}, which readers encode in the same way");
            return Err(Problem::parameter("key", why));
        }
        Ok(raw)
    }

    /// Returns whether the array of a chunk is stored as bare elements.
    fn is_plain(&self, chunk: &Chunk<'_>) -> Result<bool, Problem> {
        self.store.hierarchy.array(&chunk.path).map(is_plain).ok_or_else(Problem::internal)
    }

    /// Looks up a key. The store with decoded chunks has the datasets that groups form together.
    fn entry(&self, key: &str, decoded: bool) -> Result<Entry<'_>, Problem> {
        let document = match self.documents(decoded)?.get(key) {
            None if decoded => self.documents(false)?.get(key),
            document => document,
        };
        if let Some(bytes) = document {
            return Ok(Entry::Document(bytes));
        }
        let address = if decoded { keys::address(self.store.view(), key) } else { None };
        if let Some(address) = address.filter(|address| self.store.is_combined(&address.path)) {
            return Ok(Entry::Combined(address));
        }
        if let Some(chunk) = keys::chunk(&self.store.hierarchy, key) {
            return Ok(Entry::Chunk(chunk));
        }
        let name = key.rsplit('/').next().unwrap_or_default();
        if !DOCUMENTS.contains(&name) && !self.is_in_array(key) {
            // The rest of a name with a `#` that is not encoded.
            return Err(
                Problem::parameter("key", "is not one of a Zarr store").hint("encode # in a name as %23")
            );
        }
        Err(Problem::not_found("no such key: neither a metadata document nor a stored chunk"))
    }
}

/// Builds the response for a chunk in its stored form, or for a range of it.
async fn stored(
    mapped: &Arc<Mapped>,
    pieces: &Budget,
    entry: &ChunkEntry<'_>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (length, etag) = match entry {
        ChunkEntry::Inline(bytes) => (bytes.len() as u64, tag_of(&Sha256::digest(bytes))),
        ChunkEntry::Reference(place) => {
            let position = format!("{} {} {}", place.source.0, place.offset, place.length);
            (place.length, mapped.tag(&["chunk", &mapped.version, &position]))
        }
    };
    if is_current(headers, &etag) {
        return Ok(respond::content(headers, BINARY, &etag, 0, Body::empty()));
    }
    let part = match range(headers, length, &etag) {
        Requested::All => None,
        Requested::Part(part) => Some(part),
        Requested::Nothing => {
            let detail = format!("the chunk has {length} bytes");
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, Code::Range, detail));
        }
    };
    let mut left = part.clone().unwrap_or(0..length);
    let sent = left.end.saturating_sub(left.start);
    let body = match *entry {
        ChunkEntry::Inline(bytes) => {
            let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(bytes.len());
            bytes.slice(at(left.start)..at(left.end)).into()
        }
        ChunkEntry::Reference(place) => {
            let first = piece(mapped, pieces, place, &mut left).await?;
            if left.is_empty() {
                first.into()
            } else {
                further(Arc::clone(mapped), pieces.clone(), place, first, left)
            }
        }
    };
    let mut response = respond::content(headers, BINARY, &etag, sent, body);
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(part) = part {
        let value = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(header::CONTENT_RANGE, value);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Returns a body of the first piece of a chunk and those that are left, which are read while it is sent.
fn further(mapped: Arc<Mapped>, pieces: Budget, place: Reference, first: Bytes, left: Range<u64>) -> Body {
    let rest = stream::try_unfold((mapped, pieces, left), move |(mapped, pieces, mut left)| async move {
        if left.is_empty() {
            return Ok(None);
        }
        // The response is cut off, so that the client notices the error.
        let bytes = piece(&mapped, &pieces, place, &mut left).await;
        let bytes = bytes.map_err(|problem| std::io::Error::other(problem.detail))?;
        Ok(Some((bytes, (mapped, pieces, left))))
    });
    Body::from_stream(stream::iter([std::io::Result::Ok(first)]).chain(rest))
}

/// Media type of chunks and elements.
pub(crate) const BINARY: &str = "application/octet-stream";

/// Reads the next piece of a chunk. When the memory for pieces is used up, the piece is small.
async fn piece(
    mapped: &Mapped,
    pieces: &Budget,
    place: Reference,
    left: &mut Range<u64>,
) -> Result<Bytes, Problem> {
    let length = PIECE.min(pieces.size() / 2).min(left.end.saturating_sub(left.start));
    let share = pieces.try_take(length);
    let length = if share.is_some() { length } else { length.min(SMALL_PIECE) };
    let within = ByteRange::new(left.start, length);
    let bytes = mapped.reader.read(&mapped.store, place, within, &mapped.options).await?;
    mapped.traffic.request(bytes.len() as u64);
    left.start = left.start.saturating_add(length);
    Ok(match share {
        Some(share) => share.attach(pieces, bytes),
        None => bytes,
    })
}

/// A file as a Zarr v3 store with decoded chunks, for readers without the codecs
///
/// The only codec of every array is `bytes`. Chunks have at most 64 MiB, and elements a fixed size. Arrays that are
/// stored this way are the same as in `/v1/zarr`, and can be read by range.
#[utoipa::path(get, path = "/v1/plain/{source}/{*key}", tag = "One file", params(StorePath, Key), responses(
    (status = 200, description = "A metadata document, or the elements of a chunk, little-endian and row-major", content(
        (inline(Binary) = "application/octet-stream"), (serde_json::Value = "application/json"))),
    (status = 206, description = "Part of a chunk", body = inline(Binary), content_type = "application/octet-stream"),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn plain(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (source, key) = parameter(path)?;
    object(&service, &client, &source, RequestedKey::new(&key, &uri)?, &headers, true).await
}

/// Reads a chunk of an array that consists of segments. The budget share of its bytes is held until they are sent.
async fn combined(mapped: &Mapped, responses: &Budget, address: ChunkAddress) -> Result<Bytes, Problem> {
    let store = &mapped.store;
    let array = store.view().array(&address.path).ok_or_else(Problem::internal)?;
    let counts = array.chunk_grid.counts(&array.shape);
    let position = chunk_position(address.indices.iter().copied(), &counts).ok_or_else(Problem::internal)?;
    let size = chunk_size(array, position).ok_or_else(variable)?;
    let most = MAX_DECODED.min(responses.size() / 2);
    if size > most {
        let detail = format!("the chunk has {size} bytes, and at most {most} are decoded");
        return Err(Problem::chunk_size(detail));
    }
    // The chunk, and a segment's part of it.
    let share = responses.take(size.saturating_mul(2)).await?;
    let reader = ArrayReader::new(Arc::clone(store), mapped.options.clone()).with_limit(most);
    let work = move |_| async move { reader.decoded_chunks(&[address]).pop().unwrap_or(Ok(None)) };
    let bytes = on_thread(work, ()).await??.ok_or_else(Problem::internal)?;
    Ok(share.attach(responses, bytes))
}

/// Returns whether the chunks of an array are stored as bare elements.
fn is_plain(array: &Array) -> bool {
    matches!(array.codecs.as_slice(), [Codec::Bytes { .. }])
}

/// Returns whether the elements of an array have a fixed size, so that its chunks can be served decoded.
fn is_fixed(array: &Array) -> bool {
    array.data_type.size().is_some()
}

/// Returns the problem of an array whose elements have variable size.
fn variable() -> Problem {
    let detail = "elements of variable size cannot be served without their codecs";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::NotPlain, detail)
        .hint("read them through /v1/zarr, as they are stored")
}

/// Returns a metadata document in which `bytes` is the only codec. The metadata of an array with elements of variable
/// size is refused, and omitted from consolidated metadata.
fn plain_document(hierarchy: &Hierarchy, path: &str, bytes: &Bytes) -> Result<String, Problem> {
    if hierarchy.array(path).is_some_and(|array| !is_fixed(array)) {
        return Err(variable());
    }
    let mut document: Value = serde_json::from_slice(bytes).map_err(|_| Problem::internal())?;
    replace_codecs(&mut document, path, hierarchy);
    let all = document.pointer_mut("/consolidated_metadata/metadata").and_then(Value::as_object_mut);
    if let Some(all) = all {
        all.retain(|path, _| hierarchy.array(path).is_none_or(is_fixed));
        all.iter_mut().for_each(|(path, document)| replace_codecs(document, path, hierarchy));
    }
    Ok(document.to_string())
}

/// Replaces the codecs in the metadata of an array by `bytes`.
fn replace_codecs(document: &mut Value, path: &str, hierarchy: &Hierarchy) {
    let is_coded = hierarchy.array(path).is_some_and(|array| !is_plain(array));
    if let Some(codecs) = document.get_mut("codecs").filter(|_| is_coded) {
        *codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    }
}

/// Reads and decodes a chunk. The budget share of its bytes is held until they are sent.
async fn decoded(mapped: &Arc<Mapped>, responses: &Budget, chunk: Chunk<'_>) -> Result<Bytes, Problem> {
    let array = mapped.store.hierarchy.array(&chunk.path).ok_or_else(Problem::internal)?;
    let size = chunk_size(array, chunk.position).ok_or_else(variable)?;
    let length = match &chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.len() as u64,
        ChunkEntry::Reference(place) => place.length,
    };
    let most = MAX_DECODED.min(responses.size() / 2);
    if size > most || length > most {
        let detail =
            format!("the chunk has {size} bytes, stored in {length}, and at most {most} are decoded");
        return Err(
            Problem::chunk_size(detail).hint("/v1/zarr serves chunks of any size, as they are stored")
        );
    }
    let share = responses.take(size.saturating_add(length)).await?;
    let mapped = Arc::clone(mapped);
    let encoded = match chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.clone(),
        ChunkEntry::Reference(place) => {
            let whole = ByteRange::new(0, place.length);
            let bytes = mapped.reader.read(&mapped.store, place, whole, &mapped.options).await?;
            mapped.traffic.request(bytes.len() as u64);
            bytes
        }
    };
    let (path, position) = (chunk.path, chunk.position);
    let work = move |_| async move { decode_chunk(&mapped.store, &path, position, &encoded, MAX_DECODED) };
    let bytes = on_thread(work, ()).await??;
    Ok(share.attach(responses, bytes))
}
