//! The stored bytes of an array's chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_store::{Object, StoreOptions};
use virtualize_zarr::{Array, ChunkEntry, Reference, Source, SourceId};

use crate::{Error, VirtualStore, sources::source_of};

/// Why chunks were not read.
pub(super) enum Failure {
    Chunk(String),
    Other(Error),
}

impl Failure {
    pub(super) fn of(self, named: impl Fn(String) -> Error) -> Error {
        match self {
            Self::Chunk(reason) => named(reason),
            Self::Other(error) => error,
        }
    }

    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Chunk(reason) => reason,
            Self::Other(error) => error.to_string(),
        }
    }
}

/// Reads what references lead to, by position; all of a file in one call.
pub(super) async fn fetch(
    store: &VirtualStore,
    array: &Array,
    most: u64,
    options: &StoreOptions,
) -> Result<BTreeMap<u64, Bytes>, Failure> {
    let mut by_source: BTreeMap<SourceId, Vec<(u64, Reference)>> = BTreeMap::new();
    let mut bytes = 0_u64;
    for (position, entry) in array.chunks.iter() {
        if let ChunkEntry::Reference(reference) = entry {
            bytes = bytes.saturating_add(reference.length);
            if bytes > most {
                let reason = format!(
                    "its chunks are stored in more than {most} bytes, which is all that is read at once"
                );
                return Err(Failure::Chunk(reason));
            }
            by_source.entry(reference.source).or_default().push((position, reference));
        }
    }
    let reads = by_source.into_iter().map(|(id, chunks)| of_source(store, id, chunks, options));
    let concurrency = options.concurrency.clamp(1, 16);
    let all: Vec<Vec<(u64, Bytes)>> = stream::iter(reads).buffer_unordered(concurrency).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

async fn of_source(
    store: &VirtualStore,
    id: SourceId,
    chunks: Vec<(u64, Reference)>,
    options: &StoreOptions,
) -> Result<Vec<(u64, Bytes)>, Failure> {
    let place = store.source_urls().nth(id.index());
    let place = place.ok_or_else(|| Failure::Chunk(format!("there is no source {}", id.0)))?;
    let own = store.shared_object().filter(|object| object.url() == place);
    let object = match own {
        Some(object) => object,
        None => other(place, store.hierarchy.source(id), options).await?,
    };
    let ranges: Vec<_> = chunks.iter().map(|(_, part)| ByteRange::new(part.offset, part.length)).collect();
    let parts = object.read_ranges(&ranges).await.map_err(|error| Failure::Other(error.into()))?;
    object.verify().map_err(|error| Failure::Other(error.into()))?;
    let mut read = Vec::with_capacity(chunks.len());
    for ((position, part), bytes) in chunks.into_iter().zip(parts) {
        if bytes.len() as u64 != part.length {
            let range = ByteRange::new(part.offset, part.length);
            return Err(Failure::Chunk(format!(
                "{range} of {} cannot be read: it ends before",
                object.name()
            )));
        }
        read.push((position, bytes));
    }
    Ok(read)
}

/// Opens a file that is to be what it was.
async fn other(
    place: &str,
    recorded: Option<&Source>,
    options: &StoreOptions,
) -> Result<Arc<Object>, Failure> {
    let object =
        virtualize_store::open(place, options).await.map_err(|error| Failure::Other(error.into()))?;
    let now = source_of(&object);
    let differs = |then: &Source| {
        (then.etag.is_some() && then.etag != now.etag) || (then.size != 0 && then.size != now.size)
    };
    if recorded.is_some_and(differs) {
        return Err(Failure::Chunk(format!("{} has changed", object.name())));
    }
    Ok(object)
}
