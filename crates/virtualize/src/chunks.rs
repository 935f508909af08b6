//! Reads the stored bytes of single chunks, with one request each.

use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Reference, SourceId};

use crate::error::Error;
use crate::sources::{Pool, ReopenError, reopen};
use crate::store::VirtualStore;

/// Reads chunks of one store. A file that changed since it was mapped is an error.
#[derive(Debug, Default)]
pub struct ChunkReader {
    others: Pool,
}

impl ChunkReader {
    /// Returns the bytes of a chunk in a file; `within` is relative to the chunk.
    ///
    /// # Errors
    /// [`Error::Store`] and [`Error::Read`]; the file changed since it was mapped.
    pub async fn read(
        &self,
        store: &VirtualStore,
        place: Reference,
        within: ByteRange,
        options: &StoreOptions,
    ) -> Result<Bytes, Error> {
        let within = within.clamp_to(place.length);
        let range = ByteRange::new(place.offset.saturating_add(within.start), within.length);
        let bytes = match (place.source, store.object()) {
            (SourceId(0), Some(object)) => object.read_once(range).await?,
            (other, _) => self.open(store, other, options).await?.read_once(range).await?,
        };
        if bytes.len() as u64 != within.length {
            let message =
                format!("{}: {} bytes at {range}, expected {}", store.name(), bytes.len(), within.length);
            return Err(ReadError::new(ReadErrorKind::Changed, message).into());
        }
        Ok(bytes)
    }

    async fn open(
        &self,
        store: &VirtualStore,
        id: SourceId,
        options: &StoreOptions,
    ) -> Result<Arc<Object>, Error> {
        let Some(source) = store.hierarchy.source(id) else {
            let message = format!("{}: there is no source {}", store.name(), id.0);
            return Err(ReadError::new(ReadErrorKind::Invalid, message).into());
        };
        if let Some(object) = self.others.get(&source.url) {
            return Ok(object);
        }
        let object = reopen(&source.url, Some(source), options).await.map_err(|error| match error {
            ReopenError::Store(error) => Error::Store(error),
            ReopenError::Changed { name } => {
                let message = format!("{name}: the file changed since it was mapped");
                ReadError::new(ReadErrorKind::Changed, message).into()
            }
        })?;
        self.others.keep(&source.url, &object);
        Ok(object)
    }
}
