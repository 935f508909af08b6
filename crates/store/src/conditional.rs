use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};

use crate::{StoreError, StoreOptions, clients::Purpose, connect::connect, location::Location, region};

/// Version of an object in a bucket.
#[derive(Clone, Debug)]
pub struct ObjectVersion(UpdateVersion);

/// Reads a small object with its version. Returns `None` if there is no such object.
///
/// # Errors
/// [`StoreError`] of the store; [`StoreError::Location`] for an object of more than `limit` bytes.
pub async fn read_object(
    url: &str,
    limit: u64,
    options: &StoreOptions,
) -> Result<Option<(Bytes, ObjectVersion)>, StoreError> {
    let location = Location::parse(url)?;
    region::settle(&location, options).await?;
    let (store, path) = connect(&location, Purpose::Writing, options)?;
    let failed = |error: &object_store::Error| StoreError::remote(&location.name(), error);
    let found = match store.get(&path).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        found => found.map_err(|error| failed(&error))?,
    };
    if found.meta.size > limit {
        let reason = format!("{} bytes, expected at most {limit}", found.meta.size);
        return Err(StoreError::Location { name: location.name(), reason });
    }
    let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
    let bytes = found.bytes().await.map_err(|error| failed(&error))?;
    Ok(Some((bytes, ObjectVersion(version))))
}

/// Writes an object if it still has the `expected` version, or does not exist if that is `None`. Returns whether it was
/// written.
///
/// # Errors
/// [`StoreError`] of the store, which must support conditional writes.
pub async fn write_object(
    url: &str,
    expected: Option<ObjectVersion>,
    bytes: Bytes,
    options: &StoreOptions,
) -> Result<bool, StoreError> {
    use object_store::Error as E;
    let location = Location::parse(url)?;
    region::settle(&location, options).await?;
    let (store, path) = connect(&location, Purpose::Writing, options)?;
    let mode = expected.map_or(PutMode::Create, |version| PutMode::Update(version.0));
    match store.put_opts(&path, bytes.into(), mode.into()).await {
        Ok(_) => Ok(true),
        Err(E::AlreadyExists { .. } | E::Precondition { .. } | E::NotFound { .. }) => Ok(false),
        Err(error) => Err(StoreError::remote(&location.name(), &error)),
    }
}
