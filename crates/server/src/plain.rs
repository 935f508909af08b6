//! `GET /v1/plain/{source}/{key}`: the store of `/v1/zarr` with decoded chunks, for readers without the codecs, such
//! as browsers. The only codec of every array is `bytes`. Arrays that are already stored this way are the same as in
//! `/v1/zarr`, and can be read by range.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json};
use virtualize::{
    ByteRange, Code, chunk_size, decode_chunk,
    keys::Chunk,
    zarr::{Array, ChunkEntry, Codec, Hierarchy},
};

use crate::{
    Problem,
    client::Client,
    conditional::{none_match, of_content, tag},
    context::Context,
    encode::{self, Content, answer, not_modified},
    sources::on_thread,
    zarr::{self, Asked, Found},
};

/// Path prefix of the stores.
const PREFIX: &str = "/v1/plain/";
/// Maximum size in bytes of a decoded chunk, and of a stored one.
const MOST: u64 = 64 << 20;

/// Handles the request for a chunk or a metadata document.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = zarr::asked(&context, &client, request.uri().path(), PREFIX).await?;
    let headers = request.headers();
    let answered = match asked.entry()? {
        Found::Document(bytes) => document(&asked, bytes, headers),
        Found::Chunk(chunk) => elements(&asked, chunk, headers).await,
    };
    asked.settle(&context, answered).await
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

/// Builds a metadata document in which `bytes` is the only codec. The metadata of an array with elements of variable
/// size is refused, and omitted from consolidated metadata.
fn document(asked: &Asked, bytes: &Bytes, headers: &HeaderMap) -> Result<Response, Problem> {
    let hierarchy = &asked.mapped.store.hierarchy;
    let path = asked.key.strip_suffix("zarr.json").unwrap_or_default().trim_end_matches('/');
    if hierarchy.array(path).is_some_and(|array| !is_fixed(array)) {
        return Err(variable());
    }
    let mut document: Value = serde_json::from_slice(bytes).map_err(|_| Problem::internal())?;
    say(&mut document, path, hierarchy);
    if let Some(all) = document.pointer_mut("/consolidated_metadata/metadata").and_then(Value::as_object_mut)
    {
        all.retain(|path, _| hierarchy.array(path).is_none_or(is_fixed));
        all.iter_mut().for_each(|(path, document)| say(document, path, hierarchy));
    }
    Ok(encode::json(headers, document.to_string()))
}

/// Replaces the codecs in the metadata of an array by `bytes`.
fn say(document: &mut Value, path: &str, hierarchy: &Hierarchy) {
    let is_coded = hierarchy.array(path).is_some_and(|array| !is_plain(array));
    if let Some(codecs) = document.get_mut("codecs").filter(|_| is_coded) {
        *codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    }
}

/// Builds the response for a chunk: its decoded elements.
async fn elements(asked: &Asked, chunk: Chunk<'_>, headers: &HeaderMap) -> Result<Response, Problem> {
    let array = asked.mapped.store.hierarchy.array(&chunk.path).ok_or_else(Problem::internal)?;
    if is_plain(array) {
        return zarr::stored(asked, &chunk.entry, headers).await;
    }
    let size = chunk_size(array, chunk.position).ok_or_else(variable)?;
    let etag = tag(&["plain", &asked.mapped.version, &asked.key]);
    let has_etag = !asked.mapped.version.is_empty();
    if has_etag && none_match(headers, &etag) {
        return Ok(not_modified(&etag));
    }
    let bytes = decoded(asked, chunk, size).await?;
    let etag = if has_etag { etag } else { of_content(&bytes) };
    Ok(answer(headers, Content::Memory(bytes), "application/octet-stream", &etag))
}

/// Reads and decodes a chunk. The budget share of its bytes is held until they are sent.
async fn decoded(asked: &Asked, chunk: Chunk<'_>, size: u64) -> Result<Bytes, Problem> {
    let length = match &chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.len() as u64,
        ChunkEntry::Reference(place) => place.length,
    };
    let most = MOST.min(asked.memory.size() / 2);
    if size > most || length > most {
        let detail =
            format!("the chunk has {size} bytes, stored in {length}, and at most {most} are decoded");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::ChunkSize, detail);
        return Err(problem.hint("/v1/zarr serves chunks of any size, as they are stored"));
    }
    let mut share = asked.memory.take(size.saturating_add(length)).await?;
    let stored = match chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.clone(),
        ChunkEntry::Reference(place) => {
            let whole = ByteRange::new(0, place.length);
            let bytes = asked.mapped.reader.read(&asked.mapped.store, place, whole, &asked.options).await?;
            asked.mapped.traffic.request(bytes.len() as u64);
            bytes
        }
    };
    let (mapped, path, position) = (Arc::clone(&asked.mapped), chunk.path, chunk.position);
    let work = move || async move { decode_chunk(&mapped.store, &path, position, &stored, MOST) };
    let bytes = on_thread(|_| work(), ()).await??;
    asked.memory.resize(&mut share, bytes.len() as u64);
    Ok(share.of(bytes))
}
