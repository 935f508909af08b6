//! What all requests share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Semaphore;
use virtualize_store::{Allowed, StoreOptions};

use crate::{Config, ConfigError, disk::Disk, metrics::Metrics, plain, rate::Rate, sources::Sources};

/// The service itself.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) rate: Rate,
    /// Places for requests.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) sources: Sources,
    /// Permits for chunks that are decoded.
    pub(crate) decoding: Arc<Semaphore>,
    /// References that were made.
    pub(crate) disk: Option<Disk>,
    stopping: AtomicBool,
}

impl Context {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let disk = config.cache.as_deref().map(|folder| Disk::open(folder, config.cache_size)).transpose()?;
        Ok(Self {
            metrics: Metrics::new()?,
            rate: Rate::new(config.rate, config.burst),
            places: Arc::new(Semaphore::new(config.concurrent)),
            sources: Sources::new(&config),
            decoding: Arc::new(Semaphore::new(plain::PIECES)),
            disk,
            stopping: AtomicBool::new(false),
            config,
        })
    }

    /// How sources are reached by a client who may read what is allowed.
    pub(crate) fn store_options(&self, allowed: &Allowed) -> StoreOptions {
        StoreOptions { allowed: Some(allowed.clone()), ..self.config.store.clone() }
    }

    /// No more requests are wanted.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
