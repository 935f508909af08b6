//! The bytes of single chunks, as they are stored, by one request each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use virtualize_bytes::{ByteRange, ReadError, ReadErrorKind};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Array, Reference, SourceId};

use crate::{Error, VirtualStore, open::source_of, outside};

/// Most other files that are kept open.
const OPEN: usize = 64;

/// Reads chunks of one store. The files are those that were mapped: one that has changed since is an error.
#[derive(Debug, Default)]
pub struct ChunkReader {
    others: Mutex<HashMap<u32, Arc<Object>>>,
}

impl ChunkReader {
    /// Bytes of a chunk that lies in a file: `length` from byte `start` of the chunk on.
    ///
    /// # Errors
    /// What a store can say; a file that changed since it was mapped.
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
        if let Some(object) = self.others.lock().unwrap_or_else(PoisonError::into_inner).get(&id.0) {
            return Ok(Arc::clone(object));
        }
        let Some(source) = store.hierarchy.source(id) else {
            let message = format!("{}: there is no source {}", store.name(), id.0);
            return Err(ReadError::new(ReadErrorKind::Invalid, message).into());
        };
        let object = virtualize_store::open(&source.url, options).await?;
        if !outside::same(&source_of(&object), source) {
            let message = format!("{}: the file changed since it was mapped", object.name());
            return Err(ReadError::new(ReadErrorKind::Changed, message).into());
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() >= OPEN {
            others.clear();
        }
        others.insert(id.0, Arc::clone(&object));
        Ok(object)
    }
}

/// The row-major position of a chunk by its coordinates in the grid; `None` outside of it.
pub fn position(array: &Array, coordinates: &[u64]) -> Option<u64> {
    let grid = array.chunk_grid.counts(&array.shape);
    if grid.len() != coordinates.len() {
        return None;
    }
    let mut steps = grid.iter().zip(coordinates);
    steps.try_fold(0_u64, |all, (along, at)| {
        (at < along).then_some(())?;
        all.checked_mul(*along)?.checked_add(*at)
    })
}
