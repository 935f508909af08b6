//! Listed files: the requests they cost, the connections they share, and the check against their listing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Response, Server, content, file, options, run};
use futures::future::join_all;
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{Access, Listed, StoreOptions, open, open_listed};

fn at(endpoint: &str) -> StoreOptions {
    let access = Access { anonymous: true, endpoint: Some(endpoint.to_owned()), ..Access::default() };
    StoreOptions { access, ..options() }
}

fn s3(server: &Server) -> StoreOptions {
    at(&server.url)
}

fn listed(size: u64, etag: &str) -> Listed {
    Listed { size: Some(size), etag: Some(etag.to_owned()), ..Listed::of("s3://bucket/a.nc") }
}

#[test]
fn a_small_file_costs_exactly_one_request() {
    let server = Server::of_file(content());
    run(async {
        let object = open_listed(&listed(content().len() as u64, "one"), &s3(&server)).await.unwrap();
        let parts = object.read_ranges(&[ByteRange::new(900_000, 9), ByteRange::new(5, 9)]).await.unwrap();
        assert_eq!((&parts[0][..], &parts[1][..]), (&content()[900_000..900_009], &content()[5..14]));
        assert_eq!((object.stats().requests, object.stats().retries.all()), (1, 0));
        assert_eq!(object.etag(), Some("\"one\""));
    });
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method.as_str(), requests[0].headers["if-match"].as_str()), ("GET", "\"one\""));
}

#[test]
fn a_larger_file_gives_its_first_bytes() {
    let server = Server::of_file(content());
    let options = StoreOptions { small_file: 100_000, ..s3(&server) };
    let object = run(open_listed(&listed(content().len() as u64, "\"one\""), &options)).unwrap();
    assert_eq!((object.stats().requests, object.stats().bytes), (1, 128 << 10));
    assert_eq!(object.size(), content().len() as u64);
}

#[test]
fn files_that_changed_since_the_listing_are_noticed() {
    let server = Server::of_file(content());
    let size = content().len() as u64;
    for wrong in [listed(size, "two"), listed(size - 1, "one"), listed(size + 1, "one"), listed(0, "one")] {
        let error = run(open_listed(&wrong, &s3(&server))).unwrap_err();
        assert_eq!(error.kind(), ReadErrorKind::Changed, "{wrong:?}: {error}");
    }
    let older = Listed { size: Some(size), modified: Some(5000), ..Listed::of("s3://bucket/a.nc") };
    let error = run(open_listed(&older, &s3(&server))).unwrap_err();
    assert!(error.to_string().contains("modification time"), "{error}");
}

#[test]
fn a_server_that_ignores_if_match_is_seen_through() {
    let server = Server::start(|request| {
        let mut plain = request.clone();
        plain.headers.remove("if-match");
        file(&plain, content(), "\"two\"")
    });
    let error = run(open_listed(&listed(content().len() as u64, "one"), &s3(&server))).unwrap_err();
    assert!(error.to_string().contains("etag is not the one that was listed"), "{error}");
}

#[test]
fn local_files_are_what_was_listed_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nc");
    std::fs::write(&path, b"12345").unwrap();
    let of = |size| Listed { size: Some(size), ..Listed::of(path.to_str().unwrap()) };
    assert_eq!(run(open_listed(&of(5), &options())).unwrap().size(), 5);
    assert_eq!(run(open_listed(&of(6), &options())).unwrap_err().kind(), ReadErrorKind::Changed);
}

/// Returns the maximum number of concurrent requests that the server saw while 24 files were opened.
fn most_at_once(
    options: impl Fn(&Server) -> StoreOptions,
    location: impl Fn(&Server, usize) -> String,
) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (under_way, peak) = (now.clone(), most.clone());
    let server = Server::start(move |request| {
        peak.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        under_way.fetch_sub(1, Ordering::SeqCst);
        file(request, b"content", "\"one\"")
    });
    let options = options(&server);
    run(async {
        let opened = join_all((0..24).map(|n| {
            let (options, location) = (options.clone(), location(&server, n));
            async move { open(&location, &options).await }
        }));
        assert!(opened.await.into_iter().all(|object| object.is_ok()));
    });
    assert_eq!(server.requests().len(), 24);
    most.load(Ordering::SeqCst)
}

#[test]
fn requests_in_flight_are_limited_over_all_files() {
    let web = most_at_once(
        |_| StoreOptions { concurrency: 3, ..options() },
        |server, n| format!("{}/{n}.nc", server.url),
    );
    assert!((2..=3).contains(&web), "{web}");
    let bucket = most_at_once(
        |server| StoreOptions { concurrency: 3, ..s3(server) },
        |_, n| format!("s3://bucket{}/{n}.nc", n % 2),
    );
    assert!((2..=3).contains(&bucket), "{bucket}");
}

/// Opens `count` files in sequence from a server with persistent connections; returns the number of connections.
async fn connections(count: usize, location: impl Fn(&str, usize) -> Listed, bucket: bool) -> usize {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let seen = accepted.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            seen.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let (from, mut to) = socket.into_split();
                let mut lines = BufReader::new(from).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line.is_empty() {
                        let answer = "HTTP/1.1 206 x\r\nETag: \"one\"\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/4\r\n\r\nabcd";
                        to.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    let options = match bucket {
        true => at(&url),
        false => options(),
    };
    for n in 0..count {
        let object = open_listed(&location(&url, n), &options.clone()).await.unwrap();
        assert_eq!(object.read_ranges(&[ByteRange::new(1, 2)]).await.unwrap()[0], "bc");
    }
    accepted.load(Ordering::SeqCst)
}

#[test]
fn files_share_connections() {
    let web = |url: &str, n| Listed::of(format!("{url}/{n}.nc?sig={n}"));
    assert_eq!(run(connections(10, web, false)), 1);
    let bucket = |_: &str, n| Listed { size: Some(4), ..Listed::of(format!("s3://bucket/{n}.nc")) };
    assert_eq!(run(connections(10, bucket, true)), 1);
}

#[test]
fn a_try_after_a_failure_is_counted() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Response::status(503),
        _ => file(request, b"content", "\"one\""),
    });
    let object = run(open_listed(&listed(7, "one"), &s3(&server))).unwrap();
    assert_eq!((object.stats().requests, object.stats().retries.all()), (1, 2), "tries");
}
