//! Answers that are made of a mapped file: written aside before they begin, once for all who ask for the same, and sent
//! from there, so that a client who takes its time holds no memory.

use std::{
    io::{self, BufWriter, Seek, SeekFrom, Write},
    sync::Arc,
};

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use moka::future::Cache;
use serde_json::Value;
use tempfile::SpooledTempFile;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Problem,
    conditional::tag,
    context::Context,
    disk,
    encode::{Content, answer},
    query::Wanted,
    sources::{Mapped, on_thread},
};

/// Bytes of an answer that are held in memory before a temporary file takes them.
const HELD: usize = 64 << 10;
/// Bytes that are gathered before they are written.
const BUFFER: usize = 64 << 10;
/// What is kept counts as at least so much, since a file takes a descriptor; and what is in memory so many times, since
/// there is less of it.
const LEAST: u64 = 4 << 20;
const DEAR: u64 = 16;
/// Most bytes that are kept.
const KEPT: u64 = 1 << 30;

/// What was made, for a while.
#[derive(Debug)]
pub(crate) struct Kept {
    answers: Cache<String, Arc<Made>>,
    /// Places for those that are being made.
    making: Arc<Semaphore>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Made {
    content: Content,
    etag: String,
}

impl Kept {
    pub(crate) fn new(config: &Config) -> Self {
        let weigh = |_: &String, made: &Arc<Made>| {
            let bytes = match &made.content {
                Content::Memory(bytes) => (bytes.len() as u64).saturating_mul(DEAR),
                Content::File(_, length) => (*length).max(LEAST),
            };
            u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(1)
        };
        let answers =
            Cache::builder().max_capacity(KEPT >> 10).weigher(weigh).time_to_idle(config.stores_time).build();
        Self { answers, making: Arc::new(Semaphore::new(config.openings)) }
    }
}

impl Made {
    /// The answer to a request.
    pub(crate) fn answer(&self, headers: &HeaderMap, kind: &'static str) -> Response {
        answer(headers, self.content.clone(), kind, &self.etag)
    }
}

impl Context {
    /// What `write` makes of a source as it is now. `what` tells it from all else that is made of sources. `cost` says about
    /// how many bytes of memory making it takes.
    pub(crate) async fn made<C, W>(
        self: &Arc<Self>,
        wanted: &Wanted,
        what: &str,
        cost: C,
        write: W,
    ) -> Result<Arc<Made>, Problem>
    where
        C: FnOnce(&Mapped) -> u64 + Send,
        W: FnOnce(&Mapped, &mut Aside) -> Result<(), Problem> + Send + 'static,
    {
        let (object, key) = self.opened_now(wanted).await?;
        let Some(key) = key else {
            let mapped = self.mapped_now(object, &wanted.options, None).await?;
            return self.make(mapped, None, cost, write).await.map(|(made, _)| Arc::new(made));
        };
        let name = tag(&[what, env!("CARGO_PKG_VERSION"), &key]).trim_matches('"').to_owned();
        let mut lasts = true;
        let work = async {
            if let Some(content) = self.from_disk(&name).await {
                return Ok(Arc::new(Made { content, etag: format!("\"{name}\"") }));
            }
            let mapped = self.mapped_now(object, &wanted.options, Some(&key)).await?;
            let (made, is_named) = self.make(mapped, Some(name.clone()), cost, write).await?;
            lasts = is_named;
            Ok(Arc::new(made))
        };
        let made = self.made.answers.try_get_with_by_ref(&name, work).await;
        let made = made.map_err(|problem: Arc<Problem>| problem.as_ref().clone());
        if !lasts {
            // Other files had a part in it, of which the name says nothing.
            self.made.answers.invalidate(&name).await;
        }
        made
    }

    /// What was made before.
    async fn from_disk(self: &Arc<Self>, name: &str) -> Option<Content> {
        self.disk.as_ref()?;
        let (shared, name) = (Arc::clone(self), name.to_owned());
        let found =
            tokio::task::spawn_blocking(move || shared.disk.as_ref()?.get(&name)).await.ok().flatten();
        self.metrics.looked_up("references", found.is_some());
        found.map(|found| Content::File(Arc::new(found.file), found.bytes))
    }

    /// Makes an answer, and whether its name says all. Where it does not, the content is the tag.
    async fn make<C, W>(
        self: &Arc<Self>,
        mapped: Arc<Mapped>,
        name: Option<String>,
        cost: C,
        write: W,
    ) -> Result<(Made, bool), Problem>
    where
        C: FnOnce(&Mapped) -> u64,
        W: FnOnce(&Mapped, &mut Aside) -> Result<(), Problem> + Send + 'static,
    {
        let place = Arc::clone(&self.made.making).acquire_owned().await.map_err(|_| Problem::internal())?;
        let share = self.memory.take(cost(&mapped)).await?;
        let name = name.filter(|_| mapped.store.is_of_one_file());
        let is_named = name.is_some();
        let context = Arc::clone(self);
        let work = move |wanted| async move {
            let mut out = Aside::new(&context.config, wanted)?;
            let written = write(&mapped, &mut out);
            out.finish(&context, written, name)
        };
        on_thread(work, (place, share)).await?.map(|made| (made, is_named))
    }
}

/// Takes an answer that is being made. It counts what is written, and stops where it is too much or nobody wants it.
pub(crate) struct Aside {
    inner: SpooledTempFile,
    wanted: CancellationToken,
    at: u64,
    bytes: u64,
    most: u64,
    is_full: bool,
}

impl Aside {
    fn new(config: &Config, wanted: CancellationToken) -> Result<Self, Problem> {
        let inner = match &config.cache {
            Some(folder) => SpooledTempFile::new_in(HELD, folder),
            None => SpooledTempFile::new(HELD),
        };
        Ok(Self { inner, wanted, at: 0, bytes: 0, most: config.output_size, is_full: false })
    }

    /// Most bytes that it takes.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Writes a document.
    pub(crate) fn json(&mut self, document: &Value) -> Result<(), Problem> {
        let mut out = BufWriter::with_capacity(BUFFER, self);
        let written = serde_json::to_writer(&mut out, document).map_err(io::Error::from);
        written.and_then(|()| out.flush()).map_err(lost)
    }

    /// What was written, which goes to the disk as well where it has a name.
    fn finish(
        mut self,
        context: &Context,
        written: Result<(), Problem>,
        name: Option<String>,
    ) -> Result<Made, Problem> {
        if self.is_full {
            let detail = format!("the references are longer than {} bytes", self.most);
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "output-limit", detail)
                .hint("read the source through /v1/zarr, or write them with the command"));
        }
        written?;
        let etag = match &name {
            Some(name) => name.clone(),
            None => self.inner.rewind().and_then(|()| disk::digest(&mut self.inner, 16)).map_err(lost)?,
        };
        if let (Some(disk), Some(name)) = (&context.disk, name)
            && let Err(error) = disk.put(&name, &mut self.inner)
        {
            tracing::warn!("an answer was not kept: {error}");
        }
        let content = match self.inner.into_inner() {
            tempfile::SpooledData::InMemory(cursor) => Content::Memory(cursor.into_inner().into()),
            tempfile::SpooledData::OnDisk(file) => Content::File(Arc::new(file), self.bytes),
        };
        Ok(Made { content, etag: format!("\"{etag}\"") })
    }
}

/// A disk that failed, unless it was stopped since nobody wants the answer.
pub(crate) fn lost(error: io::Error) -> Problem {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tracing::error!("an answer cannot be kept aside: {error}");
    }
    Problem::internal()
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
        self.inner.write_all(bytes)?;
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
