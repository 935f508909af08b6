use std::{
    collections::HashMap,
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

use crate::{Allowed, StoreError, StoreOptions};

/// Connections, credentials and slots for requests, shared by all files that are opened with the same options or clones
/// of them. Options that were changed after cloning get their own.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<HashMap<Settings, Arc<Pool>>>>);

/// All of the options that a connection depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Settings {
    values: Vec<(String, String)>,
    anonymous: bool,
    endpoint: Option<String>,
    bearer_token: Option<String>,
    concurrency: usize,
    retries: usize,
    retry_timeout: Duration,
}

/// What files with equal settings share.
pub(crate) struct Pool {
    slots: Semaphore,
    buckets: Mutex<HashMap<(String, Purpose), Bucket>>,
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
    /// What files with these options share.
    pub(crate) fn pool(options: &StoreOptions) -> Arc<Pool> {
        let settings = Settings {
            values: options.values.clone(),
            anonymous: options.anonymous,
            endpoint: options.endpoint.clone(),
            bearer_token: options.bearer_token.clone(),
            concurrency: options.concurrency.clamp(1, Semaphore::MAX_PERMITS),
            retries: options.retries,
            retry_timeout: options.retry_timeout,
        };
        let mut pools = options.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = settings.concurrency;
        pools.entry(settings).or_insert_with(|| Arc::new(Pool::new(slots))).clone()
    }
}

impl Pool {
    fn new(slots: usize) -> Self {
        Self {
            slots: Semaphore::new(slots),
            buckets: Mutex::default(),
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
        Box::pin(async move {
            let answer = self.0.execute(request).await;
            if let Ok(response) = &answer {
                seen.note(response);
            }
            answer
        })
    }
}

/// What a server answered to a request, with which this travels as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The status; 0 before there is one.
    status: Arc<AtomicU64>,
    /// Seconds of the header `Retry-After`.
    after: Arc<AtomicU64>,
}

impl Seen {
    fn note(&self, response: &HttpResponse) {
        self.status.store(u64::from(response.status().as_u16()), Ordering::Relaxed);
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let seconds = after.and_then(|seconds| seconds.trim().parse().ok());
        self.after.store(seconds.unwrap_or_default(), Ordering::Relaxed);
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
