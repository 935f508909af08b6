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
    Problem, context::Context, guard, health, inspect, jobs::api as jobs, layout, openapi, page, plain,
    references, zarr,
};

/// Routes of the API, which its description has as well. All read but those of jobs.
pub(crate) fn api() -> Vec<(&'static str, MethodRouter<Arc<Context>>)> {
    vec![
        ("/healthz", get(health::alive)),
        ("/readyz", get(health::ready)),
        ("/metrics", get(health::metrics)),
        ("/v1/openapi.json", get(openapi::get)),
        ("/v1/references", get(references::get)),
        ("/v1/inspect", get(inspect::get)),
        ("/v1/jobs", get(jobs::list).post(jobs::submit)),
        ("/v1/jobs/{id}", get(jobs::get).delete(jobs::delete)),
        ("/v1/jobs/{id}/events", get(jobs::follow)),
        ("/v1/jobs/{id}/result", get(jobs::result)),
        ("/v1/jobs/{id}/result/{*key}", get(jobs::file)),
        ("/v1/zarr/{source}/{*key}", get(zarr::get)),
        ("/v1/about", get(page::about)),
        ("/v1/chunks", get(layout::get)),
        ("/v1/plain/{source}/{*key}", get(plain::get)),
    ]
}

/// All routes behind the guard.
pub(crate) fn router(context: Arc<Context>) -> Router {
    let routes = api().into_iter().chain(page::routes());
    let router = routes.fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router
        .fallback(|| async {
            Problem::not_found("no such path").hint("/v1/openapi.json says which there are")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "the path does not know this method")
        })
        .layer(DefaultBodyLimit::max(context.config.request_size))
        .layer(middleware::from_fn_with_state(Arc::clone(&context), guard::guard))
        .with_state(context)
}
