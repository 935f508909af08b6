//! Mapped files: each is mapped once for all concurrent requests, and cached in the version that was mapped. Estimates of
//! the memory that they take.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt;
use moka::future::Cache;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use virtualize::{
    Error, Gate, LazyStore, Object, Options, StoreError, StoreOptions, VirtualStore,
    chunks::ChunkReader,
    keys::{self, ChunkEncoding},
    zarr::{
        Array, Group, Node, Source,
        manifest::{ChunkManifest, Lengths},
    },
};

use crate::{
    budget::{Budget, Reading, Share, full, on_thread, too_large},
    config::Config,
    metrics::{Counted, Metrics, SourceTraffic},
    problem::Problem,
    query::Wanted,
    respond::tag,
};

/// Files that are mapped concurrently.
const MAPPINGS: usize = 16;
/// Bytes reserved for a file before its first read.
const FIRST: u64 = 1 << 20;
/// Time after which a mapped file that is not used is removed from the cache.
const IDLE: Duration = Duration::from_secs(300);

/// The cache of mapped files.
#[derive(Debug)]
pub(crate) struct Sources {
    mapped: Cache<String, Arc<Mapped>>,
    mappings: Arc<Semaphore>,
    /// Memory of mapped files, cached or not.
    pub(crate) memory: Budget,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) store: Arc<VirtualStore>,
    /// Reads its chunks.
    pub(crate) reader: ChunkReader,
    /// Identifies the version of the source.
    pub(crate) version: String,
    /// Whether the source is references, whose version says nothing about the files that contain the chunks.
    is_archive: bool,
    /// Whether the version changes with every file that contains chunks.
    pub(crate) is_fixed: bool,
    /// How its files are accessed.
    pub(crate) options: StoreOptions,
    /// Counters of the requests to its source.
    pub(crate) traffic: SourceTraffic,
    pub(crate) documents: OnceLock<Result<BTreeMap<String, Bytes>, Problem>>,
    /// The documents of the dataset that groups form together.
    combined_documents: OnceLock<Result<BTreeMap<String, Bytes>, Problem>>,
    /// Its share of the memory budget.
    _share: Option<Share>,
}

impl Mapped {
    /// Returns the metadata documents of the Zarr store by their keys. With `combined`, groups that are segments of one
    /// dataset appear as that dataset.
    pub(crate) fn documents(&self, combined: bool) -> Result<&BTreeMap<String, Bytes>, Problem> {
        let (documents, hierarchy) = match combined && self.store.segments().is_some() {
            true => (&self.combined_documents, self.store.view()),
            false => (&self.documents, &self.store.hierarchy),
        };
        let encoding = ChunkEncoding::Stored;
        let made = documents.get_or_init(|| Ok(keys::documents(self.store.name(), hierarchy, encoding)?));
        made.as_ref().map_err(Clone::clone)
    }

    /// Estimates the memory, in bytes, that describing the nodes takes.
    pub(crate) fn described(&self) -> u64 {
        described(&self.store).saturating_mul(2).saturating_add(2 << 20)
    }
}

/// Returns a short name for the version of a file with this stamp. Without one, its size is all that is known.
fn version(stamp: Option<String>, size: u64) -> String {
    tag(&[&stamp.unwrap_or_else(|| size.to_string())]).trim_matches('"').to_owned()
}

fn version_of(sources: &[Source]) -> String {
    let parts = sources.iter().map(|source| format!("{source:?}")).collect::<Vec<_>>();
    tag(&parts.iter().map(String::as_str).collect::<Vec<_>>()).trim_matches('"').to_owned()
}

/// What is to be mapped.
enum Unmapped {
    File(Arc<Object>),
    References(Box<LazyStore>),
}

impl Unmapped {
    /// Returns a store with all chunks and, of references, their version.
    async fn map(self, url: &str, options: &Options) -> Result<(Arc<VirtualStore>, Option<String>), Error> {
        let opened = match self {
            Self::References(opened) => *opened,
            Self::File(object) => match virtualize::open_object(Arc::clone(&object), options).await {
                Ok(store) => return Ok((Arc::new(store), None)),
                // JSON may be references.
                Err(Error::Format { .. }) => {
                    let stamp = version(object.stamp(), object.bytes());
                    let store = LazyStore::open(url, options).boxed().await?.complete().boxed().await?;
                    return Ok((store, Some(stamp)));
                }
                Err(error) => return Err(error),
            },
        };
        let version = version_of(opened.version());
        Ok((opened.complete().boxed().await?, Some(version)))
    }
}

impl Sources {
    /// Creates a cache of at most `files` mapped files and a quarter of the memory.
    pub(crate) fn new(config: &Arc<Config>, metrics: &Arc<Metrics>, files: u64) -> Self {
        let most = config.memory / 4;
        let least = most / files.max(1);
        let weigh = move |_: &String, mapped: &Arc<Mapped>| {
            u32::try_from(weight(&mapped.store).max(least) >> 10).unwrap_or(u32::MAX).max(1)
        };
        Self {
            mapped: Cache::builder().max_capacity(most >> 10).weigher(weigh).time_to_idle(IDLE).build(),
            mappings: Arc::new(Semaphore::new(MAPPINGS)),
            memory: Budget::new(config.memory / 4 * 3),
            config: Arc::clone(config),
            metrics: Arc::clone(metrics),
        }
    }

    /// Returns a mapped file, or references, in their current version.
    pub(crate) async fn current(&self, wanted: &Wanted) -> Result<Arc<Mapped>, Problem> {
        let object = match self.open(wanted).await {
            Ok(object) => object,
            Err(error) => return self.archive(wanted, error, None).await,
        };
        let Some(stamp) = object.stamp() else { return self.map(object, wanted).await };
        let key = format!("{}\n{}", wanted.key, version(Some(stamp), object.bytes()));
        match self.mapped.get(&key).await {
            Some(mapped) if mapped.store.is_of_one_file() || mapped.is_archive => {
                self.metrics.looked_up(true);
                Ok(mapped)
            }
            // The key has the version of one file, but others contributed.
            Some(_) => self.map(object, wanted).await,
            None => self.map_once(&key, self.map(object, wanted)).await,
        }
    }

    /// Returns a mapped file in this version, by [`Wanted::key`], if it is cached.
    pub(crate) async fn cached(&self, key: &str, version: &str) -> Option<Arc<Mapped>> {
        let mapped = self.mapped.get(&format!("{key}\n{version}")).await;
        let mapped = mapped.filter(|mapped| mapped.version == version)?;
        self.metrics.looked_up(true);
        Some(mapped)
    }

    /// Returns a file in this version only, which was not cached.
    pub(crate) async fn at(&self, wanted: &Wanted, version: &str) -> Result<Arc<Mapped>, Problem> {
        let key = format!("{}\n{version}", wanted.key);
        let object = match self.open(wanted).await {
            Ok(object) => object,
            Err(error) => return self.archive(wanted, error, Some(version)).await,
        };
        let work = async {
            let mapped = self.map(object, wanted).await?;
            if mapped.version == version { Ok(mapped) } else { Err(Problem::changed(mapped.store.name())) }
        };
        self.map_once(&key, work).await
    }

    /// Returns references that have no file at their URL: a folder or a repository.
    async fn archive(
        &self,
        wanted: &Wanted,
        error: StoreError,
        version: Option<&str>,
    ) -> Result<Arc<Mapped>, Problem> {
        if !matches!(error, StoreError::NotFound { .. } | StoreError::NotAFile { .. }) {
            return Err(error.into());
        }
        let opened = LazyStore::open(&wanted.url, &wanted.options).boxed().await?;
        let current = version_of(opened.version());
        if version.is_some_and(|version| version != current) {
            return Err(Problem::changed(opened.metadata().name()));
        }
        let key = format!("{}\n{current}", wanted.key);
        if let Some(mapped) = self.mapped.get(&key).await {
            self.metrics.looked_up(true);
            return Ok(mapped);
        }
        self.map_once(&key, self.map_with(wanted, Unmapped::References(Box::new(opened)))).await
    }

    /// Opens a source.
    async fn open(&self, wanted: &Wanted) -> Result<Arc<Object>, StoreError> {
        let object = virtualize_store::open(&wanted.url, &wanted.options.store).await;
        let traffic = self.metrics.traffic_of(&wanted.url);
        traffic.request(0);
        object.inspect_err(|_| traffic.errors.inc())
    }

    /// Maps a file once for all concurrent requests for it. If the request that does the work is dropped, another one
    /// takes over.
    async fn map_once(
        &self,
        key: &str,
        work: impl Future<Output = Result<Arc<Mapped>, Problem>>,
    ) -> Result<Arc<Mapped>, Problem> {
        self.metrics.looked_up(false);
        let mapped = self.mapped.try_get_with_by_ref(key, work).await;
        mapped.map_err(|problem: Arc<Problem>| problem.as_ref().clone())
    }

    async fn map(&self, object: Arc<Object>, wanted: &Wanted) -> Result<Arc<Mapped>, Problem> {
        self.map_with(wanted, Unmapped::File(object)).await
    }

    /// Maps a file, or reads references, on one of a few threads. Dropping the future stops the work at its next read.
    async fn map_with(&self, wanted: &Wanted, unmapped: Unmapped) -> Result<Arc<Mapped>, Problem> {
        let waiting = Counted::new(&self.metrics.mappings_waiting);
        let permit = Arc::clone(&self.mappings).acquire_owned().await.map_err(|_| Problem::internal())?;
        // Files that the cache has evicted still hold memory until then.
        self.mapped.run_pending_tasks().await;
        let memory = self.memory.clone();
        let share = memory.take(FIRST).await?;
        drop(waiting);
        let traffic = self.metrics.traffic_of(&wanted.url);
        let (url, options, most) = (wanted.url.clone(), wanted.options.clone(), self.config.file_memory);
        let work = move |cancelled| async move {
            let reading = Arc::new(Reading::new(memory.clone(), share, most, cancelled));
            let options = Options { gate: Some(Arc::clone(&reading) as Arc<dyn Gate>), ..options };
            let mapped = unmapped.map(&url, &options).await;
            if let Some(problem) = reading.refusal() {
                return Err(problem);
            }
            let ((store, version), mut share) = (mapped?, reading.share());
            let weight = weight(&store);
            if weight > most {
                return Err(too_large(most));
            }
            let fits = share.as_mut().is_none_or(|share| memory.resize(share, weight));
            if fits { Ok((store, version, share)) } else { Err(full()) }
        };
        let _mapping = Counted::new(&self.metrics.mapping);
        let timer = traffic.mapping_seconds.start_timer();
        let mapped = on_thread(work, permit).await.flatten();
        timer.observe_duration();
        let (store, archive, share) = mapped.inspect_err(|_| traffic.errors.inc())?;
        let stats = store.stats();
        traffic.requests.inc_by(stats.requests);
        traffic.bytes.inc_by(stats.bytes);
        Ok(Arc::new(Mapped {
            is_archive: archive.is_some(),
            is_fixed: (store.hierarchy.sources.iter())
                .all(|source| source.etag.is_some() || source.modified.is_some()),
            version: archive
                .unwrap_or_else(|| version(store.stamp(), store.object().map_or(0, Object::bytes))),
            store,
            reader: ChunkReader::default(),
            options: wanted.options.store.clone(),
            traffic,
            documents: OnceLock::new(),
            combined_documents: OnceLock::new(),
            _share: share,
        }))
    }
}

/// Fixed bytes per array and per group, including its documents; names, attributes and chunks are counted separately.
const ARRAY: u64 = 16 << 10;
const GROUP: u64 = 2 << 10;
/// Fixed bytes per attribute value and per diagnostic, excluding their text.
const VALUE: u64 = 48;
const DIAGNOSTIC: u64 = 256;
/// Copies of a text in memory: in the hierarchy, in the node's document, and in the consolidated document.
const TEXTS: u64 = 3;
/// Copies of a path in memory: those of a text, and those in the reports.
const PATHS: u64 = 5;
/// Maximum bytes of a source that are cached with the mapped file.
const PAGES: u64 = 36 << 20;

/// Estimates the bytes of a mapped file, including its documents.
pub(crate) fn weight(store: &VirtualStore) -> u64 {
    let arrays = store.hierarchy.arrays();
    let chunks = arrays.iter().map(|(_, array)| chunks(&array.chunks));
    // None for a local file.
    let remote = store.object().filter(|object| object.path().is_none());
    let pages = remote.map_or(0, |object| object.bytes().min(PAGES));
    chunks.fold(described(store), u64::saturating_add).saturating_add(pages)
}

/// Maximum bytes of a remedy.
const REMEDY: usize = 256;

/// Estimates the bytes of the description of a mapped file: nodes, attributes, diagnostics.
pub(crate) fn described(store: &VirtualStore) -> u64 {
    let diagnostics = store.report.diagnostics.iter().map(|each| {
        let remedy = each.remedy.as_ref().map_or(0, |_| REMEDY);
        ((each.path.len() + each.message.len() + remedy) as u64).saturating_add(DIAGNOSTIC)
    });
    diagnostics.fold(group(&store.hierarchy.root, 0), u64::saturating_add)
}

/// Estimates the bytes of a group and everything below it; `path` is the length of the group's path.
fn group(group: &Group, path: u64) -> u64 {
    let own = attributes(&group.attributes).saturating_add(GROUP);
    let children = group.children.iter().map(|(name, child)| {
        let path = path.saturating_add(name.len() as u64 + 1);
        let node = match child {
            Node::Group(child) => self::group(child, path),
            Node::Array(child) => array(child),
        };
        node.saturating_add(PATHS.saturating_mul(path))
    });
    children.fold(own, u64::saturating_add)
}

fn array(array: &Array) -> u64 {
    let names = array.dimension_names.iter().flatten().map(|name| TEXTS.saturating_mul(name.len() as u64));
    names.fold(attributes(&array.attributes), u64::saturating_add).saturating_add(ARRAY)
}

fn attributes(attributes: &Map<String, Value>) -> u64 {
    let each = attributes.iter().map(|(name, value)| text(name).saturating_add(json(value)));
    each.fold(0, u64::saturating_add)
}

fn text(text: &str) -> u64 {
    TEXTS.saturating_mul(text.len() as u64).saturating_add(VALUE)
}

fn json(value: &Value) -> u64 {
    match value {
        Value::String(value) => text(value),
        Value::Array(items) => items.iter().map(json).fold(VALUE, u64::saturating_add),
        Value::Object(members) => attributes(members).saturating_add(VALUE),
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE,
    }
}

/// Estimates the bytes of a chunk manifest, including inline chunks.
fn chunks(chunks: &ChunkManifest) -> u64 {
    let references = chunks.references.iter().map(|column| {
        let each = 8 + if column.positions.is_some() { 8 } else { 0 };
        let lengths = if matches!(column.lengths, Lengths::Each(_)) { 4 } else { 0 };
        (column.len() as u64).saturating_mul(each + lengths)
    });
    let inline = chunks.inline.values().map(|bytes| bytes.len() as u64 + 64);
    references.chain(inline).fold(0, u64::saturating_add)
}
