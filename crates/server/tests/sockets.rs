//! Misbehaving connections, and an orderly shutdown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{settings, url};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use virtualize_server::{Running, Settings, start};

/// Time after which the service counts as hung; far longer than any step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn running(settings: Settings) -> Running {
    let settings = Settings { listen: Some("127.0.0.1:0".parse().unwrap()), ..settings };
    start(settings.check().unwrap()).await.unwrap()
}

/// Reads a connection until its end.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut text)).await.expect("the connection ends");
    String::from_utf8_lossy(&text).into_owned()
}

/// Repeats a request until it succeeds.
async fn until_good(running: &Running, request: &str) {
    let asking = async {
        while !asked(running, request).await.contains(" 200 OK\r\n") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, asking).await.expect("never goes well");
}

async fn asked(running: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_a_socket() {
    let running = running(settings()).await;
    let target = format!("/v1/references?url={}", url("hdf5/chunked.h5"));
    let text =
        asked(&running, &format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
            .await;
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("}}\n"), "{text}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_heads_are_cut_off() {
    let running = running(Settings { header_time: Some(1), idle_time: Some(1), ..settings() }).await;
    for start in
        ["", "GET /healthz HTTP/1.1\r\nhost: local", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        answer(&mut stream).await;
    }
    // A client that sends single bytes gets no extra time.
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let sent = async {
        while stream.write_all(b"GET").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(LIMIT, sent).await.expect("a head that never ends is cut off");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_too_large_are_refused() {
    let running = running(settings()).await;
    let long = "x".repeat(200_000);
    let many = "a: b\r\n".repeat(500);
    for head in [
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        "GET /healthz\r\n\r\n".to_owned(),
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".to_owned(),
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let _ = stream.write_all(head.as_bytes()).await;
        let text = answer(&mut stream).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert!(asked(&running, "GET /healthz HTTP/1.0\r\n\r\n").await.contains("200 OK"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_hold_nothing_up() {
    let running = running(Settings { connections: Some(50), header_time: Some(1), ..settings() }).await;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(running.address).await.unwrap());
    }
    until_good(&running, "GET /healthz HTTP/1.0\r\n\r\n").await;
    drop(held);
    running.stop().await;
}

/// Connects from an address that no other client of these tests uses.
async fn neighbour(running: &Running) -> TcpStream {
    from(2, running).await
}

/// Connects from one of the addresses of this machine.
async fn from(client: u8, running: &Running) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("127.0.0.{client}:0").parse().unwrap()).unwrap();
    socket.connect(running.address).await.unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_hold_up_nobody_else() {
    let running = running(Settings { connections: Some(60), header_time: Some(3600), ..settings() }).await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(TcpStream::connect(running.address).await.unwrap());
    }
    // All connections of this client are in use for an hour; further ones were refused.
    let mut told = 0;
    for stream in held.iter_mut().rev().take(200) {
        told += usize::from(answer(stream).await.starts_with("HTTP/1.1 429 "));
    }
    assert!(told > 0);
    for _ in 0..20 {
        let mut other = neighbour(&running).await;
        other.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        assert!(answer(&mut other).await.contains("200 OK"));
    }
    drop(held);
    running.stop().await;
}

/// Clients that request much and receive nothing use up only their own quotas, however many they are, and what they hold is
/// bounded.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_hold_up_nobody_else() {
    let settings = Settings { concurrent: Some(40), write_time: Some(3600), ..settings() };
    let running = running(settings).await;
    let target = format!("/v1/inspect?url={}&places=10000", url("hdf5/chunk_indexes.h5"));
    let many = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(2000);
    let mut slow = Vec::new();
    // Together these clients may have as many requests as the service works on.
    for at in 0..100 {
        let mut stream = from(3 + at % 5, &running).await;
        let request = many.clone();
        slow.push(tokio::spawn(async move {
            let _ = stream.write_all(request.as_bytes()).await;
            tokio::time::sleep(LIMIT).await;
            drop(stream);
        }));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..20 {
        let mut other = neighbour(&running).await;
        let request = format!("GET {target} HTTP/1.0\r\n\r\n");
        other.write_all(request.as_bytes()).await.unwrap();
        let text = answer(&mut other).await;
        assert!(text.contains(" 200 OK\r\n"), "{}", text.lines().next().unwrap_or_default());
    }
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    running.stop().await;
}

/// A client that first receives the buffered rest of its response, and only then sends the next request, is not
/// disconnected as if its request head were late.
#[tokio::test(flavor = "multi_thread")]
async fn clients_may_rest_between_requests() {
    let running = running(Settings { header_time: Some(1), ..settings() }).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"ok\n") {
            text.push(timeout(LIMIT, stream.read_u8()).await.unwrap().expect("it is not cut off"));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_take_nothing_are_left() {
    let running = running(Settings { write_time: Some(1), ..settings() }).await;
    let target = format!("/v1/inspect?url={}&places=10000", url("hdf5/chunk_indexes.h5"));
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // More responses than the buffers can hold.
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(200);
    let sent = async {
        for _ in 0..200 {
            if stream.write_all(request.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    timeout(LIMIT, sent).await.expect("clients that take nothing are left");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_does_not_delay_the_end() {
    let running = running(Settings { stop_time: Some(600), ..settings() }).await;
    let address = running.address;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    timeout(LIMIT, running.stop()).await.expect("it does not wait for its time to end");
    assert!(TcpStream::connect(address).await.is_err(), "it listens no more");
}

/// Starts a web server that accepts and counts connections, but never responds.
async fn silent() -> (String, Arc<Semaphore>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let taken = Arc::new(Semaphore::new(0));
    let tell = taken.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept().await {
            held.push(connection);
            tell.add_permits(1);
        }
    });
    (url, taken)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_ended_and_gives_its_place_back() {
    let (source, taken) = silent().await;
    let slow =
        format!("GET /v1/references?url={source}a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let quick = format!("GET /v1/references?url={} HTTP/1.0\r\n\r\n", url("hdf5/chunked.h5"));
    let allow = [settings().allow, vec![source]].concat();
    let settings = Settings { allow, concurrent: Some(1), queue_time: Some(1), ..settings() };

    let patient = running(Settings { request_time: Some(3600), ..settings.clone() }).await;
    let mut leaving = TcpStream::connect(patient.address).await.unwrap();
    leaving.write_all(slow.as_bytes()).await.unwrap();
    timeout(LIMIT, taken.acquire()).await.expect("the source is asked").unwrap().forget();
    let text = asked(&patient, &quick).await;
    assert!(text.contains(" 429 "), "{text}");
    assert!(text.to_lowercase().contains("retry-after: 1") && text.contains("\"requests\""), "{text}");
    // The client disconnects, and its permit is free long before the timeout.
    drop(leaving);
    until_good(&patient, &quick).await;
    patient.stop().await;

    let hasty = running(Settings { request_time: Some(1), ..settings }).await;
    let text = asked(&hasty, &slow).await;
    assert!(text.contains(" 504 ") && text.contains("\"time\""), "{text}");
    until_good(&hasty, &quick).await;
    hasty.stop().await;
}
