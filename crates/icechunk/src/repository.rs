//! Opening a repository, or making it, with the containers that its chunks need.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use icechunk::{
    Repository, RepositoryConfig, Storage,
    config::{
        CachingConfig, ManifestConfig, ManifestPreloadCondition, ManifestPreloadConfig,
        ManifestVirtualChunkLocationCompressionConfig,
    },
    format::{SnapshotId, snapshot::Snapshot},
    repository::RepositoryErrorKind,
    storage::{StorageContext, StorageError, StorageErrorKind},
};

use virtualize_zarr::Source;

use crate::{IcechunkError, StorageOptions, container::containers, splits};

/// How often a repository is opened or made anew where others do the same.
const ATTEMPTS: u32 = 5;

/// What a repository has to be able to hold.
pub(crate) struct Needs<'a> {
    pub(crate) sources: &'a [Source],
    /// How the containers of the sources are reached.
    pub(crate) storage: &'a StorageOptions,
    /// Paths with a leading slash and chunk counts.
    pub(crate) arrays: Vec<(String, Vec<u64>)>,
    /// Most references of a manifest.
    pub(crate) references_per_manifest: u64,
}

/// Opens the repository, or makes a new one where there is none. Its configuration gets what is missing. Others may make or
/// configure it at the same time.
pub(crate) async fn open_or_create(
    storage: Arc<dyn Storage + Send + Sync>,
    needs: &Needs<'_>,
) -> Result<Repository, IcechunkError> {
    let mut attempt = 1;
    loop {
        match settle(&storage, needs).await? {
            None => return lean(storage).await,
            Some(_) if attempt < ATTEMPTS => tokio::time::sleep(Duration::from_millis(100) * attempt).await,
            Some(error) => return Err(error),
        }
        attempt += 1;
    }
}

/// Makes or configures the repository, where that is needed; the error where others may have done so in between.
async fn settle(
    storage: &Arc<dyn Storage + Send + Sync>,
    needs: &Needs<'_>,
) -> Result<Option<IcechunkError>, IcechunkError> {
    let exists = Repository::exists(Arc::clone(storage), None).await;
    if !exists.map_err(IcechunkError::of("looking for the repository"))? {
        let mut config = RepositoryConfig::default();
        extend(&mut config, needs)?;
        let begun =
            is_begun(storage.as_ref()).await.map_err(IcechunkError::of("looking for the repository"))?;
        let new = Repository::create(Arc::clone(storage)).config(config).check_clean_root(!begun);
        return Ok(new.execute().await.err().map(IcechunkError::of("creating the repository")));
    }
    let opened = Repository::open(Arc::clone(storage)).execute().await;
    let repository = opened.map_err(IcechunkError::of("opening the repository"))?;
    let mut config = repository.config().clone();
    if extend(&mut config, needs)? {
        let changed = repository.reopen(Some(config), None).await;
        let changed = changed.map_err(IcechunkError::of("configuring the repository"))?;
        return Ok(changed.save_config().await.err().map(IcechunkError::of("configuring the repository")));
    }
    Ok(None)
}

/// Whether nothing is there but what a creation leaves that was killed before its end: the first snapshot and its
/// transaction log, whose names are always the same. Icechunk writes them anew.
async fn is_begun(storage: &(dyn Storage + Send + Sync)) -> Result<bool, StorageError> {
    let settings = storage.default_settings().await?;
    let first = Snapshot::INITIAL_SNAPSHOT_ID.to_string();
    let mut begun = false;
    let mut objects = match storage.list_objects(&StorageContext::unattributed(&settings), "").await {
        Err(StorageError { kind: StorageErrorKind::ObjectNotFound, .. }) => return Ok(false),
        listed => listed?,
    };
    while let Some(object) = objects.next().await {
        let id = object?.id;
        if !matches!(id.rsplit_once('/'), Some(("snapshots" | "transactions", name)) if name == first) {
            return Ok(false);
        }
        begun = true;
    }
    Ok(begun)
}

/// Opens a repository for a process that writes: manifests are not kept in memory once they are written, nor fetched
/// ahead. This is not saved.
async fn lean(storage: Arc<dyn Storage + Send + Sync>) -> Result<Repository, IcechunkError> {
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

/// Whether anything was missing.
fn extend(config: &mut RepositoryConfig, needs: &Needs<'_>) -> Result<bool, IcechunkError> {
    let mut changed = splits::split(config, &needs.arrays, needs.references_per_manifest);
    let known: Vec<String> =
        config.virtual_chunk_containers().map(|known| known.url_prefix().to_owned()).collect();
    for container in containers(needs.sources, &known, needs.storage)? {
        let prefix = container.url_prefix().to_owned();
        let set = config.set_virtual_chunk_container(container);
        set.map_err(|reason| IcechunkError::Source { url: prefix, reason })?;
        changed = true;
    }
    Ok(changed)
}

/// The newest snapshot of a branch, which is made where nothing was ever committed to the repository.
pub(crate) async fn tip(repository: &Repository, branch: &str) -> Result<SnapshotId, IcechunkError> {
    match repository.lookup_branch(branch).await {
        Ok(tip) => Ok(tip),
        Err(error) if matches!(error.kind, RepositoryErrorKind::Ref(_)) => {
            let known =
                repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
            if let Some(first) = untouched(repository, &known).await {
                let made = repository.create_branch(branch, &first).await;
                made.map_err(IcechunkError::of("making the branch"))?;
                return Ok(first);
            }
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(IcechunkError::NoBranch { branch: branch.to_owned(), known })
        }
        Err(error) => Err(IcechunkError::of("looking up the branch")(error)),
    }
}

/// The first snapshot of a repository that has no other and no branch but `main`.
async fn untouched(repository: &Repository, branches: &BTreeSet<String>) -> Option<SnapshotId> {
    let only = branches.iter().map(String::as_str).eq(["main"]);
    let tip = repository.lookup_branch("main").await.ok().filter(|_| only)?;
    (tip == Snapshot::INITIAL_SNAPSHOT_ID).then_some(tip)
}
