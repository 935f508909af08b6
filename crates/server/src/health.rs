//! `/healthz`, `/readyz`, `/metrics`: endpoints for operators of the service.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use virtualize::Code;

use crate::{ConfigError, Problem, Settings, context::Context};

/// Time for a running service to answer a health check.
const HEALTH_CHECK_TIME: Duration = Duration::from_secs(5);

/// `GET /healthz`: reports that the process responds.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: reports whether the service accepts more requests.
pub(crate) async fn ready(State(context): State<Arc<Context>>) -> Response {
    let unready = |why: &str| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotReady, why).retry_after(5).into_response()
    };
    if context.is_stopping() {
        return unready("the service is stopping");
    }
    let well =
        tokio::task::spawn_blocking(move || context.cache.as_ref().is_none_or(|cache| cache.is_well())).await;
    match well {
        Ok(true) => "ok\n".into_response(),
        _ => unready("the cache cannot be written"),
    }
}

/// `GET /metrics`: returns the metrics for Prometheus.
pub(crate) async fn metrics(State(context): State<Arc<Context>>) -> Result<Response, Problem> {
    let (metrics, bytes) = (&context.metrics, |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX));
    metrics.memory.set(bytes(context.memory.held()));
    metrics.memory_limit.set(bytes(context.memory.size()));
    metrics.temporary.set(bytes(context.spool.held()));
    metrics.cached.set(bytes(context.cache.as_ref().map_or(0, |cache| cache.bytes())));
    metrics.disk_limit.set(bytes(context.config.cache_size));
    metrics.read_process();
    let text = context.metrics.text().ok_or_else(Problem::internal)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// Checks that a service with these settings, on this machine, answers `/healthz`.
///
/// # Errors
/// No service listens on the address, or it does not respond with status 200 within five seconds.
pub async fn check_health(settings: &Settings) -> Result<(), ConfigError> {
    let address = reachable(settings.address());
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no response within 5 seconds");
    let outcome = timeout(HEALTH_CHECK_TIME, ask(address)).await.unwrap_or_else(|_| Err(late()));
    outcome.map_err(ConfigError::io(address))
}

/// Replaces the address that stands for all interfaces by the loopback address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

async fn ask(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(
            format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .await?;
    let mut status = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut status).await?;
    if status == *b"HTTP/1.1 200" {
        Ok(())
    } else {
        Err(io::Error::other("/healthz did not return status 200"))
    }
}
