//! Responses of the service, without a socket.

use std::{fs, io::Read};

use crate::common::{Answer, fixtures, get, send, service, settings, store, url};
use serde_json::json;
use virtualize::{Format, Options};
use virtualize_server::Settings;

async fn references(url: &str, format: Format) -> Vec<u8> {
    let mut options = Options::default();
    options.map.format = format.zarr_format();
    let store = virtualize::open(url, &options).await.unwrap();
    let mut out = Vec::new();
    virtualize::write_to(&store, format, &mut out).unwrap();
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn references_are_what_the_command_writes() {
    let service = service(&settings());
    let source = url("hdf5/chunked.h5");
    for (name, format) in [("kerchunk-json", Format::KERCHUNK_JSON), ("zarr3-json", Format::ZARR3_JSON)] {
        let target = format!("/v1/references?url={source}&format={name}");
        let expected = references(&source, format).await;
        let answer = get(&service, &target).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (200, &expected));
        assert_eq!(answer.header("content-length"), expected.len().to_string());
        let etag = answer.header("etag").to_owned();
        let again = send(&service, "GET", &target, &[("if-none-match", &etag)]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
        assert_eq!(again.header("etag"), etag);
        let packed = send(&service, "GET", &target, &[("accept-encoding", "gzip")]).await;
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
        assert_eq!((packed.header("content-encoding"), &unpacked), ("gzip", &expected));
        let head = send(&service, "HEAD", &target, &[]).await;
        assert_eq!(
            (head.header("content-length"), head.body.len()),
            (expected.len().to_string().as_str(), 0)
        );
    }
}

/// A store in a version shows this version only.
#[tokio::test(flavor = "multi_thread")]
async fn versions_are_never_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    fs::copy(fixtures().join("hdf5/chunked.h5"), &path).unwrap();
    let allow = vec![format!("file://{}", folder.path().display())];
    let service = service(&Settings { allow, ..Settings::default() });
    let source = format!("file://{}", path.display());
    let target = format!("/v1/references?url={source}");
    let first = get(&service, &target).await;
    let old = store(&service, &source).await;
    assert_eq!(get(&service, &format!("{old}/temperature/c/0/0")).await.status, 200);

    fs::copy(fixtures().join("hdf5/layouts.h5"), folder.path().join("b.h5")).unwrap();
    fs::rename(folder.path().join("b.h5"), &path).unwrap();
    let second = send(&service, "GET", &target, &[("if-none-match", first.header("etag"))]).await;
    assert_eq!(second.status, 200);
    assert_ne!(second.body, first.body);
    // The open file is still the old one, also after its path leads to another.
    let chunk = get(&service, &format!("{old}/temperature/c/0/0")).await;
    assert!(chunk.status == 200 && chunk.body.len() == 23 || chunk.status == 409);
    // Another service has never seen the old version.
    let other = self::service(&Settings {
        allow: vec![format!("file://{}", folder.path().display())],
        ..Settings::default()
    });
    for key in ["zarr.json", "temperature/zarr.json", "temperature/c/0/0"] {
        let refused = get(&other, &format!("{old}/{key}")).await;
        assert_eq!(refused.problem(), (409, "source-changed".to_owned()), "{key}");
    }
    let new = store(&service, &source).await;
    assert_ne!(new, old);
    assert_eq!(store(&other, &source).await, new);
    assert_eq!(get(&service, &format!("{new}/zarr.json")).await.status, 200);
    assert_eq!(get(&service, &new).await.json()["node_type"], "group");
    // Without a version there are neither metadata nor chunks, which some readers would replace by fill values.
    let unversioned = old.split('~').next().unwrap();
    for key in ["zarr.json", "temperature/zarr.json", "temperature/c/0/0", "none"] {
        let refused = get(&service, &format!("{unversioned}/{key}")).await;
        assert_eq!(refused.problem(), (400, "parameter".to_owned()), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_status_and_code() {
    let service = service(&settings());
    let good = url("hdf5/chunked.h5");
    let outside = url("README.md");
    let cases: [(String, u16, &str); 19] = [
        ("/v1/references".to_owned(), 400, "parameter"),
        ("/v1/references?url=".to_owned(), 400, "parameter"),
        (format!("/v1/references?url={good}&url={good}"), 400, "parameter"),
        (format!("/v1/references?url={good}&nothing=1"), 400, "parameter"),
        (format!("/v1/references?url={good}&format=zarr"), 400, "parameter"),
        (format!("/v1/references?url={good}&unpack=true"), 400, "parameter"),
        (format!("/v1/references?url={good}&places=3"), 400, "parameter"),
        (format!("/v1/inspect?url={good}&places=10001"), 400, "parameter"),
        (format!("/v1/references?url={good}&format=kerchunk-parquet"), 406, "format-repository"),
        ("/v1/references?url=file:///etc/passwd".to_owned(), 403, "not-allowed"),
        (format!("/v1/references?url={outside}"), 403, "not-allowed"),
        (format!("/v1/references?url={good}/../../../README.md"), 400, "url"),
        (format!("/v1/references?url={good}%3Fa=1"), 404, "source-not-found"),
        ("/v1/references?url=https://169.254.169.254/latest/meta-data".to_owned(), 403, "not-allowed"),
        (format!("/v1/references?url={}", url("hdf5/none.h5")), 404, "source-not-found"),
        (format!("/v1/references?url={}", url("hdf5/chunked.h5.json")), 422, "format"),
        ("/v1/zarr/AAAA/zarr.json".to_owned(), 400, "url"),
        ("/v1/zarr/%20/zarr.json".to_owned(), 400, "parameter"),
        ("/v1/nothing".to_owned(), 404, "not-found"),
    ];
    for (target, status, code) in cases {
        let answer = get(&service, &target).await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{target}: {}", answer.json());
        assert!(!answer.json()["detail"].as_str().unwrap().contains('\n'));
    }
    let answer = send(&service, "DELETE", "/v1/references", &[]).await;
    assert_eq!(answer.problem(), (405, "method".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_described() {
    let service = service(&settings());
    let described =
        get(&service, &format!("/v1/inspect?url={}&places=2", url("hdf5/chunked.h5"))).await.json();
    assert_eq!(described["file"]["format"], "HDF5");
    assert_eq!(described["root"]["children"]["temperature"]["dimensions"], json!(["lat", "lon"]));
    assert_eq!(described["root"]["children"]["temperature"]["fill_decision"]["policy"], "hdf5-header");
    let places = described["places"]["temperature"]["places"].as_array().unwrap();
    assert_eq!(places.len(), 2);
    assert_eq!(described["zarr"]["store"], store(&service, &url("hdf5/chunked.h5")).await);
}

fn bytes_of(answer: &Answer) -> &[u8] {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    &answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_a_zarr_store() {
    let service = service(&settings());
    let source = url("hdf5/chunked.h5");
    let store = store(&service, &source).await;
    let root = get(&service, &format!("{store}/zarr.json")).await.json();
    assert_eq!(root["node_type"], "group");
    let array = get(&service, &format!("{store}/temperature/zarr.json")).await.json();
    assert_eq!(root["consolidated_metadata"]["metadata"]["temperature"], array);
    // Each chunk consists of the bytes that its reference names.
    let references: serde_json::Value =
        serde_json::from_slice(&references(&source, Format::ZARR3_JSON).await).unwrap();
    let file = fs::read(fixtures().join("hdf5/chunked.h5")).unwrap();
    let number = |value: &serde_json::Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut chunks = 0;
    for (key, place) in references["refs"].as_object().unwrap() {
        let Some(place) = place.as_array() else { continue };
        let bytes = &file[number(&place[1])..number(&place[1]) + number(&place[2])];
        let target = format!("{store}/{key}");
        assert_eq!(bytes_of(&get(&service, &target).await), bytes, "{key}");
        let part = send(&service, "GET", &target, &[("range", "bytes=1-3")]).await;
        assert_eq!((part.status.as_u16(), &part.body[..]), (206, &bytes[1..4]));
        assert_eq!(part.header("content-range"), format!("bytes 1-3/{}", bytes.len()));
        let head = send(&service, "HEAD", &target, &[]).await;
        assert_eq!((head.header("content-length"), head.body.len()), (bytes.len().to_string().as_str(), 0));
        let again = send(&service, "GET", &target, &[("if-none-match", head.header("etag"))]).await;
        assert_eq!(again.status, 304);
        let past = send(&service, "GET", &target, &[("range", "bytes=999999-")]).await;
        assert_eq!(past.problem(), (416, "range".to_owned()));
        chunks += 1;
    }
    assert_eq!(chunks, 5);
    for none in [
        ".zgroup",
        ".zmetadata",
        "temperature/",
        "temperature/c",
        "temperature/c/0",
        "temperature/c/0/0/0",
        "temperature/c/00/0",
        "temperature/c/+0/0",
        "temperature/c/9/0",
        "temperature/0.0",
        "temperature/c/0/99999999999999999999999",
        "../zarr.json",
        "%2e%2e/zarr.json",
        "temperature/../zarr.json",
    ] {
        assert_eq!(get(&service, &format!("{store}/{none}")).await.status, 404, "{none}");
    }
    // The start of a name with a `#` or `?` that a reader did not encode: with 404 it would read missing chunks.
    for refused in ["zarr.jsonx", "temperature", "c/0/0", "temperature/c/0/0?b/c/0"] {
        assert_eq!(get(&service, &format!("{store}/{refused}")).await.status, 400, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_scopes_and_prefixes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let text = format!(
        "reader-of-tiff-only read {}\nreader-of-it-all-x read,metrics\nmetrics-and-no-more metrics\n",
        url("tiff")
    );
    fs::write(&file, text).unwrap();
    let service = service(&Settings { token_file: Some(file), ..settings() });
    let (h5, tif) = (url("hdf5/chunked.h5"), url("tiff/cog.tif"));
    let ask = async |token: &str, target: &str| {
        send(&service, "GET", target, &[("authorization", &format!("Bearer {token}"))]).await.status.as_u16()
    };
    let of = |source: &str| format!("/v1/references?url={source}");
    assert_eq!(get(&service, &of(&h5)).await.problem(), (401, "token".to_owned()));
    assert_eq!(ask("wrong", &of(&h5)).await, 401);
    assert_eq!(ask("reader-of-it-all-x", &of(&h5)).await, 200);
    assert_eq!(ask("reader-of-tiff-only", &of(&h5)).await, 403);
    assert_eq!(ask("reader-of-tiff-only", &of(&tif)).await, 200);
    assert_eq!(ask("metrics-and-no-more", &of(&tif)).await, 403);
    assert_eq!(ask("metrics-and-no-more", "/metrics").await, 200);
    assert_eq!(ask("reader-of-tiff-only", "/metrics").await, 403);
    assert_eq!(get(&service, "/metrics").await.status, 401);
    for open in ["/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(get(&service, open).await.status, 200, "{open}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_are_refused() {
    let service = service(&Settings { cors: vec!["https://a.example".to_owned()], ..settings() });
    let allowed = async |origin: &str| {
        let answer = send(&service, "OPTIONS", "/v1/inspect", &[("origin", origin)]).await;
        answer.header("access-control-allow-origin").to_owned()
    };
    assert_eq!(allowed("https://a.example").await, "https://a.example");
    assert_eq!(allowed("https://b.example").await, "");
    for (host, status) in [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8080", 421),
    ] {
        assert_eq!(send(&service, "GET", "/healthz", &[("host", host)]).await.status, status, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_identifiers() {
    let service = service(&settings());
    let given = send(&service, "GET", "/readyz", &[("x-request-id", "a-1.b_2")]).await;
    assert_eq!(given.header("x-request-id"), "a-1.b_2");
    assert_eq!(get(&service, "/readyz").await.header("x-request-id").len(), 36);
}

/// Large references are sent while they are written, with the length and content that the command writes.
#[tokio::test(flavor = "multi_thread")]
async fn large_references_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tif"), strips(100_000)).unwrap();
    let root = format!("file://{}", folder.path().display());
    let service = service(&Settings { allow: vec![root.clone()], ..Settings::default() });
    let expected = references(&format!("{root}/a.tif"), Format::KERCHUNK_JSON).await;
    assert!(expected.len() > 4 << 20);
    let answer = get(&service, &format!("/v1/references?url={root}/a.tif")).await;
    assert_eq!(answer.header("content-length"), expected.len().to_string());
    assert!(answer.body == expected);
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

/// A source that another file names is read only if it is allowed itself. OME-TIFF, virtual datasets and external data
/// pass the same check.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn links_out_of_allowed_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(fixtures().join("hdf5/chunked.h5"), folder.path().join("a.h5")).unwrap();
    let root = format!("file://{}", folder.path().display());
    let service = service(&Settings { allow: vec![root.clone()], ..Settings::default() });
    let answer = get(&service, &format!("/v1/references?url={root}/a.h5")).await;
    assert_eq!(answer.problem(), (403, "not-allowed".to_owned()));
}
