//! Malicious requests: none makes the service fail, none reads beyond the allowed prefixes.

use std::{fs, os::unix::fs::symlink};

use crate::common::{fixtures, get, send, service, settings, store, url};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use virtualize_server::Settings;

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Returns disguised URLs that lead outside the allowed prefixes or to this machine.
fn elsewhere() -> Vec<String> {
    let good = url("hdf5");
    let steps = [
        "..",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%252e%252e",
        "%25252e%25252e",
        "..%2f",
        "%c0%ae%c0%ae",
        "\u{ff0e}\u{ff0e}",
        "..;",
        ".. ",
        "..%00",
        "...",
    ];
    let out = steps.iter().flat_map(|step| {
        [
            format!("{good}/{step}/README.md"),
            format!("{good}/chunked.h5/{step}/{step}/README.md"),
            format!("{good}/{step}%2fREADME.md"),
        ]
    });
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "127.0.0.1.nip.io",
        "①②⑦.0.0.1",
        "user@127.0.0.1",
        "allowed.example@127.0.0.1",
        "127.0.0.1#allowed.example",
        "127.0.0.1?allowed.example",
        "allowed.example%2f@127.0.0.1",
        "allowed.example\\@127.0.0.1",
    ];
    let web =
        hosts.iter().flat_map(|host| [format!("http://{host}/a/x.h5"), format!("https://{host}:443/a/x.h5")]);
    let files = [
        "file://localhost/etc/passwd",
        "file://127.0.0.1/etc/passwd",
        "file:////etc/passwd",
        "file:/etc/passwd",
        "file:etc/passwd",
        "FILE:///etc/passwd",
        "file:///etc/passwd%00.h5",
        "\u{feff}file:///etc/passwd",
        " file:///etc/passwd",
        "/etc/passwd",
        "zip://a::file:///etc/passwd",
        "s3://allowed/../other/x",
        "s3://allowed/%2e%2e/other/x",
        "s3://allowed@other/x",
        "s3://allowed:443/x",
        "memory://x",
        "data:,x",
    ];
    out.chain(web).chain(files.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leads_elsewhere() {
    let mut settings = settings();
    settings.allow.extend(["s3://allowed/".to_owned(), "https://allowed.example/a/".to_owned()]);
    let service = service(&settings);
    for hostile in elsewhere() {
        let query = encoded(&hostile);
        let mut targets = vec![
            format!("/v1/references?url={query}"),
            format!("/v1/inspect?url={query}"),
            format!("/v1/chunks?array=x&url={query}"),
            format!("/v1/zarr/{query}/zarr.json"),
            format!("/v1/plain/{query}/zarr.json"),
            format!("/v1/values/{query}?array=x"),
            format!("/v1/references?url={hostile}"),
        ];
        targets.push(format!("/v1/zarr/{}/zarr.json", BASE64_URL_SAFE_NO_PAD.encode(&hostile)));
        for target in targets.iter().filter(|target| target.parse::<axum::http::Uri>().is_ok()) {
            let answer = get(&service, target).await;
            let (status, code) = answer.problem();
            assert!([400, 403, 404].contains(&status), "{target}: {status} {code}");
        }
    }
}

/// Sends methods, conditions, ranges and codings of every kind to every route.
#[tokio::test(flavor = "multi_thread")]
async fn methods_and_headers_of_any_kind_are_answered() {
    let service = service(&settings());
    let source = url("hdf5/chunked.h5");
    let store = store(&service, &source).await;
    let store = store.trim_start_matches("/v1/zarr/");
    let quoted = encoded(&source);
    let targets = [
        format!("/v1/references?url={quoted}"),
        format!("/v1/inspect?url={quoted}&places=10"),
        format!("/v1/chunks?url={quoted}&array=/temperature"),
        format!("/v1/zarr/{store}/zarr.json"),
        format!("/v1/zarr/{store}/temperature/c/0/0"),
        format!("/v1/plain/{store}/temperature/c/0/0"),
        format!("/v1/values/{store}?array=temperature&select=0:9:2,1"),
        "/".to_owned(),
        "/v1/openapi.json".to_owned(),
        "/v1/about".to_owned(),
        "/metrics".to_owned(),
        "/healthz".to_owned(),
        "/none".to_owned(),
    ];
    let headers: [&[(&str, &str)]; 22] = [
        &[],
        &[("accept-encoding", "br, zstd;q=0.5, gzip;q=0.7, *;q=0")],
        &[("accept-encoding", "gzip;q=NaN, zstd;q=-1, identity;q=0")],
        &[("accept-encoding", "zstd, zstd, zstd;q=2")],
        &[("range", "bytes=0-0")],
        &[("range", "bytes=0-0"), ("accept-encoding", "gzip")],
        &[("range", "bytes=-0")],
        &[("range", "bytes=18446744073709551615-")],
        &[("range", "bytes=18446744073709551615-18446744073709551615")],
        &[("range", "bytes=-18446744073709551616")],
        &[("range", "bytes=5-2,7-9")],
        &[("range", "bytes=0-1"), ("range", "bytes=2-3")],
        &[("range", "bytes=0-3"), ("if-range", "\"x\"")],
        &[("range", "bytes=0-3"), ("if-none-match", "*")],
        &[("if-none-match", "*")],
        &[("if-none-match", "W/\"a\", \"b\",,,\"")],
        &[("if-modified-since", "never"), ("if-match", "\"x\"")],
        &[("origin", "https://evil.example"), ("access-control-request-method", "DELETE")],
        &[("host", "evil.example")],
        &[("authorization", "Bearer"), ("x-forwarded-for", "::1, 127.0.0.1")],
        &[("x-request-id", "a b\u{7f}"), ("last-event-id", "-1")],
        &[("content-length", "5"), ("transfer-encoding", "chunked"), ("expect", "100-continue")],
    ];
    for target in &targets {
        for method in
            ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND"]
        {
            for headers in headers {
                if headers.iter().any(|(_, value)| axum::http::HeaderValue::from_str(value).is_err()) {
                    continue;
                }
                let answer = send(&service, method, target, headers).await;
                assert!(answer.status.as_u16() < 500, "{method} {target} {headers:?}: {}", answer.status);
                if method == "HEAD" {
                    assert!(answer.body.is_empty(), "{target}");
                    let full = send(&service, "GET", target, headers).await;
                    assert_eq!(full.status, answer.status, "{target} {headers:?}");
                    for name in ["etag", "content-type", "content-encoding", "content-range"] {
                        assert_eq!(full.header(name), answer.header(name), "{target} {headers:?} {name}");
                    }
                }
            }
        }
    }
}

/// A file is repeatedly replaced by a link to one outside the allowed prefix, between check and opening.
#[tokio::test(flavor = "multi_thread")]
async fn links_that_come_and_go_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::copy(fixtures().join("hdf5/chunked.h5"), folder.path().join("good.h5")).unwrap();
    let (path, secret) = (inside.join("a.h5"), fixtures().join("hdf5/types.h5"));
    let settings = Settings { allow: vec![format!("file://{}", inside.display())], ..settings() };
    let service = service(&settings);
    let (swapped, good) = (path.clone(), folder.path().join("good.h5"));
    let aside = inside.join("aside");
    let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let end = std::sync::Arc::clone(&ends);
    let swapper = std::thread::spawn(move || {
        while !end.load(std::sync::atomic::Ordering::Relaxed) {
            symlink(&secret, &aside).unwrap();
            fs::rename(&aside, &swapped).unwrap();
            fs::hard_link(&good, &aside).unwrap();
            fs::rename(&aside, &swapped).unwrap();
        }
    });
    let target = format!("/v1/inspect?url=file://{}", path.display());
    let (mut shown, mut refused) = (0, 0);
    while shown < 50 || refused < 50 {
        let answer = get(&service, &target).await;
        match answer.status.as_u16() {
            200 => {
                assert!(
                    answer.json()["root"]["children"].get("temperature").is_some(),
                    "the file outside was read"
                );
                shown += 1;
            }
            403 | 404 | 409 => refused += 1,
            _ => panic!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
        }
    }
    ends.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(shown > 0 && refused > 0, "{shown} {refused}");
}
