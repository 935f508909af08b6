//! The guard, which checks every request before it reaches its route.

use std::{
    collections::HashMap,
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;

use crate::{
    Problem,
    auth::{Scope, Scopes},
    body::{Entry, Watched},
    client::{Client, EVERYTHING, Identity},
    context::Context,
    jwt::Jwt,
    measured::Route,
    metrics::Metrics,
    queue::Full,
    quota::{Holds, Quota},
    request_id,
};
use virtualize::Code;

/// Status in the log of a request whose client disconnected before the response was ready.
const CLOSED: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// The peer address of a connection, an extension of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// The access that a route requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Open to every client and exempt from the rate limit; for liveness only.
    Always,
    /// Open to every client.
    Anyone,
    /// Open to clients with this scope.
    Scoped(Scope),
}

/// The routes by their paths, and the one of paths that do not exist.
#[derive(Debug)]
pub(crate) struct Routes {
    by_path: HashMap<&'static str, Arc<Route>>,
    unmatched: Arc<Route>,
}

impl Routes {
    pub(crate) fn new(routes: impl IntoIterator<Item = (&'static str, Access)>, metrics: &Metrics) -> Self {
        let route = |path, access| Arc::new(Route::new(path, access, metrics));
        let by_path = routes.into_iter().map(|(path, access)| (path, route(path, access))).collect();
        // An unmatched path gets the same response for every client.
        Self { by_path, unmatched: route("unmatched", Access::Anyone) }
    }

    fn of(&self, request: &Request) -> &Arc<Route> {
        let matched = request.extensions().get::<MatchedPath>();
        matched.and_then(|path| self.by_path.get(path.as_str())).unwrap_or(&self.unmatched)
    }
}

/// Checks a request in the order given in the crate's documentation, and forwards it to its route.
pub(crate) async fn guard(
    State((context, routes)): State<(Arc<Context>, Arc<Routes>)>,
    request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    context.metrics.in_flight.inc();
    let neighbour = neighbour_of(&context, &request);
    let mut entry = Entry {
        id: request_id::of(request.headers()),
        method: request.method().clone(),
        client: Arc::clone(&neighbour.identity),
        rate: Arc::clone(&context.bytes),
        metrics: Arc::clone(&context.metrics),
        route: Arc::clone(routes.of(&request)),
        status: CLOSED,
        start,
        bytes: 0,
        whole: false,
        place: None,
        holds: Holds::default(),
    };
    let origin = origin(&context, request.headers());
    let outcome =
        AssertUnwindSafe(admitted(&context, neighbour, request, next, &mut entry)).catch_unwind().await;
    let mut response = match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => {
            tracing::error!(request_id = %entry.id, "a request made the service panic");
            Problem::internal().into_response()
        }
    };
    if let Some(place) = &mut entry.place {
        place.is_ready();
    }
    entry.status = response.status();
    decorate(response.headers_mut(), &entry.id, origin);
    let most = context.config.times.answer;
    response.map(|body| Watched::body(body, entry, most))
}

/// Answers a request that passes the checks.
async fn admitted(
    context: &Arc<Context>,
    neighbour: Neighbour,
    mut request: Request,
    next: Next,
    entry: &mut Entry,
) -> Result<Response, Problem> {
    host(context, &request)?;
    if request.method() == Method::OPTIONS {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if entry.route.access != Access::Always {
        let client = admit(context, neighbour, request.headers(), entry).await?;
        request.extensions_mut().insert(client);
    }
    let answer = tokio::time::timeout(context.config.times.request, next.run(request)).await;
    answer.map_err(|_| {
        Problem::new(StatusCode::GATEWAY_TIMEOUT, Code::Time, "the response was not ready in time")
            .retry_after(10)
    })
}

/// Identifies the client, and waits for its turn, or refuses its request.
async fn admit(
    context: &Context,
    neighbour: Neighbour,
    headers: &HeaderMap,
    entry: &mut Entry,
) -> Result<Client, Problem> {
    let Neighbour { mut identity, mut quota } = neighbour;
    if matches!(entry.route.access, Access::Scoped(_)) && context.config.needs_token() {
        identity = with_token(context, headers, &identity.name).await?;
        quota = context.quotas.of(&identity.name);
        entry.client = Arc::clone(&identity);
    }
    let now = Instant::now();
    context.rate.take(&identity.name, now).map_err(too_many)?;
    if let Some(wait) = context.bytes.debt(&identity.name, now) {
        let detail = "the client has received too many bytes";
        return Err(
            Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::Rate, detail).retry_after(seconds(wait))
        );
    }
    if let Access::Scoped(scope) = entry.route.access
        && !identity.scopes.has(scope)
    {
        let detail = "the token does not have the required scope";
        return Err(Problem::new(StatusCode::FORBIDDEN, Code::Scope, detail));
    }
    entry.place = Some(context.queue.place(&quota.name).await.map_err(full)?);
    Ok(Client { identity, quota, holds: entry.holds.clone() })
}

/// Returns a time for `Retry-After`, in whole seconds.
pub(crate) fn seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

fn too_many(wait: Duration) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::Rate, "too many requests from this client")
        .retry_after(seconds(wait))
}

fn full(full: Full) -> Problem {
    match full {
        Full::Client(wait) => {
            let detail = "the client has reached its limit of concurrent requests";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::Requests, detail).retry_after(seconds(wait))
        }
        Full::Service(wait) => {
            let detail = "too many requests in progress";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, detail).retry_after(seconds(wait))
        }
    }
}

/// Returns the host of a request: that of an absolute target, otherwise that of the only Host header (RFC 9112,
/// section 3.2).
fn host_of(request: &Request) -> Result<Option<Authority>, Problem> {
    let wrong = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, Code::Host, detail);
    let mut lines = request.headers().get_all(header::HOST).iter();
    let line = match (lines.next(), lines.next()) {
        (Some(line), None) => Some(line),
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => return Err(wrong("the request has no Host header")),
        (Some(_), Some(_)) => return Err(wrong("the request has more than one Host header")),
    };
    let parsed = |line: &HeaderValue| {
        let host = line.to_str().ok()?.parse::<Authority>().ok()?;
        Some(host).filter(|host| !host.as_str().contains('@'))
    };
    let named =
        line.map(|line| parsed(line).ok_or_else(|| wrong("the Host header is not a host"))).transpose()?;
    Ok(request.uri().authority().cloned().or(named))
}

/// Checks the host of a request to a service without tokens on a loopback address. Otherwise a web page of another site
/// could reach it through a name of its own that resolves to this machine (DNS rebinding).
fn host(context: &Context, request: &Request) -> Result<(), Problem> {
    let Some(host) = host_of(request)? else { return Ok(()) };
    let config = &context.config;
    if config.public || config.needs_token() || !config.listen.ip().is_loopback() {
        return Ok(());
    }
    let name = host.host();
    if name.eq_ignore_ascii_case("localhost")
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|host| host.is_loopback())
    {
        return Ok(());
    }
    let detail =
        "without tokens, a service on a loopback address serves requests to that address or localhost only";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, Code::Host, detail)
        .hint("give --token-file or --jwks, or --public behind a proxy"))
}

/// A client without a token, identified by its address.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    identity: Arc<Identity>,
    pub(crate) quota: Arc<Quota>,
}

impl Neighbour {
    pub(crate) fn new(context: &Context, address: &str) -> Self {
        let config = &context.config;
        let scopes = match (config.needs_token(), config.public) {
            (false, false) => Scopes::ALL,
            (false, true) => Scopes::READ,
            (true, _) => Scopes::default(),
        };
        let (name, access_key) = (address.to_owned(), EVERYTHING.to_owned());
        let identity = Identity { name, scopes, allowed: config.allowed.clone(), access_key };
        Self { identity: Arc::new(identity), quota: context.quotas.of(address) }
    }
}

/// Returns the client at the address of a request, which its connection knows unless a proxy forwards it.
fn neighbour_of(context: &Context, request: &Request) -> Neighbour {
    match request.extensions().get::<Neighbour>().filter(|_| !context.config.trust_forwarded) {
        Some(neighbour) => neighbour.clone(),
        None => Neighbour::new(context, &address(context, request)),
    }
}

/// Identifies a client by its token.
async fn with_token(context: &Context, headers: &HeaderMap, address: &str) -> Result<Arc<Identity>, Problem> {
    let config = &context.config;
    let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, Code::Token, detail);
    let token = bearer(headers);
    if let (Some(jwt), Some(token)) = (&config.jwt, token.filter(|token| Jwt::is_jwt(token))) {
        if let Some(known) = jwt.known(token).await {
            return Ok(known);
        }
        // A signature costs time, so that the rate limit applies to good and bad ones.
        guess(context, address)?;
        return jwt.verify(token).await.map_err(|refusal| refused(refusal.0));
    }
    let found = config.tokens.as_ref().zip(token).and_then(|(tokens, token)| tokens.find(token));
    match found {
        Some(found) => Ok(found),
        None => {
            guess(context, address)?;
            Err(refused("expected `Authorization: Bearer` with a valid token"))
        }
    }
}

/// Applies the rate limit to tokens that are not known.
fn guess(context: &Context, address: &str) -> Result<(), Problem> {
    context.rate.take(&format!("no token: {address}"), Instant::now()).map_err(too_many)
}

/// Returns the bearer token of a request (RFC 6750, section 2.1). Several `Authorization` headers are none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the address of the client, which a trusted proxy forwards.
fn address(context: &Context, request: &Request) -> String {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let forwarded = request.headers().get_all("x-forwarded-for").iter().next_back();
    let forwarded = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    let address = if context.config.trust_forwarded { forwarded.or(peer) } else { peer };
    address.map_or_else(|| "unknown".to_owned(), name_of)
}

/// Returns the name of the client at an address: for IPv6 the /64 network, as one client has many addresses.
pub(crate) fn name_of(address: IpAddr) -> String {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        address => address.to_canonical().to_string(),
    }
}

/// Returns the origin that may read the response.
fn origin(context: &Context, headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get(header::ORIGIN)?;
    let known = &context.config.cors;
    if known.contains("*") {
        return Some(HeaderValue::from_static("*"));
    }
    asked.to_str().ok().filter(|origin| known.contains(*origin)).map(|_| asked.clone())
}

/// Adds the headers of every response.
fn decorate(headers: &mut HeaderMap, id: &str, origin: Option<HeaderValue>) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(request_id::HEADER, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let Some(origin) = origin else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, DELETE, OPTIONS"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, if-none-match, if-range, range, x-request-id",
        ),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "accept-ranges, content-range, etag, link, location, retry-after, x-request-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
