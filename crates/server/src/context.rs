//! The state that all requests share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Semaphore;

use crate::{
    Config, ConfigError, budget::Budget, disk::Disk, jobs::Jobs, metrics::Metrics, quota::Quotas, rate::Rate,
    rendered::Rendered, sources::Sources,
};

/// The state of the service.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) rate: Rate,
    /// Permits for concurrent requests.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) sources: Arc<Sources>,
    /// Memory budget of all requests.
    pub(crate) memory: Budget,
    /// Quotas of the clients.
    pub(crate) quotas: Quotas,
    pub(crate) rendered: Rendered,
    pub(crate) disk: Option<Arc<Disk>>,
    pub(crate) jobs: Option<Jobs>,
    stopping: AtomicBool,
}

impl Context {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let metrics = Arc::new(Metrics::new()?);
        let (memory, spool) = (Budget::new(config.memory), Budget::new(config.cache_size));
        let jobs = Jobs::open(&config, &metrics, &memory)?;
        let disk = config.cache.as_deref().map(|folder| Disk::open(folder, config.cache_size, spool.clone()));
        let disk = disk.transpose()?.map(Arc::new);
        let sources = Arc::new(Sources::new(&config, &metrics));
        Ok(Self {
            metrics,
            rate: Rate::new(config.traffic.rate, config.traffic.burst),
            places: Arc::new(Semaphore::new(config.traffic.concurrent)),
            quotas: Quotas::new(&config, &memory, &spool),
            rendered: Rendered::new(&sources, disk.clone(), spool),
            sources,
            memory,
            disk,
            jobs,
            stopping: AtomicBool::new(false),
            config,
        })
    }

    /// Stops the jobs, refuses new ones, and makes `/readyz` report that the service is stopping.
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
