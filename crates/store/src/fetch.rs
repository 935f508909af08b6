//! Requests for whole documents, and for a byte as the readers of Icechunk send them.

use bytes::Bytes;
use chrono::DateTime;
use object_store::{GetOptions, GetRange, client::HttpRequestBody};
use reqwest::Method;
use url::Url;
use virtualize_bytes::{ByteRange, ReadRanges};

use crate::{
    StoreError, StoreOptions,
    clients::Seen,
    connect::{in_region, web_client},
    link::{Backoff, Failure, Link, Tried},
    location::Location,
    meter::Meter,
    object::open,
    web,
};

/// Downloads a whole file such as a list or catalogue, of at most `limit` bytes. Web servers need to support neither
/// range requests nor `Content-Length`.
pub async fn fetch(location: &str, limit: u64, options: &StoreOptions) -> Result<Bytes, StoreError> {
    options.check_allowed(location)?;
    if let Location::Http(url) = Location::parse(location)? {
        return document(url, None, limit, options).await;
    }
    let object = open(location, options).await?;
    let size = object.size();
    if size > limit {
        return Err(too_large(object.name(), limit));
    }
    let parts = object.read_ranges(&[ByteRange::new(0, size)]).await;
    let parts = parts.map_err(|error| StoreError::unavailable(object.name(), error));
    Ok(parts?.pop().unwrap_or_default())
}

/// Posts JSON to a web server, such as a search of a STAC API, and returns the response of at most `limit` bytes.
/// Retries transient failures.
pub async fn post(
    location: &str,
    json: &str,
    limit: u64,
    options: &StoreOptions,
) -> Result<Bytes, StoreError> {
    options.check_allowed(location)?;
    match Location::parse(location)? {
        Location::Http(url) => document(url, Some(json), limit, options).await,
        other => {
            let reason = "nothing can be posted there, expected a url of http or https";
            Err(StoreError::location(other.name(), reason))
        }
    }
}

/// Builds the error for a document larger than the limit.
fn too_large(name: &str, limit: u64) -> StoreError {
    StoreError::location(
        name,
        format!("larger than {limit} bytes, which is too large for a list or catalogue"),
    )
}

/// Requests a document from a web server, or posts JSON to it.
async fn document(
    url: Url,
    json: Option<&str>,
    limit: u64,
    options: &StoreOptions,
) -> Result<Bytes, StoreError> {
    let location = Location::Http(url.clone());
    let (name, access) = (&location.name(), options.access_to(&location).1);
    let identified = |error: StoreError| error.with_identity(|| access.identity(&location));
    let pool = options.pool();
    let _slot = pool.slot(name).await?;
    let client = web_client(&url, name, options).map_err(identified)?;
    let accepted = ("accept", "application/geo+json, application/json, */*");
    let sent = json.map(|_| ("content-type", "application/json"));
    let headers = || [Some(accepted), sent].into_iter().flatten();
    let (mut backoff, meter) = (Backoff::of(options), Meter::new(options));
    loop {
        let seen = Seen::default();
        let request = match json {
            Some(json) => (Method::POST, json.to_owned().into()),
            None => (Method::GET, HttpRequestBody::empty()),
        };
        let answer = async {
            let response = web::send(&client, &url, name, request, headers(), &seen).await?;
            web::read_all(response, name, limit).await
        };
        match answer.await {
            Ok(Some(bytes)) => {
                meter.request(bytes.len() as u64);
                return Ok(bytes);
            }
            Ok(None) => return Err(too_large(name, limit)),
            Err(Tried::Final(error)) => return Err(identified(error)),
            Err(Tried::Passing(error)) => backoff.wait(error, &seen, &meter).await?,
        }
    }
}

/// What a reader demands of the file of which it requests a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// This value of `If-Match`, which may lack the quotes of an entity tag.
    Tag(String),
    /// That it was not modified after this time, in seconds since 1970-01-01T00:00:00Z.
    NotModifiedSince(i64),
}

/// Requests a byte of a file as a reader of Icechunk does.
///
/// # Errors
/// [`StoreError::Changed`] if the store does not accept the condition, [`StoreError::Unreadable`] if the response lacks
/// what the reader needs, and errors of the store.
pub async fn probe(
    url: &str,
    offset: u64,
    condition: Option<&Condition>,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    options.check_allowed(url)?;
    let location = Location::parse(url)?;
    if let (Location::Local(_), _) | (_, Some(_)) = (&location, &options.through) {
        return Ok(());
    }
    if let Some(allowed) = &options.allowed {
        allowed.check_location(&location)?;
    }
    let mut request = GetOptions {
        range: Some(GetRange::Bounded(offset..offset.saturating_add(1))),
        ..GetOptions::default()
    };
    match condition {
        Some(Condition::Tag(tag)) => request.if_match = Some(tag.clone()),
        Some(Condition::NotModifiedSince(seconds)) => {
            request.if_unmodified_since = DateTime::from_timestamp(*seconds, 0);
        }
        None => {}
    }
    let (meter, request, place) = (&Meter::new(options), &request, &location);
    let answer = in_region(&location, options, || async move {
        let link = Link::new(place, options)?;
        link.get(request.clone(), meter, |_| Ok(())).await?;
        Ok(link.is_complete())
    });
    let name = location.name();
    match answer.await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let reason =
                "the server sends ranges without their length or the size of the file, which Icechunk needs";
            Err(StoreError::Unreadable { name, reason })
        }
        Err(Failure::NoRanges) => Err(StoreError::without_ranges(name)),
        // A store may find the condition malformed.
        Err(Failure::Other(StoreError::Unavailable { reason, .. }))
            if reason.starts_with("400") && condition.is_some() =>
        {
            Err(StoreError::Changed { name, reason })
        }
        Err(Failure::Other(error) | Failure::PastEnd(error)) => Err(error),
    }
}
