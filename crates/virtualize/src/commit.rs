//! Commits to Icechunk repositories.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, sync::Mutex};

use bytes::Bytes;
use virtualize_bytes::{ByteRange, ReadRanges};
use virtualize_icechunk::{Committed, ReadChunk, ReadRepository, RepositoryLocation, StorageOptions};
use virtualize_store::{Object, StoreOptions, known_regions, other_settings};

use crate::{Error, VirtualStore};

pub use virtualize_icechunk::{CommitOptions, IcechunkError, Mode};

/// Commits a store that was mapped for Zarr v3 to an Icechunk repository: a path, or `s3://`, `gs://`, `az://` with a
/// prefix. A repository is made where there is none. `options.storage` follows from `store_options`.
///
/// # Errors
/// [`Error::Icechunk`]. The branch is then as it was.
pub async fn commit(
    store: &VirtualStore,
    target: &str,
    options: &CommitOptions,
    store_options: &StoreOptions,
) -> Result<Committed, Error> {
    let failed = |source| Error::Icechunk { name: target.to_owned(), source };
    let location = RepositoryLocation::parse(&absolute(target)).map_err(failed)?;
    let storage = storage(target, store_options).await?;
    let options = CommitOptions { storage, ..options.clone() };
    let reader = Reader { options: store_options, open: Mutex::default() };
    virtualize_icechunk::commit(&store.hierarchy, &location, &options, &reader).await.map_err(failed)
}

/// Whether one of the newest commits of a repository's branch has this property, (key, value). `false` where there is no
/// repository or no such branch.
///
/// # Errors
/// [`Error::Icechunk`].
pub async fn has_commit(
    target: &str,
    branch: &str,
    property: (&str, &str),
    store_options: &StoreOptions,
) -> Result<bool, Error> {
    let failed = |source| Error::Icechunk { name: target.to_owned(), source };
    let location = RepositoryLocation::parse(&absolute(target)).map_err(failed)?;
    let storage = storage(target, store_options).await?;
    virtualize_icechunk::has_commit(&location, branch, property, &storage).await.map_err(failed)
}

/// Reads a branch, tag or snapshot of a repository; `None` where there is none.
pub(crate) async fn read(
    target: &str,
    version: &str,
    store_options: &StoreOptions,
) -> Result<Option<ReadRepository>, Error> {
    let failed = |source| Error::Icechunk { name: target.to_owned(), source };
    let Ok(location) = RepositoryLocation::parse(&absolute(target)) else { return Ok(None) };
    let storage = storage(target, store_options).await?;
    virtualize_icechunk::read(&location, version, &storage).await.map_err(failed)
}

/// How the repository is reached, and where the buckets of its sources were found to be.
async fn storage(target: &str, options: &StoreOptions) -> Result<StorageOptions, Error> {
    let mut values = options.values.clone();
    values.extend(other_settings(target, options).await?);
    let regions = Arc::new(known_regions(options));
    Ok(StorageOptions { values, anonymous: options.anonymous, endpoint: options.endpoint.clone(), regions })
}

/// A path that stays true where Python runs in another folder.
fn absolute(target: &str) -> String {
    let is_url = target.contains("://");
    let path = std::path::absolute(target).ok().filter(|_| !is_url);
    path.map_or_else(|| target.to_owned(), |path| path.display().to_string())
}

/// Reads chunks that are compared, and keeps their files open.
struct Reader<'a> {
    options: &'a StoreOptions,
    open: Mutex<BTreeMap<String, Arc<Object>>>,
}

impl Reader<'_> {
    async fn object(&self, url: &str) -> Result<Arc<Object>, String> {
        let known = self.open.lock().map_err(|error| error.to_string())?.get(url).cloned();
        if let Some(object) = known {
            return Ok(object);
        }
        let object = virtualize_store::open(url, self.options).await.map_err(|error| error.to_string())?;
        self.open.lock().map_err(|error| error.to_string())?.insert(url.to_owned(), Arc::clone(&object));
        Ok(object)
    }
}

impl ReadChunk for Reader<'_> {
    fn read<'a>(
        &'a self,
        url: &'a str,
        offset: u64,
        length: u64,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, String>> + 'a>> {
        Box::pin(async move {
            let object = self.object(url).await?;
            let bytes = object.read_ranges(&[ByteRange::new(offset, length)]).await;
            let bytes = bytes.map_err(|error| error.to_string())?.into_iter().next().unwrap_or_default();
            match bytes.len() as u64 == length {
                true => Ok(bytes),
                false => Err(format!("{url} ends before byte {}", offset.saturating_add(length))),
            }
        })
    }
}
