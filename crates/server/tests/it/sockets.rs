//! Misbehaving connections, and an orderly shutdown, over real sockets.

use std::{fs, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use virtualize_server::{Running, Settings, start};

use crate::{
    common::{settings, url},
    memory::strip,
};

/// Time after which the service counts as hung; far longer than any step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn running(settings: Settings) -> Running {
    let settings = Settings { listen: Some("127.0.0.1:0".parse().unwrap()), ..settings };
    start(settings.check().unwrap()).await.unwrap()
}

/// Reads a connection until its end.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut text)).await.expect("the connection ends");
    String::from_utf8_lossy(&text).into_owned()
}

async fn ask(running: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

fn http(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

/// Repeats a request until it succeeds.
async fn until_good(running: &Running, target: &str) {
    let asking = async {
        while !ask(running, &http(target)).await.contains(" 200 OK\r\n") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, asking).await.expect("the request succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_a_socket() {
    let running = running(settings()).await;
    let text = ask(&running, &http(&format!("/v1/references?url={}", url("hdf5/chunked.h5")))).await;
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("}}\n"), "{text}");
    running.stop().await;
}

/// A head that is not sent in time ends the connection, and so does a response that is not received.
#[tokio::test(flavor = "multi_thread")]
async fn slow_connections_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tif"), strip()).unwrap();
    let root = format!("file://{}", folder.path().display());
    let running = running(Settings { allow: vec![root.clone()], ..Settings::default() }).await;
    let silent = async {
        for start in ["", "GET /healthz HTTP/1.1\r\nhost: local"] {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(start.as_bytes()).await.unwrap();
            rest(&mut stream).await;
        }
    };
    let dripping = async {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        while stream.write_all(b"GET").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let unread = async {
        let chunk = format!("{}/band_data/c/0/0/0", location(&running, &format!("{root}/a.tif")).await);
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        // More responses than the buffers can hold.
        let request = format!("GET {chunk} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        while stream.write_all(request.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LIMIT, async { tokio::join!(silent, dripping, unread) }).await.expect("they are closed");
    running.stop().await;
}

/// Returns the path of the store of a source.
async fn location(running: &Running, source: &str) -> String {
    let source = percent_encoding::utf8_percent_encode(source, percent_encoding::NON_ALPHANUMERIC);
    let text = ask(running, &http(&format!("/v1/zarr/{source}"))).await;
    let line = text.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// With 1,000 connections that send no request, or receive no response, requests of others succeed.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_do_not_stop_the_service() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.tif"), strip()).unwrap();
    fs::copy(crate::common::fixtures().join("hdf5/chunked.h5"), folder.path().join("b.h5")).unwrap();
    let root = format!("file://{}", folder.path().display());
    let running = running(Settings { allow: vec![root.clone()], ..Settings::default() }).await;
    let store = location(&running, &format!("{root}/a.tif")).await;
    let inspect = format!("/v1/inspect?url={root}/a.tif&places=100");
    let mut slow = Vec::new();
    for at in 0..1000 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let request = match at % 4 {
            0 => String::new(),
            1 => "GET /healthz HTTP/1.1\r\nhost: local".to_owned(),
            2 => format!("GET {store}/band_data/c/0/0/0 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            _ => format!("GET {inspect} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(50),
        };
        stream.write_all(request.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = location(&running, &format!("{root}/b.h5")).await;
    for target in [
        "/healthz".to_owned(),
        inspect,
        format!("/v1/references?url={root}/b.h5"),
        format!("{other}/zarr.json"),
        format!("{other}/temperature/c/0/0"),
        format!("{store}/band_data/c/0/0/0"),
    ] {
        let text = ask(&running, &http(&target)).await;
        assert!(text.contains(" 200 OK\r\n"), "{target}: {}", text.lines().next().unwrap_or_default());
    }
    drop(slow);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_heads_are_refused() {
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
        let text = rest(&mut stream).await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert!(ask(&running, "GET /healthz HTTP/1.0\r\n\r\n").await.contains("200 OK"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_may_be_idle_between_requests() {
    let running = running(settings()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"ok\n") {
            text.push(timeout(LIMIT, stream.read_u8()).await.unwrap().expect("the connection is open"));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_does_not_delay_the_stop() {
    let running = running(settings()).await;
    let address = running.address;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    timeout(Duration::from_secs(15), running.stop()).await.expect("it stops at once");
    assert!(TcpStream::connect(address).await.is_err(), "it no longer listens");
}

/// Starts a web server that accepts and counts connections, but never responds.
async fn silent() -> (String, Arc<Semaphore>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let accepted = Arc::new(Semaphore::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept().await {
            held.push(connection);
            count.add_permits(1);
        }
    });
    (url, accepted)
}

/// Beyond the limit of concurrent requests, the service responds with 503 at once, except to liveness checks.
#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_end_and_release_their_permits() {
    let (source, accepted) = silent().await;
    let slow = http(&format!("/v1/references?url={source}a"));
    let quick = format!("/v1/references?url={}", url("hdf5/chunked.h5"));
    let allow = [settings().allow, vec![source]].concat();
    let settings = Settings { allow, concurrency: Some(1), ..settings() };

    let patient = running(Settings { request_time: Some(3600), ..settings.clone() }).await;
    let mut leaving = TcpStream::connect(patient.address).await.unwrap();
    leaving.write_all(slow.as_bytes()).await.unwrap();
    timeout(LIMIT, accepted.acquire()).await.expect("the source is requested").unwrap().forget();
    let text = ask(&patient, &http(&quick)).await;
    assert!(text.contains(" 503 "), "{text}");
    assert!(text.to_lowercase().contains("retry-after: 1") && text.contains("\"busy\""), "{text}");
    assert!(ask(&patient, &http("/healthz")).await.contains(" 200 OK"));
    // The client disconnects, and its permit is free long before the timeout.
    drop(leaving);
    until_good(&patient, &quick).await;
    patient.stop().await;

    let hasty = running(Settings { request_time: Some(1), ..settings }).await;
    let text = ask(&hasty, &slow).await;
    assert!(text.contains(" 504 ") && text.contains("\"time\""), "{text}");
    until_good(&hasty, &quick).await;
    hasty.stop().await;
}
