//! `/healthz`, `/readyz`, `/metrics`: endpoints for operators of the service.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{Problem, context::Context};

/// `GET /healthz`: reports that the process responds.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: reports whether the service accepts more requests.
pub(crate) async fn ready(State(context): State<Arc<Context>>) -> Response {
    let unready = |why: &str| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", why).retry_after(5).into_response()
    };
    if context.is_stopping() {
        return unready("the service is stopping");
    }
    let well =
        tokio::task::spawn_blocking(move || context.disk.as_ref().is_none_or(|disk| disk.is_well())).await;
    match well {
        Ok(true) => "ok\n".into_response(),
        _ => unready("the cache cannot be written"),
    }
}

/// `GET /metrics`: returns the metrics for Prometheus.
pub(crate) async fn metrics(State(context): State<Arc<Context>>) -> Result<Response, Problem> {
    for (state, count) in context.jobs.iter().flat_map(crate::jobs::Jobs::counts) {
        context.metrics.jobs.with_label_values(&[state]).set(count);
    }
    let held = i64::try_from(context.memory.held()).unwrap_or(i64::MAX);
    context.metrics.memory.set(held);
    let text = context.metrics.text().ok_or_else(Problem::internal)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
