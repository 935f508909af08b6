//! Reads one file, and makes of it what the run wants.

use std::sync::Arc;

use virtualize::{ErrorClass, Object, Options, StoreError, VirtualStore};
use virtualize_store::Listed;

use super::{each::Each, member};
use crate::{
    Item, Layout,
    engine::{Failure, ReadFile, ReadFuture, Reading},
    journal::Content,
};

/// What becomes of a file.
pub(super) enum Make {
    /// An output of its own.
    Each(Each),
    /// A member of a combined dataset.
    Member(Layout),
}

/// Reads files.
pub(super) struct FileReader {
    pub(super) options: Options,
    pub(super) make: Make,
}

impl ReadFile for FileReader {
    fn read<'a>(&'a self, item: &'a Item, fresh: bool) -> ReadFuture<'a> {
        Box::pin(self.read_file(item, fresh))
    }
}

impl FileReader {
    async fn read_file(&self, item: &Item, fresh: bool) -> Result<Reading, Failure> {
        let object = self.open(item, fresh).await?;
        let mut store = virtualize::open_object(Arc::clone(&object), &self.options).await?;
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
        let content = self.content(item, &mut store).await?;
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

    async fn content(&self, item: &Item, store: &mut VirtualStore) -> Result<Content, Failure> {
        match &self.make {
            Make::Each(each) => {
                let name = each.name(&item.url);
                let name = name.map_err(|error| Failure { class: ErrorClass::File, error })?;
                Ok(each.write(store, name, &self.options).await?)
            }
            Make::Member(layout) => {
                let row = member::row(item, store, layout, &self.options).await?;
                Ok(Content::Member(Box::new(row)))
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        virtualize::Error::from(error).into()
    }
}

impl From<virtualize::Error> for Failure {
    fn from(error: virtualize::Error) -> Self {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        Self { class: error.class(), error: format!("{error}{hint}").replace('\n', " ") }
    }
}
