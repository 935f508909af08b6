//! One commit at a time to a repository on a local disk.
//!
//! Icechunk replaces the file that names the branches, and a local disk has no conditional writes: of two commits at once
//! the first would be lost.

use std::{
    fs::{File, TryLockError},
    time::Duration,
};

use crate::{IcechunkError, RepositoryLocation};

/// Time between two looks at a lock that another process holds.
const WAIT: Duration = Duration::from_millis(50);

/// Waits for the lock on the folder of a local repository, which is made where there is none. It is gone with the returned
/// value, or with the process. `None` for object stores, and for disks that have no locks.
pub(crate) async fn hold(location: &RepositoryLocation) -> Result<Option<File>, IcechunkError> {
    let RepositoryLocation::Local(path) = location else { return Ok(None) };
    std::fs::create_dir_all(path).map_err(IcechunkError::of("making the folder of the repository"))?;
    let Ok(folder) = File::open(path) else { return Ok(None) };
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(WAIT).await,
            Err(TryLockError::Error(error)) => {
                tracing::warn!("{}: no lock can be held: {error}", path.display());
                return Ok(None);
            }
        }
    }
}
