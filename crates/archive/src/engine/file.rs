//! Opens one file, and makes of it what is wanted.

use std::sync::Arc;

use futures::future::BoxFuture;
use virtualize::{Notation, Object, OptionName, Options, Remedy, VirtualStore};
use virtualize_store::Listed;

use super::{Failure, ReadFile, ReadFuture, Reading, breaker::Probe};
use crate::Item;

/// What becomes of a file.
pub(crate) trait Make: Send + Sync {
    /// What comes of it.
    type Content: Send + 'static;

    /// Makes it of an open file.
    fn make<'a>(
        &'a self,
        item: &'a Item,
        store: &'a mut VirtualStore,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self::Content, Failure>>;
}

/// Reads files.
pub(crate) struct FileReader<M> {
    /// How they are reached and mapped.
    pub(crate) options: Options,
    /// What becomes of each.
    pub(crate) make: M,
}

impl<M: Make> ReadFile for FileReader<M> {
    type Content = M::Content;

    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> ReadFuture<'a, M::Content> {
        Box::pin(self.read_file(item, fresh))
    }
}

impl<M: Make> Probe for FileReader<M> {
    fn probe<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.open(item, true).await.map(drop) })
    }
}

impl<M: Make> FileReader<M> {
    async fn read_file(&self, item: &Item, fresh: bool) -> Result<Reading<M::Content>, Failure> {
        let (object, options) = (self.open(item, fresh).await?, self.options.for_file());
        let store = virtualize::open_object(Arc::clone(&object), &options).await;
        let mut store = store.map_err(|error| self.failure(error))?;
        let opened = Item {
            size: store
                .hierarchy
                .sources
                .iter()
                .find(|source| source.url == object.url())
                .map(|source| source.size),
            etag: object.etag().map(str::to_owned),
            modified: object.modified(),
            ..item.clone()
        };
        let content = self.make.make(item, &mut store, &options).await?;
        object.verify().map_err(|error| self.failure(error))?;
        let stats = object.stats();
        let warnings = store.warnings().map(|warning| warning.render(self.options.notation)).collect();
        Ok(Reading { opened, requests: stats.requests, bytes: stats.bytes, warnings, content })
    }

    /// Opens it as it was listed, or as it is now.
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

impl Failure {
    /// The failure of a file, with its remedy in the caller's notation.
    pub(crate) fn new(error: impl Into<virtualize::Error>, notation: Notation) -> Self {
        let error = error.into();
        let text = match &error {
            virtualize::Error::Values { path, .. } => {
                let remedy =
                    Remedy::set(OptionName::AssumeEqual, path.clone(), "take the first file's values");
                remedy
                    .render(notation)
                    .map_or_else(|| error.to_string(), |remedy| format!("{error} ({remedy})"))
            }
            _ => error.render(notation),
        };
        Self { class: error.class(), error: text.replace('\n', " ") }
    }
}
