//! Several services that share one cache.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use axum::Router;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use common::{fixtures, get, metric, service, settings};
use virtualize_server::{Settings, Size};

/// Start and length of a chunk of the fixture, and the text in which versions differ.
const CHUNK: (usize, usize) = (8272, 23);
const UNITS: &[u8] = b"units";

/// Returns version `number` of a file: its units and the first byte of its chunk are `number`.
fn version(number: u8) -> Vec<u8> {
    let mut file = fs::read(fixtures().join("hdf5/chunked.h5")).unwrap();
    let at = file.windows(UNITS.len()).position(|bytes| bytes == UNITS).unwrap();
    let value = at + file[at..].iter().position(|byte| *byte == b'K').unwrap();
    file[value] = number;
    file[CHUNK.0] = number;
    file
}

/// Replaces a file atomically.
fn replace(path: &Path, content: &[u8]) {
    let aside = path.with_extension("part");
    fs::write(&aside, content).unwrap();
    fs::rename(aside, path).unwrap();
}

fn shared(folder: &Path) -> Settings {
    let allow = vec![format!("file://{}/", folder.display())];
    let cache = folder.join("cache").to_str().unwrap().to_owned();
    Settings { allow, cache: Some(cache), hold_time: Some(1), stores_time: Some(1), ..settings() }
}

/// Metadata that a client has read: its version, and when it asked.
#[derive(Clone, Copy)]
struct Read {
    version: u8,
    at: Instant,
}

async fn metadata(service: &Router, store: &str) -> Option<u8> {
    let answer = get(service, &format!("{store}/temperature/zarr.json")).await;
    match answer.status.as_u16() {
        200 => Some(answer.json()["attributes"]["units"].as_str().unwrap().as_bytes()[0]),
        409 => None,
        other => panic!("{other}"),
    }
}

async fn chunk(service: &Router, store: &str) -> Option<u8> {
    let answer = get(service, &format!("{store}/temperature/c/0/0")).await;
    match answer.status.as_u16() {
        200 => {
            assert_eq!(answer.body.len(), CHUNK.1);
            Some(answer.body[0])
        }
        409 => None,
        other => panic!("{other}"),
    }
}

/// Clients read metadata and chunks from any of three services while the file changes. Within the hold time, a chunk
/// is of the version of the client's metadata, or refused.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_several_services_never_mix_versions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (file, settings) = (root.join("a.h5"), shared(&root));
    let hold = Duration::from_secs(1);
    let mut services = [0, 1, 2].map(|_| service(&settings));
    let store = format!("/v1/zarr/{}", BASE64_URL_SAFE_NO_PAD.encode(format!("file://{}", file.display())));
    let (mut number, mut random) = (b'A', 0x2545_f491_4f6c_dd1d_u64);
    let mut next = |most: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % most).unwrap()
    };
    replace(&file, &version(number));
    let (mut clients, mut shown, mut refused) = ([None; 4], [false; 256], 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(8)
        || refused == 0
        || shown.iter().filter(|seen| **seen).count() < 3
    {
        assert!(start.elapsed() < Duration::from_secs(120));
        let (client, at) = (next(4), next(3));
        match next(100) {
            0 => {
                number = if number == b'Z' { b'A' } else { number + 1 };
                replace(&file, &version(number));
            }
            1 => services[at] = service(&settings),
            2..40 => {
                let asked = Instant::now();
                clients[client] =
                    metadata(&services[at], &store).await.map(|version| Read { version, at: asked });
            }
            _ => {
                let Some(Read { version, at: asked }) = clients[client] else { continue };
                let chunk = chunk(&services[at], &store).await;
                if asked.elapsed() < hold {
                    assert!(chunk.is_none_or(|chunk| chunk == version), "{chunk:?} after {version}");
                }
                refused += u32::from(chunk.is_none());
                shown[usize::from(version)] = true;
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn references_are_made_once_for_all_services() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let settings = shared(&root);
    let services = [0, 1, 2].map(|_| service(&settings));
    fs::write(root.join("a.h5"), version(b'A')).unwrap();
    let target = format!("/v1/references?url=file://{}/a.h5", root.display());
    let mapped = "virtualize_cache_lookups_total{cache=\"stores\",outcome=\"miss\"}";
    let mut answers = Vec::new();
    for service in &services {
        answers.push(get(service, &target).await.body);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let mapped = [
        metric(&services[0], mapped).await,
        metric(&services[1], mapped).await,
        metric(&services[2], mapped).await,
    ];
    assert_eq!(mapped, [1.0, 0.0, 0.0]);
    for entry in fs::read_dir(root.join("cache")).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|end| end == "references") {
            fs::write(entry, "damaged").unwrap();
        }
    }
    let fourth = service(&Settings { cache_size: Some(Size(1 << 20)), ..settings });
    assert_eq!(get(&fourth, &target).await.body, answers[0]);
}
