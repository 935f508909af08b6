//! A service that serves the fixtures, used without a socket.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

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
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns status and code of a problem.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json");
        let document = self.json();
        assert_eq!(document["status"], self.status.as_u16());
        (self.status.as_u16(), document["code"].as_str().unwrap().to_owned())
    }
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap()
}

/// Returns the URL of a fixture.
pub fn url(name: &str) -> String {
    format!("file://{}", fixtures().join(name).display())
}

/// Returns settings that allow the fixtures and any number of requests.
pub fn settings() -> Settings {
    let many = Some(1_000_000);
    Settings { allow: vec![url("hdf5"), url("tiff")], rate: many, burst: many, ..Settings::default() }
}

pub fn service(settings: &Settings) -> Router {
    app(settings.check().unwrap()).unwrap()
}

pub async fn get(service: &Router, target: &str) -> Answer {
    send(service, "GET", target, &[]).await
}

pub async fn send(service: &Router, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
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
pub async fn metric(service: &Router, line: &str) -> f64 {
    let text = String::from_utf8(get(service, "/metrics").await.body).unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    found.map_or(0.0, |number| number.trim().parse().unwrap())
}

/// Sends a request with a JSON body.
pub async fn post(service: &Router, target: &str, body: &Value) -> Answer {
    let request = Request::builder().method("POST").uri(target).header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: parts.status, headers: parts.headers, body }
}
