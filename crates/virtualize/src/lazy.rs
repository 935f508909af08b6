use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use virtualize_store::StoreError;
use virtualize_zarr::{ChunkManifest, Source};

use crate::{
    chunks::{Interrupt, interruptible},
    error::{ArrayError, Error},
    open::{is_json, open_object},
    options::{Options, ReadOptions},
    references::{OpenReferences, Tables, convert, open_references, resolved},
    store::VirtualStore,
};

/// Bytes of tables that are kept besides the last ones that were needed.
const KEPT: usize = 256 << 20;
/// Bytes of a reference in memory, at most.
const REFERENCE: usize = 40;
/// Bytes as which an array without chunks counts, so that a few thousand are kept.
const ARRAY: usize = 64 << 10;

/// A file or references, opened. Of references that are stored in parts (kerchunk's Parquet layout, Icechunk), only the
/// metadata is read; chunk tables are read when a selection needs them.
pub struct LazyStore {
    metadata: Arc<VirtualStore>,
    version: Vec<Source>,
    /// Where chunk tables come from; `None` if the metadata has all chunks.
    parts: Option<Parts>,
}

struct Parts {
    /// Groups and arrays without chunks, as the references describe them.
    raw: VirtualStore,
    tables: Tables,
    name: String,
    location: String,
    reading: ReadOptions,
    options: Options,
    /// Held while tables are read, so that nothing is read twice.
    busy: futures::lock::Mutex<()>,
    kept: Mutex<Kept>,
}

/// Tables that were read.
#[derive(Default)]
struct Kept {
    complete: Option<Arc<VirtualStore>>,
    /// The least recently used first.
    parts: VecDeque<Part>,
    /// Bytes of all parts.
    bytes: usize,
}

/// Parts of the table of an array.
struct Part {
    path: String,
    numbers: Vec<usize>,
    /// The array with the chunks of the parts.
    store: Arc<VirtualStore>,
    bytes: usize,
}

impl std::fmt::Debug for LazyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyStore").field("name", &self.metadata.name()).finish_non_exhaustive()
    }
}

impl From<Arc<VirtualStore>> for LazyStore {
    fn from(metadata: Arc<VirtualStore>) -> Self {
        let version = metadata.hierarchy.sources.clone();
        Self { metadata, version, parts: None }
    }
}

impl LazyStore {
    /// Opens a path or url, as [`crate::open`] does.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub async fn open(location: &str, options: &Options) -> Result<Self, Error> {
        let file = virtualize_store::open(location, &options.store).await;
        let error = match &file {
            Ok(object) => match open_object(Arc::clone(object), options).await {
                Err(error @ Error::Format { .. }) if is_json(object).await? => error,
                done => return done.map(|store| Arc::new(store).into()),
            },
            // Web servers list folders as pages.
            Err(
                error @ (StoreError::NotFound { .. } | StoreError::NotAFile { .. } | StoreError::Page { .. }),
            ) => error.clone().into(),
            Err(error) => return Err(error.clone().into()),
        };
        let reading = options.reading();
        match open_references(location, file, &reading).await {
            Ok(opened) => Self::of_references(opened, location, reading, options).await,
            Err(Error::Store(
                StoreError::NotFound { .. } | StoreError::NotAFile { .. } | StoreError::Page { .. },
            )) => Err(error),
            Err(other) => Err(match error {
                // JSON of something else.
                Error::Format { ref found, .. } if found != "looks like Zarr metadata" => error,
                _ => other,
            }),
        }
    }

    async fn of_references(
        opened: OpenReferences,
        location: &str,
        reading: ReadOptions,
        options: &Options,
    ) -> Result<Self, Error> {
        let OpenReferences { name, set, tables, version } = opened;
        let store = resolved(set, &name, location, &reading).await?;
        let raw = store.clone();
        let mut metadata = in_format(store, false, options).await?;
        metadata.combine_segments();
        let metadata = Arc::new(metadata.checked(options.strict)?);
        let parts = tables.map(|tables| Parts {
            raw,
            tables,
            name,
            location: location.to_owned(),
            reading,
            options: options.clone(),
            busy: futures::lock::Mutex::default(),
            kept: Mutex::default(),
        });
        Ok(Self { metadata, version: vec![version], parts })
    }

    /// Returns groups and arrays. Arrays have chunks only if [`LazyStore::is_complete`].
    pub fn metadata(&self) -> &Arc<VirtualStore> {
        &self.metadata
    }

    /// Returns whether the metadata has all chunks.
    pub fn is_complete(&self) -> bool {
        self.parts.is_none()
    }

    /// Returns whether chunks are objects of a Zarr store. Missing ones may be written later.
    pub(crate) fn is_native(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.tables.is_native())
    }

    /// Returns the version of the files that contain the chunks, or of the references: their entity tag, size and
    /// modification time. The entity tag of an Icechunk repository is the id of the snapshot.
    pub fn version(&self) -> &[Source] {
        &self.version
    }

    /// Returns the id of the snapshot of an Icechunk repository.
    pub fn snapshot(&self) -> Option<&str> {
        let is_repository = self.parts.as_ref().is_some_and(|parts| parts.tables.is_repository());
        self.version.first().filter(|_| is_repository)?.etag.as_deref()
    }

    /// Returns the store with all chunks. Reads all tables.
    ///
    /// # Errors
    /// As [`crate::open`].
    pub async fn complete(&self) -> Result<Arc<VirtualStore>, Error> {
        let Some(parts) = &self.parts else { return Ok(Arc::clone(&self.metadata)) };
        let _busy = parts.busy.lock().await;
        if let Some(complete) = parts.kept().complete.clone() {
            return Ok(complete);
        }
        let all = parts.tables.complete(parts.raw.clone(), false, &parts.location, &parts.reading).await?;
        let mut complete = in_format(all, false, &parts.options).await?;
        complete.combine_segments();
        let complete = Arc::new(complete.checked(parts.options.strict)?);
        parts.kept().complete = Some(Arc::clone(&complete));
        Ok(complete)
    }

    /// Returns a store whose array at `path` has all chunks that it has at `positions`, which are row-major in its grid.
    /// Reading tables asks `interrupt` whether to stop.
    pub(crate) fn with_chunks(
        &self,
        path: &str,
        positions: impl FnOnce() -> Vec<u64>,
        interrupt: Option<&Interrupt>,
    ) -> Result<Arc<VirtualStore>, Error> {
        let Some(parts) = &self.parts else { return Ok(Arc::clone(&self.metadata)) };
        if let Some(complete) = parts.kept().complete.clone() {
            return Ok(complete);
        }
        let numbers = parts.tables.parts(path, Some(&positions()));
        if numbers.is_empty() {
            // There are no chunks.
            return Ok(Arc::clone(&self.metadata));
        }
        let interrupt = interrupt.map(|interrupt| interrupt as &dyn Fn() -> bool);
        let read = interruptible(parts.read(path, numbers), interrupt);
        let stopped = || Error::of_array(self.metadata.name(), path, ArrayError::Interrupted);
        futures::executor::block_on(read).unwrap_or_else(|| Err(stopped()))
    }
}

impl Parts {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a store with one array, which has the chunks of some parts of its table.
    async fn read(&self, path: &str, numbers: Vec<usize>) -> Result<Arc<VirtualStore>, Error> {
        let _busy = self.busy.lock().await;
        if let Some(found) = self.kept().find(path, &numbers) {
            return Ok(found);
        }
        let wanted = [(path.to_owned(), numbers)];
        let read = self.tables.read(&wanted, &self.name, &self.location, &self.reading).await?;
        let store = Arc::new(in_format(read, false, &self.options).await?);
        let [(path, numbers)] = wanted;
        // Objects of a Zarr store that are missing may be written later.
        let is_whole = || {
            let chunks = store.hierarchy.array(&path).map(|array| array.chunks.iter());
            let found: Vec<u64> = chunks.into_iter().flatten().map(|(position, _)| position).collect();
            self.tables.parts(&path, Some(&found)) == numbers
        };
        if !self.tables.is_native() || is_whole() {
            self.kept().keep(path, numbers, &store);
        }
        Ok(store)
    }
}

impl Kept {
    fn find(&mut self, path: &str, numbers: &[usize]) -> Option<Arc<VirtualStore>> {
        let at = self.parts.iter().position(|part| part.path == path && part.numbers == numbers)?;
        let found = self.parts.remove(at)?;
        let store = Arc::clone(&found.store);
        self.parts.push_back(found);
        Some(store)
    }

    fn keep(&mut self, path: String, numbers: Vec<usize>, store: &Arc<VirtualStore>) {
        let chunks = store.hierarchy.array(&path).map_or(0, |array| bytes_of(&array.chunks));
        let sources = store.hierarchy.sources.iter();
        let urls: usize = sources.map(|source| source.url.len() + size_of::<Source>()).sum();
        let bytes = ARRAY + chunks + urls + numbers.len() * size_of::<usize>();
        self.bytes += bytes;
        self.parts.push_back(Part { path, numbers, store: Arc::clone(store), bytes });
        while self.bytes > KEPT && self.parts.len() > 1 {
            self.bytes -= self.parts.pop_front().map_or(0, |part| part.bytes);
        }
    }
}

/// Returns how many bytes chunks take, about.
fn bytes_of(chunks: &ChunkManifest) -> usize {
    let references: usize = chunks.references.iter().map(|column| column.len()).sum();
    let inline: usize = chunks.inline.values().map(|bytes| REFERENCE + bytes.len()).sum();
    references.saturating_mul(REFERENCE).saturating_add(inline)
}

async fn in_format(store: VirtualStore, strict: bool, options: &Options) -> Result<VirtualStore, Error> {
    convert(store, options.map.format, strict, &options.store).await
}
