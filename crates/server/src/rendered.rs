//! Renderings of mapped files. A rendering is generated once for all concurrent requests, into a temporary file from
//! which the responses are sent, so that a slow client holds no memory.

use std::{
    collections::HashMap,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use moka::future::Cache;
use serde_json::Value;
use tempfile::SpooledTempFile;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Problem,
    budget::{Budget, Share, full},
    cache::{self, Cache as SharedCache, Place},
    client::Client,
    conditional::tag,
    disk,
    encode::{self, Content, answer},
    query::Wanted,
    sources::{Mapped, Sources, on_thread},
};
use virtualize::Code;

/// Bytes of a rendering to hold in memory before it spills to a temporary file.
const HELD: usize = 64 << 10;
/// Bytes of a write buffer.
const BUFFER: usize = 64 << 10;
/// Cache-weight floor of a rendering in a file: the file pins a descriptor.
const MIN_FILE_WEIGHT: u64 = 4 << 20;
/// Cache weight of a byte in memory, which is scarcer than disk space.
const MEMORY_WEIGHT: u64 = 16;
/// Maximum weight of the cache, absolute and as a fraction of the disk space.
const KEPT: u64 = 1 << 30;
const PART: u64 = 4;
/// Bytes by which a rendering's share of the disk grows.
const GROWTH: u64 = 1 << 20;

/// The cache of renderings.
#[derive(Debug)]
pub(crate) struct Rendered {
    answers: Cache<String, Arc<Rendering>>,
    /// Files that are being sent, by name, so that further requests share them.
    sent: Mutex<HashMap<String, (Weak<encode::Kept>, u64)>>,
    /// Permits for renderings in progress.
    making: Arc<Semaphore>,
    sources: Arc<Sources>,
    cache: Option<Arc<SharedCache>>,
    /// Space for temporary files.
    spool: Budget,
}

/// A complete rendering.
#[derive(Debug)]
pub(crate) struct Rendering {
    content: Content,
    etag: String,
}

impl Rendered {
    pub(crate) fn new(sources: &Arc<Sources>, cache: Option<Arc<SharedCache>>, spool: Budget) -> Self {
        let config = &sources.config;
        let weigh = |_: &String, made: &Arc<Rendering>| {
            let bytes = match &made.content {
                Content::Memory(bytes) => (bytes.len() as u64).saturating_mul(MEMORY_WEIGHT),
                Content::File(_, length) => (*length).max(MIN_FILE_WEIGHT),
            };
            u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(1)
        };
        let most = KEPT.min(config.cache_size / PART) >> 10;
        let answers =
            Cache::builder().max_capacity(most).weigher(weigh).time_to_idle(config.stores_time).build();
        let making = Arc::new(Semaphore::new(config.traffic.openings));
        Self { answers, sent: Mutex::default(), making, sources: Arc::clone(sources), cache, spool }
    }

    /// Returns a rendering that is cached, or being sent.
    async fn find(&self, name: &str) -> Option<Arc<Rendering>> {
        if let Some(made) = self.answers.get(name).await {
            return Some(made);
        }
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = sent.get(name)?;
        let content = Content::File(file.upgrade()?, *length);
        Some(Arc::new(Rendering { content, etag: format!("\"{name}\"") }))
    }

    /// Remembers the file of a rendering for as long as it is being sent.
    fn remember(&self, name: &str, made: &Rendering) {
        let Content::File(file, length) = &made.content else { return };
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|_, (file, _)| file.strong_count() > 0);
        sent.insert(name.to_owned(), (Arc::downgrade(file), *length));
    }

    /// Returns the rendering that `write` generates from the current version of a source. `what` names the kind of
    /// rendering; `cost` estimates the memory, in bytes, that it takes.
    pub(crate) async fn get<C, W>(
        &self,
        wanted: &Wanted,
        what: &str,
        cost: C,
        write: W,
    ) -> Result<Arc<Rendering>, Problem>
    where
        C: FnOnce(&Mapped) -> u64 + Send,
        W: FnOnce(&Mapped, &mut Aside) -> Result<(), Problem> + Send + 'static,
    {
        let client = &wanted.client;
        let (object, key) = self.sources.opened_now(wanted).await?;
        let Some(key) = key else {
            let place = client.quota.opening().await?;
            let mapped = self.sources.mapped_now(client, object, &wanted.options, None).await?;
            let (made, _) = self.make(client, mapped, None, cost, write).await?;
            drop(place);
            return Arc::new(made).sent_to(client).await;
        };
        let name = tag(&[what, env!("CARGO_PKG_VERSION"), &key]).trim_matches('"').to_owned();
        if let Some(made) = self.find(&name).await {
            return made.sent_to(client).await;
        }
        let place = client.quota.opening().await?;
        let mut lasts = true;
        let work = async {
            if let Some(content) = self.find_shared(&name).await? {
                return Ok(Arc::new(Rendering { content, etag: format!("\"{name}\"") }));
            }
            let mapped = self.sources.mapped_now(client, object, &wanted.options, Some(&key)).await?;
            let (made, is_named) = self.make(client, mapped, Some(name.clone()), cost, write).await?;
            lasts = is_named;
            Ok(Arc::new(made))
        };
        let made = self.answers.try_get_with_by_ref(&name, work).await;
        let made = made.map_err(|problem: Arc<Problem>| problem.as_ref().clone());
        drop(place);
        match (&made, lasts) {
            (Ok(made), true) => self.remember(&name, made),
            // The name does not cover the other files that contributed.
            (_, false) => self.answers.invalidate(&name).await,
            _ => {}
        }
        made?.sent_to(client).await
    }

    /// Looks up a rendering in the shared cache.
    async fn find_shared(&self, name: &str) -> Result<Option<Content>, Problem> {
        let Some(cache) = &self.cache else { return Ok(None) };
        let found = cache.find(name, &self.spool).await?;
        self.sources.metrics.looked_up("references", found.is_some());
        Ok(found)
    }

    /// Generates a rendering, and returns whether its name covers all sources. If not, its entity tag is that of its
    /// content.
    async fn make<C, W>(
        &self,
        client: &Client,
        mapped: Arc<Mapped>,
        name: Option<String>,
        cost: C,
        write: W,
    ) -> Result<(Rendering, bool), Problem>
    where
        C: FnOnce(&Mapped) -> u64,
        W: FnOnce(&Mapped, &mut Aside) -> Result<(), Problem> + Send + 'static,
    {
        let place = Arc::clone(&self.making).acquire_owned().await.map_err(|_| Problem::internal())?;
        let share = client.quota.memory.take(cost(&mapped)).await?;
        let name = name.filter(|_| mapped.store.is_of_one_file());
        let is_named = name.is_some();
        let (config, cache) = (Arc::clone(&self.sources.config), self.cache.clone());
        let key = name.clone();
        let spool = client.quota.spool.clone();
        let work = move |wanted| async move {
            let mut out = Aside::new(&config, cache, spool, wanted);
            let written = write(&mapped, &mut out);
            out.finish(written, name)
        };
        let made = on_thread(work, (place, share)).await??;
        if let (Some(cache), Some(key)) = (&self.cache, key) {
            cache.upload(&key, &made.content, &client.quota.memory);
        }
        Ok((made, is_named))
    }
}

impl Rendering {
    /// Builds the response to a request.
    pub(crate) fn answer(&self, headers: &HeaderMap, kind: &'static str) -> Response {
        answer(headers, self.content.clone(), kind, &self.etag)
    }

    /// Streams the content in pieces.
    pub(crate) fn bytes(&self) -> BoxStream<'static, io::Result<Bytes>> {
        match self.content.clone() {
            Content::Memory(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Content::File(file, length) => encode::pieces(file, 0..length).boxed(),
        }
    }

    /// Charges the file to the client until it has been sent.
    async fn sent_to(self: Arc<Self>, client: &Client) -> Result<Arc<Self>, Problem> {
        if let Content::File(_, length) = &self.content {
            client.holds.keep(client.quota.spool.take_own(*length).await?);
        }
        Ok(self)
    }
}

/// Writer of a rendering. It counts bytes, and fails once there are too many or no request waits for the rendering.
pub(crate) struct Aside {
    cache: Option<Arc<SharedCache>>,
    inner: SpooledTempFile,
    /// The client's part of the disk budget, and the share reserved from it.
    spool: Budget,
    share: Option<Share>,
    wanted: CancellationToken,
    at: u64,
    bytes: u64,
    most: u64,
    is_full: bool,
    /// Why writing failed.
    failed: Option<Problem>,
}

impl Aside {
    fn new(
        config: &Config,
        cache: Option<Arc<SharedCache>>,
        spool: Budget,
        wanted: CancellationToken,
    ) -> Self {
        let inner = match config.cache.as_ref().and_then(Place::folder) {
            Some(folder) => SpooledTempFile::new_in(HELD, folder),
            None => SpooledTempFile::new(HELD),
        };
        let most = config.output_size.min(spool.size());
        Self { cache, inner, spool, share: None, wanted, at: 0, bytes: 0, most, is_full: false, failed: None }
    }

    /// Grows the share of the disk to `bytes`; returns whether there was enough space.
    fn grow(&mut self, bytes: u64) -> bool {
        if bytes <= HELD as u64 || self.share.as_ref().is_some_and(|share| share.bytes() >= bytes) {
            return true;
        }
        let bytes = bytes.saturating_add(GROWTH).min(self.most.max(bytes));
        let is_grown = match &mut self.share {
            Some(share) => self.spool.resize(share, bytes),
            None => {
                self.share = self.spool.try_take(bytes);
                self.share.is_some()
            }
        };
        if let (true, Some(SharedCache::Folder(disk))) = (is_grown, self.cache.as_deref()) {
            disk.make_room();
        }
        is_grown
    }

    /// Returns the maximum size in bytes.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Writes a JSON document.
    pub(crate) fn json(&mut self, document: &Value) -> Result<(), Problem> {
        let mut out = BufWriter::with_capacity(BUFFER, self);
        let written = serde_json::to_writer(&mut out, document).map_err(io::Error::from);
        written.and_then(|()| out.flush()).map_err(lost)
    }

    /// Completes the rendering, and stores it in the cache folder if it has a name.
    fn finish(mut self, written: Result<(), Problem>, name: Option<String>) -> Result<Rendering, Problem> {
        if self.is_full {
            let detail = format!("the references exceed {} bytes", self.most);
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::OutputLimit, detail)
                .hint("read the source through /v1/zarr, or write the references with the command"));
        }
        if let Some(problem) = self.failed.take() {
            return Err(problem);
        }
        written?;
        let etag = match &name {
            Some(name) => name.clone(),
            None => self.inner.rewind().and_then(|()| disk::short_digest(&mut self.inner)).map_err(lost)?,
        };
        if let Some(name) = name {
            cache::keep(self.cache.as_deref(), &name, &mut self.inner);
        }
        if let Some(share) = &mut self.share {
            self.spool.resize(share, self.bytes);
        }
        let content = match self.inner.into_inner() {
            tempfile::SpooledData::InMemory(cursor) => Content::Memory(cursor.into_inner().into()),
            tempfile::SpooledData::OnDisk(file) => {
                Content::File(encode::Kept::new(file, self.share.map(Share::of_all)), self.bytes)
            }
        };
        Ok(Rendering { content, etag: format!("\"{etag}\"") })
    }
}

/// Converts the error of a failed write. A write also fails when no request waits for the rendering any more.
pub(crate) fn lost(error: io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::ConnectionAborted => Problem::internal(),
        _ => Problem::of_io("an answer cannot be kept aside", &error),
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at.saturating_add(bytes.len() as u64);
        if end > self.most {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.wanted.is_cancelled() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if !self.grow(end) {
            self.failed = Some(full());
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Err(error) = self.inner.write_all(bytes) {
            self.failed = Some(Problem::of_io("an answer cannot be kept aside", &error));
            return Err(error);
        }
        self.at = end;
        self.bytes = self.bytes.max(end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Seek for Aside {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.inner.seek(to)?;
        Ok(self.at)
    }
}
