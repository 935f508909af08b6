//! The guard, which checks every request before it reaches its route.

use std::{collections::HashMap, net::IpAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

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
    client::Client,
    context::Context,
    quota::Holds,
    request_id,
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

/// The access that each route requires, by its path.
pub(crate) type AccessTable = HashMap<&'static str, Access>;

/// Checks a request in the order given in the crate's documentation, and forwards it to its route.
pub(crate) async fn guard(
    State((context, table)): State<(Arc<Context>, Arc<AccessTable>)>,
    request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    context.metrics.in_flight.inc();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    // An unmatched path gets the same response for every client.
    let access = table.get(route.as_str()).copied().unwrap_or(Access::Anyone);
    let mut entry = Entry {
        id: request_id::of(request.headers()),
        method: request.method().to_string(),
        client: address(&context, &request),
        metrics: Arc::clone(&context.metrics),
        route,
        status: 499,
        start,
        bytes: 0,
        whole: false,
        places: None,
        holds: Holds::default(),
    };
    let origin = origin(&context, request.headers());
    let outcome =
        AssertUnwindSafe(admitted(&context, access, request, next, &mut entry)).catch_unwind().await;
    let mut response = match outcome {
        Ok(Ok(response)) => response,
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => {
            tracing::error!(request_id = %entry.id, "a request made the service panic");
            Problem::internal().into_response()
        }
    };
    entry.status = response.status().as_u16();
    decorate(response.headers_mut(), &entry.id, origin);
    let most = context.config.times.answer;
    response.map(|body| Watched::body(body, entry, most))
}

/// Answers a request that passes the checks.
async fn admitted(
    context: &Arc<Context>,
    access: Access,
    mut request: Request,
    next: Next,
    entry: &mut Entry,
) -> Result<Response, Problem> {
    host(context, &request)?;
    if request.method() == Method::OPTIONS {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if access != Access::Always {
        let client = admit(context, request.headers(), access, entry).await?;
        request.extensions_mut().insert(client);
    }
    let answer = tokio::time::timeout(context.config.times.request, next.run(request)).await;
    answer.map_err(|_| {
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "time", "the response was not ready in time")
            .retry_after(10)
    })
}

/// Identifies the client and reserves what its request needs, or refuses it.
async fn admit(
    context: &Context,
    headers: &HeaderMap,
    access: Access,
    entry: &mut Entry,
) -> Result<Client, Problem> {
    let client = match access {
        Access::Scoped(_) => client(context, headers, &entry.client)?,
        Access::Always | Access::Anyone => stranger(context, &entry.client),
    };
    entry.client.clone_from(&client.name);
    let wait = context.rate.take(&client.name, Instant::now());
    wait.map_err(|wait| too_many(wait.as_secs().saturating_add(1)))?;
    if let Access::Scoped(scope) = access
        && !client.scopes.has(scope)
    {
        let detail = "the token does not have the required scope";
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope", detail));
    }
    // The client's own permit comes first: while the request waits for it, it holds no shared permit.
    let own = client.quota.request().await?;
    let place = Arc::clone(&context.places).try_acquire_owned().map_err(|_| busy())?;
    entry.places = Some((own, place));
    entry.holds = client.holds.clone();
    Ok(client)
}

fn too_many(seconds: u64) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate", "too many requests from this client")
        .retry_after(seconds)
}

fn busy() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests in progress").retry_after(1)
}

/// Returns the host of a request: that of an absolute target, otherwise that of the only Host header (RFC 9112,
/// section 3.2).
fn host_of(request: &Request) -> Result<Option<Authority>, Problem> {
    let wrong = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, "host", detail);
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
    if config.public || !config.tokens.is_empty() || !config.listen.ip().is_loopback() {
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
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail)
        .hint("give --token-file, or --public behind a proxy"))
}

/// Returns a client without a token, identified by its address.
fn stranger(context: &Context, address: &str) -> Client {
    let config = &context.config;
    let scopes = match (config.tokens.is_empty(), config.public) {
        (true, false) => Scopes::ALL,
        (true, true) => Scopes::READ,
        (false, _) => Scopes::default(),
    };
    Client {
        name: address.to_owned(),
        scopes,
        allowed: config.allowed.clone(),
        access_key: "all".to_owned(),
        quota: context.quotas.of(address),
        holds: Holds::default(),
    }
}

/// Identifies a client by its token, or by its address if the service has no tokens.
fn client(context: &Context, headers: &HeaderMap, address: &str) -> Result<Client, Problem> {
    let config = &context.config;
    if config.tokens.is_empty() {
        return Ok(stranger(context, address));
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let token =
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let Some(token) = token.and_then(|token| config.tokens.find(token)) else {
        // The rate limit applies to guesses too.
        let wait = context.rate.take(&format!("no token: {address}"), Instant::now());
        wait.map_err(|wait| too_many(wait.as_secs().saturating_add(1)))?;
        let detail = "expected `Authorization: Bearer` with a valid token";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", detail));
    };
    let (allowed, access_key) = match &token.allowed {
        Some(less) => (config.allowed.and(less), token.name()),
        None => (config.allowed.clone(), "all".to_owned()),
    };
    let name = format!("token {}", token.name());
    let quota = context.quotas.of(&name);
    Ok(Client { name, scopes: token.scopes, allowed, access_key, quota, holds: Holds::default() })
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
            "authorization, content-type, if-none-match, if-range, last-event-id, range, x-request-id",
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
