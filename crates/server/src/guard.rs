//! What every request passes before anything is done for it.

use std::{net::IpAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use virtualize_store::Allowed;

use crate::{
    Problem,
    auth::{Scope, Scopes},
    body::{Entry, Watched},
    context::Context,
    request_id,
};

/// Address of the client at the other end of the connection: an extension of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// Who asks, once that is known: an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Name of the token, or the address.
    pub(crate) name: String,
    scopes: Scopes,
    /// What may be read.
    pub(crate) allowed: Allowed,
    /// A name for it.
    pub(crate) reach: String,
}

/// The guard.
pub(crate) async fn guard(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    context.metrics.in_flight.inc();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let mut entry = Entry {
        id: request_id::of(request.headers()),
        method: request.method().to_string(),
        client: address(&context, &request),
        context: Arc::clone(&context),
        route,
        status: 499,
        start,
        bytes: 0,
        whole: false,
        permit: None,
    };
    let origin = origin(&context, request.headers());
    let outcome = AssertUnwindSafe(admitted(&context, request, next, &mut entry)).catch_unwind().await;
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
    let most = context.config.answer_time;
    response.map(|body| Watched::body(body, entry, most))
}

/// The answer to a request that may have one.
async fn admitted(
    context: &Arc<Context>,
    mut request: Request,
    next: Next,
    entry: &mut Entry,
) -> Result<Response, Problem> {
    host(context, request.headers())?;
    if request.method() == Method::OPTIONS {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if let Some(scope) = scope(request.uri().path()) {
        let client = client(context, request.headers(), &entry.client)?;
        entry.client.clone_from(&client.name);
        let wait = context.rate.take(&client.name, Instant::now());
        wait.map_err(|wait| too_many(wait.as_secs().saturating_add(1)))?;
        if !client.scopes.has(scope) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "scope",
                "the token's scopes do not reach this far",
            ));
        }
        entry.permit = Some(Arc::clone(&context.places).try_acquire_owned().map_err(|_| busy())?);
        request.extensions_mut().insert(client);
    }
    let answer = tokio::time::timeout(context.config.request_time, next.run(request)).await;
    answer.map_err(|_| {
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "time", "the answer was not ready in time").retry_after(10)
    })
}

/// The scope that a path needs. All of the API needs one but its description.
fn scope(path: &str) -> Option<Scope> {
    match path {
        "/v1/openapi.json" => None,
        "/metrics" => Some(Scope::Metrics),
        path if path == "/v1/jobs" || path.starts_with("/v1/jobs/") => Some(Scope::Jobs),
        path if path.starts_with("/v1") => Some(Scope::Read),
        _ => None,
    }
}

fn too_many(seconds: u64) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate", "too many requests of this client")
        .retry_after(seconds)
}

fn busy() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests are under way").retry_after(1)
}

/// A page of another site must not reach a service without tokens on this machine by a name of its own that leads here.
fn host(context: &Context, headers: &HeaderMap) -> Result<(), Problem> {
    let config = &context.config;
    if config.public || !config.tokens.is_empty() || !config.listen.ip().is_loopback() {
        return Ok(());
    }
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default().to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host.as_str(),
    };
    if name == "localhost"
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|host| host.is_loopback())
    {
        return Ok(());
    }
    let detail =
        "a service without tokens on a loopback address is called by that address or localhost alone";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail)
        .hint("give --token-file, or --public behind a proxy"))
}

/// Who asks: by token where there are any, else by address.
fn client(context: &Context, headers: &HeaderMap, address: &str) -> Result<Client, Problem> {
    let config = &context.config;
    if config.tokens.is_empty() {
        let scopes = if config.public { Scopes::READ } else { Scopes::ALL };
        let (name, reach) = (address.to_owned(), "all".to_owned());
        return Ok(Client { name, scopes, allowed: config.allowed.clone(), reach });
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let token =
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let Some(token) = token.and_then(|token| config.tokens.find(token)) else {
        // Guessing is as slow as asking.
        let wait = context.rate.take(&format!("no token: {address}"), Instant::now());
        wait.map_err(|wait| too_many(wait.as_secs().saturating_add(1)))?;
        let detail = "expected `Authorization: Bearer` with a token that is known here";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", detail));
    };
    let (allowed, reach) = match &token.allowed {
        Some(less) => (config.allowed.and(less), token.name()),
        None => (config.allowed.clone(), "all".to_owned()),
    };
    Ok(Client { name: format!("token {}", token.name()), scopes: token.scopes, allowed, reach })
}

/// The client's address; of IPv6 the network, since one client has many.
fn address(context: &Context, request: &Request) -> String {
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let forwarded = request.headers().get_all("x-forwarded-for").iter().next_back();
    let forwarded = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    match if context.config.trust_forwarded { forwarded.or(peer) } else { peer } {
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Some(address) => address.to_canonical().to_string(),
        None => "unknown".to_owned(),
    }
}

/// The origin that may read the answer.
fn origin(context: &Context, headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get(header::ORIGIN)?;
    let known = &context.config.cors;
    if known.contains("*") {
        return Some(HeaderValue::from_static("*"));
    }
    asked.to_str().ok().filter(|origin| known.contains(*origin)).map(|_| asked.clone())
}

/// Headers of every answer.
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
