use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Allowed, Clients,
    clients::{Pool, Settings},
};

/// How files are reached. What is not said here comes from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`,
/// `HTTPS_PROXY`).
#[derive(Clone)]
pub struct StoreOptions {
    /// Configuration of the store by the keys of `object_store`, such as `aws_region` or `timeout`.
    pub values: Vec<(String, String)>,
    /// Requests are not signed and carry no token.
    pub anonymous: bool,
    /// Url of the service, where it is not the usual one.
    pub endpoint: Option<String>,
    /// Token for `Authorization: Bearer` of HTTPS requests.
    pub bearer_token: Option<String>,
    /// Most requests under way at once, at least 1: of all files together that share [`StoreOptions::clients`].
    pub concurrency: usize,
    /// How often a failed request is tried again.
    pub retries: usize,
    /// How long all tries of a request may take together.
    pub retry_timeout: Duration,
    /// Most bytes of an HTTP file that is downloaded whole because its server cannot send parts.
    pub whole_limit: u64,
    /// Most bytes of pages kept for later reads.
    pub cache_bytes: u64,
    /// A file of at most so many bytes, as a listing has it, is fetched whole by its first request.
    pub small_file: u64,
    /// Connections that files share; clones of these options share them too.
    pub clients: Clients,
    /// What may be opened, whoever names it: the user, or a file that refers to others. All where it is `None`.
    pub allowed: Option<Allowed>,
    /// Where outputs may be written, whoever names them. Anywhere where it is `None`.
    pub writable: Option<Allowed>,
}

impl StoreOptions {
    /// Returns what files with these options share.
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
            concurrency: 64,
            retries: 5,
            retry_timeout: Duration::from_secs(60),
            whole_limit: 256 << 20,
            cache_bytes: 128 << 20,
            small_file: 1 << 20,
            clients: Clients::default(),
            allowed: None,
            writable: None,
        }
    }
}

/// Shows no secrets: of values only the keys, of the token only that it is there.
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
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}
