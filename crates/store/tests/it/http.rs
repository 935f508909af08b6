//! HTTP servers that refuse requests, fail, replace the file, or support few features.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Response, Server, content, file, options, run};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{Access, Condition, StoreError, StoreOptions, open, probe};

fn token(token: &str) -> StoreOptions {
    let access = Access { bearer_token: Some(token.to_owned()), ..Access::default() };
    StoreOptions { access, ..options() }
}

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
fn a_busy_server_is_retried() {
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
    let with = token("abc");
    run(async {
        let object = open(&format!("{}/a", server.url), &with).await.unwrap();
        object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap();
    });
    let error = failure(&server, &options());
    assert_eq!(error.kind(), ReadErrorKind::Denied);
    assert!(format!("{:?}", error.remedy()).contains("BearerToken"));
    let anonymous = StoreOptions { access: Access { anonymous: true, ..with.access }, ..options() };
    assert_eq!(failure(&server, &anonymous).kind(), ReadErrorKind::Denied);
    assert!(!format!("{anonymous:?}").contains("abc"));
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    let with = token("abc");
    let error = run(open("http://example.invalid/a", &with)).unwrap_err();
    assert!(error.to_string().contains("https only"), "{error}");
}

/// Replaces the file after the first response, in the ways that a server can reveal.
fn changing(later: impl Fn(&crate::common::Request) -> Response + Send + Sync + 'static) -> ReadErrorKind {
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
    let ignores_if_match = |request: &crate::common::Request| {
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

/// Removes what a server may omit: the size of the file, the length of the response.
fn incomplete(request: &crate::common::Request, without_size: bool, without_length: bool) -> Response {
    let mut response = file(request, content(), "\"one\"");
    for (name, value) in &mut response.headers {
        if *name == "Content-Range" && without_size {
            *value = format!("{}/*", value.split('/').next().unwrap());
        }
    }
    if without_length {
        let mut chunked = format!("{:x}\r\n", response.body.len()).into_bytes();
        chunked.append(&mut response.body);
        chunked.extend_from_slice(b"\r\n0\r\n\r\n");
        response.body = chunked;
        response.headers.push(("Transfer-Encoding", "chunked".to_owned()));
    }
    response
}

#[test]
fn ranges_without_length_or_size_are_read() {
    for (without_size, without_length, head) in
        [(true, false, true), (false, true, true), (true, true, true), (true, true, false)]
    {
        let server =
            Server::start(move |request| match (request.method.as_str(), request.headers.get("range")) {
                ("HEAD", _) if head => file(request, content(), "\"one\""),
                ("HEAD", _) => Response::status(405),
                (_, Some(range)) if range == "bytes=-1" => {
                    let last = content().len() - 1;
                    let range = format!("bytes {last}-{last}/*");
                    Response { status: 206, headers: vec![("Content-Range", range)], body: vec![0] }
                }
                _ => incomplete(request, without_size, without_length),
            });
        run(async {
            let url = format!("{}/a", server.url);
            let object = open(&url, &options()).await.unwrap();
            assert_eq!(object.size(), content().len() as u64);
            let parts = object.read_ranges(&[ByteRange::new(900_000, 5)]).await.unwrap();
            assert_eq!(parts[0], content()[900_000..900_005]);
            let refused = probe(&url, 0, None, &options()).await.unwrap_err();
            assert!(matches!(refused, StoreError::Unreadable { .. }), "{refused}");
        });
    }
}

#[test]
fn a_whole_file_without_length() {
    let server = Server::start(|_| Response {
        status: 200,
        headers: vec![("Transfer-Encoding", "chunked".to_owned())],
        body: b"4\r\nabcd\r\n0\r\n\r\n".to_vec(),
    });
    let url = format!("{}/a", server.url);
    let object = run(open(&url, &options())).unwrap();
    assert_eq!((object.size(), object.supports_ranges()), (4, false));
    let error = run(open(&url, &StoreOptions { whole_limit: 3, ..options() })).unwrap_err();
    assert!(matches!(error, StoreError::NoRanges { limit: 3, .. }), "{error}");
    assert!(matches!(run(probe(&url, 0, None, &options())), Err(StoreError::Unreadable { .. })));
}

#[test]
fn a_page_instead_of_the_file() {
    for status in [200, 206] {
        let server = Server::start(move |request| {
            let page = file(request, b"\n<!DOCTYPE html><title>Sign in</title>", "\"page\"");
            Response { status, ..page }
        });
        let error = failure(&server, &options());
        assert!(matches!(error, StoreError::Page { .. }), "{error}");
        assert_eq!(error.kind(), ReadErrorKind::Unavailable, "the file did not fail");
    }
}

#[test]
fn conditions_of_readers() {
    let server = Server::of_file(content());
    let condition = |condition| run(probe(&format!("{}/a", server.url), 9, Some(&condition), &options()));
    assert_eq!(condition(Condition::Tag("\"one\"".to_owned())), Ok(()));
    assert!(matches!(condition(Condition::Tag("one".to_owned())), Err(StoreError::Changed { .. })));
    // Sat, 21 Nov 2026 10:00:00 GMT
    assert_eq!(condition(Condition::NotModifiedSince(1_795_255_200)), Ok(()));
    assert!(matches!(condition(Condition::NotModifiedSince(1_795_255_199)), Err(StoreError::Changed { .. })));
}

/// Reads a file whose responses have the entity tags that a function returns for each request, with or without conditional
/// requests.
fn tagged(
    tag: impl Fn(usize) -> String + Send + Sync + 'static,
    is_conditional: bool,
) -> Result<(), ReadErrorKind> {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let mut request = request.clone();
        if !is_conditional {
            request.headers.remove("if-match");
        }
        file(&request, content(), &tag(count.fetch_add(1, Ordering::Relaxed)))
    });
    run(async {
        let object = open(&format!("{}/a", server.url), &options()).await.unwrap();
        for start in [900_000, 500_000] {
            object.drop_cached();
            let read = object.read_ranges(&[ByteRange::new(start, 5)]).await;
            let at = usize::try_from(start).unwrap();
            assert_eq!(read.map_err(|error| error.kind)?[0], content()[at..at + 5]);
        }
        Ok(())
    })
}

#[test]
fn mirrors_with_tags_of_their_own_are_read() {
    for is_conditional in [true, false] {
        assert_eq!(tagged(|n| format!("\"{}\"", n % 3), is_conditional), Ok(()), "mirrors take turns");
        assert_eq!(tagged(|n| format!("\"{n}\""), is_conditional), Ok(()), "no tag occurs twice");
        let weak = |n| if n % 2 == 0 { "\"a\"".to_owned() } else { "W/\"a\"".to_owned() };
        assert_eq!(tagged(weak, is_conditional), Ok(()), "a proxy weakens tags");
        let changed = |n| if n == 0 { "\"a\"".to_owned() } else { "\"b\"".to_owned() };
        assert_eq!(tagged(changed, is_conditional), Err(ReadErrorKind::Changed));
        let two = |n| if n == 0 { "\"a\"".to_owned() } else { format!("\"b{}\"", n % 2) };
        assert_eq!(tagged(two, is_conditional), Err(ReadErrorKind::Changed));
    }
}

#[test]
fn redirects_are_followed_without_the_token_and_not_forever() {
    let target = Server::of_file(b"bytes");
    let url = format!("{}/b", target.url);
    let server = Server::start(move |request| {
        let location = if request.target == "/loop" { "/loop".to_owned() } else { url.clone() };
        Response { status: 302, headers: vec![("location", location)], body: vec![] }
    });
    let with = token("abc");
    let object = run(open(&format!("{}/a", server.url), &with)).unwrap();
    assert_eq!(object.size(), 5);
    assert!(server.requests().iter().all(|request| request.headers.contains_key("authorization")));
    assert!(target.requests().iter().all(|request| !request.headers.contains_key("authorization")));
    let never = StoreOptions { retries: 0, ..options() };
    let error = run(open(&format!("{}/loop", server.url), &never)).unwrap_err();
    assert!(error.to_string().contains("more than 10 redirects"), "{error}");
}

#[test]
fn without_tokio_a_url_is_an_error() {
    let error = futures::executor::block_on(open("http://127.0.0.1:9/a.nc", &options())).unwrap_err();
    assert!(error.to_string().contains("needs the async runtime tokio"), "{error}");
}
