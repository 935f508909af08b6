use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Allowed, Clients, ForeignStore, StoreError, Traffic,
    clients::{Pool, Settings},
};

/// Options for accessing files. Missing settings come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`,
/// `HTTPS_PROXY`).
#[derive(Clone)]
pub struct StoreOptions {
    /// Configuration of the store by the keys of `object_store`, such as `aws_region` or `timeout`.
    pub values: Vec<(String, String)>,
    /// Send requests without a signature or token.
    pub anonymous: bool,
    /// URL of a service other than the default one.
    pub endpoint: Option<String>,
    /// Bearer token for HTTPS requests.
    pub bearer_token: Option<String>,
    /// Maximum concurrent requests, at least 1, of all files that share [`StoreOptions::clients`].
    pub concurrency: usize,
    /// Number of retries of a failed request.
    pub retries: usize,
    /// Maximum time for all attempts of a request together.
    pub retry_timeout: Duration,
    /// Maximum size in bytes of an HTTP file to download whole if its server does not support range requests.
    pub whole_limit: u64,
    /// Maximum bytes of cached pages.
    pub cache_bytes: u64,
    /// Listed files of at most this many bytes are fetched whole by their first request.
    pub small_file: u64,
    /// Counts the requests of all files with these options or clones of them.
    pub traffic: Traffic,
    /// Connections shared by files and by clones of these options.
    pub clients: Clients,
    /// Prefixes of files that may be opened, whether the user or another file names them; `None` for all.
    pub allowed: Option<Allowed>,
    /// Store through which all files are read, whatever the scheme of their URLs. Outputs are not written through it.
    pub through: Option<Arc<dyn ForeignStore>>,
}

impl StoreOptions {
    /// Checks that a URL starts with an allowed prefix.
    pub(crate) fn check_allowed(&self, url: &str) -> Result<(), StoreError> {
        self.allowed.as_ref().map_or(Ok(()), |allowed| allowed.check(url).map(drop))
    }

    /// Returns the resources that files with these options share.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        self.clients.pool(Settings {
            values: self.values.clone(),
            anonymous: self.anonymous,
            endpoint: self.endpoint.clone(),
            bearer_token: self.bearer_token.clone(),
            concurrency: self.concurrency,
            retries: self.retries,
            retry_timeout: self.retry_timeout,
        })
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            anonymous: false,
            endpoint: None,
            bearer_token: None,
            concurrency: 128,
            retries: 5,
            retry_timeout: Duration::from_secs(60),
            whole_limit: 256 << 20,
            cache_bytes: 128 << 20,
            small_file: 1 << 20,
            traffic: Traffic::default(),
            clients: Clients::default(),
            allowed: None,
            through: None,
        }
    }
}

/// Omits secrets: shows the keys of values only, and of the token only whether it is set.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.values.iter().map(|(key, _)| key).collect();
        f.debug_struct("StoreOptions")
            .field("values", &keys)
            .field("anonymous", &self.anonymous)
            .field("endpoint", &self.endpoint)
            .field("bearer_token", &self.bearer_token.as_ref().map(|_| "…"))
            .field("concurrency", &self.concurrency)
            .field("retries", &self.retries)
            .field("allowed", &self.allowed)
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}
