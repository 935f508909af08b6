use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Access, Allowed, Clients, ForeignStore, StoreError, Stores, Traffic,
    clients::{Pool, Settings},
    location::Location,
};

/// Options for accessing files.
#[derive(Clone)]
pub struct StoreOptions {
    /// Access to files below none of the prefixes of `stores`.
    pub access: Access,
    /// Access to files below prefixes.
    pub stores: Stores,
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

    /// Returns the access to a location, and the prefix of [`StoreOptions::stores`] that it comes from, if any.
    pub(crate) fn access_to(&self, location: &Location) -> (Option<&str>, &Access) {
        match self.stores.find(&location.url()) {
            Some((prefix, access)) => (Some(prefix), access),
            None => (None, &self.access),
        }
    }

    /// Returns the access to a URL or to a prefix of URLs.
    pub fn access(&self, url: &str) -> &Access {
        self.stores.find(url).map_or(&self.access, |(_, access)| access)
    }

    /// Returns the resources that files with these options share.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        self.clients.pool(Settings {
            access: self.access.clone(),
            stores: self.stores.clone(),
            concurrency: self.concurrency,
            retries: self.retries,
            retry_timeout: self.retry_timeout,
        })
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            access: Access::default(),
            stores: Stores::default(),
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

/// Omits secrets, as [`Access`] does.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("access", &self.access)
            .field("stores", &self.stores)
            .field("concurrency", &self.concurrency)
            .field("retries", &self.retries)
            .field("allowed", &self.allowed)
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}
