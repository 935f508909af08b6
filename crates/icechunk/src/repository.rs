//! Opening a repository, or making it, with the containers that its chunks need.

use std::sync::Arc;

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
    virtual_chunks::VirtualChunkContainer,
};

use crate::{IcechunkError, splits};

/// What a repository has to be able to hold.
pub(crate) struct Needs {
    pub(crate) containers: Vec<VirtualChunkContainer>,
    /// Paths with a leading slash and chunk counts.
    pub(crate) arrays: Vec<(String, Vec<u64>)>,
    /// Most references of a manifest.
    pub(crate) references_per_manifest: u64,
}

/// Opens the repository, or makes a new one where there is none. Its configuration gets what is missing.
pub(crate) async fn open_or_create(
    storage: Arc<dyn Storage + Send + Sync>,
    needs: &Needs,
) -> Result<Repository, IcechunkError> {
    let exists = Repository::exists(Arc::clone(&storage), None).await;
    if exists.map_err(IcechunkError::of("looking for the repository"))? {
        let opened = Repository::open(Arc::clone(&storage)).execute().await;
        let repository = opened.map_err(IcechunkError::of("opening the repository"))?;
        let mut config = repository.config().clone();
        if extend(&mut config, needs)? {
            let changed = repository.reopen(Some(config), None).await;
            let changed = changed.map_err(IcechunkError::of("configuring the repository"))?;
            changed.save_config().await.map_err(IcechunkError::of("configuring the repository"))?;
        }
    } else {
        let mut config = RepositoryConfig::default();
        extend(&mut config, needs)?;
        let begun =
            is_begun(storage.as_ref()).await.map_err(IcechunkError::of("looking for the repository"))?;
        let new = Repository::create(Arc::clone(&storage)).config(config).check_clean_root(!begun);
        new.execute().await.map_err(IcechunkError::of("creating the repository"))?;
    }
    lean(storage).await
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
fn extend(config: &mut RepositoryConfig, needs: &Needs) -> Result<bool, IcechunkError> {
    let mut changed = splits::split(config, &needs.arrays, needs.references_per_manifest);
    for container in &needs.containers {
        let prefix = container.url_prefix();
        if config.virtual_chunk_containers().any(|known| prefix.starts_with(known.url_prefix())) {
            continue;
        }
        let set = config.set_virtual_chunk_container(container.clone());
        set.map_err(|reason| IcechunkError::Source { url: prefix.to_owned(), reason })?;
        changed = true;
    }
    Ok(changed)
}

/// The newest snapshot of a branch.
pub(crate) async fn tip(repository: &Repository, branch: &str) -> Result<SnapshotId, IcechunkError> {
    match repository.lookup_branch(branch).await {
        Ok(tip) => Ok(tip),
        Err(error) if matches!(error.kind, RepositoryErrorKind::Ref(_)) => {
            let known =
                repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            Err(IcechunkError::NoBranch { branch: branch.to_owned(), known })
        }
        Err(error) => Err(IcechunkError::of("looking up the branch")(error)),
    }
}
