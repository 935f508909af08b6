//! Connections: accepts them, limits their number and duration, and closes them when the service stops.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body};
use futures::TryFutureExt;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::TokioIo,
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use crate::{
    Config, ConfigError, Peer,
    context::Context,
    follow::follow,
    guard::{self, Neighbour},
    quota::Connection,
    routes,
    stream::{Phases, Timed, Times},
};

/// Maximum number of header lines of a request.
const HEADERS: usize = 100;
/// Connections that the operating system queues until the service accepts them.
const BACKLOG: u32 = 4096;
/// Size of a connection's send buffer in bytes. It bounds the cost of a client that receives nothing, and makes a slow
/// client noticeable.
const SENT: u32 = 512 << 10;
/// A running service.
#[derive(Debug)]
pub struct Running {
    /// Address that the service listens on.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    done: JoinHandle<()>,
}

impl Running {
    /// Stops the service: refuses new connections, and lets requests in progress finish within the configured time.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.done).await;
    }
}

/// Runs the service until the process receives SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the address cannot be bound or the cache folder cannot be used.
pub async fn serve(config: Config) -> Result<(), ConfigError> {
    // Installed first, so that a signal right after "listening" stops the service in order.
    let stop_signal = stop_signal().map_err(ConfigError::io(config.listen))?;
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
    let config = config.with_descriptors()?;
    if let Some(jwt) = &config.jwt {
        jwt.keys.first().await?;
    }
    let context = Arc::new(Context::new(config)?);
    let listen = context.config.listen;
    let failed = ConfigError::io(listen);
    let listener = listener(listen).map_err(|error| failed(in_use(error)))?;
    let address = listener.local_addr().map_err(failed)?;
    // Before "listening", so that a signal right after it does not end the process.
    let follows = AbortOnDropHandle::new(tokio::spawn(follow(Arc::clone(&context.config))));
    said(&context.config, address);
    let (stop, stopped) = oneshot::channel();
    let done = tokio::spawn(async move {
        accept(listener, context, stopped).await;
        drop(follows);
    });
    Ok(Running { address, stop: Some(stop), done })
}

/// Binds the address and starts to listen.
fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // Connections inherit this size.
    socket.set_send_buffer_size(SENT)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Says what to do about an address that another program uses.
fn in_use(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::AddrInUse => io::Error::new(
            kind,
            "another program uses this address: stop it, or choose another with --listen",
        ),
        _ => error,
    }
}

/// Logs the address, and warns about a configuration that exposes the service.
fn said(config: &Config, address: SocketAddr) {
    tracing::info!("listening on http://{address}");
    if !config.needs_token() && (config.public || !address.ip().is_loopback()) {
        tracing::warn!(
            "everybody who reaches {address} is answered, without a token: all that is allowed is public"
        );
    }
    if config.cors.contains("*") {
        tracing::warn!("pages of all origins may read answers");
    }
    if config.trust_forwarded {
        tracing::warn!("X-Forwarded-For is believed: only a proxy may reach {address}");
    }
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

/// Accepts connections until the service is stopped.
async fn accept(listener: TcpListener, context: Arc<Context>, mut stopped: oneshot::Receiver<()>) {
    let router = routes::router(Arc::clone(&context));
    let places = Arc::new(Semaphore::new(context.config.traffic.connections));
    let graceful = GracefulShutdown::new();
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            _ = &mut stopped => break,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let neighbour = Neighbour::new(&context, &guard::name_of(peer.ip()));
                match own_place(&context, &neighbour) {
                    Ok(own) => {
                        let (router, context) = (router.clone(), Arc::clone(&context));
                        let client = (peer.ip(), neighbour);
                        tokio::spawn(connection(
                            stream,
                            client,
                            router,
                            context,
                            graceful.watcher(),
                            (place, own),
                        ));
                    }
                    Err(wait) => refuse(&stream, wait),
                }
            }
            Err(error) => {
                // Most likely the file descriptors are exhausted: other connections must end first.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    shut_down(&context, graceful).await;
}

/// Finishes requests in progress within the configured time.
async fn shut_down(context: &Context, graceful: GracefulShutdown) {
    context.stop();
    let served = tokio::time::timeout(context.config.times.stop, graceful.shutdown()).await;
    if served.is_err() {
        tracing::warn!("requests that did not finish in time were cut off");
    }
}

/// Reserves a connection of a client, or returns the time after which it may try again. Behind a trusted proxy there is no
/// such limit, as all of its clients have its address.
fn own_place(context: &Context, neighbour: &Neighbour) -> Result<Option<Connection>, Duration> {
    if context.config.trust_forwarded {
        return Ok(None);
    }
    // A connection ends at the latest when it has been idle for long.
    let idle = context.config.times.idle;
    neighbour.quota.connection().map(Some).map_err(|wait| wait.unwrap_or(idle).min(idle))
}

/// Answers a connection that is one too many of its client.
fn refuse(stream: &TcpStream, wait: Duration) {
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        guard::seconds(wait)
    );
    let _ = stream.try_write(answer.as_bytes());
}

/// Serves the requests of one connection until it ends.
async fn connection(
    stream: TcpStream,
    (address, neighbour): (IpAddr, Neighbour),
    router: Router,
    context: Arc<Context>,
    watcher: Watcher,
    _places: (OwnedSemaphorePermit, Option<Connection>),
) {
    let _ = stream.set_nodelay(true);
    let phases = Phases::default();
    let io = TokioIo::new(Timed::new(stream, Times::of(&context.config), phases.clone()));
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let answering = phases.request();
        request.extensions_mut().insert(Peer(address));
        request.extensions_mut().insert(neighbour.clone());
        let request = request.map(Body::new);
        router.clone().oneshot(request).map_ok(|response| response.map(|body| answering.body(body)))
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_headers(HEADERS)
        .max_buf_size(context.config.header_size)
        .serve_connection(io, service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(client = %address, "a connection ended: {error}");
    }
}
