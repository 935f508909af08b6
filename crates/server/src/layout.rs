//! `GET /v1/chunks`: the chunk positions of one array as columns, for clients that draw or count them.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use serde_json::{Value, json};
use virtualize::zarr::{Array, ChunkEntry, Source};
use virtualize_remedy::alternatives;

use crate::{Problem, api::OF_MAPPING, client::Client, context::Context, query::Parameters, sources::Mapped};

/// Maximum number of chunks in a response. Of a larger array, every n-th chunk is listed.
const MOST: usize = 200_000;

/// Returns the accepted parameters.
pub(crate) fn parameters() -> Vec<&'static str> {
    OF_MAPPING.into_iter().chain(["array", "url"]).collect()
}

/// Handles the request.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &parameters())?;
    let wanted = parameters.wanted(&context.config, &client)?;
    let path = parameters.array()?;
    let what = format!("chunks {path}");
    let made = context.rendered.get(
        &wanted,
        &what,
        |mapped| mapped.placed(MOST),
        move |mapped, out| {
            let table = table(mapped, &path).ok_or_else(|| no_such_array(mapped, &path))?;
            out.json(&table)
        },
    );
    Ok(made.await?.answer(request.headers(), "application/json"))
}

fn no_such_array(mapped: &Mapped, path: &str) -> Problem {
    let arrays = mapped.store.hierarchy.arrays();
    let existing = alternatives("arrays", path, arrays.iter().map(|(path, _)| path.as_str()));
    // Not the path: a client may have put a URL with credentials there.
    Problem::not_found(format!("array: no such array{existing}")).hint("/v1/inspect lists them")
}

/// Describes the chunks of the array at a path; `None` if the array does not exist.
fn table(mapped: &Mapped, path: &str) -> Option<Value> {
    let hierarchy = &mapped.store.hierarchy;
    let array = hierarchy.array(path)?;
    let source =
        |source: &Source| json!({"url": source.url, "size": (source.size > 0).then_some(source.size)});
    let grid = array.chunk_grid.counts(&array.shape);
    let step = usize::try_from(array.chunks.len()).unwrap_or(usize::MAX).div_ceil(MOST).max(1);
    Some(json!({
        "array": format!("/{path}"),
        "sources": hierarchy.sources.iter().map(source).collect::<Vec<_>>(),
        "count": grid.iter().fold(1_u64, |all, along| all.saturating_mul(*along)),
        "grid": grid,
        "stored": array.chunks.len(),
        "inline": array.chunks.inline.len(),
        "step": step,
        "chunks": columns(array, step),
    }))
}

/// Lists position in the grid (row-major), source, offset and length of the chunks that are stored in files.
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
