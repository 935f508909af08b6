//! Access control: each route with each scope, the requested host, and the limits of a client.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::{fs, net::IpAddr};

use axum::{
    Router,
    body::Body,
    http::{Request, Version},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use common::{fixtures, get, send, service, settings, url};
use tempfile::TempDir;
use tower::ServiceExt;
use virtualize_server::{Peer, Settings, Size};

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
        ("GET", format!("/v1/zarr/{source}/zarr.json"), "read"),
        ("GET", format!("/v1/plain/{source}/zarr.json"), "read"),
        ("POST", "/v1/references".to_owned(), "read"),
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
async fn every_route_needs_its_scope() {
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
async fn the_table_has_all_routes() {
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
async fn the_host_is_said_once() {
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

async fn by(client: u8, service: &Router, target: &str) -> u16 {
    let peer = Peer(IpAddr::from([10, 0, 0, client]));
    let request = Request::get(target).header("host", "localhost").extension(peer);
    service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_but_the_sign_of_life_is_limited() {
    let targets =
        ["/", "/assets/main.js", "/favicon.ico", "/readyz", "/v1/openapi.json", "/v1/about", "/x", "/v1/x"];
    for target in targets {
        let service = service(&Settings { rate: Some(1), burst: Some(3), ..settings() });
        let mut refused = false;
        for _ in 0..10 {
            refused |= by(1, &service, target).await == 429;
        }
        assert!(refused, "{target}");
        assert_ne!(by(2, &service, target).await, 429, "{target}");
        assert_eq!(by(1, &service, "/healthz").await, 200);
    }
}

/// A client that receives none of its responses does not block another.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_leaves_places_for_others() {
    let service = service(&Settings {
        concurrent: Some(8),
        client_requests: Some(3),
        queue_time: Some(1),
        ..settings()
    });
    let target = format!("/v1/inspect?url={}", url("hdf5/chunked.h5"));
    let begun = |client: u8| {
        let peer = Peer(IpAddr::from([10, 0, 0, client]));
        let request = Request::get(&target).header("host", "localhost").extension(peer);
        service.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let mut held = Vec::new();
    for client in [1, 2] {
        for _ in 0..3 {
            let answer = begun(client).await.unwrap();
            assert_eq!(answer.status(), 200);
            held.push(answer);
        }
        assert_eq!(begun(client).await.unwrap().status(), 429);
    }
    // A waiting request gets the permit of one that has finished.
    let (next, _) = tokio::join!(begun(1), async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        held.remove(0);
    });
    assert_eq!(next.unwrap().status(), 200);
}

/// Builds a TIFF of `count` strips of one byte (TIFF 6.0, sections 2 and 4), whose references are long.
fn strips(count: u32) -> Vec<u8> {
    let (data, offsets) = (8 + count.next_multiple_of(4), count * 4);
    let entries: [(u16, u32, u32); 8] = [
        (256, 1, 1),
        (257, 1, count),
        (258, 1, 8),
        (259, 1, 1),
        (262, 1, 1),
        (273, count, data),
        (278, 1, 1),
        (279, count, data + offsets),
    ];
    let mut bytes = b"II*\0".to_vec();
    bytes.extend((data + 2 * offsets).to_le_bytes());
    bytes.resize(usize::try_from(data).unwrap(), 7);
    (0..count).for_each(|strip| bytes.extend((8 + strip).to_le_bytes()));
    (0..count).for_each(|_| bytes.extend(1_u32.to_le_bytes()));
    bytes.extend(8_u16.to_le_bytes());
    for (tag, count, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes
}

/// Responses that are not received are bounded on the disk too, and requests for the same content share one file.
#[tokio::test(flavor = "multi_thread")]
async fn answers_on_their_way_are_bounded_on_the_disk() {
    let (data, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(data.path().join("a.tif"), strips(20_000)).unwrap();
    let file = format!("file://{}", data.path().display());
    for cache in [None, Some(kept.path().display().to_string())] {
        let allow = vec![file.clone()];
        let service = service(&Settings { allow, cache, cache_size: Some(Size(4 << 20)), ..settings() });
        let begun = |number: u32, client: u8| {
            let peer = Peer(IpAddr::from([10, 0, 0, client]));
            let target = format!("/v1/references?url={file}/a.tif&inline-limit={number}");
            let request = Request::get(&target).header("host", "localhost").extension(peer);
            service.clone().oneshot(request.body(Body::empty()).unwrap())
        };
        let mut held = Vec::new();
        for client in 1..20 {
            let answer = begun(1, client).await.unwrap();
            assert_eq!(answer.status(), 200, "client {client} gets the file of the others");
            held.push(answer);
        }
        let mut refused = false;
        for number in 2..30_u8 {
            let answer = begun(number.into(), number).await.unwrap();
            refused |= answer.status() == 503;
            held.push(answer);
        }
        assert!(refused);
        held.clear();
        assert_eq!(begun(99, 1).await.unwrap().status(), 200, "there is room again");
        assert!(walk(kept.path()) <= 4 << 20);
    }
}

fn walk(folder: &std::path::Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// The page is compressed in the requested coding, and its entity tags name the coding.
#[tokio::test(flavor = "multi_thread")]
async fn static_files_come_in_each_coding() {
    let service = service(&settings());
    let script = fs::read(fixtures().join("../crates/server/assets/main.js")).unwrap();
    let plain = get(&service, "/assets/main.js").await;
    assert_eq!(plain.body, script);
    for coding in ["gzip", "zstd"] {
        for _ in 0..2 {
            let coded = send(&service, "GET", "/assets/main.js", &[("accept-encoding", coding)]).await;
            assert_eq!(coded.header("content-encoding"), coding);
            assert_eq!(coded.header("content-length"), coded.body.len().to_string());
            assert!(coded.body.len() < script.len() && coded.header("etag") != plain.header("etag"));
            let again = [("if-none-match", coded.header("etag"))];
            assert_eq!(send(&service, "GET", "/assets/main.js", &again).await.status, 304);
        }
    }
}
