//! `POST /v1/references`: references of many files in one response. Each line is sent as soon as its file is ready.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures::{
    Stream, StreamExt,
    future::join_all,
    stream::{self, BoxStream},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use virtualize::{Code, Format, StoreError};

use crate::{
    Problem,
    api::OF_MAPPING,
    client::Client,
    context::Context,
    query::{self, Parameters},
    quota::Holds,
    references,
    rendered::Rendering,
};

/// Maximum number of files of one request.
const FILES: usize = 10_000;
/// Files of one request that are read concurrently, or wait to be sent.
const AT_ONCE: usize = 4;

/// A validated request.
struct Wanted {
    urls: Vec<String>,
    options: Parameters,
}

/// A line of the response.
enum Line {
    File { index: usize, url: String, made: Result<Arc<Rendering>, Problem>, holds: Holds },
    End { files: usize, failed: usize },
}

/// Handles the request.
pub(crate) async fn post(
    State(context): State<Arc<Context>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Problem> {
    is_json(request.headers())?;
    let most = context.config.request_size;
    client.holds.keep(client.quota.memory.take((most as u64).saturating_mul(2)).await?);
    let body = body(request.into_body(), most).await.map_err(|problem| problem.hint("send fewer URLs"))?;
    let wanted = Wanted::read(&body, &context, &client)?;
    let (sender, receiver) = mpsc::channel(1);
    // Dropping the response stops the work.
    let work = AbortOnDropHandle::new(tokio::spawn(work(context, client, wanted, sender)));
    let mut response = Response::new(Body::from_stream(lines(receiver, work)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Checks that the body is declared as JSON. Web pages of other origins can send other types without a CORS preflight,
/// and could otherwise use a service on the user's own machine.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::ContentType,
            "expected content-type: application/json",
        )),
    }
}

/// Reads a body of at most `most` bytes.
async fn body(body: Body, most: usize) -> Result<Bytes, Problem> {
    to_bytes(body, most).await.map_err(|_| {
        let detail = format!("the body exceeds {most} bytes, or is truncated");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, Code::Size, detail)
    })
}

impl Wanted {
    /// Parses a body and checks everything that does not depend on a file.
    fn read(body: &[u8], context: &Context, client: &Client) -> Result<Self, Problem> {
        let members: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| Problem::parameter("body", error))?;
        let mut members: Map<_, _> = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let urls = members.remove("urls").ok_or_else(|| Problem::parameter("urls", "is missing"))?;
        let urls: Vec<String> = serde_json::from_value(urls)
            .map_err(|_| Problem::parameter("urls", "expected a list of URLs"))?;
        if urls.is_empty() || urls.len() > FILES {
            return Err(Problem::parameter("urls", format!("expected 1 to {FILES} URLs")));
        }
        let known: Vec<String> = OF_MAPPING.iter().map(|name| name.replace('-', "_")).collect();
        if let Some(name) = members.keys().find(|name| !known.contains(name)) {
            let shown: String = name.chars().take(40).filter(|c| !c.is_control()).collect();
            return Err(Problem::parameter(&shown, "is not a member of this request")
                .hint(format!("the members are urls, {}", known.join(", "))));
        }
        let options = Parameters::of_members(&members)?;
        let format = options.format()?;
        if ![Format::KERCHUNK_JSON, Format::ZARR3_JSON].contains(&format) {
            return Err(Problem::parameter("format", "expected kerchunk-json or zarr3-json"));
        }
        members.remove("format");
        query::options(members, str::to_owned, &context.config, &client.allowed, format.zarr_format())?;
        Ok(Self { urls, options })
    }
}

/// Reads the files, a few concurrently, and sends their lines.
async fn work(context: Arc<Context>, client: Client, wanted: Wanted, sender: mpsc::Sender<Line>) {
    let (files, failed) = (wanted.urls.len(), AtomicUsize::new(0));
    let (options, left) = (wanted.options, Mutex::new(wanted.urls.into_iter().enumerate()));
    let worker = || async {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, url)) = next else { return };
            let client = Client { holds: Holds::default(), ..client.clone() };
            let holds = client.holds.clone();
            // The guard counted the request as its first file.
            if index > 0 {
                pace(&context, &client).await;
            }
            let (url, made) = file(&context, client, &options, url).await;
            let outcome = if made.is_ok() { "done" } else { "failed" };
            context.metrics.batch_files.with_label_values(&[outcome]).inc();
            failed.fetch_add(usize::from(made.is_err()), Ordering::Relaxed);
            if sender.send(Line::File { index, url, made, holds }).await.is_err() {
                return;
            }
        }
    };
    join_all((0..AT_ONCE).map(|_| worker())).await;
    let _ = sender.send(Line::End { files, failed: failed.into_inner() }).await;
}

/// Waits until the client's rate admits another file.
async fn pace(context: &Context, client: &Client) {
    while let Err(wait) = context.rate.take(&client.name, std::time::Instant::now()) {
        sleep(wait.max(Duration::from_millis(1))).await;
    }
}

/// Generates the references of a file, or reuses them. Retries while the service has no memory or disk space left.
/// Returns the URL without credentials.
async fn file(
    context: &Context,
    client: Client,
    options: &Parameters,
    url: String,
) -> (String, Result<Arc<Rendering>, Problem>) {
    let url = match client.allowed.check(&url) {
        Ok(url) => url,
        Err(error) => {
            let (StoreError::Location { name, .. } | StoreError::NotAllowed { name }) = &error else {
                return ("url".to_owned(), Err(error.into()));
            };
            return (name.clone(), Err(error.into()));
        }
    };
    let wanted = match options.with("url", &url).wanted(&context.config, &client) {
        Ok(wanted) => wanted,
        Err(problem) => return (url, Err(problem)),
    };
    let until = Instant::now() + context.config.times.request;
    let made = loop {
        let left = until.saturating_duration_since(Instant::now());
        let made = timeout(left, references::made(context, &wanted)).await;
        let made = made.unwrap_or_else(|_| Err(Problem::late()));
        match &made {
            Err(Problem {
                status: StatusCode::SERVICE_UNAVAILABLE, code: Code::Busy, retry_after, ..
            }) if until > Instant::now() => {
                sleep(Duration::from_secs(retry_after.unwrap_or(1))).await;
            }
            _ => break made,
        }
    };
    (url, made.map_err(with_members))
}

/// Names options in the hint as the members of the request: `chunk_grid=rectilinear`.
fn with_members(problem: Problem) -> Problem {
    let renamed = |hint: String| {
        OF_MAPPING.iter().fold(hint, |hint, name| {
            hint.replace(&format!("{name}="), &format!("{}=", name.replace('-', "_")))
        })
    };
    Problem { hint: problem.hint.map(renamed), ..problem }
}

/// Returns the body of the response. It fails, so that the client notices, if the work ends early.
fn lines(
    receiver: mpsc::Receiver<Line>,
    work: AbortOnDropHandle<()>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let received = stream::unfold(Some((receiver, work)), |state| async {
        let (mut receiver, work) = state?;
        match receiver.recv().await {
            Some(line @ Line::End { .. }) => Some((Ok(line), None)),
            Some(line) => Some((Ok(line), Some((receiver, work)))),
            None => Some((Err(io::Error::other("the work ended early")), None)),
        }
    });
    received.flat_map(|line| match line {
        Ok(line) => line.bytes(),
        Err(error) => stream::iter([Err(error)]).boxed(),
    })
}

impl Line {
    /// Returns the text of the line, in pieces.
    fn bytes(self) -> BoxStream<'static, io::Result<Bytes>> {
        let whole = |line: Value| stream::iter([Ok(Bytes::from(format!("{line}\n")))]).boxed();
        match self {
            Self::End { files, failed } => whole(json!({ "end": true, "files": files, "failed": failed })),
            Self::File { index, url, made: Err(problem), .. } => {
                whole(json!({ "index": index, "url": url, "error": problem.document() }))
            }
            Self::File { index, url, made: Ok(made), holds } => {
                let start = format!("{{\"index\":{index},\"url\":{},\"references\":", Value::from(url));
                let end = stream::once(async move {
                    drop(holds);
                    Ok(Bytes::from_static(b"}\n"))
                });
                stream::iter([Ok(Bytes::from(start))]).chain(made.bytes().map(on_one_line)).chain(end).boxed()
            }
        }
    }
}

/// Removes line breaks from JSON. Within texts they are escaped.
fn on_one_line(piece: io::Result<Bytes>) -> io::Result<Bytes> {
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    piece.map(|piece| match piece.iter().any(is_break) {
        true => piece.iter().copied().filter(|byte| !is_break(byte)).collect(),
        false => piece,
    })
}
