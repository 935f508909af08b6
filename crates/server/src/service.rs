//! The state that all requests share.

use std::sync::{Arc, atomic::AtomicBool};

use tokio::sync::Semaphore;

use crate::{
    auth::{Client, Scopes},
    budget::Budget,
    config::Config,
    error::ConfigError,
    metrics::Metrics,
    sources::Sources,
};

/// Memory of a stream in bytes, and maximum number of streams.
const STREAM: u64 = 1 << 20;
const MAX_STREAMS: usize = 128;

/// The state of the service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) sources: Sources,
    /// A client without a token, if none is needed.
    pub(crate) anonymous: Arc<Client>,
    /// Memory of responses that are built as a whole. Clients that receive slowly may use it up, or the next two, and
    /// leave the rest, which is three quarters, for mapping.
    pub(crate) responses: Budget,
    /// Memory of pieces of chunks.
    pub(crate) pieces: Budget,
    /// One permit for each request that may be answered at a time.
    pub(crate) requests: Semaphore,
    /// References that are sent while they are written: each takes a thread, and a MiB.
    pub(crate) streams: Arc<Semaphore>,
    /// Whether the service is shutting down.
    pub(crate) is_stopping: AtomicBool,
}

impl Service {
    /// Creates the service; it caches at most `files` mapped files.
    pub(crate) fn new(config: Config, files: u64) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let metrics = Arc::new(Metrics::new(&config.allowed.prefixes())?);
        let streams =
            usize::try_from(config.memory / 16 / STREAM).unwrap_or(usize::MAX).clamp(1, MAX_STREAMS);
        let scopes = if config.public { Scopes::READ } else { Scopes::ALL };
        Ok(Self {
            anonymous: Arc::new(Client::new(String::new(), scopes, &config.allowed, None)),
            sources: Sources::new(&config, &metrics, files),
            responses: Budget::new(config.memory / 8),
            pieces: Budget::new(config.memory / 16),
            requests: Semaphore::new(config.concurrency),
            streams: Arc::new(Semaphore::new(streams)),
            is_stopping: AtomicBool::new(false),
            config,
            metrics,
        })
    }
}
