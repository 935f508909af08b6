//! What all requests share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Semaphore;
use virtualize_store::{Allowed, StoreOptions};

use crate::{
    Config, ConfigError, budget::Budget, disk::Disk, jobs::Jobs, made::Kept, metrics::Metrics, quota::Quotas,
    rate::Rate, sources::Sources,
};

/// The service itself.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    pub(crate) rate: Rate,
    /// Places for requests.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) sources: Sources,
    /// For all that requests hold.
    pub(crate) memory: Budget,
    /// For temporary files.
    pub(crate) spool: Budget,
    /// What each client may use.
    pub(crate) quotas: Quotas,
    /// Answers that were made.
    pub(crate) made: Kept,
    /// The same, for longer.
    pub(crate) disk: Option<Disk>,
    pub(crate) jobs: Option<Jobs>,
    stopping: AtomicBool,
}

impl Context {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let metrics = Metrics::new()?;
        let (memory, spool) = (Budget::new(config.memory), Budget::new(config.cache_size));
        let jobs = Jobs::open(&config, &metrics, &memory)?;
        let disk = config.cache.as_deref().map(|folder| Disk::open(folder, config.cache_size, spool.clone()));
        let disk = disk.transpose()?;
        Ok(Self {
            metrics,
            rate: Rate::new(config.rate, config.burst),
            places: Arc::new(Semaphore::new(config.concurrent)),
            sources: Sources::new(&config),
            quotas: Quotas::new(&config, &memory, &spool),
            memory,
            spool,
            made: Kept::new(&config),
            disk,
            jobs,
            stopping: AtomicBool::new(false),
            config,
        })
    }

    /// How sources are reached by a client who may read what is allowed.
    pub(crate) fn store_options(&self, allowed: &Allowed) -> StoreOptions {
        self.config.store_options(allowed)
    }

    /// No more requests are wanted.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(jobs) = &self.jobs {
            jobs.stop();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
