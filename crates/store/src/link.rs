//! Requests for remote objects, with retries, and the stores that a caller provides.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::DateTime;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path};
use virtualize_bytes::{BoxFuture, ByteRange, ReadError, ReadErrorKind};

use crate::{
    Identity, StoreError, StoreOptions,
    clients::{Pool, Purpose, Seen},
    connect::{connect, web_client},
    error,
    location::Location,
    meter::Meter,
    web::{self, WebFile, WebResponse},
};

/// Connection to a remote object, with a share of the request slots.
#[derive(Debug)]
pub(crate) struct Link {
    route: Route,
    /// Name for messages.
    pub(crate) name: String,
    pool: Arc<Pool>,
    retries: usize,
    retry_timeout: Duration,
    /// Maximum size of a body whose length the server does not announce.
    whole_limit: u64,
    /// Identity of the requests, before any login; `None` for a store of the caller.
    identity: Option<Identity>,
}

/// The store of an object, and the object's place in it.
#[derive(Debug)]
enum Route {
    /// A store of `object_store`.
    Own(Arc<dyn ObjectStore>, Path),
    /// A web server.
    Web(WebFile),
    /// A store of the caller, which retries by itself.
    Foreign(Arc<dyn ForeignStore>, String),
}

/// Reason why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store does not support range requests.
    NoRanges,
    /// The range starts past the end of the object.
    PastEnd(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    /// Returns the error to report.
    pub(crate) fn described(self, link: &Link) -> StoreError {
        match self {
            Self::NoRanges => link.unavailable("the server no longer sends parts of the file".to_owned()),
            Self::PastEnd(error) | Self::Other(error) => error,
        }
    }
}

impl Link {
    /// Connects to the object of a location, without a request.
    pub(crate) fn new(location: &Location, options: &StoreOptions) -> Result<Self, StoreError> {
        let route = match (location, &options.through) {
            (Location::Foreign(url), Some(store)) => Route::Foreign(Arc::clone(store), url.clone()),
            (Location::Http(url), _) => {
                let name = location.name();
                Route::Web(WebFile::new(web_client(url, &name, options)?, url.clone(), name))
            }
            _ => {
                let (store, path) = connect(location, Purpose::Reading, options)?;
                Route::Own(store, path)
            }
        };
        let StoreOptions { retries, retry_timeout, whole_limit, .. } = *options;
        let pool = options.pool();
        let is_foreign = matches!(location, Location::Foreign(_));
        let identity = (!is_foreign).then(|| options.access_to(location).1.identity(location));
        Ok(Self { route, name: location.name(), pool, retries, retry_timeout, whole_limit, identity })
    }

    /// Returns whether the file is on a web server.
    pub(crate) fn is_web(&self) -> bool {
        matches!(self.route, Route::Web(_))
    }

    /// Returns whether all ranges so far had their length and the size of the file.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.route {
            Route::Web(file) => file.is_complete(),
            Route::Own(..) | Route::Foreign(..) => true,
        }
    }

    /// Returns how many requests could start at once.
    pub(crate) fn free_slots(&self) -> usize {
        self.pool.free_slots()
    }

    /// Sends a request and reads its whole response; retries transient failures. `accept` checks the response's
    /// metadata before its body is read.
    pub(crate) async fn get(
        &self,
        options: GetOptions,
        meter: &Meter,
        accept: impl Fn(&ObjectMeta) -> Result<(), StoreError>,
    ) -> Result<(ObjectMeta, Bytes), Failure> {
        let _slot = self.pool.slot(&self.name).await?;
        let mut backoff = Backoff::new(self.retries, self.retry_timeout);
        let result = loop {
            let seen = Seen::default();
            let mut tagged = options.clone();
            tagged.extensions.insert(seen.clone());
            match self.once(tagged, &seen, &accept).await {
                Ok(answer) => break Ok(answer),
                Err(Tried::Final(Failure::Other(error))) => {
                    let error = match &self.identity {
                        Some(identity) => error.with_identity(|| identity.clone()),
                        None => error,
                    };
                    break Err(error.into());
                }
                Err(Tried::Final(failure)) => break Err(failure),
                Err(Tried::Passing(error)) => {
                    if let Err(error) = backoff.wait(error, &seen, meter).await {
                        break Err(error.into());
                    }
                }
            }
        };
        meter.request(result.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64));
        result
    }

    /// Makes one attempt of a request.
    async fn once(
        &self,
        options: GetOptions,
        seen: &Seen,
        accept: impl Fn(&ObjectMeta) -> Result<(), StoreError>,
    ) -> Result<(ObjectMeta, Bytes), Tried<Failure>> {
        let (store, path) = match &self.route {
            Route::Own(store, path) => (store, path),
            Route::Web(file) => return self.web(file, &options, seen, accept).await,
            Route::Foreign(store, url) => {
                let (meta, bytes) =
                    self.foreign(store.as_ref(), url, &options).await.map_err(Tried::Final)?;
                accept(&meta).map_err(|error| Tried::Final(error.into()))?;
                return Ok((meta, bytes));
            }
        };
        let is_head = options.head;
        let result = store.get_opts(path, options).await.map_err(|error| self.failed(&error, seen))?;
        accept(&result.meta).map_err(|error| Tried::Final(error.into()))?;
        let meta = result.meta.clone();
        if is_head {
            return Ok((meta, Bytes::new()));
        }
        let expected = result.range.end.saturating_sub(result.range.start);
        let bytes = result.bytes().await.map_err(|error| {
            seen.broken(&error);
            Tried::Passing(StoreError::broken(&self.name, &error))
        })?;
        match bytes.len() as u64 {
            length if length == expected => Ok((meta, bytes)),
            length => Err(Tried::Passing(self.wrong_length(length, expected))),
        }
    }

    /// Makes one attempt of a request to a web server.
    async fn web(
        &self,
        file: &WebFile,
        options: &GetOptions,
        seen: &Seen,
        accept: impl Fn(&ObjectMeta) -> Result<(), StoreError>,
    ) -> Result<(ObjectMeta, Bytes), Tried<Failure>> {
        let WebResponse { mut meta, range, body } = file.get(options, seen).await?;
        accept(&meta).map_err(|error| Tried::Final(error.into()))?;
        if options.head {
            return Ok((meta, Bytes::new()));
        }
        let limit = range.as_ref().map_or(self.whole_limit, |range| range.end.saturating_sub(range.start));
        let bytes = web::read_body(body, limit).await.map_err(|error| {
            seen.broken(&error);
            let reason = format!("the response ended early: {}", error::innermost(&error));
            Tried::Passing(self.unavailable(reason))
        })?;
        let Some(bytes) = bytes else {
            let error = match range {
                Some(_) => self.unavailable(format!("the server sent more than {limit} bytes")),
                None => StoreError::NoRanges { name: self.name.clone(), limit },
            };
            return Err(Tried::Final(error.into()));
        };
        let length = bytes.len() as u64;
        match range {
            Some(_) if length != limit => return Err(Tried::Passing(self.wrong_length(length, limit))),
            Some(_) => {}
            None => meta.size = length,
        }
        Ok((meta, bytes))
    }

    /// Reads a range through a foreign store.
    async fn foreign(
        &self,
        store: &dyn ForeignStore,
        url: &str,
        options: &GetOptions,
    ) -> Result<(ObjectMeta, Bytes), Failure> {
        let Some(GetRange::Bounded(range)) = &options.range else { return Err(Failure::NoRanges) };
        let range = ByteRange::new(range.start, range.end.saturating_sub(range.start));
        let read = store.read(url, range, options.if_match.as_deref()).await;
        let (version, bytes) = read.map_err(|error| StoreError::foreign(&self.name, &error))?;
        let expected = range.clamp_to(version.size).length;
        if bytes.len() as u64 != expected {
            let reason = format!("the store returned {} bytes, expected {expected}", bytes.len());
            return Err(self.unavailable(reason).into());
        }
        Ok((version.into(), bytes))
    }

    /// Classifies the failure of an attempt.
    fn failed(&self, error: &Error, seen: &Seen) -> Tried<Failure> {
        let described = match seen.region() {
            Some(region) => StoreError::Region { name: self.name.clone(), region },
            None => StoreError::remote(&self.name, error),
        };
        if error::of_ours(error).is_some() {
            // The provider of credentials was called as often as may help.
            return Tried::Final(Failure::Other(described));
        }
        match error {
            Error::NotSupported { .. } => Tried::Final(Failure::NoRanges),
            _ if seen.status() == 416 => Tried::Final(Failure::PastEnd(described)),
            _ if seen.is_passing() && described.kind() == ReadErrorKind::Unavailable => {
                Tried::Passing(described)
            }
            _ => Tried::Final(Failure::Other(described)),
        }
    }

    /// Builds the error for a file that changed after it was opened.
    pub(crate) fn changed(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Changed { name: self.name.clone(), reason: reason.into() }
    }

    /// Builds the error for a body of another length.
    fn wrong_length(&self, length: u64, expected: u64) -> StoreError {
        self.unavailable(format!("the server sent {length} bytes, expected {expected}"))
    }

    /// Builds the error for a failure of the store.
    pub(crate) fn unavailable(&self, reason: String) -> StoreError {
        StoreError::unavailable(&self.name, reason)
    }
}

/// Delay before the first retry.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum delay between retries.
const LONGEST: Duration = Duration::from_secs(5);

/// How an attempt failed.
#[derive(Debug)]
pub(crate) enum Tried<F = StoreError> {
    /// Permanently.
    Final(F),
    /// Transiently.
    Passing(StoreError),
}

/// Exponential backoff within the limits of the options.
#[derive(Debug)]
pub(crate) struct Backoff {
    left: usize,
    end: Instant,
    wait: Duration,
    tries: usize,
}

impl Backoff {
    pub(crate) fn new(retries: usize, timeout: Duration) -> Self {
        let now = Instant::now();
        let end = now.checked_add(timeout).unwrap_or(now);
        Self { left: retries, end, wait: FIRST, tries: 1 }
    }

    /// Returns a backoff with the limits of `options`.
    pub(crate) fn of(options: &StoreOptions) -> Self {
        Self::new(options.retries, options.retry_timeout)
    }

    /// Waits before the next attempt, at least as long as the server asks for, and counts the retry; returns the
    /// failure if no attempts are left.
    pub(crate) async fn wait(
        &mut self,
        failure: StoreError,
        seen: &Seen,
        meter: &Meter,
    ) -> Result<(), StoreError> {
        let wait = self.wait.mul_f64(jitter()).max(seen.retry_after());
        let now = Instant::now();
        if self.left == 0 || now.checked_add(wait).is_none_or(|then| then > self.end) {
            return Err(match failure {
                StoreError::Unavailable { name, reason } if self.tries > 1 => {
                    StoreError::unavailable(name, format!("{reason} (tried {} times)", self.tries))
                }
                failure => failure,
            });
        }
        self.left -= 1;
        self.tries += 1;
        self.wait = self.wait.saturating_mul(2).min(LONGEST);
        tracing::info!("{failure}: retrying in {} ms", wait.as_millis());
        meter.retried(seen.reason(), wait);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Returns a random factor from 0.5 to 1, so that requests that fail together are not repeated together.
fn jitter() -> f64 {
    0.5 + fastrand::f64() / 2.0
}

/// A store that the caller provides, such as one of a Python library. Files are read through it if it is set in
/// [`crate::StoreOptions::through`].
pub trait ForeignStore: fmt::Debug + Send + Sync {
    /// Reads a range of the file at a URL, and returns the version of the file that contains these bytes, or fails: all
    /// detection of changes rests on this. The result is shorter if the file ends within the range. `if_match` is the
    /// entity tag when the file was opened, for stores that support conditional requests; `None` when the file is
    /// being opened, and for files without a tag.
    fn read<'a>(
        &'a self,
        url: &'a str,
        range: ByteRange,
        if_match: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(FileVersion, Bytes), ReadError>>;
}

/// Version of a file in a foreign store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileVersion {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag.
    pub etag: Option<String>,
    /// Modification time in microseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
}

impl From<FileVersion> for ObjectMeta {
    fn from(version: FileVersion) -> Self {
        let modified = version.modified.and_then(DateTime::from_timestamp_micros).unwrap_or_default();
        let FileVersion { size, etag, .. } = version;
        Self { location: Path::default(), last_modified: modified, size, e_tag: etag, version: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_within_a_half_and_one() {
        let all: Vec<_> = (0..100).map(|_| jitter()).collect();
        assert!(all.iter().all(|one| (0.5..=1.0).contains(one)));
        assert!(all.iter().any(|one| (one - all[0]).abs() > 1e-6));
    }
}
