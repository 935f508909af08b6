//! The state that all requests share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    Config, ConfigError,
    budget::Budget,
    cache::Cache,
    metrics::Metrics,
    queue::{Limits, Queue},
    quota::Quotas,
    rate::Rate,
    rendered::Rendered,
    sources::Sources,
};

/// Seconds whose bytes a client may receive at once after a pause.
const BURST: u64 = 60;

/// The state of the service.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    /// Requests of the clients.
    pub(crate) rate: Rate,
    /// Bytes of the clients' responses.
    pub(crate) bytes: Arc<Rate>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) sources: Arc<Sources>,
    /// Memory budget of all requests.
    pub(crate) memory: Budget,
    /// Budget of temporary files and of the cache folder.
    pub(crate) spool: Budget,
    /// Quotas of the clients.
    pub(crate) quotas: Quotas,
    pub(crate) rendered: Rendered,
    pub(crate) cache: Option<Arc<Cache>>,
    stopping: AtomicBool,
}

impl Context {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let metrics = Arc::new(Metrics::new(&config.allowed.prefixes())?);
        let (memory, spool) = (Budget::new(config.memory), Budget::new(config.cache_size));
        let cache = config.cache.as_ref();
        let cache = cache.map(|place| Cache::open(place, config.cache_size, spool.clone(), &config.store));
        let cache = cache.transpose()?.map(Arc::new);
        let sources = Arc::new(Sources::new(&config, &metrics, cache.clone()));
        let client_bytes = config.traffic.client_bytes;
        Ok(Self {
            metrics,
            rate: Rate::new(config.traffic.rate.into(), config.traffic.burst.into()),
            bytes: Arc::new(Rate::new(client_bytes, client_bytes.saturating_mul(BURST))),
            queue: Queue::new(Limits::of(&config)),
            quotas: Quotas::new(&config, &memory, &spool),
            rendered: Rendered::new(&sources, cache.clone(), spool.clone()),
            spool,
            sources,
            memory,
            cache,
            stopping: AtomicBool::new(false),
            config,
        })
    }

    /// Makes `/readyz` report that the service is stopping.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
