//! Opening and creating repositories, and their configuration.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{IcechunkError, RepositoryLocation, StorageOptions, container::Containers, splits};
use futures::{StreamExt, TryStreamExt};
use icechunk::{
    Repository, RepositoryConfig, Storage,
    config::{
        CachingConfig, ManifestConfig, ManifestPreloadCondition, ManifestPreloadConfig,
        ManifestVirtualChunkLocationCompressionConfig,
    },
    format::{SnapshotId, snapshot::Snapshot},
    repository::{RepositoryErrorKind, VersionInfo},
    storage::{StorageContext, StorageError, StorageErrorKind},
};

/// Attempts to create or configure a repository while other writers do the same.
const ATTEMPTS: u32 = 5;

/// What the configuration of a repository has to provide for.
pub(crate) struct Requirements<'a> {
    /// Sources that need a virtual chunk container.
    pub(crate) containers: &'a Containers,
    /// Settings of the containers.
    pub(crate) storage: &'a StorageOptions,
    /// Paths of the arrays, with a leading slash, and their chunk counts along each axis.
    pub(crate) arrays: &'a [(String, Vec<u64>)],
    /// Most references in a manifest.
    pub(crate) references_per_manifest: u64,
}

/// Opens a repository for reading. Returns `None` if it does not exist.
pub(crate) async fn open(
    location: &RepositoryLocation,
    options: &StorageOptions,
) -> Result<Option<Repository>, IcechunkError> {
    if matches!(location, RepositoryLocation::Local(path) if !path.is_dir()) {
        return Ok(None);
    }
    let storage = location.connect(options).await?;
    let exists = Repository::exists(Arc::clone(&storage), None).await;
    if !exists.map_err(IcechunkError::of("looking for the repository"))? {
        return Ok(None);
    }
    let repository = Repository::open(storage).execute().await;
    repository.map(Some).map_err(IcechunkError::of("opening the repository"))
}

/// Opens a repository for writing, or creates it, and adds to its configuration what the requirements lack. Other writers may
/// do the same concurrently.
pub(crate) async fn open_or_create(
    storage: Arc<dyn Storage + Send + Sync>,
    needs: &Requirements<'_>,
) -> Result<Repository, IcechunkError> {
    let mut attempt = 1;
    loop {
        match create_or_configure(&storage, needs).await? {
            None => return open_for_writing(storage).await,
            Some(_) if attempt < ATTEMPTS => tokio::time::sleep(Duration::from_millis(100) * attempt).await,
            Some(error) => return Err(error),
        }
        attempt += 1;
    }
}

/// Creates the repository if it does not exist, else completes its configuration. Returns the error if saving failed, which
/// happens when another writer was faster.
async fn create_or_configure(
    storage: &Arc<dyn Storage + Send + Sync>,
    needs: &Requirements<'_>,
) -> Result<Option<IcechunkError>, IcechunkError> {
    let exists = Repository::exists(Arc::clone(storage), None).await;
    if !exists.map_err(IcechunkError::of("looking for the repository"))? {
        let mut config = RepositoryConfig::default();
        complete(&mut config, needs)?;
        let partial = is_partly_created(storage.as_ref()).await;
        let partial = partial.map_err(IcechunkError::of("looking for the repository"))?;
        let new = Repository::create(Arc::clone(storage)).config(config).check_clean_root(!partial);
        return Ok(new.execute().await.err().map(IcechunkError::of("creating the repository")));
    }
    let opened = Repository::open(Arc::clone(storage)).execute().await;
    let repository = opened.map_err(IcechunkError::of("opening the repository"))?;
    let mut config = repository.config().clone();
    if complete(&mut config, needs)? {
        let changed = repository.reopen(Some(config), None).await;
        let changed = changed.map_err(IcechunkError::of("configuring the repository"))?;
        return Ok(changed.save_config().await.err().map(IcechunkError::of("configuring the repository")));
    }
    Ok(None)
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

/// Opens a repository with settings that suit a writer: no caching and no preloading of manifests, and no compression of
/// locations. The settings are not saved.
async fn open_for_writing(storage: Arc<dyn Storage + Send + Sync>) -> Result<Repository, IcechunkError> {
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
fn complete(config: &mut RepositoryConfig, needs: &Requirements<'_>) -> Result<bool, IcechunkError> {
    let mut changed = splits::add_rules(config, needs.arrays, needs.references_per_manifest);
    for container in needs.containers.missing(&prefixes(config), needs.storage)? {
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
pub(crate) async fn branch_tip(repository: &Repository, branch: &str) -> Result<SnapshotId, IcechunkError> {
    match repository.lookup_branch(branch).await {
        Ok(tip) => Ok(tip),
        Err(error) if matches!(error.kind, RepositoryErrorKind::Ref(_)) => {
            let known =
                repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
            if let Some(first) = only_snapshot(repository, &known).await {
                let made = repository.create_branch(branch, &first).await;
                made.map_err(IcechunkError::of("creating the branch"))?;
                return Ok(first);
            }
            Err(IcechunkError::NoBranch { branch: branch.to_owned(), known })
        }
        Err(error) => Err(IcechunkError::of("looking up the branch")(error)),
    }
}

/// Returns the initial snapshot of a repository without commits and with no branch but `main`.
async fn only_snapshot(repository: &Repository, branches: &BTreeSet<String>) -> Option<SnapshotId> {
    let only = branches.iter().map(String::as_str).eq(["main"]);
    let tip = repository.lookup_branch("main").await.ok().filter(|_| only)?;
    (tip == Snapshot::INITIAL_SNAPSHOT_ID).then_some(tip)
}

/// Returns whether a snapshot is the tip of a branch or one of its ancestors.
pub(crate) async fn has_snapshot(
    repository: &Repository,
    branch: &str,
    snapshot: &SnapshotId,
) -> Result<bool, IcechunkError> {
    let failed = IcechunkError::of("reading the log");
    let log = repository.ancestry(&VersionInfo::BranchTipRef(branch.to_owned())).await.map_err(&failed)?;
    let mut log = std::pin::pin!(log);
    while let Some(commit) = log.try_next().await.map_err(&failed)? {
        if commit.id == *snapshot {
            return Ok(true);
        }
    }
    Ok(false)
}
