//! The memory that requests hold is bounded.

use std::{fs, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
};
use tempfile::TempDir;
use tower::ServiceExt;
use virtualize_server::Settings;

use crate::common::{get, metric, service, store};

const MIB: u64 = 1 << 20;

/// Builds a TIFF of one strip of 8 MiB (TIFF 6.0, sections 2 and 4).
pub(crate) fn strip() -> Vec<u8> {
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
async fn large(memory: u64) -> (TempDir, Router, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tif"), strip()).unwrap();
    let url = format!("file://{}", folder.path().display());
    let settings = Settings { allow: vec![url.clone()], memory: Some(memory), ..Settings::default() };
    let service = service(&settings);
    let store = store(&service, &format!("{url}/a.tif")).await;
    (folder, service, store)
}

/// Begins a request, and returns the response with an unread body.
async fn begun(service: &Router, target: &str) -> Response<Body> {
    let request = Request::get(target).header("host", "localhost");
    service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn held(service: &Router) -> u64 {
    format!("{:.0}", metric(service, "virtualize_memory_held_bytes").await).parse().unwrap()
}

/// Responses that are not received use up their part of the memory. Further ones are sent in small pieces.
#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_are_bounded() {
    let (_folder, service, store) = large(36 * MIB).await;
    let document = get(&service, &format!("{store}/zarr.json")).await.json();
    let arrays = document["consolidated_metadata"]["metadata"].as_object().unwrap();
    let is_image = |node: &serde_json::Value| node["shape"].as_array().is_some_and(|shape| shape.len() > 1);
    let (path, _) = arrays.iter().find(|(_, node)| is_image(node)).unwrap();
    let rank = arrays[path]["shape"].as_array().unwrap().len();
    let chunk = format!("{store}/{path}/c{}", "/0".repeat(rank));
    let idle = held(&service).await;
    assert!(idle < 4 * MIB, "{idle}");
    let mut responses = Vec::new();
    for _ in 0..50 {
        let response = begun(&service, &chunk).await;
        assert_eq!(response.status().as_u16(), 200);
        responses.push(response);
        assert!(held(&service).await <= idle + 36 * MIB / 8);
    }
    assert_eq!(get(&service, &chunk).await.body, &strip()[8..8 + (8 << 20)]);
    drop(responses);
    assert_eq!(held(&service).await, idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_requests_release_memory() {
    let (_folder, service, store) = large(16 * MIB).await;
    for wait in 0..40 {
        let target = format!("{store}/zarr.json?{wait}");
        let _ = tokio::time::timeout(Duration::from_micros(wait * 50), begun(&service, &target)).await;
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
