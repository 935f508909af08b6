//! `GET /v1/inspect`: the content of a file and its mapping.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use serde_json::{Map, Value, json};
use virtualize::describe;

use crate::{
    Problem,
    api::{OF_MAPPING, PARAMETERS},
    client::Client,
    context::Context,
    query::Parameters,
    sources::Mapped,
    zarr,
};

/// Default and maximum number of chunk positions per array.
const PLACES: (u64, u64) = (0, 10_000);
/// Maximum number of chunk positions of all arrays together.
const ALL_PLACES: usize = 200_000;

/// Returns the accepted parameters.
pub(crate) fn parameters() -> Vec<&'static str> {
    OF_MAPPING.into_iter().chain(["places", "url"]).collect()
}

/// Handles the request. The response is the output of `virtualize inspect --json`, with links to the file as a Zarr
/// store and with chunk positions.
pub(crate) async fn get(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(request.uri(), &parameters())?;
    let wanted = parameters.wanted(&context.config, &client)?;
    let places = parameters.number("places", 0, PLACES.1)?.unwrap_or(PLACES.0);
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let url = wanted.url.clone();
    let cost = |mapped: &Mapped| mapped.documented().saturating_add(mapped.placed(places));
    let what = format!("inspect {places}");
    let made = context
        .rendered
        .get(&wanted, &what, cost, move |mapped, out| out.json(&described(mapped, &url, places)));
    Ok(made.await?.answer(request.headers(), "application/json"))
}

/// Describes a mapped file, with at most `places` chunk positions per array.
fn described(mapped: &Mapped, url: &str, places: usize) -> Value {
    let mut described = describe::store(&mapped.store, PARAMETERS);
    let Some(members) = described.as_object_mut() else { return described };
    let links = json!({
        "store": zarr::link(url, None),
        "versioned": (!mapped.version.is_empty()).then(|| zarr::link(url, Some(&mapped.version))),
        "version": mapped.version,
    });
    members.insert("zarr".to_owned(), links);
    if places > 0 {
        members.insert("places".to_owned(), self::places(mapped, places));
    }
    described
}

/// Lists at most `most` chunk positions per array, by path of the array.
fn places(mapped: &Mapped, most: usize) -> Value {
    let arrays = mapped.store.hierarchy.arrays();
    let each = most.min(ALL_PLACES.checked_div(arrays.len()).unwrap_or(most)).max(1);
    let places =
        arrays.into_iter().take(ALL_PLACES).map(|(path, array)| (path, describe::places(array, each)));
    Value::Object(places.collect::<Map<_, _>>())
}
