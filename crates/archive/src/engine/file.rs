//! Opens one file, and makes of it what is wanted.

use std::sync::Arc;

use futures::future::BoxFuture;
use virtualize::{Object, Options, StoreError, VirtualStore};
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
        let mut store = virtualize::open_object(Arc::clone(&object), &options).await?;
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
        object.verify()?;
        let stats = object.stats();
        let warnings = store.warnings().map(ToString::to_string).collect();
        Ok(Reading { opened, requests: stats.requests, bytes: stats.bytes, warnings, content })
    }

    /// Opens it as it was listed, or as it is now.
    async fn open(&self, item: &Item, fresh: bool) -> Result<Arc<Object>, Failure> {
        let mut listed = Listed::of(&item.url);
        if !fresh {
            let Item { size, etag, modified, .. } = item.clone();
            listed = Listed { size, etag, modified, ..listed };
        }
        Ok(virtualize_store::open_listed(&listed, &self.options.store).await?)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        virtualize::Error::from(error).into()
    }
}

impl From<virtualize::Error> for Failure {
    fn from(error: virtualize::Error) -> Self {
        let hint = match &error {
            virtualize::Error::Values { path, .. } => {
                format!(" (--assume-equal {path} takes the first file's)")
            }
            other => other.hint().map(|hint| format!(" ({hint})")).unwrap_or_default(),
        };
        Self { class: error.class(), error: format!("{error}{hint}").replace('\n', " ") }
    }
}
