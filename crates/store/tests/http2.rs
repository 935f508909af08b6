//! HTTP/2 over TLS: used where a server offers it, with the same results and retries as HTTP/1.1.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::{
    collections::{BTreeSet, VecDeque},
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use common::{Request, Response, conforms, content, file, options, run};
use futures::{future::join_all, stream};
use http_body_util::StreamBody;
use hyper::{
    Version,
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};
use virtualize_bytes::{ByteRange, ReadErrorKind, ReadRanges};
use virtualize_store::{Retries, StoreError, StoreOptions, open};

const HTTP_1: &[&str] = &["http/1.1"];
const BOTH: &[&str] = &["h2", "http/1.1"];

/// What is wrong with a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    /// Status 503.
    Refused,
    /// The body lacks its last byte, as its headers say.
    Short,
    /// The body breaks after its first half.
    Broken,
    /// The file has been replaced.
    Replaced,
}

/// A running server of one file, which stops with the test process.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// Version and connection of a request.
type Seen = (Version, usize);

impl Server {
    /// Starts a server that offers these protocols, with a fault for each of the first requests.
    fn start(protocols: &[&str], script: &[Fault]) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("https://localhost:{}/a.nc", listener.local_addr().unwrap().port());
        let (acceptor, seen) = (acceptor(protocols), Arc::new(Mutex::new(Vec::new())));
        let script = Arc::new(Mutex::new(VecDeque::from(script.to_vec())));
        let noted = seen.clone();
        std::thread::spawn(move || run(serve(listener, acceptor, noted, script)));
        Self { url, seen }
    }

    fn versions(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap().iter().map(|(version, _)| format!("{version:?}")).collect()
    }

    fn connections(&self) -> usize {
        self.seen.lock().unwrap().iter().map(|(_, connection)| connection).collect::<BTreeSet<_>>().len()
    }
}

fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    listener: std::net::TcpListener,
    acceptor: TlsAcceptor,
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Mutex<VecDeque<Fault>>>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    for connection in 0.. {
        let Ok((socket, _)) = listener.accept().await else { return };
        let (acceptor, seen, script) = (acceptor.clone(), seen.clone(), script.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let is_2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                seen.lock().unwrap().push((request.version(), connection));
                let fault = script.lock().unwrap().pop_front().unwrap_or(Fault::Nothing);
                std::future::ready(Ok::<_, Infallible>(answer(&request, fault)))
            });
            let stream = TokioIo::new(stream);
            let _ = match is_2 {
                true => {
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    server.serve_connection(stream, service).await
                }
                false => hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await,
            };
        });
    }
}

type Body = StreamBody<stream::Iter<std::vec::IntoIter<io::Result<Frame<Bytes>>>>>;

fn answer(request: &hyper::Request<Incoming>, fault: Fault) -> hyper::Response<Body> {
    let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = request.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
    let target = request.uri().path().to_owned();
    let request = Request { method: request.method().to_string(), target, headers: headers.collect() };
    let tag = if fault == Fault::Replaced { "\"two\"" } else { "\"one\"" };
    let Response { mut status, headers, body } = file(&request, content(), tag);
    let mut body = Bytes::from(body);
    let mut frames = match fault {
        Fault::Nothing | Fault::Replaced => vec![Ok(Frame::data(body.clone()))],
        Fault::Refused => {
            status = 503;
            body.clear();
            vec![]
        }
        Fault::Short => {
            body.truncate(body.len() - 1);
            vec![Ok(Frame::data(body.clone()))]
        }
        Fault::Broken => {
            vec![Ok(Frame::data(body.slice(..body.len() / 2))), Err(io::ErrorKind::ConnectionReset.into())]
        }
    };
    if body.is_empty() {
        frames.clear();
    }
    let mut response = hyper::Response::builder().status(status).header("Content-Length", body.len());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(StreamBody::new(stream::iter(frames))).unwrap()
}

/// Returns options that accept the server's certificate.
fn trusting(more: &[(&str, &str)]) -> StoreOptions {
    let all = [&[("allow_invalid_certificates", "true")], more].concat();
    let values = all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    StoreOptions { values: values.collect(), ..options() }
}

#[test]
fn http_2_is_used_where_it_is_offered() {
    for (protocols, more, version) in [
        (BOTH, &[] as &[_], "HTTP/2.0"),
        (HTTP_1, &[], "HTTP/1.1"),
        (BOTH, &[("http1_only", "true")], "HTTP/1.1"),
    ] {
        let server = Server::start(protocols, &[]);
        run(async {
            let object = open(&server.url, &trusting(more)).await.unwrap();
            conforms(object.as_ref()).await;
            assert_eq!(object.etag(), Some("\"one\""));
        });
        assert_eq!(server.versions(), BTreeSet::from([version.to_owned()]));
    }
}

#[test]
fn requests_share_few_connections() {
    let server = Server::start(BOTH, &[]);
    run(async {
        let options = trusting(&[]);
        join_all((0..64).map(async |_| open(&server.url, &options).await.unwrap())).await;
    });
    let connections = server.connections();
    assert!((2..=8).contains(&connections), "{connections}");
}

#[test]
fn requests_one_after_the_other_share_one_connection() {
    for protocols in [BOTH, HTTP_1] {
        let server = Server::start(protocols, &[]);
        run(async {
            let options = trusting(&[]);
            for _ in 0..5 {
                open(&server.url, &options).await.unwrap();
            }
        });
        assert_eq!(server.connections(), 1, "{protocols:?}");
    }
}

#[test]
fn failures_are_retried_as_with_http_1() {
    for protocols in [BOTH, HTTP_1] {
        let script = [Fault::Refused, Fault::Short, Fault::Nothing, Fault::Broken];
        let server = Server::start(protocols, &script);
        run(async {
            let object = open(&server.url, &trusting(&[])).await.unwrap();
            let parts = object.read_ranges(&[ByteRange::new(0, object.size())]).await.unwrap();
            assert!(parts[0] == content(), "{protocols:?}");
            let retries = Retries { seconds: 0.0, ..object.stats().retries };
            let expected = Retries { throttled: 1, connection: 2, ..Retries::default() };
            assert_eq!((object.stats().requests, retries), (2, expected), "{protocols:?}");
        });
    }
}

#[test]
fn replaced_files_are_noticed_as_with_http_1() {
    for protocols in [BOTH, HTTP_1] {
        let server = Server::start(protocols, &[&[Fault::Nothing][..], &[Fault::Replaced; 40]].concat());
        run(async {
            let object = open(&server.url, &trusting(&[])).await.unwrap();
            let error = object.read_ranges(&[ByteRange::new(900_000, 9)]).await.unwrap_err();
            assert_eq!(error.kind, ReadErrorKind::Changed, "{protocols:?}: {error}");
        });
    }
}

#[test]
fn servers_that_keep_failing_are_reported_as_with_http_1() {
    for protocols in [BOTH, HTTP_1] {
        for fault in [Fault::Refused, Fault::Short, Fault::Broken] {
            let server = Server::start(protocols, &[fault; 9]);
            let error = run(open(&server.url, &trusting(&[]))).unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{protocols:?}, {fault:?}: {error}");
            assert!(error.to_string().contains("(tried 3 times)"), "{protocols:?}, {fault:?}: {error}");
        }
    }
}
