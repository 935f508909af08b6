use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

#[cfg(feature = "full")]
use virtualize_icechunk::IcechunkError;
use virtualize_store::StoreError;
use virtualize_zarr::{ChunkManifest, Source};

use crate::{
    error::Error,
    open::{is_json, open_object},
    options::{Options, ReadOptions},
    references::{OpenReferences, Tables, convert, open_references, resolved},
    store::VirtualStore,
};

/// Number of references that are kept besides the last ones that were needed: about 200 MB.
const KEPT: u64 = 10_000_000;

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
    /// Path, numbers of the parts, and the array with their chunks; the least recently used first.
    parts: VecDeque<(String, Vec<usize>, Arc<VirtualStore>)>,
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
        let error = match virtualize_store::open(location, &options.store).await {
            Ok(object) => match open_object(Arc::clone(&object), options).await {
                Err(error @ Error::Format { .. }) if is_json(&object).await? => error,
                done => return done.map(|store| Arc::new(store).into()),
            },
            Err(error @ (StoreError::NotFound { .. } | StoreError::NotAFile { .. })) => error.into(),
            Err(error) => return Err(error.into()),
        };
        let reading = options.reading();
        match open_references(location, &reading).await {
            Ok(opened) => Self::of_references(opened, location, reading, options).await,
            #[cfg(feature = "full")]
            Err(other @ Error::Icechunk { source: IcechunkError::NoVersion { .. }, .. }) => Err(other),
            Err(_) => Err(error),
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
        let metadata = Arc::new(in_format(store, options.strict, options).await?);
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
        let complete = Arc::new(in_format(all, parts.options.strict, &parts.options).await?);
        parts.kept().complete = Some(Arc::clone(&complete));
        Ok(complete)
    }

    /// Returns a store whose array at `path` has all chunks that it has at `positions`, which are row-major in its grid.
    pub(crate) fn with_chunks(
        &self,
        path: &str,
        positions: impl FnOnce() -> Vec<u64>,
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
        futures::executor::block_on(parts.read(path, numbers))
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
        self.kept().keep(path, numbers, &store);
        Ok(store)
    }
}

impl Kept {
    fn find(&mut self, path: &str, numbers: &[usize]) -> Option<Arc<VirtualStore>> {
        let at = self.parts.iter().position(|(known, parts, _)| known == path && parts == numbers)?;
        let found = self.parts.remove(at)?;
        let store = Arc::clone(&found.2);
        self.parts.push_back(found);
        Some(store)
    }

    fn keep(&mut self, path: String, numbers: Vec<usize>, store: &Arc<VirtualStore>) {
        self.parts.push_back((path, numbers, Arc::clone(store)));
        let size = |(path, _, store): &(String, _, Arc<VirtualStore>)| {
            store.hierarchy.array(path).map_or(0, |array| references(&array.chunks))
        };
        let mut total: u64 = self.parts.iter().map(size).sum();
        while total > KEPT && self.parts.len() > 1 {
            total -= self.parts.pop_front().as_ref().map_or(0, size);
        }
    }
}

fn references(chunks: &ChunkManifest) -> u64 {
    let columns = chunks.references.iter().map(|column| column.len() as u64).sum::<u64>();
    columns + chunks.inline.len() as u64
}

async fn in_format(store: VirtualStore, strict: bool, options: &Options) -> Result<VirtualStore, Error> {
    convert(store, options.map.format, strict, &options.store).await
}
