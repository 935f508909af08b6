//! A service that serves the fixtures, used without a socket.

use std::path::{Path, PathBuf};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use virtualize_server::{Settings, app};

/// A complete response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json");
        let document = self.json();
        assert_eq!(document["status"], self.status.as_u16());
        (self.status.as_u16(), document["code"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap()
}

/// Returns the URL of a fixture.
pub(crate) fn url(name: &str) -> String {
    format!("file://{}", fixtures().join(name).display())
}

/// Returns settings that allow the fixtures.
pub(crate) fn settings() -> Settings {
    Settings { allow: vec![url("hdf5"), url("tiff")], ..Settings::default() }
}

/// Returns the path of the store of a source in its current version.
pub(crate) async fn store(service: &Router, source: &str) -> String {
    let source = percent_encoding::utf8_percent_encode(source, percent_encoding::NON_ALPHANUMERIC);
    let answer = get(service, &format!("/v1/zarr/{source}")).await;
    assert_eq!(answer.status, 307, "{}", String::from_utf8_lossy(&answer.body));
    answer.header("location").to_owned()
}

pub(crate) fn service(settings: &Settings) -> Router {
    app(settings.check().unwrap()).unwrap()
}

pub(crate) async fn get(service: &Router, target: &str) -> Answer {
    send(service, "GET", target, &[]).await
}

pub(crate) async fn send(service: &Router, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(target);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Returns the value of a metric.
pub(crate) async fn metric(service: &Router, line: &str) -> f64 {
    let text = String::from_utf8(get(service, "/metrics").await.body).unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    found.map_or(0.0, |number| number.trim().parse().unwrap())
}
