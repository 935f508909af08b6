use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use object_store::{
    HeaderValue,
    client::{HttpRequest, HttpRequestBody},
};
use reqwest::Method;
use url::Url;
use virtualize_bytes::{ByteRange, ReadRanges};

use crate::{
    StoreError, StoreOptions,
    clients::Seen,
    connect::web_client,
    error::one_line,
    location::Location,
    meter::Meter,
    object::open,
    retry::{Backoff, Tried},
};

/// Downloads a whole file such as a list or catalogue, of at most `limit` bytes. Web servers need to support neither
/// range requests nor `Content-Length`.
pub async fn fetch(location: &str, limit: u64, options: &StoreOptions) -> Result<Bytes, StoreError> {
    if let Some(allowed) = &options.allowed {
        allowed.check(location)?;
    }
    let parsed = Location::parse(location)?;
    if let Location::Http(_) = &parsed {
        return document(&parsed, None, limit, options).await;
    }
    let object = open(location, options).await?;
    let size = object.size();
    if size > limit {
        return Err(too_large(object.name(), limit));
    }
    let parts = object.read_ranges(&[ByteRange::new(0, size)]).await;
    let failed = |error: virtualize_bytes::ReadError| StoreError::Unavailable {
        name: object.name().to_owned(),
        reason: error.to_string(),
    };
    Ok(parts.map_err(failed)?.pop().unwrap_or_default())
}

/// Posts JSON to a web server, such as a search of a STAC API, and returns the response of at most `limit` bytes.
/// Retries transient failures.
pub async fn post(
    location: &str,
    json: &str,
    limit: u64,
    options: &StoreOptions,
) -> Result<Bytes, StoreError> {
    if let Some(allowed) = &options.allowed {
        allowed.check(location)?;
    }
    match Location::parse(location)? {
        parsed @ Location::Http(_) => document(&parsed, Some(json), limit, options).await,
        other => Err(StoreError::Location {
            name: other.name(),
            reason: "nothing can be posted there, expected a url of http or https".to_owned(),
        }),
    }
}

/// Builds the error for a document larger than the limit.
fn too_large(name: &str, limit: u64) -> StoreError {
    let reason = format!("larger than {limit} bytes, which is too large for a list or catalogue");
    StoreError::Location { name: name.to_owned(), reason }
}

/// Requests a document from a web server, or posts JSON to it.
async fn document(
    location: &Location,
    json: Option<&str>,
    limit: u64,
    options: &StoreOptions,
) -> Result<Bytes, StoreError> {
    let (Location::Http(url), name) = (location, &location.name()) else {
        return Err(too_large(&location.name(), limit));
    };
    let pool = options.pool();
    let _slot = pool.slot(name).await?;
    let (mut backoff, meter) = (Backoff::of(options), Meter::new(options));
    loop {
        let seen = Seen::default();
        match answer((url, json), name, limit, options, &seen).await {
            Ok(bytes) => {
                meter.request(bytes.len() as u64);
                return Ok(bytes);
            }
            Err(Tried::Final(error)) => return Err(error),
            Err(Tried::Passing(error)) => backoff.wait(error, &seen, &meter).await?,
        }
    }
}

/// Makes one attempt of a request.
async fn answer(
    (url, json): (&Url, Option<&str>),
    name: &str,
    limit: u64,
    options: &StoreOptions,
    seen: &Seen,
) -> Result<Bytes, Tried> {
    let unavailable = |reason: String| StoreError::Unavailable { name: name.to_owned(), reason };
    let body = json.map_or_else(HttpRequestBody::empty, |json| json.to_owned().into());
    let mut request = HttpRequest::new(body);
    if json.is_some() {
        *request.method_mut() = Method::POST;
        request.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    }
    let uri = url.as_str().parse();
    *request.uri_mut() = uri.map_err(|_| Tried::Final(unavailable("not a url".to_owned())))?;
    let accepted = HeaderValue::from_static("application/geo+json, application/json, */*");
    request.headers_mut().insert("accept", accepted);
    request.extensions_mut().insert(seen.clone());
    let client = web_client(url, name, options).map_err(Tried::Final)?;
    let passing =
        |error: object_store::client::HttpError| Tried::Passing(unavailable(one_line(&error.to_string())));
    let response = client.execute(request).await.map_err(passing)?;
    let status = response.status();
    let reason = format!("the server answers {status}");
    match status.as_u16() {
        200..=299 => {}
        404 | 410 => return Err(Tried::Final(StoreError::NotFound { name: name.to_owned() })),
        401 | 403 => return Err(Tried::Final(StoreError::Denied { name: name.to_owned(), reason })),
        _ if seen.is_passing() => return Err(Tried::Passing(unavailable(reason))),
        _ => return Err(Tried::Final(unavailable(reason))),
    }
    let mut bytes = BytesMut::new();
    let mut body = response.into_body().bytes_stream();
    while let Some(part) = body.try_next().await.map_err(passing)? {
        if (bytes.len() as u64).saturating_add(part.len() as u64) > limit {
            return Err(Tried::Final(too_large(name, limit)));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.freeze())
}
