//! Earlier commits in the history of a branch.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::{SnapshotId, snapshot::NodeData},
    repository::VersionInfo,
};
use serde_json::Value;

use crate::{
    IcechunkError, RepositoryLocation, StorageOptions, Update, metadata::node_path, repository::open,
    update::UpdatePlanner,
};

/// The commit property that lists the arrays to which others have written chunks.
pub(crate) const TOUCHED: &str = "virtualize-chunks-of-others";

/// A commit found by a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCommit {
    /// Id of its snapshot.
    pub snapshot: String,
    /// See [`crate::Committed::touched`].
    pub touched: BTreeSet<String>,
    /// Whether no other commit follows it.
    pub is_last: bool,
}

/// State of what an earlier commit wrote to a branch.
#[derive(Clone, Debug)]
pub enum History {
    /// The repository or the branch does not exist, or nothing was ever written to it.
    Empty,
    /// The branch contains all of it, unchanged.
    Whole,
    /// Part of it was changed or removed.
    Changed(IcechunkError),
}

/// Returns the newest commit of a branch with this property (key, value). `None` also if the repository or the branch does
/// not exist.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn find_commit(
    location: &RepositoryLocation,
    branch: &str,
    (key, value): (&str, &str),
    options: &StorageOptions,
) -> Result<Option<FoundCommit>, IcechunkError> {
    let Some((repository, _)) = branch_of(location, branch, options).await? else { return Ok(None) };
    let failed = IcechunkError::of("reading the log");
    let log = repository.ancestry(&VersionInfo::BranchTipRef(branch.to_owned())).await.map_err(&failed)?;
    let mut log = std::pin::pin!(log);
    let mut is_last = true;
    while let Some(commit) = log.try_next().await.map_err(&failed)? {
        if commit.metadata.get(key).and_then(Value::as_str) == Some(value) {
            let touched = commit.metadata.get(TOUCHED).and_then(Value::as_array);
            let names = touched.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            let (snapshot, touched) = (commit.id.to_string(), names.collect());
            return Ok(Some(FoundCommit { snapshot, touched, is_last }));
        }
        is_last = false;
    }
    Ok(None)
}

/// Compares a branch with what an earlier commit wrote.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn inspect(
    location: &RepositoryLocation,
    branch: &str,
    update: &Update,
    options: &StorageOptions,
) -> Result<History, IcechunkError> {
    let Some((repository, tip)) = branch_of(location, branch, options).await? else {
        return Ok(History::Empty);
    };
    match UpdatePlanner::open(&repository, update, (branch, &tip), &[]).await {
        Ok(mut planner) => Ok(planner.first_conflict().await?.map_or(History::Whole, History::Changed)),
        Err(IcechunkError::History { .. }) if is_empty(&repository, tip).await? => Ok(History::Empty),
        Err(error @ IcechunkError::History { .. }) => Ok(History::Changed(error)),
        Err(error) => Err(error),
    }
}

async fn branch_of(
    location: &RepositoryLocation,
    branch: &str,
    options: &StorageOptions,
) -> Result<Option<(Repository, SnapshotId)>, IcechunkError> {
    let Some(repository) = open(location, options).await? else { return Ok(None) };
    let known = repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
    if !known.contains(branch) {
        return Ok(None);
    }
    let tip = repository.lookup_branch(branch).await.map_err(IcechunkError::of("looking up the branch"))?;
    Ok(Some((repository, tip)))
}

/// Returns whether a snapshot contains nothing but a root group.
async fn is_empty(repository: &Repository, snapshot: SnapshotId) -> Result<bool, IcechunkError> {
    let session = repository.readonly_session(&VersionInfo::SnapshotId(snapshot)).await;
    let session = session.map_err(IcechunkError::of("opening the snapshot"))?;
    let nodes = session.list_nodes(&node_path("")?).await.map_err(IcechunkError::of("listing the nodes"))?;
    for node in nodes {
        let node = node.map_err(IcechunkError::of("listing the nodes"))?;
        if !matches!(node.node_data, NodeData::Group) || node.path.as_str() != "/" {
            return Ok(false);
        }
    }
    Ok(true)
}
