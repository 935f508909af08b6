//! Connections: accepted, bounded in number and time, and let go when the service stops.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
    time::Duration,
};

use axum::Router;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
    time::{Instant, Sleep},
};
use tower::ServiceExt;

use crate::{Config, ConfigError, Peer, context::Context, routes};

/// Most header lines of a request.
const HEADERS: usize = 100;

/// A service that listens.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    done: JoinHandle<()>,
}

impl Running {
    /// Stops it: no more connections, and the requests under way are finished within the time that is given to them.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.done).await;
    }
}

/// Listens until the process is told to end (SIGTERM, or Ctrl-C).
///
/// # Errors
/// An address that cannot be listened on; a cache folder that cannot be used.
pub async fn serve(config: Config) -> Result<(), ConfigError> {
    let running = start(config).await?;
    asked_to_end().await;
    tracing::info!("stopping");
    running.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts to listen.
///
/// # Errors
/// As [`serve`].
pub async fn start(config: Config) -> Result<Running, ConfigError> {
    let context = Arc::new(Context::new(config)?);
    let listen = context.config.listen;
    let failed = |error: io::Error| ConfigError(format!("{listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    said(&context.config, address);
    let (stop, stopped) = oneshot::channel();
    let done = tokio::spawn(accept(listener, context, stopped));
    Ok(Running { address, stop: Some(stop), done })
}

fn said(config: &Config, address: SocketAddr) {
    tracing::info!("listening on http://{address}");
    if config.tokens.is_empty() && (config.public || !address.ip().is_loopback()) {
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

async fn asked_to_end() {
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! { () = interrupted => {}, _ = terminated.recv() => {} }
            return;
        }
    }
    interrupted.await;
}

/// Accepts connections until it is stopped.
async fn accept(listener: TcpListener, context: Arc<Context>, mut stopped: oneshot::Receiver<()>) {
    let router = routes::router(Arc::clone(&context));
    let places = Arc::new(Semaphore::new(context.config.connections));
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
                tokio::spawn(connection(
                    stream,
                    peer,
                    router.clone(),
                    Arc::clone(&context),
                    graceful.watcher(),
                    place,
                ));
            }
            Err(error) => {
                // Out of file descriptors, most likely: others must end first.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    context.stop();
    let (served, parked) = tokio::join!(
        tokio::time::timeout(context.config.stop_time, graceful.shutdown()),
        tokio::time::timeout(context.config.stop_time, async {
            if let Some(jobs) = &context.jobs {
                jobs.parked().await;
            }
        })
    );
    if served.is_err() {
        tracing::warn!("requests that were not done in time were cut off");
    }
    if parked.is_err() {
        tracing::warn!("jobs that did not stop in time go on at the next start nevertheless");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    context: Arc<Context>,
    watcher: Watcher,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let address: IpAddr = peer.ip();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(address));
        router.clone().oneshot(request)
    });
    let config = &context.config;
    let io = TokioIo::new(Prompt::new(stream, config.write_time));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_time)
        .max_headers(HEADERS)
        .max_buf_size(config.header_size)
        .serve_connection(io, service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(client = %address, "a connection ended: {error}");
    }
}

/// A connection whose other end must take something of what it is sent within a time.
struct Prompt {
    stream: TcpStream,
    most: Duration,
    /// Runs while the other end takes nothing.
    patience: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Prompt {
    fn new(stream: TcpStream, most: Duration) -> Self {
        Self { stream, most, patience: Box::pin(tokio::time::sleep(most)), waiting: false }
    }

    fn timed<T>(&mut self, task: &mut Task<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = false;
            return polled;
        }
        if !self.waiting {
            self.waiting = true;
            self.patience.as_mut().reset(Instant::now() + self.most);
        }
        match self.patience.as_mut().poll(task) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.timed(task, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(task, slices);
        self.timed(task, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(task);
        self.timed(task, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(task);
        self.timed(task, polled)
    }
}
