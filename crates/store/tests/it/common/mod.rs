//! A small loopback HTTP server, with one thread per connection, whose responses each test defines.

#![allow(unreachable_pub, reason = "tests are not an API")]
#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

pub mod faulty;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_store::StoreOptions;

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
}

/// The response to a request.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(status: u16) -> Self {
        Self { status, headers: vec![], body: vec![] }
    }
}

/// A running server, which stops with the test process.
pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (seen, answer) = (seen.clone(), answer.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&connection) else { return };
                    seen.lock().unwrap().push(request.clone());
                    let _ = send(connection, &request, answer(&request));
                });
            }
        });
        Self { url, requests }
    }

    /// Starts a server of one file that supports range requests and entity tags.
    pub fn of_file(content: &'static [u8]) -> Self {
        Self::start(move |request| file(request, content, "\"one\""))
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

pub fn read(connection: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(connection).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let headers = headers
        .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())))
        .collect();
    Some(Request { method, target, headers })
}

pub fn send(mut connection: TcpStream, request: &Request, response: Response) -> std::io::Result<()> {
    write!(connection, "HTTP/1.1 {} x\r\nConnection: close\r\n", response.status)?;
    for (name, value) in &response.headers {
        write!(connection, "{name}: {value}\r\n")?;
    }
    if !response.headers.iter().any(|(name, _)| *name == "Content-Length" || *name == "Transfer-Encoding") {
        write!(connection, "Content-Length: {}\r\n", response.body.len())?;
    }
    write!(connection, "\r\n")?;
    if request.method != "HEAD" {
        connection.write_all(&response.body)?;
    }
    connection.flush()
}

/// Responds as a server that supports range requests and entity tags (RFC 9110, sections 13 and 14).
pub fn file(request: &Request, content: &[u8], etag: &str) -> Response {
    if request.headers.get("if-match").is_some_and(|wanted| wanted != etag) {
        return Response::status(412);
    }
    let modified = ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT".to_owned());
    // Times in this form are compared as text: tests use one day.
    if request.headers.get("if-unmodified-since").is_some_and(|wanted| *wanted < modified.1) {
        return Response::status(412);
    }
    let mut headers = vec![("ETag", etag.to_owned()), modified];
    let Some(range) = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return Response { status: 200, headers, body: content.to_vec() };
    };
    let (start, end) = range.split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    if start >= content.len() {
        return Response::status(416);
    }
    let end = end.parse().map_or(content.len(), |end: usize| (end + 1).min(content.len()));
    headers.push(("Content-Range", format!("bytes {start}-{}/{}", end - 1, content.len())));
    Response { status: 206, headers, body: content[start..end].to_vec() }
}

/// Runs a future that performs I/O.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns options with few retries.
pub fn options() -> StoreOptions {
    StoreOptions { retries: 2, ..StoreOptions::default() }
}

/// Returns one megabyte of bytes that depend on their position.
pub fn content() -> &'static [u8] {
    static CONTENT: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        (0..1_000_003_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    });
    &CONTENT
}

/// Checks what any source of [`content`] must do, regardless of its backend.
pub async fn conforms(source: &dyn ReadRanges) {
    let content = content();
    let size = content.len() as u64;
    assert_eq!(source.size(), size);
    let batches: &[&[(u64, u64)]] = &[
        &[],
        &[(0, 8)],
        &[(0, size)],
        &[(size - 3, 3), (0, 1), (size / 2, 70_000), (0, 1), (131_070, 4)],
        &[(size - 3, 10), (size, 1), (size + 5, 5), (u64::MAX, u64::MAX), (7, 0)],
        &[(100, 50), (120, 100), (149, 1), (60_000, 0)],
    ];
    for batch in batches {
        let ranges: Vec<_> = batch.iter().map(|&(start, length)| ByteRange::new(start, length)).collect();
        let parts = source.read_ranges(&ranges).await.unwrap();
        assert_eq!(parts.len(), ranges.len());
        for (range, part) in ranges.iter().zip(parts) {
            let expected = range.clamp_to(size);
            assert_eq!(part, content[expected.start as usize..expected.end() as usize], "{range}");
        }
    }
    let many: Vec<_> = (0..500).map(|n| ByteRange::new(n * 1999 % size, 17)).collect();
    for (range, part) in many.iter().zip(source.read_ranges(&many).await.unwrap()) {
        assert_eq!(part, content[range.start as usize..range.end() as usize], "{range}");
    }
}

/// Recognizes folders that have a file `root`, and otherwise files whose keys start with `ours.`
pub const OUTPUTS: virtualize_store::Recognizer = virtualize_store::Recognizer {
    documents: &["root"],
    foreign: |keys, documents| {
        let is_ours = |key: &str| key == "root" || key.starts_with("ours.") && !key.contains("thesis");
        let is_file = |key: &str| !key.ends_with(['/', ')']);
        keys.iter().find(|key| documents.is_empty() || !is_ours(key) || !is_file(key)).cloned()
    },
};
