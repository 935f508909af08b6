//! Opening, creating, configuring and locking repositories, and the history of their branches.
//!
//! Commits to a local repository are serialized by a lock. A commit replaces the file that lists the branches; without the
//! conditional writes of object stores, the later of two concurrent commits would undo the earlier one.

use std::{
    fs::{File, TryLockError},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use icechunk::{
    Repository, RepositoryConfig, Storage,
    config::{
        CachingConfig, ManifestConfig, ManifestPreloadCondition, ManifestPreloadConfig,
        ManifestSplitCondition, ManifestSplitDim, ManifestSplitDimCondition, ManifestSplittingConfig,
        ManifestVirtualChunkLocationCompressionConfig,
    },
    format::{
        SnapshotId,
        snapshot::{NodeData, Snapshot, SnapshotInfo},
    },
    repository::{RepositoryErrorKind, VersionInfo},
    storage::{StorageContext, StorageError, StorageErrorKind},
};
use serde_json::Value;
use virtualize_store::StoreOptions;

use crate::{
    CommitRecord, IcechunkError, RepositoryLocation, Result, container::Containers, error::node_path,
    storage::create_folder, update::UpdatePlanner,
};

/// Attempts to create or configure a repository while other writers do the same.
const ATTEMPTS: u32 = 5;

/// What the configuration of a repository has to provide for.
pub(crate) struct Requirements<'a> {
    /// Sources that need a virtual chunk container.
    pub(crate) containers: &'a Containers,
    /// Access to the sources.
    pub(crate) store: &'a StoreOptions,
    /// Paths of the arrays, with a leading slash, and their chunk counts along each axis.
    pub(crate) arrays: &'a [(String, Vec<u64>)],
    /// Maximum number of references in a manifest.
    pub(crate) references_per_manifest: u64,
}

/// Opens a repository for reading. Returns `None` if it does not exist.
pub(crate) async fn open(
    location: &RepositoryLocation,
    options: &StoreOptions,
) -> Result<Option<Repository>> {
    if matches!(location, RepositoryLocation::Local(path) if !path.is_dir()) {
        return Ok(None);
    }
    let storage = location.connect(options).await?;
    if !repository_exists(&storage).await? {
        return Ok(None);
    }
    open_without_caches(storage).await.map(Some)
}

/// Opens a repository for writing, or creates it, and adds to its configuration what the requirements lack. Other writers may
/// do the same concurrently.
pub(crate) async fn open_or_create(
    storage: Arc<dyn Storage + Send + Sync>,
    needs: &Requirements<'_>,
) -> Result<Repository> {
    let mut attempt = 1;
    loop {
        // Saving fails when another writer was faster.
        let saved = if repository_exists(&storage).await? {
            let opened = Repository::open(Arc::clone(&storage)).execute().await;
            let repository = opened.map_err(IcechunkError::of("opening the repository"))?;
            let mut config = repository.config().clone();
            if complete(&mut config, needs)? {
                let changed = repository.reopen(Some(config), None).await;
                let changed = changed.map_err(IcechunkError::of("configuring the repository"))?;
                let saved = changed.save_config().await;
                saved.map(drop).map_err(IcechunkError::of("configuring the repository"))
            } else {
                Ok(())
            }
        } else {
            let mut config = RepositoryConfig::default();
            complete(&mut config, needs)?;
            let partial = is_partly_created(storage.as_ref()).await;
            let partial = partial.map_err(IcechunkError::of("looking for the repository"))?;
            let new = Repository::create(Arc::clone(&storage)).config(config).check_clean_root(!partial);
            new.execute().await.map(drop).map_err(IcechunkError::of("creating the repository"))
        };
        match saved {
            Ok(()) => return open_without_caches(storage).await,
            Err(_) if attempt < ATTEMPTS => tokio::time::sleep(Duration::from_millis(100) * attempt).await,
            Err(error) => return Err(error),
        }
        attempt += 1;
    }
}

async fn repository_exists(storage: &Arc<dyn Storage + Send + Sync>) -> Result<bool> {
    let exists = Repository::exists(Arc::clone(storage), None).await;
    exists.map_err(IcechunkError::of("looking for the repository"))
}

/// Returns whether the storage contains only what an interrupted creation leaves: the initial snapshot and its transaction
/// log, which have fixed names. Creating the repository again overwrites them.
async fn is_partly_created(storage: &(dyn Storage + Send + Sync)) -> Result<bool, StorageError> {
    let settings = storage.default_settings().await?;
    let first = Snapshot::INITIAL_SNAPSHOT_ID.to_string();
    let mut partial = false;
    let mut objects = match storage.list_objects(&StorageContext::unattributed(&settings), "").await {
        Err(StorageError { kind: StorageErrorKind::ObjectNotFound, .. }) => return Ok(false),
        listed => listed?,
    };
    while let Some(object) = objects.next().await {
        let id = object?.id;
        if !matches!(id.rsplit_once('/'), Some(("snapshots" | "transactions", name)) if name == first) {
            return Ok(false);
        }
        partial = true;
    }
    Ok(partial)
}

/// Opens a repository without caching and preloading of manifests, and without compression of the locations that are
/// written. The settings are not saved.
async fn open_without_caches(storage: Arc<dyn Storage + Send + Sync>) -> Result<Repository> {
    let caching = CachingConfig { num_chunk_refs: Some(0), ..CachingConfig::default() };
    let preload =
        ManifestPreloadConfig { preload_if: Some(ManifestPreloadCondition::False), ..Default::default() };
    let compression = ManifestVirtualChunkLocationCompressionConfig {
        min_num_chunks: Some(u16::MAX),
        ..Default::default()
    };
    let manifest = ManifestConfig {
        preload: Some(preload),
        splitting: None,
        virtual_chunk_location_compression: Some(compression),
        max_concurrent_manifest_fetches_during_commit: None,
    };
    let config =
        RepositoryConfig { caching: Some(caching), manifest: Some(manifest), ..RepositoryConfig::default() };
    let opened = Repository::open(storage).config(config).execute().await;
    opened.map_err(IcechunkError::of("opening the repository"))
}

/// Adds missing containers and splitting rules to a configuration. Returns whether there were any.
fn complete(config: &mut RepositoryConfig, needs: &Requirements<'_>) -> Result<bool> {
    let mut changed = add_rules(config, needs.arrays, needs.references_per_manifest);
    for container in needs.containers.missing(&prefixes(config), needs.store)? {
        let prefix = container.url_prefix().to_owned();
        let set = config.set_virtual_chunk_container(container);
        set.map_err(|reason| IcechunkError::Source { url: prefix, reason })?;
        changed = true;
    }
    Ok(changed)
}

/// Returns the url prefixes of a repository's containers.
pub(crate) fn prefixes(config: &RepositoryConfig) -> Vec<String> {
    config.virtual_chunk_containers().map(|known| known.url_prefix().to_owned()).collect()
}

/// Returns the newest snapshot of a branch. Creates the branch if nothing was ever committed to the repository.
pub(crate) async fn branch_tip(repository: &Repository, branch: &str) -> Result<SnapshotId> {
    match repository.lookup_branch(branch).await {
        Ok(tip) => Ok(tip),
        Err(error) if matches!(error.kind, RepositoryErrorKind::Ref(_)) => {
            let known =
                repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
            // Nothing was committed to a repository whose only branch is at the initial snapshot.
            let only = known.iter().map(String::as_str).eq(["main"]);
            let tip = repository.lookup_branch("main").await.ok();
            if let Some(first) = tip.filter(|tip| only && *tip == Snapshot::INITIAL_SNAPSHOT_ID) {
                let made = repository.create_branch(branch, &first).await;
                made.map_err(IcechunkError::of("creating the branch"))?;
                return Ok(first);
            }
            Err(IcechunkError::NoVersion { what: "branch", name: branch.to_owned(), known })
        }
        Err(error) => Err(IcechunkError::of("looking up the branch")(error)),
    }
}

/// Returns whether a snapshot is the tip of a branch or one of its ancestors.
pub(crate) async fn has_snapshot(
    repository: &Repository,
    branch: &str,
    snapshot: &SnapshotId,
) -> Result<bool> {
    Ok(newest(repository, branch, |commit| commit.id == *snapshot).await?.is_some())
}

/// Returns the newest commit of a branch that meets a condition.
async fn newest(
    repository: &Repository,
    branch: &str,
    is: impl Fn(&SnapshotInfo) -> bool,
) -> Result<Option<FoundCommit>> {
    let failed = IcechunkError::of("reading the log");
    let log = repository.ancestry(&VersionInfo::BranchTipRef(branch.to_owned())).await.map_err(&failed)?;
    let mut log = std::pin::pin!(log);
    let mut is_last = true;
    while let Some(commit) = log.try_next().await.map_err(&failed)? {
        if is(&commit) {
            return Ok(Some(FoundCommit { snapshot: commit.id.to_string(), is_last }));
        }
        is_last = false;
    }
    Ok(None)
}

/// A commit found by a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCommit {
    /// Id of its snapshot.
    pub snapshot: String,
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
    options: &StoreOptions,
) -> Result<Option<FoundCommit>> {
    let Some((repository, _)) = branch_of(location, branch, options).await? else { return Ok(None) };
    newest(&repository, branch, |commit| commit.metadata.get(key).and_then(Value::as_str) == Some(value))
        .await
}

/// Compares a branch with what an earlier commit wrote.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn inspect(
    location: &RepositoryLocation,
    branch: &str,
    record: &CommitRecord,
    options: &StoreOptions,
) -> Result<History> {
    let Some((repository, tip)) = branch_of(location, branch, options).await? else {
        return Ok(History::Empty);
    };
    let planner = match UpdatePlanner::open(&repository, record, (branch, &tip)).await {
        Ok(planner) => planner,
        Err(IcechunkError::History { .. }) if is_empty(&repository, tip).await? => return Ok(History::Empty),
        Err(error @ IcechunkError::History { .. }) => return Ok(History::Changed(error)),
        Err(error) => return Err(error),
    };
    for (path, recorded) in &record.documents {
        match planner.current(path, recorded).await {
            Ok(_) => {}
            Err(error @ IcechunkError::Foreign { .. }) => return Ok(History::Changed(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(History::Whole)
}

async fn branch_of(
    location: &RepositoryLocation,
    branch: &str,
    options: &StoreOptions,
) -> Result<Option<(Repository, SnapshotId)>> {
    let Some(repository) = open(location, options).await? else { return Ok(None) };
    let known = repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
    if !known.contains(branch) {
        return Ok(None);
    }
    let tip = repository.lookup_branch(branch).await.map_err(IcechunkError::of("looking up the branch"))?;
    Ok(Some((repository, tip)))
}

/// Returns whether a snapshot contains nothing but a root group.
async fn is_empty(repository: &Repository, snapshot: SnapshotId) -> Result<bool> {
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

/// Interval between attempts to take a lock that another process holds.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for the lock on the folder of a local repository and takes it. Creates the folder if it does not exist. Dropping
/// the returned value, or the end of the process, releases the lock. Returns `None` for object stores and for file systems
/// without locks.
pub(crate) async fn lock(location: &RepositoryLocation) -> Result<Option<File>> {
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

/// Adds splitting rules for arrays of more than `limit` chunks to a configuration, before the existing rules. An existing rule
/// that still divides an array well stays, since another rule would make the next commit write all manifests again. Returns
/// whether it added any. `arrays` are paths with a leading slash and chunk counts along each axis, slowest axis first.
fn add_rules(config: &mut RepositoryConfig, arrays: &[(String, Vec<u64>)], limit: u64) -> bool {
    let is_large = |counts: &[u64]| {
        counts.iter().try_fold(1_u64, |all, n| all.checked_mul(*n)).is_none_or(|n| n > limit)
    };
    let old = config.manifest().splitting().split_sizes.clone().unwrap_or_default();
    let mut new = Vec::new();
    for (path, counts) in arrays.iter().filter(|(_, counts)| is_large(counts)) {
        let mut regex = String::from("^");
        for c in path.chars() {
            if c.is_ascii_punctuation() && c != '/' && c != '_' {
                regex.push('\\');
            }
            regex.push(c);
        }
        let condition = ManifestSplitCondition::PathMatches { regex: regex + "$" };
        // The number of chunks in a manifest by the existing rule, which must be roughly `limit`.
        let known = old.iter().find(|(other, _)| *other == condition).and_then(|(_, sizes)| {
            counts.iter().enumerate().try_fold(1_u64, |chunks, (axis, count)| {
                let is_axis = |dim: &&ManifestSplitDim| matches!(dim.condition, ManifestSplitDimCondition::Axis(at) if at == axis);
                let size = sizes.iter().find(is_axis)?.num_chunks;
                chunks.checked_mul(u64::from(size).min(*count))
            })
        });
        if !known.is_some_and(|chunks| (limit / 10..=limit.saturating_mul(5)).contains(&chunks)) {
            new.push((condition, split_sizes(counts, limit)));
        }
    }
    if new.is_empty() {
        return false;
    }
    let manifest = config.manifest.get_or_insert_with(ManifestConfig::default);
    let split_sizes = Some(new.into_iter().chain(old).collect());
    manifest.splitting = Some(ManifestSplittingConfig { split_sizes });
    true
}

/// Returns the extent of a manifest in chunks along each axis, so that it contains at most `limit` chunks that are adjacent
/// in row-major order.
fn split_sizes(counts: &[u64], limit: u64) -> Vec<ManifestSplitDim> {
    let mut left = limit.max(1);
    let mut sizes: Vec<_> = counts
        .iter()
        .enumerate()
        .rev()
        .map(|(axis, count)| {
            let size = left.min((*count).max(1));
            left = if size == (*count).max(1) { (left / size).max(1) } else { 1 };
            let num_chunks = u32::try_from(size).unwrap_or(u32::MAX);
            ManifestSplitDim { condition: ManifestSplitDimCondition::Axis(axis), num_chunks }
        })
        .collect();
    sizes.reverse();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Vec<u32> {
        split_sizes(counts, 1000).iter().map(|dim| dim.num_chunks).collect()
    }

    #[test]
    fn manifests_contain_adjacent_chunks() {
        assert_eq!(of(&[50_000]), [1000]);
        assert_eq!(of(&[400, 10, 20]), [5, 10, 20]);
        assert_eq!(of(&[4, 3000]), [1, 1000]);
        assert_eq!(of(&[4, 3, 600]), [1, 1, 600]);
    }

    #[test]
    fn large_arrays_get_one_rule() {
        let arrays = [("/a.b/c".to_owned(), vec![50, 50]), ("/small".to_owned(), vec![3])];
        let mut config = RepositoryConfig::default();
        assert!(add_rules(&mut config, &arrays, 1000));
        assert!(!add_rules(&mut config, &arrays, 1000));
        let rules = config.manifest().splitting().split_sizes.clone().unwrap_or_default();
        let expected = ManifestSplitCondition::PathMatches { regex: r"^/a\.b/c$".to_owned() };
        assert_eq!(rules.first().map(|(condition, _)| condition), Some(&expected));
    }

    #[test]
    fn rules_stay_while_they_divide_well() {
        let arrays = |counts: &[u64]| [("/a".to_owned(), counts.to_vec())];
        let mut config = RepositoryConfig::default();
        assert!(add_rules(&mut config, &arrays(&[400, 10, 20]), 1000));
        for grown in [[800, 10, 20], [400, 12, 20], [400, 10, 60]] {
            assert!(!add_rules(&mut config, &arrays(&grown), 1000), "{grown:?}");
        }
        // A rule for manifests of five times the size stays, one for far larger ones does not.
        assert!(!add_rules(&mut config, &arrays(&[400, 10, 20]), 200));
        assert!(add_rules(&mut config, &arrays(&[400, 10, 20]), 100));
        assert!(add_rules(&mut config, &arrays(&[400_000]), 1000));
    }
}
