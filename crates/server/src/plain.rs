//! `GET /v1/plain/{source}/{key}`: the store of `/v1/zarr` with its chunks decoded, for readers that lack the codecs, as
//! browsers do. Arrays have the one codec `bytes`. Those that are stored so already are the same as in `/v1/zarr`, and
//! can be read by range.

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
    ByteRange, chunk_size, decode_chunk,
    zarr::{Array, ChunkEntry, Codec, Hierarchy},
};

use crate::{
    Problem,
    client::Client,
    conditional::{none_match, of_content, tag},
    context::Context,
    encode::{self, Content, answer, not_modified},
    sources::on_thread,
    zarr::{self, Asked, Chunk, Found},
};

/// Where the store of a source lies.
const PREFIX: &str = "/v1/plain/";
/// Most bytes of a decoded chunk, and of a stored one.
const MOST: u64 = 64 << 20;

/// A chunk, or a metadata document.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = zarr::asked(&context, &client, request.uri().path(), PREFIX).await?;
    let headers = request.headers();
    let answered = match asked.entry()? {
        Found::Document(bytes) => document(&asked, bytes, headers),
        Found::Chunk(chunk) => elements(&context, &asked, chunk, headers).await,
    };
    asked.settle(&context, answered).await
}

/// Whether the chunks of an array are its elements already.
fn is_plain(array: &Array) -> bool {
    matches!(array.codecs.as_slice(), [Codec::Bytes { .. }])
}

/// Whether the chunks of an array can be given as its elements.
fn is_fixed(array: &Array) -> bool {
    array.data_type.size().is_some()
}

fn variable() -> Problem {
    let detail = "elements of variable size cannot be served without their codecs";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-plain", detail)
        .hint("read them through /v1/zarr, as they are stored")
}

/// Metadata with the one codec. Arrays of elements of variable size are refused, and missing where metadata is
/// consolidated.
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

/// Says the one codec in the metadata of an array.
fn say(document: &mut Value, path: &str, hierarchy: &Hierarchy) {
    let is_coded = hierarchy.array(path).is_some_and(|array| !is_plain(array));
    if let Some(codecs) = document.get_mut("codecs").filter(|_| is_coded) {
        *codecs = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    }
}

/// A chunk as its elements.
async fn elements(
    context: &Arc<Context>,
    asked: &Asked,
    chunk: Chunk<'_>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let array = asked.mapped.store.hierarchy.array(&chunk.path).ok_or_else(Problem::internal)?;
    if is_plain(array) {
        return zarr::stored(context, asked, &chunk.entry, headers).await;
    }
    let size = chunk_size(array, chunk.position).ok_or_else(variable)?;
    let etag = tag(&["plain", &asked.mapped.version, &asked.key]);
    let has_etag = !asked.mapped.version.is_empty();
    if has_etag && none_match(headers, &etag) {
        return Ok(not_modified(&etag));
    }
    let bytes = decoded(context, asked, chunk, size).await?;
    let etag = if has_etag { etag } else { of_content(&bytes) };
    Ok(answer(headers, Content::Memory(bytes), "application/octet-stream", &etag))
}

/// Reads and decodes a chunk. Its bytes count as held until they are sent.
async fn decoded(
    context: &Arc<Context>,
    asked: &Asked,
    chunk: Chunk<'_>,
    size: u64,
) -> Result<Bytes, Problem> {
    let length = match &chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.len() as u64,
        ChunkEntry::Reference(place) => place.length,
    };
    let most = MOST.min(asked.memory.size() / 2);
    if size > most || length > most {
        let detail =
            format!("the chunk has {size} bytes, stored in {length}, and at most {most} are decoded");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "chunk-size", detail);
        return Err(problem.hint("/v1/zarr serves chunks of any size, as they are stored"));
    }
    let mut share = asked.memory.take(size.saturating_add(length)).await?;
    let stored = match chunk.entry {
        ChunkEntry::Inline(bytes) => bytes.clone(),
        ChunkEntry::Reference(place) => {
            let whole = ByteRange::new(0, place.length);
            let bytes = asked.mapped.reader.read(&asked.mapped.store, place, whole, &asked.options).await?;
            context.metrics.source_requests.inc();
            context.metrics.source_bytes.inc_by(bytes.len() as u64);
            bytes
        }
    };
    let (mapped, path, position) = (Arc::clone(&asked.mapped), chunk.path, chunk.position);
    let work = move || async move { decode_chunk(&mapped.store, &path, position, &stored, MOST) };
    let bytes = on_thread(|_| work(), ()).await??;
    asked.memory.resize(&mut share, bytes.len() as u64);
    Ok(share.of(bytes))
}
