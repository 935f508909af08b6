//! Mapped files: each is mapped once for all concurrent requests, and cached for a while.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::http::StatusCode;
use bytes::Bytes;
use moka::future::Cache;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use virtualize::{
    Code, Gate, Object, Options, VirtualStore,
    chunks::ChunkReader,
    keys::{self, ChunkEncoding},
};

use crate::{
    Config, Problem,
    budget::{FIRST, Reading, Share, full, too_large},
    cache::Cache as SharedCache,
    client::Client,
    conditional::tag,
    metrics::{Counted, Metrics, SourceTraffic},
    query::Wanted,
    shown::Shown,
    weight::{described, weight},
};

/// Maximum number of chunk positions in a response, and memory for each while they are serialized.
const PLACES: u64 = 200_000;
const PLACE: u64 = 256;

/// The cache of mapped files.
#[derive(Debug)]
pub(crate) struct Sources {
    kept: Cache<String, Arc<Mapped>>,
    shown: Shown,
    openings: Arc<Semaphore>,
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) store: Arc<VirtualStore>,
    /// Reads its chunks.
    pub(crate) reader: ChunkReader,
    /// Identifies the version of the source; empty if the store reports none.
    pub(crate) version: String,
    /// Counters of the requests to its source.
    pub(crate) traffic: SourceTraffic,
    documents: OnceLock<Result<Documents, Problem>>,
    /// Its share of the memory budget.
    _share: Option<Share>,
}

/// Metadata documents by their keys.
pub(crate) type Documents = std::collections::BTreeMap<String, Bytes>;

impl Mapped {
    fn new(store: VirtualStore, share: Option<Share>, traffic: SourceTraffic) -> Self {
        let version = store.stamp().map(|stamp| version(&stamp)).unwrap_or_default();
        Self {
            store: Arc::new(store),
            reader: ChunkReader::default(),
            version,
            traffic,
            documents: OnceLock::new(),
            _share: share,
        }
    }

    /// Returns the metadata documents of the Zarr store.
    pub(crate) fn documents(&self) -> Result<&Documents, Problem> {
        let made = self.documents.get_or_init(|| Ok(keys::documents(&self.store, ChunkEncoding::Stored)?));
        made.as_ref().map_err(Clone::clone)
    }

    /// Generates the metadata documents of the Zarr store unless they exist, on a thread for long computations.
    pub(crate) async fn document(self: &Arc<Self>, client: &Client) -> Result<(), Problem> {
        if self.documents.get().is_some() {
            return Ok(());
        }
        let share = client.quota.memory.take(self.documented()).await?;
        let this = Arc::clone(self);
        on_thread(|_| async move { this.documents().map(drop) }, share).await?
    }

    /// Estimates the memory, in bytes, that describing the nodes takes.
    pub(crate) fn documented(&self) -> u64 {
        described(&self.store).saturating_mul(2).saturating_add(2 << 20)
    }

    /// Estimates the memory, in bytes, that listing at most `most` chunk positions per array takes.
    pub(crate) fn placed(&self, most: usize) -> u64 {
        let arrays = self.store.hierarchy.arrays();
        let places = arrays.iter().map(|(_, array)| array.chunks.len().min(most as u64));
        places.fold(0, u64::saturating_add).min(PLACES).saturating_mul(PLACE)
    }
}

/// Returns a short name for a stamp.
fn version(stamp: &str) -> String {
    tag(&[stamp]).trim_matches('"').to_owned()
}

impl Sources {
    pub(crate) fn new(
        config: &Arc<Config>,
        metrics: &Arc<Metrics>,
        shared: Option<Arc<SharedCache>>,
    ) -> Self {
        let least = (config.stores_size >> 10).div_ceil(config.sources_kept.max(1) as u64);
        let weigh = move |_: &String, mapped: &Arc<Mapped>| {
            u32::try_from((weight(&mapped.store) >> 10).max(least)).unwrap_or(u32::MAX).max(1)
        };
        Self {
            kept: Cache::builder()
                .max_capacity(config.stores_size >> 10)
                .weigher(weigh)
                .time_to_live(config.stores_time)
                .build(),
            shown: Shown::new(config.hold_time, shared),
            openings: Arc::new(Semaphore::new(config.traffic.openings)),
            config: Arc::clone(config),
            metrics: Arc::clone(metrics),
        }
    }

    /// Returns a mapped file in its current version, or in the version of at most `stores_time` ago.
    pub(crate) async fn mapped(
        &self,
        client: &Client,
        url: &str,
        options: &Options,
        key: &str,
    ) -> Result<Arc<Mapped>, Problem> {
        let key = format!("recent\n{key}");
        if let Some(kept) = self.kept.get(&key).await {
            match kept.store.object().map(Object::verify) {
                Some(Err(_)) => self.kept.invalidate(&key).await,
                _ => {
                    self.metrics.looked_up("stores", true);
                    return Ok(kept);
                }
            }
        }
        let _place = client.quota.opening().await?;
        let opened = url.to_owned();
        self.map_once((client, url), &key, options, move |options| async move {
            virtualize_store::open(&opened, &options.store).await
        })
        .await
    }

    /// Opens a source, and returns a cache key of URL, options and version if the store reports a version.
    pub(crate) async fn opened_now(&self, wanted: &Wanted) -> Result<(Arc<Object>, Option<String>), Problem> {
        let object = virtualize_store::open(&wanted.url, &wanted.options.store).await;
        let traffic = self.metrics.traffic_of(&wanted.url);
        traffic.request(0);
        let object = object.inspect_err(|_| traffic.errors.inc())?;
        let key = object.stamp().map(|stamp| format!("{}\n{stamp}", wanted.key));
        Ok((object, key))
    }

    /// Maps a file that was just opened. `key` identifies URL, options and version. The caller holds a permit to map.
    pub(crate) async fn mapped_now(
        &self,
        client: &Client,
        object: Arc<Object>,
        options: &Options,
        key: Option<&str>,
    ) -> Result<Arc<Mapped>, Problem> {
        let url = object.url().to_owned();
        let client = (client, url.as_str());
        let opened = move |_| async move { Ok(object) };
        match key {
            Some(key) => {
                let key = format!("now\n{key}");
                match self.kept.get(&key).await {
                    Some(kept) if kept.store.is_of_one_file() => {
                        self.metrics.looked_up("stores", true);
                        return Ok(kept);
                    }
                    // The key names the version of one file, but others contributed: they are read again.
                    Some(_) => return self.map(client, options, opened).await.map(Arc::new),
                    None => {}
                }
                self.map_once(client, &key, options, opened).await
            }
            None => self.map(client, options, opened).await.map(Arc::new),
        }
    }

    /// Maps a file once for all concurrent requests for it. If the request that does the work is dropped, another one
    /// takes over.
    async fn map_once<O, F>(
        &self,
        client: (&Client, &str),
        key: &str,
        options: &Options,
        open: O,
    ) -> Result<Arc<Mapped>, Problem>
    where
        O: FnOnce(Options) -> F + Send + 'static,
        F: Future<Output = Result<Arc<Object>, virtualize::StoreError>> + Send + 'static,
    {
        self.metrics.looked_up("stores", false);
        let work = async { self.map(client, options, open).await.map(Arc::new) };
        let mapped = self.kept.try_get_with_by_ref(key, work).await;
        mapped.map_err(|problem: Arc<Problem>| problem.as_ref().clone())
    }

    /// Opens and maps a file on one of a few threads. Dropping the future stops the work at its next read.
    async fn map<O, F>(
        &self,
        (client, url): (&Client, &str),
        options: &Options,
        open: O,
    ) -> Result<Mapped, Problem>
    where
        O: FnOnce(Options) -> F + Send + 'static,
        F: Future<Output = Result<Arc<Object>, virtualize::StoreError>> + Send + 'static,
    {
        let waiting = Counted::new(&self.metrics.mappings_waiting);
        let permit = Arc::clone(&self.openings).acquire_owned().await.map_err(|_| Problem::internal())?;
        let memory = client.quota.memory.clone();
        let share = memory.take(FIRST).await?;
        let (options, most) = (options.clone(), self.config.file_memory);
        let work = move |wanted| async move {
            let reading = Arc::new(Reading::new(memory.clone(), Some(share), most, wanted));
            let options = Options { gate: Some(Arc::clone(&reading) as Arc<dyn Gate>), ..options };
            let object = open(options.clone()).await?;
            let mapped = virtualize::open_object(object, &options).await;
            if let Some(problem) = reading.refusal() {
                return Err(problem);
            }
            let (store, mut share) = (mapped?, reading.share());
            let weight = weight(&store);
            if weight > most {
                return Err(too_large(most));
            }
            match share.as_mut().is_none_or(|share| memory.resize(share, weight)) {
                // A cached file belongs to all clients.
                true => Ok((store, share.map(Share::of_all))),
                false => Err(full()),
            }
        };
        drop(waiting);
        let _mapping = Counted::new(&self.metrics.mapping);
        let traffic = self.metrics.traffic_of(url);
        let timer = traffic.mapping_seconds.start_timer();
        let mapped = on_thread(work, permit).await.flatten();
        timer.observe_duration();
        let (store, share) = mapped.inspect_err(|_| traffic.errors.inc())?;
        let stats = store.stats();
        traffic.requests.inc_by(stats.requests);
        traffic.bytes.inc_by(stats.bytes);
        Ok(Mapped::new(store, share, traffic))
    }

    /// Checks that a source still has the version that was served under a URL without a version, so that a client
    /// never mixes two versions.
    pub(crate) async fn hold(&self, key: &str, name: &str, mapped: &Mapped) -> Result<(), Problem> {
        match self.shown.may_serve(key, &mapped.version).await? {
            true => Ok(()),
            false => Err(Problem::changed(name)),
        }
    }

    /// Removes a changed file from the cache.
    pub(crate) async fn forget(&self, key: &str) {
        self.kept.invalidate(&format!("recent\n{key}")).await;
    }
}

/// Runs a long computation on its own thread. Dropping the future cancels the token that `work` receives, and stops
/// the work wherever it waits.
pub(crate) async fn on_thread<T: Send + 'static, F: Future<Output = T>>(
    work: impl FnOnce(CancellationToken) -> F + Send + 'static,
    permit: impl Send + 'static,
) -> Result<T, Problem> {
    let (wanted, runtime) = (CancellationToken::new(), tokio::runtime::Handle::current());
    let guard = wanted.clone().drop_guard();
    let span = Span::current();
    let stopped = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, "the work was stopped");
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let asked = wanted.clone();
        runtime.block_on(
            async move {
                tokio::select! {
                    biased;
                    () = wanted.cancelled() => None,
                    done = work(asked) => Some(done),
                }
            }
            .instrument(span),
        )
    });
    let done = done.await.map_err(|error| {
        tracing::error!("work on a file failed: {error}");
        Problem::internal()
    });
    drop(guard.disarm());
    done?.ok_or_else(|| stopped().retry_after(Duration::from_secs(1).as_secs()))
}
