//! Randomly mutated paths and queries of one allowed file: the service always responds, and never with an internal
//! error.

use crate::common::{service, settings, url};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use tower::ServiceExt;

const TARGETS: [&str; 8] = [
    "/v1/references?url=@&format=kerchunk-json&inline_limit=10",
    "/v1/zarr/#/zarr.json",
    "/v1/zarr/#/chunked/c/0/1",
    "/v1/zarr/#;x=1/.zattrs?format=zarr3",
    "/v1/inspect?url=@&ifd=0",
    "/v1/zarr/AAAA/../%2e%2e/zarr.json",
    "/metrics?a[]=%zz&%00",
    "/v1/references?url=file:///etc/passwd&url=@&chunk_grid=rectilinear",
];

/// Fragments that a mutation may insert anywhere.
const ODD: [&str; 14] =
    ["%", "%2e%2e/", "&&", "=", "?", "#", "@", "//", "%F0%9F", "[]", ";", "+", "-1", "18446744073709551616"];

/// Returns the next pseudo-random number; the sequence is the same on every run.
fn next(state: &mut u64, most: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 11).unwrap() % most.max(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_targets_are_answered() {
    let (service, file, mut state) = (service(&settings()), url("hdf5/chunked.h5"), 0x1234_5678_9abc_def1);
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(&file);
    let mut requests = 0;
    for _ in 0..1500 {
        let mut text = TARGETS[next(&mut state, TARGETS.len())].to_owned();
        for _ in 0..next(&mut state, 4) {
            let (at, odd) = (next(&mut state, text.len()).max(1), ODD[next(&mut state, ODD.len())]);
            match next(&mut state, 3) {
                0 => text.insert_str(at, odd),
                1 if at < text.len() => drop(text.remove(at)),
                _ => text.truncate(at),
            }
        }
        let target = text.replace('@', &file).replace('#', &encoded);
        let Ok(request) =
            axum::http::Request::get(&target).header("host", "localhost").body(axum::body::Body::empty())
        else {
            continue;
        };
        let answer = service.clone().oneshot(request).await.unwrap();
        assert!(answer.status().as_u16() < 500, "{target}: {}", answer.status());
        requests += 1;
    }
    assert!(requests > 500, "{requests} targets were targets");
}
