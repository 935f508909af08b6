//! A server of one S3 object that fails as scripted, one fault per request, and then serves it correctly.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Request, Response, file, read, send};

/// Fault of the response to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No fault.
    None,
    /// A response with this status, S3 error code and message, and `Retry-After` in seconds.
    Refused(u16, &'static str, Option<u64>),
    /// The connection is reset before the response.
    Reset,
    /// The connection is closed before the response.
    Closed,
    /// The response is not HTTP.
    Garbage,
    /// No response for this duration; then the connection closes.
    Stalled(Duration),
    /// The body ends after this many bytes, fewer than `Content-Length` states.
    Truncated(usize),
    /// The body stalls after this many bytes, for this duration.
    StalledBody(usize, Duration),
    /// `Content-Length` matches the body, which is this many bytes shorter than `Content-Range` states.
    Short(usize),
    /// The response contains a range that starts this many bytes later.
    Shifted(usize),
    /// The object is replaced, from this request on.
    Replaced(&'static [u8]),
    /// The body ends after this many bytes, and the object is replaced before the next request.
    TruncatedAndReplaced(usize, &'static [u8]),
}

/// A running server, which stops with the test process.
pub struct Faulty {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

struct State {
    script: VecDeque<Fault>,
    /// Fault of all requests after the script.
    then: Fault,
    content: &'static [u8],
    etag: &'static str,
}

impl Faulty {
    /// Starts a server with a script of faults; `then` applies to all later requests.
    pub fn start(content: &'static [u8], script: Vec<Fault>, then: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let state = State { script: script.into(), then, content, etag: "\"one\"" };
        let (seen, state) = (requests.clone(), Arc::new(Mutex::new(state)));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (seen, state) = (seen.clone(), state.clone());
                std::thread::spawn(move || serve(connection, &seen, &state));
            }
        });
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl State {
    fn next(&mut self) -> (Fault, &'static [u8], &'static str) {
        let fault = self.script.pop_front().unwrap_or_else(|| self.then.clone());
        if let Fault::Replaced(content) = fault {
            (self.content, self.etag) = (content, "\"two\"");
        }
        let now = (fault.clone(), self.content, self.etag);
        if let Fault::TruncatedAndReplaced(_, content) = fault {
            (self.content, self.etag) = (content, "\"two\"");
        }
        now
    }
}

/// Keys in the server's listing, two per page.
pub const KEYS: [&str; 3] = ["a.nc", "b.nc", "c.nc"];

fn listing(request: &Request) -> Response {
    let second = request.target.contains("continuation-token");
    let (keys, token) = if second {
        (&KEYS[2..], "")
    } else {
        (&KEYS[..2], "<NextContinuationToken>t</NextContinuationToken>")
    };
    let entry = |key: &&str| {
        format!(
            "<Contents><Key>{key}</Key><Size>7</Size><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>\"one\"</ETag></Contents>"
        )
    };
    let entries: String = keys.iter().map(entry).collect();
    let body = format!("<ListBucketResult>{entries}{token}</ListBucketResult>");
    Response { status: 200, headers: vec![], body: body.into_bytes() }
}

fn serve(mut connection: TcpStream, seen: &Mutex<Vec<Request>>, state: &Mutex<State>) {
    let mut first = [0; 1];
    if connection.peek(&mut first).unwrap_or_default() == 0 {
        return;
    }
    let (fault, content, etag) = state.lock().unwrap().next();
    if let Fault::Reset = fault {
        seen.lock().unwrap().push(Request {
            method: String::new(),
            target: String::new(),
            headers: Default::default(),
        });
        let _ = connection.read(&mut first);
        // Part of the request is unread, so that the system resets the connection.
        return;
    }
    let Some(request) = read(&connection) else { return };
    seen.lock().unwrap().push(request.clone());
    let whole = if request.target.contains("list-type=2") {
        listing(&request)
    } else {
        file(&request, content, etag)
    };
    let _ = answer(connection, &request, whole, &fault);
}

fn answer(
    mut connection: TcpStream,
    request: &Request,
    mut whole: Response,
    fault: &Fault,
) -> std::io::Result<()> {
    let length = whole.body.len();
    match fault {
        Fault::None | Fault::Reset | Fault::Replaced(_) => send(connection, request, whole),
        Fault::Refused(status, code, after) => {
            let body = format!(
                "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>Said by {code}.</Message></Error>"
            );
            let headers = after.map(|seconds| ("Retry-After", seconds.to_string())).into_iter().collect();
            send(connection, request, Response { status: *status, headers, body: body.into_bytes() })
        }
        Fault::Closed => Ok(()),
        Fault::Garbage => connection.write_all(b"this is no HTTP\r\n\r\n"),
        Fault::Stalled(time) => {
            std::thread::sleep(*time);
            Ok(())
        }
        Fault::Truncated(bytes) | Fault::TruncatedAndReplaced(bytes, _) => {
            whole.headers.push(("Content-Length", length.to_string()));
            whole.body.truncate(*bytes);
            send(connection, request, whole)
        }
        Fault::StalledBody(bytes, time) => {
            let held = connection.try_clone()?;
            whole.headers.push(("Content-Length", length.to_string()));
            whole.body.truncate(*bytes);
            let sent = send(connection, request, whole);
            std::thread::sleep(*time);
            drop(held);
            sent
        }
        Fault::Short(bytes) => {
            whole.body.truncate(length.saturating_sub(*bytes));
            send(connection, request, whole)
        }
        Fault::Shifted(bytes) => {
            for (name, value) in &mut whole.headers {
                if *name == "Content-Range" {
                    let (start, rest) = value.strip_prefix("bytes ").unwrap().split_once('-').unwrap();
                    *value = format!("bytes {}-{rest}", start.parse::<usize>().unwrap() + bytes);
                }
            }
            whole.body.drain(..(*bytes).min(length));
            send(connection, request, whole)
        }
    }
}
