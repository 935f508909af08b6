//! Access control: each route with each scope, and the requested host.

use std::fs;

use crate::common::{fixtures, get, send, service, settings, url};
use axum::{
    Router,
    body::Body,
    http::{Request, Version},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use tempfile::TempDir;
use tower::ServiceExt;
use virtualize_server::Settings;

/// Returns a path of each route, and the scope that the route requires.
fn routes() -> Vec<(&'static str, String, &'static str)> {
    let (file, source) = (url("hdf5/chunked.h5"), BASE64_URL_SAFE_NO_PAD.encode(url("hdf5/chunked.h5")));
    vec![
        ("GET", "/healthz".to_owned(), ""),
        ("GET", "/readyz".to_owned(), ""),
        ("GET", "/v1/openapi.json".to_owned(), ""),
        ("GET", "/".to_owned(), ""),
        ("GET", "/assets/main.js".to_owned(), ""),
        ("GET", "/favicon.ico".to_owned(), ""),
        ("GET", "/metrics".to_owned(), "metrics"),
        ("GET", "/v1/about".to_owned(), "read"),
        ("GET", format!("/v1/references?url={file}"), "read"),
        ("GET", format!("/v1/inspect?url={file}"), "read"),
        ("GET", format!("/v1/chunks?url={file}&array=temperature"), "read"),
        ("GET", format!("/v1/zarr/{source}"), "read"),
        ("GET", format!("/v1/zarr/{source}/zarr.json"), "read"),
        ("GET", format!("/v1/plain/{source}/zarr.json"), "read"),
        ("GET", format!("/v1/folder?url={}/", url("hdf5")), "read"),
        ("GET", format!("/v1/values/{source}?array=temperature"), "read"),
    ]
}

/// Builds a service with a token for each scope, and one for each scope that is restricted to another folder.
fn with_tokens() -> (TempDir, Router) {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for scope in ["read", "metrics"] {
        lines += &format!("{scope:x<20} {scope}\n{scope:y<20} {scope} {}\n", url("tiff"));
    }
    fs::write(folder.path().join("tokens"), lines).unwrap();
    let settings = Settings { token_file: Some(folder.path().join("tokens")), ..settings() };
    let service = service(&settings);
    (folder, service)
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_require_scopes() {
    let (_folder, service) = with_tokens();
    for (method, target, needed) in routes() {
        for scope in ["", "wrong", "read", "metrics"] {
            let token = format!("Bearer {scope:x<20}");
            let headers = if scope.is_empty() { vec![] } else { vec![("authorization", token.as_str())] };
            let answer = send(&service, method, &target, &headers).await;
            let refused = match (needed, scope) {
                ("", _) => None,
                (_, "" | "wrong") => Some((401, "token".to_owned())),
                (needed, scope) => (needed != scope).then(|| (403, "scope".to_owned())),
            };
            match refused {
                Some(refused) => assert_eq!(answer.problem(), refused, "{method} {target} {scope:?}"),
                None => assert!(
                    !matches!(answer.status.as_u16(), 401 | 403) && answer.status.as_u16() < 500,
                    "{method} {target} {scope:?}: {}",
                    answer.status
                ),
            }
        }
        // A token's prefixes restrict what it may read, regardless of its scope.
        let token = format!("Bearer {needed:y<20}");
        let answer = send(&service, method, &target, &[("authorization", &token)]).await;
        if (method, needed) == ("GET", "read") && target != "/v1/about" {
            assert_eq!(answer.problem(), (403, "not-allowed".to_owned()), "{target}");
        }
    }
}

/// The table above contains every route of the description.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_lists_all_routes() {
    let service = service(&settings());
    let document = get(&service, "/v1/openapi.json").await.json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let parts: Vec<&str> = path.split('/').collect();
        for method in operations.as_object().unwrap().keys() {
            let fits = |(verb, target, _): &(&str, String, &str)| {
                let target = target.split('?').next().unwrap_or_default();
                let mut steps = target.split('/');
                verb.eq_ignore_ascii_case(method)
                    && parts
                        .iter()
                        .all(|part| steps.next().is_some_and(|step| part.starts_with('{') || *part == step))
                    && (path.ends_with("{key}") || steps.next().is_none())
            };
            assert!(routes().iter().any(fits), "{method} {path}");
        }
    }
}

async fn status(service: &Router, target: &str, version: Version, hosts: &[&str]) -> u16 {
    let mut request = Request::get(target).version(version);
    for host in hosts {
        request = request.header("host", *host);
    }
    let answer = service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    answer.status().as_u16()
}

/// Host header rules (RFC 9112, section 3.2).
#[tokio::test(flavor = "multi_thread")]
async fn the_host_is_given_once() {
    let (one, old) = (Version::HTTP_11, Version::HTTP_10);
    let own = service(&settings());
    let public = service(&Settings { public: true, ..settings() });
    for (target, version, hosts, expected, to_public) in [
        ("/healthz", one, &["localhost"][..], 200, 200),
        ("/healthz", one, &["LOCALHOST:80"], 200, 200),
        ("/healthz", one, &["[::1]:80"], 200, 200),
        ("/healthz", one, &[], 400, 400),
        ("/healthz", old, &[], 200, 200),
        ("/healthz", one, &["localhost", "localhost"], 400, 400),
        ("/healthz", old, &["localhost", "evil.example"], 400, 400),
        ("/healthz", one, &[""], 400, 400),
        ("/healthz", one, &["me@localhost"], 400, 400),
        ("/healthz", one, &["local host"], 400, 400),
        ("/healthz", one, &["localhost/x"], 400, 400),
        ("/healthz", one, &["127.0.0.1:x"], 400, 400),
        ("/healthz", one, &["127.0.0.1:80:90"], 400, 400),
        ("/healthz", one, &["127.0.0.1:99999"], 400, 400),
        ("http://localhost:x/healthz", one, &["localhost"], 400, 400),
        ("/healthz", one, &["localhost, evil.example"], 400, 400),
        ("/healthz", one, &["evil.example"], 421, 200),
        ("http://evil.example/healthz", one, &["localhost"], 421, 200),
        ("http://localhost:9/healthz", one, &["evil.example"], 200, 200),
        ("http://localhost/healthz", one, &[], 400, 400),
        ("http://evil.example/v1/about", one, &["localhost"], 421, 200),
    ] {
        assert_eq!(status(&own, target, version, hosts).await, expected, "{target} {hosts:?}");
        assert_eq!(status(&public, target, version, hosts).await, to_public, "{target} {hosts:?}, public");
    }
}

/// The page is compressed if the client accepts that.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_compressed() {
    let service = service(&settings());
    let script = fs::read(fixtures().join("../crates/server/assets/main.js")).unwrap();
    assert_eq!(get(&service, "/assets/main.js").await.body, script);
    let coded = send(&service, "GET", "/assets/main.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!(coded.header("content-encoding"), "gzip");
    assert!(coded.body.len() < script.len());
    let again = [("if-none-match", coded.header("etag")), ("accept-encoding", "gzip")];
    assert_eq!(send(&service, "GET", "/assets/main.js", &again).await.status, 304);
}
