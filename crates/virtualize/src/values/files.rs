//! The files that contain the chunks of a store.

use std::sync::Arc;

use virtualize_store::{Object, StoreError, StoreOptions};
use virtualize_zarr::SourceId;

use crate::array_error::ArrayError;
use crate::sources::{Pool, ReopenError, reopen};
use crate::store::VirtualStore;

/// Opens the files of a store at the urls from which they were read, since they may have been relocated.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) store: &'a VirtualStore,
    pub(super) options: &'a StoreOptions,
    pub(super) pool: &'a Pool,
}

impl<'a> Files<'a> {
    fn url(&self, id: SourceId) -> Result<&'a str, ArrayError> {
        self.store.source_url(id).ok_or(ArrayError::NoSource(id.0))
    }

    fn own(&self, url: &str) -> Option<Arc<Object>> {
        self.store.shared_object().filter(|object| object.url() == url)
    }

    /// Returns whether a file can be read without waiting.
    pub(super) fn is_local(&self, id: SourceId) -> bool {
        let is_on_disk = |url: &str| url.starts_with("file:") && self.options.through.is_none();
        self.url(id).is_ok_and(|url| self.own(url).map_or_else(|| is_on_disk(url), |own| own.is_local()))
    }

    /// Opens a file, or returns it if it is open. It must be the version that was mapped.
    pub(super) async fn open(&self, id: SourceId) -> Result<Arc<Object>, ArrayError> {
        let url = self.url(id)?;
        if let Some(object) = self.own(url).or_else(|| self.pool.get(url)) {
            return Ok(object);
        }
        let recorded = self.store.hierarchy.source(id);
        let object = reopen(url, recorded, self.options).await.map_err(|error| match error {
            ReopenError::Store(error) => of_store(error),
            ReopenError::Changed { name } => ArrayError::Changed { name },
        })?;
        self.pool.keep(url, &object);
        Ok(object)
    }
}

/// Returns the error of a read from a store.
pub(super) fn of_store(error: StoreError) -> ArrayError {
    match error {
        StoreError::Changed { name, .. } => ArrayError::Changed { name },
        error => ArrayError::Store(error),
    }
}
