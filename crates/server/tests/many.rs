//! References of many files in one response.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::{fs, time::Duration};

use axum::{body::Body, http::Request};
use common::{fixtures, get, metric, post, service, settings, url};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use virtualize::{Format, Options};
use virtualize_server::Settings;

/// Returns the lines of a response.
fn lines(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn references(url: &str, format: Format) -> Value {
    let mut options = Options::default();
    options.map.format = format.zarr_format();
    let store = virtualize::open(url, &options).await.unwrap();
    let mut out = Vec::new();
    virtualize::write_to(&store, format, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn files(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fixtures().join(folder)).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.path().is_file());
    files.map(|entry| format!("{}/{}", url(folder), entry.file_name().to_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_has_one_line() {
    let service = service(&settings());
    let mut urls = files("hdf5");
    urls.extend(
        ["https://user:secret@host/a.nc?sig=secret", "s3://bucket/x.nc", "file:///etc/passwd", "no-url"]
            .map(str::to_owned),
    );
    urls.push(urls[0].clone());
    for (name, format) in [("kerchunk-json", Format::KERCHUNK_JSON), ("zarr3-json", Format::ZARR3_JSON)] {
        let answer = post(&service, "/v1/references", &json!({ "urls": urls, "format": name })).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/x-ndjson"));
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
        let mut lines = lines(&answer.body);
        let end = lines.pop().unwrap();
        let (mut seen, mut failed) = (vec![false; urls.len()], 0);
        for line in &lines {
            let index = usize::try_from(line["index"].as_u64().unwrap()).unwrap();
            assert!(!std::mem::replace(&mut seen[index], true));
            let one = get(&service, &format!("/v1/references?format={name}&url={}", urls[index])).await;
            if one.status == 200 {
                assert_eq!(line["url"], urls[index]);
                assert_eq!(line["references"], references(&urls[index], format).await, "{}", urls[index]);
            } else {
                failed += 1;
                assert_eq!(
                    (&line["error"]["code"], &line["references"]),
                    (&one.json()["code"], &Value::Null)
                );
            }
        }
        assert!(seen.into_iter().all(|seen| seen) && failed >= 4);
        assert_eq!(end, json!({ "end": true, "files": urls.len(), "failed": failed }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_those_of_one_file() {
    let service = service(&settings());
    let source = url("hdf5/chunked.h5");
    let body = json!({ "urls": [source], "inline": 20, "strict": false, "ifd": null });
    let answer = post(&service, "/v1/references", &body).await;
    let one = get(&service, &format!("/v1/references?url={source}&inline=20&strict=false")).await.json();
    assert_eq!(lines(&answer.body)[0]["references"], one);
    for (members, named) in [
        (json!({}), "urls"),
        (json!({ "urls": [] }), "urls"),
        (json!({ "urls": "a" }), "urls"),
        (json!({ "urls": vec!["a"; 10_001] }), "urls"),
        (json!({ "urls": ["a"], "chunk-grid": 1 }), "chunk-grid"),
        (json!({ "urls": ["a"], "inline": -1 }), "inline"),
        (json!({ "urls": ["a"], "split_contiguous": 0 }), "split_contiguous"),
        (json!({ "urls": ["a"], "chunk_grid": { "a": 1 } }), "chunk_grid"),
        (json!({ "urls": ["a"], "format": "zarr3" }), "format"),
        (json!({ "urls": ["a"], "hdf5_reader": "libhdf5" }), "hdf5_reader"),
        (json!([]), "body"),
    ] {
        let answer = post(&service, "/v1/references", &members).await;
        assert_eq!(answer.problem(), (400, "parameter".to_owned()));
        assert!(answer.json()["detail"].as_str().unwrap().starts_with(named), "{}", answer.json());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_count_against_the_rate() {
    let service = service(&Settings { rate: Some(1), burst: Some(2), ..settings() });
    let answer = post(&service, "/v1/references", &json!({ "urls": vec![url("hdf5/chunked.h5"); 4] })).await;
    assert_eq!(lines(&answer.body)[4], json!({ "end": true, "files": 4, "failed": 0 }));
    assert_eq!(get(&service, "/v1/about").await.problem(), (429, "rate".to_owned()));
}

/// Without a reader, only a few files are read; without a client, none.
#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_its_reader_and_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let urls: Vec<_> = (0..40)
        .map(|at| {
            let copy = folder.path().join(format!("{at}.h5"));
            fs::copy(fixtures().join("hdf5/chunked.h5"), &copy).unwrap();
            format!("file://{}", copy.canonicalize().unwrap().display())
        })
        .collect();
    let allow = vec![format!("file://{}/", folder.path().canonicalize().unwrap().display())];
    let service = service(&Settings { allow, ..settings() });
    let request = Request::post("/v1/references").header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(json!({ "urls": urls }).to_string())).unwrap();
    let mut body = service.clone().oneshot(request).await.unwrap().into_body();
    let read =
        async || metric(&service, "virtualize_cache_lookups_total{cache=\"stores\",outcome=\"miss\"}").await;
    body.frame().await.unwrap().unwrap();
    while read().await < 4.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(read().await <= 6.0);
    }
    drop(body);
    let before = read().await;
    while metric(&service, "virtualize_memory_held_bytes").await > 20_000_000.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(read().await <= before + 4.0);
}
