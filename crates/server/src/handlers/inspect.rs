//! `GET /v1/inspect` and `GET /v1/chunks`: the content of a file, its mapping, and the positions of its chunks.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use serde_json::{Map, Value, json};
use utoipa::IntoParams;
use virtualize::{
    describe,
    zarr::{Array, ChunkEntry},
};
use virtualize_remedy::alternatives;

use super::{references::Source, zarr};
use crate::{
    app::Service,
    auth::Client,
    budget::on_thread,
    openapi::Mapping,
    problem::{PARAMETERS, Problem},
    query::{Parameters, Wanted},
    respond,
    sources::Mapped,
};

/// Maximum number of chunk positions per array in a description.
const MAX_PLACES: u64 = 10_000;
/// Maximum number of chunk positions in a response, and memory for each while they are serialized.
const MAX_POSITIONS: usize = 200_000;
const POSITION: u64 = 256;

/// Query parameters of an inspection.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub(crate) struct Places {
    /// Maximum number of chunks to list per array.
    #[param(minimum = 0, maximum = 10_000, default = 0)]
    places: Option<u64>,
}

/// Content of a file and its mapping to Zarr, as `virtualize inspect --json` prints it
///
/// `zarr` has the path of the file's Zarr store and its version, and `places` the chunks by array, as
/// `[position, source, offset, length]`.
#[utoipa::path(get, path = "/v1/inspect", tag = "One file", params(Source, Places, Mapping), responses(
    (status = 200, description = "The description", body = serde_json::Value),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn inspect(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::of_source(&uri, &["places"])?;
    let wanted = parameters.wanted(&service.config, &client)?;
    let places = parameters.number("places", 0, MAX_PLACES)?.unwrap_or(0);
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let url = wanted.url.clone();
    let document = move |mapped: &Mapped| {
        let mut document = describe::store(&mapped.store, PARAMETERS);
        if let Some(members) = document.as_object_mut() {
            let store = zarr::path(&url, &mapped.version);
            members.insert("zarr".to_owned(), json!({ "store": store, "version": mapped.version }));
            if places > 0 {
                members.insert("places".to_owned(), self::places(mapped, places));
            }
        }
        Ok(document)
    };
    described(&service, &wanted, &headers, places, document).await
}

/// Lists at most `most` chunk positions per array, by path of the array.
fn places(mapped: &Mapped, most: usize) -> Value {
    let arrays = mapped.store.hierarchy.arrays();
    let each = most.min(MAX_POSITIONS.checked_div(arrays.len()).unwrap_or(most)).max(1);
    let arrays = arrays.into_iter().take(MAX_POSITIONS);
    Value::Object(arrays.map(|(path, array)| (path, describe::places(array, each))).collect::<Map<_, _>>())
}

/// Query parameters that name an array.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the query")]
pub(crate) struct ArrayPath {
    /// Path of an array.
    #[param(example = "/temperature", pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    array: String,
}

/// Chunk positions of one array, as columns
///
/// `position` is row-major in the grid, `source` an index into `sources`; `offset` and `length` are in bytes. Of an
/// array with more than 200,000 chunks, every `step`-th is listed.
#[utoipa::path(get, path = "/v1/chunks", tag = "One file", params(Source, ArrayPath, Mapping), responses(
    (status = 200, description = "The positions", body = serde_json::Value),
    (status = 304, description = "Not modified"),
    Problem,
))]
pub(crate) async fn chunks(
    State(service): State<Arc<Service>>,
    Extension(client): Extension<Arc<Client>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::of_source(&uri, &["array"])?;
    let wanted = parameters.wanted(&service.config, &client)?;
    let path = parameters.array()?;
    let document = move |mapped: &Mapped| {
        let hierarchy = &mapped.store.hierarchy;
        let array = hierarchy.array(&path).ok_or_else(|| {
            let arrays = hierarchy.arrays();
            let existing = alternatives("arrays", &path, arrays.iter().map(|(path, _)| path.as_str()));
            // Not the path: a client may have put a URL with credentials there.
            Problem::not_found(format!("array: no such array{existing}")).hint("/v1/inspect lists them")
        })?;
        let sources = hierarchy.sources.iter();
        let sources = sources
            .map(|source| json!({ "url": source.url, "size": (source.size > 0).then_some(source.size) }));
        let grid = array.chunk_grid.counts(&array.shape);
        let step = usize::try_from(array.chunks.len()).unwrap_or(usize::MAX).div_ceil(MAX_POSITIONS).max(1);
        Ok(json!({
            "array": format!("/{path}"),
            "sources": sources.collect::<Vec<_>>(),
            "count": grid.iter().fold(1_u64, |all, along| all.saturating_mul(*along)),
            "grid": grid,
            "stored": array.chunks.len(),
            "inline": array.chunks.inline.len(),
            "step": step,
            "chunks": columns(array, step),
        }))
    };
    described(&service, &wanted, &headers, MAX_POSITIONS, document).await
}

/// Lists position in the grid, source, offset and length of the chunks that are stored in files.
fn columns(array: &Array, step: usize) -> Value {
    let mut columns: [Vec<u64>; 4] = Default::default();
    for (position, chunk) in array.chunks.iter().step_by(step) {
        let ChunkEntry::Reference(place) = chunk else { continue };
        let row = [position, u64::from(place.source.0), place.offset, place.length];
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let [position, source, offset, length] = columns;
    json!({"position": position, "source": source, "offset": offset, "length": length})
}

/// Responds with a document about the current version of a source, with at most `places` chunk positions per array.
async fn described(
    service: &Service,
    wanted: &Wanted,
    headers: &HeaderMap,
    places: usize,
    document: impl FnOnce(&Mapped) -> Result<Value, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let mapped = service.sources.current(wanted).await?;
    let arrays = mapped.store.hierarchy.arrays();
    let positions = arrays.iter().map(|(_, array)| array.chunks.len().min(places as u64));
    let positions = positions.fold(0, u64::saturating_add).min(MAX_POSITIONS as u64);
    let cost = mapped.described().saturating_add(positions.saturating_mul(POSITION));
    let share = service.responses.take(cost).await?;
    let work = |_| async move { document(&mapped).map(|document| document.to_string()) };
    let text = on_thread(work, ()).await??;
    Ok(respond::json(headers, share.attach(&service.responses, text.into())))
}
