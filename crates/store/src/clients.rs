use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use object_store::{
    ClientOptions, ObjectStore,
    client::{
        HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
    list::PaginatedListStore,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Allowed, StoreError, keys::Taken, transport};

/// Connections, credentials and slots for requests, shared by all files that are opened with the same options or clones
/// of them. Options that were changed after cloning get their own.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<HashMap<Settings, Arc<Pool>>>>);

/// The options that a connection depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    pub(crate) values: Vec<(String, String)>,
    pub(crate) anonymous: bool,
    pub(crate) endpoint: Option<String>,
    pub(crate) bearer_token: Option<String>,
    pub(crate) concurrency: usize,
    pub(crate) retries: usize,
    pub(crate) retry_timeout: Duration,
}

/// What files with equal settings share.
pub(crate) struct Pool {
    slots: Semaphore,
    buckets: Mutex<HashMap<(String, Purpose), Bucket>>,
    /// Where buckets were found to be, by their urls; `None` where that was asked in vain.
    regions: Mutex<BTreeMap<String, Option<String>>>,
    /// For `http` and for `https`; a client keeps connections to many hosts.
    http: OnceLock<HttpClient>,
    https: OnceLock<HttpClient>,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Purpose {
    /// Each request goes out once: tries after a failure are ours.
    Reading,
    /// The store tries again by itself.
    Writing,
}

/// A bucket or container.
#[derive(Clone)]
pub(crate) struct Bucket {
    /// Objects by their keys.
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// Keys in pages.
    pub(crate) pages: Arc<dyn PaginatedListStore>,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients")
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl Clients {
    /// Returns what files with these settings share.
    pub(crate) fn pool(&self, settings: Settings) -> Arc<Pool> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = settings.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        pools.entry(settings).or_insert_with(|| Arc::new(Pool::new(slots))).clone()
    }
}

impl Pool {
    fn new(slots: usize) -> Self {
        Self {
            slots: Semaphore::new(slots),
            buckets: Mutex::default(),
            regions: Mutex::default(),
            http: OnceLock::new(),
            https: OnceLock::new(),
        }
    }

    /// Waits until a request may start; it ends when the permit is dropped.
    pub(crate) async fn slot(&self, name: &str) -> Result<SemaphorePermit<'_>, StoreError> {
        let closed = |error: tokio::sync::AcquireError| StoreError::Unavailable {
            name: name.to_owned(),
            reason: error.to_string(),
        };
        self.slots.acquire().await.map_err(closed)
    }

    /// The bucket of a url such as `s3://name`, connected to when it is asked for first.
    pub(crate) fn bucket(
        &self,
        url: &str,
        purpose: Purpose,
        connect: impl FnOnce() -> Result<Bucket, StoreError>,
    ) -> Result<Bucket, StoreError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (url.to_owned(), purpose);
        if let Some(bucket) = buckets.get(&key) {
            return Ok(bucket.clone());
        }
        let bucket = connect()?;
        buckets.insert(key, bucket.clone());
        Ok(bucket)
    }

    /// Where a bucket was found to be.
    pub(crate) fn region(&self, bucket: &str) -> Option<String> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).cloned().flatten()
    }

    /// Where all buckets were found to be, by their urls.
    pub(crate) fn regions(&self) -> BTreeMap<String, String> {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.iter().filter_map(|(bucket, region)| Some((bucket.clone(), region.clone()?))).collect()
    }

    /// Whether it was asked already where a bucket is.
    pub(crate) fn knows_region(&self, bucket: &str) -> bool {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).contains_key(bucket)
    }

    /// Notes where a bucket is, so that connections to it are made anew.
    pub(crate) fn set_region(&self, bucket: &str, region: Option<&str>) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let old = regions.insert(bucket.to_owned(), region.map(str::to_owned)).flatten();
        if old.as_deref() != region {
            let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
            buckets.retain(|(other, _), _| other != bucket);
        }
    }

    /// The client for plain HTTP, or HTTPS.
    fn web(&self, secure: bool, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let place = if secure { &self.https } else { &self.http };
        if let Some(client) = place.get() {
            return Ok(client.clone());
        }
        let client = Observing.connect(options)?;
        Ok(place.get_or_init(|| client).clone())
    }
}

/// Hands out the pool's client for web servers.
#[derive(Debug)]
pub(crate) struct Web {
    /// Whose client.
    pub(crate) pool: Arc<Pool>,
    /// Whether the url is one of `https`.
    pub(crate) secure: bool,
    /// What may be reached, which has a client of its own.
    pub(crate) allowed: Option<Allowed>,
}

impl HttpConnector for Web {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        match &self.allowed {
            Some(allowed) => Ok(HttpClient::new(Observed(allowed.client()?))),
            None => self.pool.web(self.secure, options),
        }
    }
}

/// Makes clients that note what they see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observing;

impl HttpConnector for Observing {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Observed(ReqwestConnector::default().connect(options)?)))
    }
}

/// The same for buckets, which follow no redirect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Straight;

impl HttpConnector for Straight {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Observed(transport::client(options)?)))
    }
}

#[derive(Debug)]
struct Observed(HttpClient);

impl HttpService for Observed {
    fn call<'service, 'call>(
        &'service self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'service: 'call,
        Self: 'call,
    {
        let seen = request.extensions().get::<Seen>().cloned().unwrap_or_default();
        let taken = request.extensions().get::<Taken>().cloned();
        Box::pin(async move {
            let answer = self.0.execute(request).await?;
            seen.note(&answer);
            match taken.filter(|_| answer.status().is_success()) {
                Some(taken) => take(answer, &taken).await,
                None => Ok(answer),
            }
        })
    }
}

/// Keeps the body of an answer, and hands it on.
async fn take(answer: HttpResponse, taken: &Taken) -> Result<HttpResponse, HttpError> {
    let (head, body) = answer.into_parts();
    let body = body.bytes().await?;
    taken.put(body.clone());
    Ok(HttpResponse::from_parts(head, body.into()))
}

/// What a server answered to a request, with which this travels as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The status; 0 before there is one.
    status: Arc<AtomicU64>,
    /// Seconds of the header `Retry-After`.
    after: Arc<AtomicU64>,
    /// The region of a bucket that is not where it was looked for.
    region: Arc<Mutex<Option<String>>>,
}

impl Seen {
    fn note(&self, response: &HttpResponse) {
        self.status.store(u64::from(response.status().as_u16()), Ordering::Relaxed);
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let seconds = after.and_then(|seconds| seconds.trim().parse().ok());
        self.after.store(seconds.unwrap_or_default(), Ordering::Relaxed);
        let elsewhere = matches!(response.status().as_u16(), 301 | 302 | 307 | 308 | 400);
        let region = response.headers().get("x-amz-bucket-region").filter(|_| elsewhere);
        let region = region.and_then(|value| value.to_str().ok()).filter(|region| is_region(region));
        *self.region.lock().unwrap_or_else(PoisonError::into_inner) = region.map(str::to_owned);
    }

    /// Where S3 says that the bucket is, where a request went to another region.
    pub(crate) fn region(&self) -> Option<String> {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The status of the last answer; 0 where there was none.
    pub(crate) fn status(&self) -> u64 {
        self.status.load(Ordering::Relaxed)
    }

    /// Whether another try may go well: nothing was answered, or a server that is busy, slow or broken says so.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.status(), 0 | 408 | 429 | 500..=599)
    }

    /// How long the server wants to be left alone.
    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_secs(self.after.load(Ordering::Relaxed))
    }
}

/// Whether text can be a region: it becomes part of a host's name.
fn is_region(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
}
