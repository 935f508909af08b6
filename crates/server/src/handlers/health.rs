//! `/healthz`, `/readyz`, `/metrics`: endpoints for operators of the service.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, atomic::Ordering},
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

use crate::{
    app::Service,
    config::{ConfigError, Settings},
    problem::Problem,
};

/// Time for a running service to answer a health check.
const HEALTH_CHECK_TIME: Duration = Duration::from_secs(5);

/// Liveness
#[utoipa::path(get, path = "/healthz", tag = "Service", security(()), responses(
    (status = 200, description = "The process responds", body = String),
    Problem,
))]
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// Readiness: whether the service accepts more requests
#[utoipa::path(get, path = "/readyz", tag = "Service", security(()), responses(
    (status = 200, description = "The service accepts requests", body = String),
    Problem,
))]
pub(crate) async fn ready(State(service): State<Arc<Service>>) -> Result<&'static str, Problem> {
    if service.is_stopping.load(Ordering::Relaxed) {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(Problem::new(status, Code::NotReady, "the service is stopping").retry_after(5));
    }
    Ok("ok\n")
}

/// Prometheus metrics
#[utoipa::path(get, path = "/metrics", tag = "Service", responses(
    (status = 200, description = "Metrics in the text exposition format", body = String),
    Problem,
))]
pub(crate) async fn metrics(State(service): State<Arc<Service>>) -> Result<Response, Problem> {
    let metrics = &service.metrics;
    let held = [&service.sources.memory, &service.responses, &service.pieces]
        .iter()
        .map(|budget| budget.held())
        .sum::<u64>();
    metrics.memory.set(i64::try_from(held).unwrap_or(i64::MAX));
    metrics.memory_limit.set(i64::try_from(service.config.memory).unwrap_or(i64::MAX));
    metrics.read_process();
    let text = metrics.text().ok_or_else(Problem::internal)?;
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
    outcome.map_err(ConfigError::about(address))
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
