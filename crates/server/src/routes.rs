//! The table of routes.

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::StatusCode,
    middleware,
    routing::{MethodRouter, get},
};

use crate::{
    Problem,
    auth::Scope,
    context::Context,
    folder,
    guard::{self, Access, Routes},
    health, inspect, layout, many, openapi, page, plain, references, values, zarr,
};
use virtualize::Code;

/// A path, the access that it requires, and its handlers.
pub(crate) type Route = (&'static str, Access, MethodRouter<Arc<Context>>);

/// Returns the routes of the API, which the OpenAPI description lists too.
pub(crate) fn api() -> Vec<Route> {
    let read = Access::Scoped(Scope::Read);
    vec![
        ("/healthz", Access::Always, get(health::alive)),
        ("/readyz", Access::Anyone, get(health::ready)),
        ("/metrics", Access::Scoped(Scope::Metrics), get(health::metrics)),
        ("/v1/openapi.json", Access::Anyone, get(openapi::get)),
        ("/v1/references", read, get(references::get).post(many::post)),
        ("/v1/folder", read, get(folder::get)),
        ("/v1/inspect", read, get(inspect::get)),
        ("/v1/zarr/{source}/{*key}", read, get(zarr::get)),
        ("/v1/about", read, get(page::about)),
        ("/v1/chunks", read, get(layout::get)),
        ("/v1/plain/{source}/{*key}", read, get(plain::get)),
        ("/v1/values/{source}", read, get(values::get)),
    ]
}

/// Returns all routes.
pub(crate) fn all() -> Vec<Route> {
    let page = page::routes().into_iter().map(|(path, methods)| (path, Access::Anyone, methods));
    api().into_iter().chain(page).collect()
}

/// Builds the router, with all routes behind the guard.
pub(crate) fn router(context: Arc<Context>) -> Router {
    let (routes, metrics) = (all(), &context.metrics);
    let known = Routes::new(routes.iter().map(|(path, access, _)| (*path, *access)), metrics);
    let router =
        routes.into_iter().fold(Router::new(), |router, (path, _, methods)| router.route(path, methods));
    router
        .fallback(|| async { Problem::not_found("no such path").hint("/v1/openapi.json lists all paths") })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                Code::Method,
                "the path does not support this method",
            )
        })
        .layer(DefaultBodyLimit::max(context.config.request_size))
        .layer(middleware::from_fn_with_state((Arc::clone(&context), Arc::new(known)), guard::guard))
        .with_state(context)
}
