//! Serialization of commits to a local repository.
//!
//! A commit replaces the file that lists the branches. Without the conditional writes of object stores, the later of two
//! concurrent commits would undo the earlier one.

use std::{
    fs::{File, TryLockError},
    time::Duration,
};

use crate::{IcechunkError, RepositoryLocation, durable::create_folder};

/// Interval between attempts to take a lock that another process holds.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for the lock on the folder of a local repository and takes it. Creates the folder if it does not exist. Dropping
/// the returned value, or the end of the process, releases the lock. Returns `None` for object stores and for file systems
/// without locks.
pub(crate) async fn acquire(location: &RepositoryLocation) -> Result<Option<File>, IcechunkError> {
    let RepositoryLocation::Local(path) = location else { return Ok(None) };
    create_folder(path).map_err(IcechunkError::of("creating the folder of the repository"))?;
    let Ok(folder) = File::open(path) else { return Ok(None) };
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY_INTERVAL).await,
            Err(TryLockError::Error(error)) => {
                tracing::warn!("{}: cannot lock the folder: {error}", path.display());
                return Ok(None);
            }
        }
    }
}
