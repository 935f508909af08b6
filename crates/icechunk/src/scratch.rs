//! Temporary branches of commits in parts.

use std::time::{Duration, SystemTime};

use icechunk::{Repository, format::SnapshotId, repository::VersionInfo};

use crate::{IcechunkError, RepositoryLocation, error::one_line};

const PREFIX: &str = "virtualize-";
/// Time without a new part after which the writer of a temporary branch in a bucket counts as dead.
const SILENCE: Duration = Duration::from_secs(6 * 60 * 60);

/// Returns the name of a new temporary branch.
pub(crate) fn name() -> String {
    format!("{PREFIX}{}", SnapshotId::random())
}

/// Deletes a temporary branch.
pub(crate) async fn delete(repository: &Repository, branch: &str) {
    if let Err(error) = repository.delete_branch(branch).await {
        tracing::warn!("cannot delete the temporary branch {branch}: {}", one_line(&error));
    }
}

/// Deletes the temporary branches that killed processes left. The lock of a local repository excludes that one is in use; in
/// a bucket, one counts as abandoned after hours without a new part.
pub(crate) async fn delete_abandoned(
    repository: &Repository,
    location: &RepositoryLocation,
) -> Result<(), IcechunkError> {
    let branches = repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
    let is_ours =
        |branch: &&String| branch.strip_prefix(PREFIX).is_some_and(|id| SnapshotId::try_from(id).is_ok());
    for branch in branches.iter().filter(is_ours) {
        if matches!(location, RepositoryLocation::Local(_)) || is_silent(repository, branch).await {
            tracing::info!("{branch}: a temporary branch of a process that was killed, removed");
            delete(repository, branch).await;
        }
    }
    Ok(())
}

/// Returns whether the last part of a temporary branch was committed long ago.
async fn is_silent(repository: &Repository, branch: &str) -> bool {
    let version = VersionInfo::BranchTipRef(branch.to_owned());
    let Ok(session) = repository.readonly_session(&version).await else { return false };
    let Ok(snapshot) = repository.lookup_snapshot(session.snapshot_id()).await else { return false };
    SystemTime::now()
        .duration_since(SystemTime::from(snapshot.flushed_at))
        .is_ok_and(|silence| silence > SILENCE)
}
