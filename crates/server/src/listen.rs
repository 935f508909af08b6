//! Connections: accepts them, limits their number and idle times, and closes them when the service stops.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;
use tracing::Level;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    app::{Peer, Service, router},
    auth::{Hangup, reload},
    config::{Config, ConfigError},
};

/// Time for the head of a request, which includes the time between two requests.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Time in which a client must receive more of its response.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Time for requests in progress when the service stops.
const STOP_TIME: Duration = Duration::from_secs(20);
/// Maximum number of header lines, and of bytes, of a request's head.
const MAX_HEADERS: usize = 100;
const MAX_HEAD: usize = 64 << 10;
/// Maximum number of connections. Further ones wait.
const MAX_CONNECTIONS: u64 = 16_384;
/// Maximum number of cached mapped files: each may hold a descriptor.
const MAX_FILES: u64 = 512;

/// A running service.
#[derive(Debug)]
pub struct Running {
    /// Address that the service listens on.
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Running {
    /// Stops the service: refuses new connections, and lets requests in progress finish within 20 seconds.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.done.await;
    }
}

/// Runs the service until the process receives SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the address cannot be bound, or the keys of the identity provider cannot be fetched.
pub async fn serve(config: Config) -> Result<(), ConfigError> {
    // Installed first, so that a signal right after "listening" stops the service in order.
    let stop_signal = stop_signal().map_err(ConfigError::about(config.listen))?;
    let running = start(config).await?;
    stop_signal.await;
    tracing::info!("stopping");
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts the service, and returns once it listens.
///
/// # Errors
/// As [`serve`].
pub async fn start(config: Config) -> Result<Running, ConfigError> {
    if let Some(jwt) = &config.jwt {
        jwt.keys.first().await?;
    }
    // Half of the descriptors are for connections and a quarter for cached files.
    let descriptors = descriptors();
    let service = Arc::new(Service::new(config, MAX_FILES.min(descriptors / 4))?);
    let listen = service.config.listen;
    let failed = ConfigError::about(listen);
    let listener = TcpListener::bind(listen).await.map_err(|error| match error.kind() {
        kind @ io::ErrorKind::AddrInUse => {
            let advice = "another program uses this address: stop it, or choose another with --listen";
            failed(io::Error::new(kind, advice))
        }
        _ => failed(error),
    })?;
    let address = listener.local_addr().map_err(failed)?;
    // Installed before "listening", so that a signal right after it does not end the process.
    let hangup = Hangup::new();
    let config = Arc::clone(&service.config);
    let reloads = AbortOnDropHandle::new(tokio::spawn(async move {
        reload(hangup, config.tokens.as_ref(), config.jwt.as_ref()).await;
    }));
    tracing::info!("listening on http://{address}");
    if !service.config.needs_token() && (service.config.public || !address.ip().is_loopback()) {
        tracing::warn!("no authentication: everything below --allow is public on {address}");
    }
    if service.config.cors.contains("*") {
        tracing::warn!("web pages of all origins may read responses");
    }
    let (stop, stopped) = oneshot::channel();
    let connections = usize::try_from(MAX_CONNECTIONS.min(descriptors / 2)).unwrap_or(usize::MAX).max(1);
    let done = tokio::spawn(async move {
        accept(listener, router(&service), &service, connections, stopped).await;
        drop(reloads);
    });
    Ok(Running { address, stop, done })
}

/// Raises the limit of file descriptors as far as the system allows, and returns it.
#[cfg(unix)]
fn descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    limit.unwrap_or(u64::MAX)
}

/// Returns no limit: other systems have none to raise.
#[cfg(not(unix))]
fn descriptors() -> u64 {
    u64::MAX
}

/// Installs handlers of SIGTERM and Ctrl-C, and returns a future that waits for either.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    })
}

/// Returns a future that waits for Ctrl-C.
#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// Accepts at most `connections` at a time until the service is stopped. Requests in progress then have some time.
async fn accept(
    listener: TcpListener,
    router: Router,
    service: &Service,
    connections: usize,
    mut stopped: oneshot::Receiver<()>,
) {
    let permits = Arc::new(Semaphore::new(connections));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
            Ok((listener.accept().await?, permit))
        };
        let accepted: io::Result<_> = tokio::select! {
            accepted = accepted => accepted,
            _ = &mut stopped => break,
        };
        match accepted {
            Ok(((stream, peer), permit)) => {
                tokio::spawn(connection(stream, peer.ip(), router.clone(), graceful.watcher(), permit));
            }
            Err(error) => {
                // Most likely the file descriptors are exhausted: other connections must end first.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    service.is_stopping.store(true, Ordering::Relaxed);
    if tokio::time::timeout(STOP_TIME, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests that did not finish in time were cut off");
    }
}

/// Serves the requests of one connection until it ends.
async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    router: Router,
    watcher: Watcher,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(client = %peer, "a connection ended: {error}");
    }
}

/// Installs a logger that writes to standard error, as text or JSON. `RUST_LOG` sets the filter of the log. At the level
/// `trace`, only this project's crates write: HTTP clients might log headers with credentials.
pub fn start_logging(json: bool) {
    let given = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = EnvFilter::builder().parse_lossy(given.unwrap_or_else(|| "info".to_owned()));
    let filter = filter.and(filter_fn(|metadata| {
        *metadata.level() <= Level::DEBUG || metadata.target().starts_with("virtualize")
    }));
    // A log that cannot be written must not stop the service.
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let lines = if json {
        lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed()
    } else {
        lines.with_ansi(false).with_filter(filter).boxed()
    };
    // A logger that is already installed in the process stays.
    let _ = Registry::default().with(lines).try_init();
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{app::layered, config::Settings};

    /// Requests over a socket: one makes the service panic, and the next succeeds.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_is_a_response() {
        let settings = Settings { allow: vec!["s3://bucket/".to_owned()], ..Settings::default() };
        let service = Arc::new(Service::new(settings.check().unwrap(), 1).unwrap());
        let routes = Router::new()
            .route("/panic", get(|| async { panic!("on purpose") as () }))
            .route("/good", get(|| async { "good" }));
        let router = layered(routes, &service);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = oneshot::channel();
        tokio::spawn(async move { accept(listener, router, &service, 10, stopped).await });
        for (path, status, part) in [("/panic", "500", "\"code\":\"internal\""), ("/good", "200", "good")] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.contains(part), "{text}");
        }
    }
}
