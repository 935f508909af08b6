//! HTTP clients, shared by files with equal settings.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    hash::Hash,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use object_store::{
    ClientConfigKey as Key, ClientOptions, ObjectStore,
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
    list::PaginatedListStore,
};
use reqwest::{
    Certificate, ClientBuilder, NoProxy, Proxy,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Access, Identity, StoreError, Stores, meter::RetryReason, session::Sessions};

/// Connections, credentials and request slots, shared by all files opened with the same options or clones of them.
/// Options changed after cloning get a pool of their own.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<HashMap<Settings, Arc<Pool>>>>);

/// Options on which a connection depends.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    pub(crate) access: Access,
    pub(crate) stores: Stores,
    pub(crate) concurrency: usize,
    pub(crate) retries: usize,
    pub(crate) retry_timeout: Duration,
}

/// URL, region and purpose of a connected bucket, and the prefix of its access.
type BucketKey = (String, Option<String>, Purpose, Option<String>);
/// Prefix of the access of web servers, and whether they use TLS. One client keeps connections to many hosts.
type WebKey = (Option<String>, bool);

/// Resources shared by files with equal settings.
pub(crate) struct Pool {
    /// One permit for each concurrent request.
    slots: Semaphore,
    /// Connected buckets.
    buckets: Mutex<HashMap<BucketKey, Bucket>>,
    /// Detected regions by bucket URL; `None` if detection failed.
    regions: Mutex<BTreeMap<String, Option<String>>>,
    /// Clients for web servers.
    web: Mutex<HashMap<WebKey, HttpClient>>,
    /// Logins to web servers.
    pub(crate) sessions: Arc<Sessions>,
}

/// Purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Purpose {
    /// Reading: each request is sent once, since this crate retries.
    Reading,
    /// Writing: `object_store` retries.
    Writing,
}

/// A connected bucket or container.
#[derive(Clone)]
pub(crate) struct Bucket {
    /// Access to objects by key.
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// Paginated listings of keys.
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
    /// Returns the pool for these settings, and creates it on first use.
    pub(crate) fn pool(&self, settings: Settings) -> Arc<Pool> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = settings.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let new = || Pool {
            slots: Semaphore::new(slots),
            buckets: Mutex::default(),
            regions: Mutex::default(),
            web: Mutex::default(),
            sessions: Arc::default(),
        };
        pools.entry(settings).or_insert_with(|| Arc::new(new())).clone()
    }
}

impl Pool {
    /// Reserves a slot for a request, waiting until one is free. The slot is released when the permit is dropped.
    pub(crate) async fn slot(&self, name: &str) -> Result<SemaphorePermit<'_>, StoreError> {
        self.slots.acquire().await.map_err(|error| StoreError::unavailable(name, error))
    }

    /// Returns how many requests could start at once.
    pub(crate) fn free_slots(&self) -> usize {
        self.slots.available_permits()
    }

    /// Returns the bucket of a URL such as `s3://name` in its detected region, and connects to it on first use with the
    /// access of `prefix`.
    pub(crate) fn bucket(
        &self,
        url: &str,
        prefix: Option<&str>,
        purpose: Purpose,
        connect: impl FnOnce(Option<String>) -> Result<Bucket, StoreError>,
    ) -> Result<Bucket, StoreError> {
        let region = self.region(url);
        let key = (url.to_owned(), region.clone(), purpose, prefix.map(str::to_owned));
        cached(&self.buckets, key, || connect(region))
    }

    /// Returns the detected region of a bucket.
    pub(crate) fn region(&self, bucket: &str) -> Option<String> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).cloned().flatten()
    }

    /// Returns whether the region of a bucket has been looked up, successfully or not.
    pub(crate) fn knows_region(&self, bucket: &str) -> bool {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).contains_key(bucket)
    }

    /// Records the region of a bucket.
    pub(crate) fn set_region(&self, bucket: &str, region: Option<&str>) {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions.insert(bucket.to_owned(), region.map(str::to_owned));
    }

    /// Returns the client for web servers below a prefix, and creates it on first use.
    pub(crate) fn web(
        &self,
        prefix: Option<&str>,
        is_secure: bool,
        create: impl FnOnce() -> Result<HttpClient, StoreError>,
    ) -> Result<HttpClient, StoreError> {
        cached(&self.web, (prefix.map(str::to_owned), is_secure), create)
    }
}

/// Returns the value of a key, and creates it on first use.
fn cached<K: Eq + Hash, V: Clone>(
    values: &Mutex<HashMap<K, V>>,
    key: K,
    create: impl FnOnce() -> Result<V, StoreError>,
) -> Result<V, StoreError> {
    let values = || values.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = values().get(&key) {
        return Ok(value.clone());
    }
    // Not while the lock is held: a client may need another one, for the service that issues its credentials.
    let value = create()?;
    Ok(values().entry(key).or_insert(value).clone())
}

/// Connector for clients that follow no redirects, and record responses in [`Seen`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Straight;

impl HttpConnector for Straight {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(observed(client(options, |builder| builder)?))
    }
}

/// Returns a client that records responses in [`Seen`].
pub(crate) fn observed(client: HttpClient) -> HttpClient {
    HttpClient::new(Observed(client))
}

/// HTTP service that records each response in the [`Seen`] extension of its request.
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
            let answer = self.0.execute(request).await.inspect_err(|error| seen.broken(error))?;
            seen.note(&answer);
            Ok(answer)
        })
    }
}

/// Facts about the response to a request, attached to the request as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// HTTP status; 0 before the first response.
    status: u16,
    /// Delay that the server requested before a retry.
    retry_after: Duration,
    /// Region that S3 reported for a bucket requested in another region.
    region: Option<String>,
    /// Whether the request, or its response's body, took too long.
    timed_out: bool,
    /// Whose login the request used.
    identity: Option<Identity>,
}

impl Seen {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records status, `Retry-After` and region of a response.
    fn note(&self, response: &HttpResponse) {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let status = response.status().as_u16();
        let elsewhere = matches!(status, 301 | 302 | 307 | 308 | 400);
        let region = header("x-amz-bucket-region").filter(|region| elsewhere && is_region(region));
        let seconds = header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        let mut facts = self.facts();
        facts.status = status;
        facts.retry_after = Duration::from_secs(seconds.unwrap_or_default());
        facts.region = region.map(str::to_owned);
    }

    /// Returns the bucket's region as S3 reported it, if the request went to another region.
    pub(crate) fn region(&self) -> Option<String> {
        self.facts().region.clone()
    }

    /// Records whose login the request uses.
    pub(crate) fn identify(&self, identity: Identity) {
        self.facts().identity = Some(identity);
    }

    /// Returns whose login the request used, if any.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.facts().identity.clone()
    }

    /// Returns the status of the last response; 0 if there was none.
    pub(crate) fn status(&self) -> u16 {
        self.facts().status
    }

    /// Records that a connection failed.
    pub(crate) fn broken(&self, error: &(dyn std::error::Error + 'static)) {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        self.facts().timed_out = causes.any(|cause| {
            let error = cause.downcast_ref::<HttpError>();
            error.is_some_and(|error| error.kind() == HttpErrorKind::Timeout)
        });
    }

    /// Returns why the request failed, if that was not final.
    pub(crate) fn reason(&self) -> RetryReason {
        let Facts { status, timed_out, .. } = *self.facts();
        match status {
            429 | 503 => RetryReason::Throttled,
            408 => RetryReason::Timeout,
            500..=599 => RetryReason::Server,
            _ if timed_out => RetryReason::Timeout,
            _ => RetryReason::Connection,
        }
    }

    /// Returns whether a retry may succeed: no response arrived, or its status reports a transient failure.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.status(), 0 | 408 | 429 | 500..=599)
    }

    /// Returns the minimum delay before a retry that the server requested.
    pub(crate) fn retry_after(&self) -> Duration {
        self.facts().retry_after
    }
}

/// Returns whether text is a valid region name, which becomes part of a host name.
fn is_region(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
}

/// Makes ring the TLS provider of the process, unless the program has chosen another. Without one, no client can be built.
pub fn install_tls() {
    // Fails if there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Builds the client that `object_store` would build of these options, but one that follows no redirects. `adapted` makes
/// further changes.
pub(crate) fn client(
    options: &ClientOptions,
    adapted: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> object_store::Result<HttpClient> {
    install_tls();
    let settings = ClientSettings(options);
    let mut builder = ClientBuilder::new().redirect(Policy::none());
    builder = builder.no_gzip().no_brotli().no_zstd().no_deflate();
    builder = builder.https_only(!settings.flag(Key::AllowHttp)?);
    builder = builder.danger_accept_invalid_certs(settings.flag(Key::AllowInvalidCertificates)?);
    builder = builder.http2_keep_alive_while_idle(settings.flag(Key::Http2KeepAliveWhileIdle)?);
    if let Some(agent) = settings.text(Key::UserAgent) {
        builder = builder.user_agent(agent);
    }
    if let Some(headers) = options.get_default_headers() {
        builder = builder.default_headers(headers.clone());
    }
    if let Some(url) = settings.text(Key::ProxyUrl) {
        let excluded = settings.text(Key::ProxyExcludes).and_then(|hosts| NoProxy::from_string(&hosts));
        builder = builder.proxy(Proxy::all(url).map_err(failed)?.no_proxy(excluded));
        if let Some(certificate) = settings.text(Key::ProxyCaCertificate) {
            let certificate = Certificate::from_pem(certificate.as_bytes()).map_err(failed)?;
            builder = builder.tls_certs_merge([certificate]);
        }
    }
    for (key, apply) in FLAGS {
        if settings.flag(key)? {
            builder = apply(builder);
        }
    }
    for (key, apply) in TIMES {
        if let Some(time) = settings.read(key, |text| humantime::parse_duration(text).ok())? {
            builder = apply(builder, time);
        }
    }
    if let Some(most) = settings.read(Key::PoolMaxIdlePerHost, |text| text.parse().ok())? {
        builder = builder.pool_max_idle_per_host(most);
    }
    if let Some(size) = settings.read(Key::Http2MaxFrameSize, |text| text.parse::<u32>().ok())? {
        builder = builder.http2_max_frame_size(size);
    }
    adapted(builder).build().map(HttpClient::new).map_err(failed)
}

type Flag = fn(ClientBuilder) -> ClientBuilder;
/// Options that are switched on.
const FLAGS: [(Key, Flag); 4] = [
    (Key::RandomizeAddresses, |builder| builder.dns_resolver(Arc::new(Shuffled))),
    (Key::NoSystemCertificates, |builder| builder.tls_certs_only([])),
    (Key::Http1Only, ClientBuilder::http1_only),
    (Key::Http2Only, ClientBuilder::http2_prior_knowledge),
];

type Time = fn(ClientBuilder, Duration) -> ClientBuilder;
/// Options with a duration.
const TIMES: [(Key, Time); 6] = [
    (Key::Timeout, ClientBuilder::timeout),
    (Key::ConnectTimeout, ClientBuilder::connect_timeout),
    (Key::ReadTimeout, ClientBuilder::read_timeout),
    (Key::PoolIdleTimeout, |builder, time| builder.pool_idle_timeout(time)),
    (Key::Http2KeepAliveInterval, |builder, time| builder.http2_keep_alive_interval(time)),
    (Key::Http2KeepAliveTimeout, ClientBuilder::http2_keep_alive_timeout),
];

/// Wraps a cause in an error of the client.
fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP client", source: error.into() }
}

/// Typed access to options by key.
struct ClientSettings<'a>(&'a ClientOptions);

impl ClientSettings<'_> {
    /// Returns an option as text.
    fn text(&self, key: Key) -> Option<String> {
        self.0.get_config_value(&key)
    }

    /// Parses an option; an invalid value is an error.
    fn read<T>(&self, key: Key, read: impl FnOnce(&str) -> Option<T>) -> object_store::Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let value = read(&text).ok_or_else(|| failed(format!("{} is {text:?}", key.as_ref())))?;
        Ok(Some(value))
    }

    fn flag(&self, key: Key) -> object_store::Result<bool> {
        let read = |text: &str| match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" | "y" => Some(true),
            "0" | "false" | "off" | "no" | "n" => Some(false),
            _ => None,
        };
        Ok(self.read(key, read)?.unwrap_or_default())
    }
}

/// DNS resolver that shuffles addresses, so that requests spread over a store's servers.
struct Shuffled;

impl Resolve for Shuffled {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let mut found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            fastrand::shuffle(&mut found);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
