//! The state that all requests share, the routes, and the layers that every request passes.

use std::{
    cell::RefCell,
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, uri::Authority},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::FutureExt;
use tokio::{sync::Semaphore, time::timeout};
use tower::ServiceBuilder;
use tower_http::{
    ServiceBuilderExt,
    compression::{
        CompressionLayer,
        predicate::{NotForContentType, Predicate, SizeAbove},
    },
    cors::{AllowOrigin, CorsLayer},
    request_id::{MakeRequestUuid, RequestId},
};
use tracing::{Instrument, info_span};
use utoipa_axum::{router::OpenApiRouter, routes};
use virtualize::Code;

use crate::{
    auth::{Client, Scopes, identify},
    budget::Budget,
    config::{Config, ConfigError},
    handlers::{folder, health, inspect, references, values, zarr},
    metrics::{Counted, Metrics},
    openapi, page,
    problem::Problem,
    respond,
    sources::Sources,
};

/// Maximum number of mapped files to cache.
const FILES: u64 = 512;

/// Memory of a stream in bytes, and maximum number of streams.
const STREAM: u64 = 1 << 20;
const MAX_STREAMS: usize = 128;

/// The state of the service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) sources: Sources,
    /// A client without a token, if none is needed.
    pub(crate) anonymous: Arc<Client>,
    /// Memory of responses that are built as a whole. Clients that receive slowly may use it up, or the next two, and
    /// leave the rest, which is three quarters, for mapping.
    pub(crate) responses: Budget,
    /// Memory of pieces of chunks.
    pub(crate) pieces: Budget,
    /// One permit for each request that may be answered at a time.
    pub(crate) requests: Semaphore,
    /// References that are sent while they are written: each takes a thread, and a MiB.
    pub(crate) streams: Arc<Semaphore>,
    /// Whether the service is shutting down.
    pub(crate) is_stopping: AtomicBool,
}

impl Service {
    /// Creates the service; it caches at most `files` mapped files.
    pub(crate) fn new(config: Config, files: u64) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let metrics =
            Arc::new(Metrics::new(&config.allowed.prefixes()).map_err(ConfigError::about("metrics"))?);
        let streams =
            usize::try_from(config.memory / 16 / STREAM).unwrap_or(usize::MAX).clamp(1, MAX_STREAMS);
        let scopes = if config.public { Scopes::READ } else { Scopes::ALL };
        Ok(Self {
            anonymous: Arc::new(Client::new(String::new(), scopes, &config.allowed, None)),
            sources: Sources::new(&config, &metrics, files),
            responses: Budget::new(config.memory / 8),
            pieces: Budget::new(config.memory / 16),
            requests: Semaphore::new(config.concurrency),
            streams: Arc::new(Semaphore::new(streams)),
            is_stopping: AtomicBool::new(false),
            config,
            metrics,
        })
    }
}

/// The peer address of a connection, an extension of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// Builds the service without a socket. Requests may carry a [`Peer`] as an extension.
///
/// # Errors
/// Fails if the metrics cannot be registered.
pub fn app(config: Config) -> Result<Router, ConfigError> {
    Ok(router(&Arc::new(Service::new(config, FILES)?)))
}

/// Builds the router of a service.
pub(crate) fn router(service: &Arc<Service>) -> Router {
    let require = |scopes| from_fn_with_state((Arc::clone(service), scopes), authorize);
    let read = OpenApiRouter::new()
        .routes(routes!(references::references))
        .routes(routes!(inspect::inspect))
        .routes(routes!(inspect::chunks))
        .routes(routes!(zarr::root))
        .routes(routes!(zarr::zarr))
        .routes(routes!(zarr::plain))
        .routes(routes!(values::values))
        .routes(routes!(folder::folder))
        .routes(routes!(page::about))
        .route_layer(require(Scopes::READ));
    let metrics = OpenApiRouter::new().routes(routes!(health::metrics)).route_layer(require(Scopes::METRICS));
    let (alive, liveness) = OpenApiRouter::new().routes(routes!(health::alive)).split_for_parts();
    let (router, document) = OpenApiRouter::with_openapi(openapi::base())
        .merge(read)
        .merge(metrics)
        .routes(routes!(health::ready))
        .split_for_parts();
    let document = openapi::text(document.merge_from(liveness));
    let router = router
        .route("/v1/openapi.json", get(|headers: HeaderMap| async move { respond::json(&headers, document) }))
        .merge(page::routes());
    // Liveness does not depend on the load.
    let alive = alive
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(service), check_only))
        .with_state(Arc::clone(service));
    layered(router, service).merge(alive)
}

/// Adds what every request passes.
pub(crate) fn layered(router: Router<Arc<Service>>, service: &Arc<Service>) -> Router {
    let config = &service.config;
    router
        .fallback(|| async { Problem::not_found("no such path").hint("/v1/openapi.json lists all paths") })
        .method_not_allowed_fallback(method_not_allowed)
        .layer(
            ServiceBuilder::new()
                .option_layer((!config.cors.is_empty()).then(|| cors(config)))
                .set_x_request_id(MakeRequestUuid)
                .propagate_x_request_id()
                .layer(from_fn_with_state(Arc::clone(service), admit))
                // Chunks are compressed already.
                .layer(CompressionLayer::new().compress_when(
                    SizeAbove::new(1024).and(NotForContentType::const_new("application/octet-stream")),
                )),
        )
        .with_state(Arc::clone(service))
}

async fn method_not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, Code::Method, "the path does not support this method")
}

/// Lets the pages of the configured origins read responses.
fn cors(config: &Config) -> CorsLayer {
    let origins = config.cors.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let origins = if config.cors.contains("*") { AllowOrigin::any() } else { AllowOrigin::list(origins) };
    let request_id = HeaderName::from_static("x-request-id");
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::HEAD])
        .allow_headers([
            header::AUTHORIZATION,
            header::IF_NONE_MATCH,
            header::IF_RANGE,
            header::RANGE,
            request_id.clone(),
        ])
        .expose_headers([
            header::ACCEPT_RANGES,
            header::CONTENT_RANGE,
            header::ETAG,
            header::LOCATION,
            header::RETRY_AFTER,
            request_id,
        ])
        .max_age(Duration::from_secs(86_400))
}

/// What the log of a request contains beside its span.
#[derive(Default)]
struct Logged {
    client: Option<Arc<Client>>,
    file: Option<String>,
}

tokio::task_local! {
    static LOGGED: RefCell<Logged>;
}

/// Records the URL of a file or folder in the log of the current request.
pub(crate) fn log_file(url: &str) {
    // Outside of a request, as in a test, nothing is logged.
    let _ = LOGGED.try_with(|logged| logged.borrow_mut().file = Some(url.to_owned()));
}

/// Passes a request on within the limits of time and number. Logs and counts it when its response begins.
async fn admit(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let (metrics, method) = (&service.metrics, request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    let peer = request.extensions().get::<Peer>().map(|Peer(address)| *address);
    let span = info_span!("request", request_id = id);
    let _in_flight = Counted::new(&metrics.in_flight);
    let answer = async {
        check_host(&service.config, &request)?;
        let _permit = service.requests.try_acquire().map_err(|_| Problem::overloaded())?;
        timeout(service.config.request_time, next.run(request)).await.map_err(|_| Problem::late())
    };
    let answer = AssertUnwindSafe(answer).catch_unwind();
    let answer = async {
        let response = answer.await.unwrap_or_else(|_| Err(Problem::internal())).into_response();
        let (status, seconds) = (response.status(), start.elapsed().as_secs_f64());
        let code = response.extensions().get::<Code>().map(|code| code.as_str());
        metrics.requests.with_label_values(&[route, status.as_str()]).inc();
        metrics.seconds.with_label_values(&[route]).observe(seconds);
        let Logged { client, file } = LOGGED.with(RefCell::take);
        let client = client.map(|client| client.name.clone()).filter(|name| !name.is_empty());
        let client = client.or_else(|| Some(peer?.to_string()));
        tracing::info!(target: "virtualize_server::access", client, %method, route, file, status = status.as_u16(), code, seconds, "request");
        response
    };
    let mut response = LOGGED.scope(RefCell::default(), answer.instrument(span)).await;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Identifies the client, and refuses one that lacks a scope.
async fn authorize(
    State((service, scopes)): State<(Arc<Service>, Scopes)>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let config = &service.config;
    let client = if config.needs_token() {
        let token = bearer(request.headers());
        let found = identify(token, config.tokens.as_ref(), config.jwt.as_ref()).await;
        let client = found.map_err(|detail| Problem::new(StatusCode::UNAUTHORIZED, Code::Token, detail))?;
        let _ = LOGGED.try_with(|logged| logged.borrow_mut().client = Some(Arc::clone(&client)));
        client
    } else {
        Arc::clone(&service.anonymous)
    };
    if !client.scopes.contains(scopes) {
        let detail = "the token does not have the required scope";
        return Err(Problem::new(StatusCode::FORBIDDEN, Code::Scope, detail));
    }
    request.extensions_mut().insert(client);
    Ok(next.run(request).await)
}

/// Returns the bearer token of a request (RFC 6750, section 2.1). Several `Authorization` headers are none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Checks the host alone.
async fn check_only(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    check_host(&service.config, &request)?;
    Ok(next.run(request).await)
}

/// Checks the host of a request to a service without tokens on a loopback address. Otherwise, another site could make a
/// name in its domain resolve to this machine, so that its web pages reach the service (DNS rebinding).
fn check_host(config: &Config, request: &Request) -> Result<(), Problem> {
    let host = host_of(request)?;
    let is_guarded = !config.public && !config.needs_token() && config.listen.ip().is_loopback();
    if let Some(host) = host.filter(|_| is_guarded) {
        let name = host.host();
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        if !name.eq_ignore_ascii_case("localhost") && !address.is_ok_and(|address| address.is_loopback()) {
            let detail = "without tokens, a service on a loopback address serves requests to that address or localhost only";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, Code::Host, detail)
                .hint("give --token-file or --jwks, or --public behind a proxy"));
        }
    }
    Ok(())
}

/// Returns the host of a request: that of an absolute target, otherwise that of the only Host header (RFC 9112,
/// section 3.2).
fn host_of(request: &Request) -> Result<Option<Authority>, Problem> {
    let wrong = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, Code::Host, detail);
    let mut lines = request.headers().get_all(header::HOST).iter();
    let line = match (lines.next(), lines.next()) {
        (Some(line), None) => line,
        (None, _) if request.version() < Version::HTTP_11 => return Ok(request.uri().authority().cloned()),
        (None, _) => return Err(wrong("the request has no Host header")),
        (Some(_), Some(_)) => return Err(wrong("the request has more than one Host header")),
    };
    let host = line.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let host = host.filter(is_host).ok_or_else(|| wrong("the Host header is not a host"))?;
    match request.uri().authority() {
        Some(target) if is_host(target) => Ok(Some(target.clone())),
        Some(_) => Err(wrong("the target does not name a host")),
        None => Ok(Some(host)),
    }
}

/// Returns whether an authority consists of a host and, optionally, a port.
fn is_host(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host());
    port.is_some_and(|port| matches!(port, "" | ":") || authority.port_u16().is_some())
}
