//! What a branch has of earlier commits.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::{SnapshotId, snapshot::NodeData},
    repository::VersionInfo,
};
use serde_json::Value;

use crate::{
    IcechunkError, RepositoryLocation, StorageOptions, Update, commit::TOUCHED, metadata::node_path,
    read::open, update::Updating,
};

/// A commit that was found by a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCommit {
    /// Its snapshot.
    pub snapshot: String,
    /// See [`crate::Committed::touched`].
    pub touched: BTreeSet<String>,
}

/// What a branch has of what an earlier commit wrote.
#[derive(Clone, Debug)]
pub enum History {
    /// There is no such repository or branch, or nothing was ever written to it.
    Empty,
    /// All of it.
    Whole,
    /// Not all, or not as it was.
    Changed(IcechunkError),
}

/// The newest commit of a branch that has this property, (key, value). Nothing where there is no repository or no such
/// branch.
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
    while let Some(commit) = log.try_next().await.map_err(&failed)? {
        if commit.metadata.get(key).and_then(Value::as_str) == Some(value) {
            let touched = commit.metadata.get(TOUCHED).and_then(Value::as_array);
            let names = touched.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            return Ok(Some(FoundCommit { snapshot: commit.id.to_string(), touched: names.collect() }));
        }
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
    match Updating::open(&repository, update, (branch, &tip), &[], &[]).await {
        Ok(mut updating) => Ok(updating.changed().await?.map_or(History::Whole, History::Changed)),
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

/// Whether a snapshot has nothing but a group without children.
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
