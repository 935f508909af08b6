//! HTTP servers that refuse requests, fail, replace the file, or support few features.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Response, Server, content, file, options, run};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{StoreError, StoreOptions, open};

fn failure(server: &Server, options: &StoreOptions) -> StoreError {
    run(open(&format!("{}/dir/a.nc?Signature=secret", server.url), options)).unwrap_err()
}

#[test]
fn a_small_file_costs_one_request() {
    let server = Server::of_file(&content()[..100_000]);
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        let ranges = [ByteRange::new(0, 10), ByteRange::new(99_000, 1000)];
        let parts = object.read_ranges(&ranges).await.unwrap();
        assert_eq!(parts[1], content()[99_000..100_000]);
        let stats = object.stats();
        assert_eq!((stats.requests, stats.bytes), (1, 100_000));
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn neighbours_are_fetched_together_and_once() {
    let server = Server::of_file(content().repeat(5).leak());
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        let ranges: Vec<_> = (0..20).map(|n| ByteRange::new(500_000 + n * 1000, 100)).collect();
        object.read_ranges(&ranges).await.unwrap();
        object.read_ranges(&ranges).await.unwrap();
        assert_eq!(object.stats().requests, 2, "the first bytes, and one for all of these");
    });
}

#[test]
fn a_file_that_is_not_large_is_fetched_whole_at_its_second_read() {
    let server = Server::of_file(content());
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        object.read_ranges(&[ByteRange::new(500_000, 10)]).await.unwrap();
        let stats = object.stats();
        assert_eq!(stats.bytes, content().len() as u64, "no byte twice");
        object.read_ranges(&[ByteRange::new(900_000, 10), ByteRange::new(200_000, 10)]).await.unwrap();
        assert_eq!(object.stats().requests, stats.requests);
    });
}

#[test]
fn refusals_have_their_class_and_show_no_signature() {
    let cases = [
        (404, ReadErrorKind::NotFound),
        (401, ReadErrorKind::Denied),
        (403, ReadErrorKind::Denied),
        (400, ReadErrorKind::Unavailable),
        (500, ReadErrorKind::Unavailable),
    ];
    for (status, kind) in cases {
        let server = Server::start(move |_| Response::status(status));
        let error = failure(&server, &options());
        assert_eq!(error.kind(), kind, "{status}: {error}");
        let text = error.to_string();
        assert!(text.contains("/dir/a.nc") && !text.contains("secret") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn nobody_listens() {
    let error = run(open("http://127.0.0.1:9/a", &StoreOptions { retries: 0, ..options() })).unwrap_err();
    assert_eq!(error.kind(), ReadErrorKind::Unavailable);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Response::status(503),
        1 => Response::status(429),
        _ => file(request, b"content", "\"one\""),
    });
    let object = run(open(&format!("{}/a", server.url), &options())).unwrap();
    assert_eq!((object.size(), server.requests().len()), (7, 3));
}

#[test]
fn the_token_goes_with_every_request() {
    let server = Server::start(|request| match request.headers.get("authorization").map(String::as_str) {
        Some("Bearer abc") => file(request, content(), "\"one\""),
        _ => Response::status(401),
    });
    let with = StoreOptions { bearer_token: Some("abc".to_owned()), ..options() };
    run(async {
        let object = open(&format!("{}/a", server.url), &with).await.unwrap();
        object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap();
    });
    let error = failure(&server, &options());
    assert_eq!(error.kind(), ReadErrorKind::Denied);
    assert!(format!("{:?}", error.remedy()).contains("BearerToken"));
    let anonymous = StoreOptions { anonymous: true, ..with };
    assert_eq!(failure(&server, &anonymous).kind(), ReadErrorKind::Denied);
    assert!(!format!("{anonymous:?}").contains("abc"));
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    let with = StoreOptions { bearer_token: Some("abc".to_owned()), ..options() };
    let error = run(open("http://example.invalid/a", &with)).unwrap_err();
    assert!(error.to_string().contains("https only"), "{error}");
}

/// Replaces the file after the first response, in the ways that a server can reveal.
fn changing(later: impl Fn(&common::Request) -> Response + Send + Sync + 'static) -> ReadErrorKind {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => file(request, content(), "\"one\""),
        _ => later(request),
    });
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap_err().kind
    })
}

#[test]
fn a_file_that_changes_is_noticed() {
    assert_eq!(changing(|request| file(request, content(), "\"two\"")), ReadErrorKind::Changed, "If-Match");
    let ignores_if_match = |request: &common::Request| {
        let mut plain = request.clone();
        plain.headers.remove("if-match");
        file(&plain, content(), "\"two\"")
    };
    assert_eq!(changing(ignores_if_match), ReadErrorKind::Changed, "etag of the answer");
    assert_eq!(changing(|request| file(request, &content()[1..], "\"one\"")), ReadErrorKind::Changed, "size");
    assert_eq!(
        changing(|request| file(request, &content()[..9], "\"one\"")),
        ReadErrorKind::Changed,
        "shorter"
    );
    assert_eq!(changing(|_| Response::status(404)), ReadErrorKind::NotFound);
}

#[test]
fn weak_etags_are_compared_but_not_demanded() {
    let server = Server::start(|request| {
        assert!(!request.headers.contains_key("if-match"), "a weak etag never matches (RFC 9110, 13.1.1)");
        file(request, content(), "W/\"one\"")
    });
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        let parts = object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap();
        assert_eq!(parts[0], content()[900_000..900_005]);
    });
}

#[test]
fn a_large_file_without_ranges_is_refused() {
    let server = Server::start(|_| Response {
        status: 200,
        headers: vec![("Content-Length", "100000000000".to_owned())],
        body: vec![],
    });
    let error = failure(&server, &options());
    assert!(matches!(error, StoreError::NoRanges { .. }), "{error}");
    assert_eq!(error.remedy(), Some(virtualize_remedy::Remedy::advice("download the file first")));
}

#[test]
fn an_empty_file_and_a_body_cut_short() {
    let server = Server::of_file(b"");
    assert_eq!(run(open(&format!("{}/a", server.url), &options())).unwrap().size(), 0);
    let server = Server::start(|request| {
        let mut answer = file(request, content(), "\"one\"");
        answer.headers.push(("Content-Length", answer.body.len().to_string()));
        answer.body.truncate(10);
        answer
    });
    assert_eq!(
        failure(&server, &StoreOptions { retries: 1, ..options() }).kind(),
        ReadErrorKind::Unavailable
    );
}

#[test]
fn a_chunked_answer_without_length() {
    let server = Server::start(|_| Response {
        status: 200,
        headers: vec![("Transfer-Encoding", "chunked".to_owned())],
        body: b"4\r\nabcd\r\n0\r\n\r\n".to_vec(),
    });
    let error = failure(&server, &options());
    assert_eq!(error.kind(), ReadErrorKind::Unavailable);
    assert!(error.to_string().to_lowercase().contains("content-length"), "{error}");
}
