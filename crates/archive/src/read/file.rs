//! Opens a file and turns it into the run's record.

use std::sync::Arc;

use futures::future::BoxFuture;
use virtualize::{Object, Options, Relocation, VirtualStore};
use virtualize_store::Listed;

use super::ReadFile;
use crate::{
    Item,
    journal::{Done, Failure},
};

/// Turns an open file into the run's record.
type Process<R> = dyn for<'a> Fn(&'a Item, &'a mut VirtualStore, &'a Options) -> BoxFuture<'a, Result<R, Failure>>
    + Send
    + Sync;

/// Reads files from their stores.
pub(crate) struct FileReader<R> {
    options: Options,
    relocation: Relocation,
    process: Box<Process<R>>,
}

impl<R> FileReader<R> {
    /// Creates a reader that opens and maps files with `options`; `process` turns each into its record.
    pub(crate) fn new(
        options: Options,
        process: impl for<'a> Fn(&'a Item, &'a mut VirtualStore, &'a Options) -> BoxFuture<'a, Result<R, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { options, relocation: Relocation::Keep, process: Box::new(process) }
    }

    /// Sets how the URLs of sources will be written.
    pub(crate) fn relocated(self, relocation: &Relocation) -> Self {
        Self { relocation: relocation.clone(), ..self }
    }

    async fn read_file(&self, item: &Item, fresh: bool) -> Result<Done<R>, Failure> {
        let (object, options) = (self.open(item, fresh).await?, self.options.for_file());
        let store = virtualize::open_object(Arc::clone(&object), &options).await;
        let mut store = store.map_err(|error| self.failure(error))?;
        store.check_ranges(&self.relocation).map_err(|error| self.failure(error))?;
        let mut sources = store.hierarchy.sources.iter();
        let opened = Item {
            size: sources.find(|source| source.url == object.url()).map(|source| source.size),
            etag: object.etag().map(str::to_owned),
            modified: object.modified(),
            ..item.clone()
        };
        let record = (self.process)(item, &mut store, &options).await?;
        object.verify().map_err(|error| self.failure(error))?;
        let stats = object.stats();
        let warnings = store.warnings().map(|warning| warning.render(self.options.notation)).collect();
        let (requests, retries) = (stats.requests, stats.retries.all());
        let (replaced, attempts, seconds, bytes) = (fresh, 1, 0.0, stats.bytes);
        Ok(Done { opened, replaced, attempts, seconds, requests, retries, bytes, warnings, record })
    }

    /// Opens the file as it was listed or, if `fresh`, as it is now.
    async fn open(&self, item: &Item, fresh: bool) -> Result<Arc<Object>, Failure> {
        let mut listed = Listed::of(&item.url);
        if !fresh {
            let Item { size, etag, modified, .. } = item.clone();
            listed = Listed { size, etag, modified, ..listed };
        }
        let object = virtualize_store::open_listed(&listed, &self.options.store).await;
        object.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: impl Into<virtualize::Error>) -> Failure {
        Failure::new(error, self.options.notation)
    }
}

impl<R: Send + 'static> ReadFile<R> for FileReader<R> {
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> BoxFuture<'a, Result<Done<R>, Failure>> {
        Box::pin(self.read_file(item, fresh))
    }

    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.open(item, true).await.map(drop) })
    }
}
