//! Serves a folder like S3, with the latency and bandwidth of a network, and counts requests:
//! `range_server ROOT PORT [LATENCY_MS] [MIB_PER_S]`. Build it with
//!
//! ```sh
//! cargo build --release --locked --package virtualize-server --example range_server
//! ```
//!
//! - `GET` and `HEAD /bucket/KEY`, with `Range` and `If-Match`
//! - `GET /bucket?list-type=2`, with `prefix`, `delimiter`, `start-after`, `continuation-token` and `max-keys`
//! - `GET /__stats`: `requests`, `bytes` of bodies, `peak` of concurrent requests, `rounds`, and `log` (method, name,
//!   offset, length, time in seconds); `?reset=1` resets them afterwards
//!
//! A request waits for LATENCY_MS, then its body flows at MIB_PER_S, which the requests of a connection share. `rounds`
//! is the length of the longest chain of requests in which each may depend on the previous one, because it starts at
//! least one latency (less a tenth, for timers) after it. The server listens on loopback only, and serves HTTP/1.1 and,
//! by prior knowledge, HTTP/2.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "a program")]

mod answer;
mod listing;
mod stats;

use std::{
    convert::Infallible,
    error::Error,
    fs, io,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    header,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep_until},
};

use answer::{Answer, Content};
use stats::{Open, Stats};

/// Tokio's timers end at the next millisecond or the one after it.
const TIMER_DELAY: Duration = Duration::from_millis(1);
const BYTES_PER_FRAME: Range<u64> = 16 << 10..256 << 10;

type Body = UnsyncBoxBody<Bytes, io::Error>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, port] =
        arguments.first_chunk().ok_or("usage: range_server ROOT PORT [LATENCY_MS] [MIB_PER_S]")?;
    let number = |index: usize| arguments.get(index).map_or(Ok(0), |text| text.parse::<u32>());
    let server = Arc::new(Server {
        root: fs::canonicalize(root)?,
        latency: Duration::from_millis(number(2)?.into()),
        bytes_per_second: u64::from(number(3)?) << 20,
        stats: Mutex::default(),
    });
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream, Arc::clone(&server)));
    }
}

/// Serves the requests of one connection.
async fn serve(stream: TcpStream, server: Arc<Server>) {
    let http2 = is_http2(&stream).await;
    let connection = Arc::new(Connection { server, free: Mutex::new(Instant::now()) });
    let service = service_fn(move |request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let stream = TokioIo::new(stream);
    // A client that closes its connection is not an error.
    let _ = if http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await
    } else {
        http1::Builder::new().serve_connection(stream, service).await
    };
}

/// Whether a client starts with the preface of HTTP/2.
async fn is_http2(stream: &TcpStream) -> bool {
    let mut start = [0; 4];
    matches!(stream.peek(&mut start).await, Ok(4)) && &start == b"PRI "
}

struct Server {
    root: PathBuf,
    latency: Duration,
    /// Bandwidth of a connection; 0 is unlimited.
    bytes_per_second: u64,
    stats: Mutex<Stats>,
}

struct Connection {
    server: Arc<Server>,
    /// Time until which the bandwidth is used.
    free: Mutex<Instant>,
}

impl Connection {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let query = listing::query(request.uri().query().unwrap_or_default());
        if request.uri().path() == "/__stats" {
            return self.stats(query.contains_key("reset"));
        }
        let (open, start) = (Open::new(&self.server), SystemTime::now());
        pause_until(Instant::now() + self.server.latency).await;
        let answer = if query.contains_key("list-type") {
            listing::page(&self.server.root, request.uri().path(), &query).map(Answer::xml)
        } else {
            answer::object(&self.server.root, &request)
        };
        let answer = answer.unwrap_or_else(|error| Answer::error(&error));
        self.server.stats.lock().unwrap().record(request.method(), &answer.name, &answer.range, start);
        self.respond(request.method(), answer, open)
    }

    fn stats(self: Arc<Self>, reset: bool) -> Response<Body> {
        let mut stats = self.server.stats.lock().unwrap();
        let body = Bytes::from(stats.to_json().to_string());
        if reset {
            stats.reset();
        }
        drop(stats);
        Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync())
    }

    fn respond(self: Arc<Self>, method: &Method, answer: Answer, open: Open) -> Response<Body> {
        let head = answer.head.header(header::CONTENT_LENGTH, answer.range.end - answer.range.start);
        let range = if method == Method::HEAD { 0..0 } else { answer.range };
        let body =
            Paced { connection: self, content: answer.content, range, clock: Instant::now(), _open: open };
        head.body(StreamBody::new(stream::unfold(body, Paced::next)).boxed_unsync()).unwrap()
    }

    /// Reserves the bandwidth of a frame from `earliest` on; returns the time at which it has arrived.
    fn reserve(&self, earliest: Instant, length: u64) -> Instant {
        let mut free = self.free.lock().unwrap();
        *free =
            earliest.max(*free) + Duration::from_nanos(length * 1_000_000_000 / self.server.bytes_per_second);
        *free
    }
}

async fn pause_until(time: Instant) {
    let time = time - TIMER_DELAY;
    if time > Instant::now() {
        sleep_until(time).await;
    }
}

/// A body that flows at the bandwidth of its connection.
struct Paced {
    connection: Arc<Connection>,
    content: Content,
    range: Range<u64>,
    /// Time at which the previous frame should have arrived.
    clock: Instant,
    _open: Open,
}

impl Paced {
    /// Returns the next frame when it has arrived.
    async fn next(mut self) -> Option<(io::Result<Frame<Bytes>>, Self)> {
        if self.range.is_empty() {
            return None;
        }
        let frame = self.read();
        let length = frame.as_ref().map_or(0, |frame| frame.len() as u64);
        self.range.start += length;
        if self.connection.server.bytes_per_second > 0 {
            self.clock = self.connection.reserve(self.clock, length);
            pause_until(self.clock).await;
        }
        Some((frame.map(Frame::data), self))
    }

    fn read(&self) -> io::Result<Bytes> {
        // A frame takes about a millisecond, which is the precision of a timer.
        let length = (self.connection.server.bytes_per_second / 1000)
            .clamp(BYTES_PER_FRAME.start, BYTES_PER_FRAME.end);
        let end = self.range.end.min(self.range.start + length);
        self.content.read(self.range.start..end)
    }
}
