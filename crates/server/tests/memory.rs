//! The memory that requests hold is reserved from one budget.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::{fs, net::IpAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use common::{get, metric, service};
use tempfile::TempDir;
use tower::ServiceExt;
use virtualize_server::{Peer, Settings, Size};

const MIB: u64 = 1 << 20;

/// Builds a TIFF of one strip of 8 MiB (TIFF 6.0, sections 2 and 4).
fn strip() -> Vec<u8> {
    let (width, height, strip) = (2048_u32, 4096_u32, 8_u32 << 20);
    let entries: [(u16, u32); 8] =
        [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 8), (278, height), (279, strip)];
    let mut bytes = b"II*\0".to_vec();
    bytes.extend((8 + strip).to_le_bytes());
    bytes.extend((0..strip).map(|at| at.to_le_bytes()[1]));
    bytes.extend(8_u16.to_le_bytes());
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes
}

/// Builds a service of that file, and returns it with the path of the file's store.
fn large(memory: u64) -> (TempDir, Router, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tif"), strip()).unwrap();
    let url = format!("file://{}", folder.path().display());
    let settings = Settings { allow: vec![url.clone()], memory: Some(Size(memory)), ..Settings::default() };
    let store = format!("/v1/zarr/{}", BASE64_URL_SAFE_NO_PAD.encode(format!("{url}/a.tif")));
    (folder, service(&settings), store)
}

/// Begins a request of a client, and returns the response with an unread body.
async fn begun_by(client: u8, service: &Router, target: &str) -> Response<Body> {
    let peer = Peer(IpAddr::from([10, 0, 0, client]));
    let request = Request::get(target).header("host", "localhost").extension(peer);
    service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn begun(service: &Router, target: &str) -> Response<Body> {
    begun_by(1, service, target).await
}

async fn held(service: &Router) -> u64 {
    format!("{:.0}", metric(service, "virtualize_memory_held_bytes").await).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_admitted_by_their_bytes() {
    let (_folder, service, store) = large(36 * MIB);
    let document = get(&service, &format!("{store}/zarr.json")).await.json();
    let arrays = document["consolidated_metadata"]["metadata"].as_object().unwrap();
    let (path, _) = arrays
        .iter()
        .find(|(_, node)| node["shape"].as_array().is_some_and(|shape| shape.len() > 1))
        .unwrap();
    let rank = arrays[path]["shape"].as_array().unwrap().len();
    let chunk = format!("{store}/{path}/c{}", "/0".repeat(rank));
    let idle = held(&service).await;
    assert!(idle < 4 * MIB, "{idle}");
    let mut answers = Vec::new();
    // Each of two clients has half of the budget.
    for client in [1, 2] {
        for _ in 0..2 {
            let answer = begun_by(client, &service, &chunk).await;
            assert_eq!(answer.status().as_u16(), 200);
            answers.push(answer);
            assert_eq!(held(&service).await, idle + 8 * MIB * answers.len() as u64);
        }
        let answer = begun_by(client, &service, &chunk).await;
        let wait = answer.headers()["retry-after"].as_bytes();
        assert_eq!((answer.status().as_u16(), wait), (503, &b"2"[..]));
    }
    // Small requests still succeed, and a response releases its share when it ends.
    assert_eq!(get(&service, &format!("{store}/zarr.json")).await.status, 200);
    answers.pop();
    assert_eq!(get(&service, &chunk).await.body, &strip()[8..8 + (8 << 20)]);
    drop(answers);
    assert_eq!(held(&service).await, idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_gives_back_what_was_held() {
    let (_folder, service, store) = large(16 * MIB);
    for wait in 0..40 {
        let target = format!("{store}/zarr.json?{wait}");
        let asked = begun(&service, &target);
        let _ = tokio::time::timeout(Duration::from_micros(wait * 50), asked).await;
    }
    assert_eq!(get(&service, &format!("{store}/zarr.json")).await.status, 200);
    // Only the cached file still holds memory.
    for _ in 0..6000 {
        if held(&service).await < MIB {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are held", held(&service).await);
}
