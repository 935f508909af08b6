//! Commits to Icechunk repositories, and reads from them.

use std::collections::BTreeMap;

use serde_json::Value;
use virtualize_icechunk::{Committed, OpenRepository, RepositoryLocation};
use virtualize_store::StoreOptions;
use virtualize_zarr::{ChunkReader, Version};

use crate::error::Error;
use crate::output::PassingChunks;
use crate::relocate::Relocation;
use crate::store::VirtualStore;

pub use virtualize_icechunk::{CommitOptions, CommitRecord, FoundCommit, History, IcechunkError, Mode};

/// Commits a store that was mapped for Zarr v3 to an Icechunk repository: a path, or `s3://`, `gs://`, `az://` with a
/// prefix. Creates the repository if it does not exist. `store_options` replaces `options.store`.
///
/// # Errors
/// [`Error::Icechunk`]; the branch is unchanged.
pub async fn commit(
    store: &VirtualStore,
    target: &str,
    options: &CommitOptions,
    store_options: &StoreOptions,
) -> Result<Committed, Error> {
    store.check_ranges(&Relocation::Keep)?;
    let location = location(target)?;
    let options = CommitOptions { store: store_options.clone(), ..options.clone() };
    let commit = virtualize_icechunk::commit(&store.hierarchy, &location, &options);
    Box::pin(commit).await.map_err(failed(target))
}

/// Commits a store as [`commit`] does, with the chunks of a reader. The store contains metadata only; its manifests and
/// sources are ignored. The sources of the chunks are relocated.
///
/// The future blocks its thread while the reader reads: run it on a thread that may block.
///
/// # Errors
/// As [`commit`], and [`Error::Chunks`] if the chunks cannot be read.
pub async fn commit_chunks(
    store: &VirtualStore,
    chunks: &mut dyn ChunkReader,
    relocation: &Relocation,
    target: &str,
    options: &CommitOptions,
    store_options: &StoreOptions,
) -> Result<Committed, Error> {
    let mut chunks = PassingChunks::new(chunks, (target, None), relocation)?;
    let location = location(target)?;
    let options = CommitOptions { store: store_options.clone(), ..options.clone() };
    let commit = virtualize_icechunk::commit_chunks(&store.hierarchy, &mut chunks, &location, &options);
    Box::pin(commit).await.map_err(failed(target))
}

/// Returns the newest commit of a branch that has a property (key, value). Returns `None` if the repository or the
/// branch does not exist.
///
/// # Errors
/// [`Error::Icechunk`].
pub async fn find_commit(
    target: &str,
    branch: &str,
    property: (&str, &str),
    store_options: &StoreOptions,
) -> Result<Option<FoundCommit>, Error> {
    virtualize_icechunk::find_commit(&location(target)?, branch, property, store_options)
        .await
        .map_err(failed(target))
}

/// Compares the current state of a branch with the result of an earlier commit.
///
/// # Errors
/// [`Error::Icechunk`].
pub async fn inspect_branch(
    target: &str,
    branch: &str,
    record: &CommitRecord,
    store_options: &StoreOptions,
) -> Result<History, Error> {
    virtualize_icechunk::inspect(&location(target)?, branch, record, store_options)
        .await
        .map_err(failed(target))
}

/// Returns the metadata documents, by path, of a store to be committed as the group at `prefix`.
///
/// # Errors
/// [`Error::Icechunk`] for an array that Zarr v3 cannot express.
pub fn documents_of(store: &VirtualStore, prefix: &str) -> Result<BTreeMap<String, Value>, Error> {
    virtualize_icechunk::documents_of(&store.hierarchy, prefix).map_err(failed(store.name()))
}

/// Opens a version of a repository. Returns `None` if there is no repository.
pub(crate) async fn open_version(
    target: &str,
    version: &Version,
    store_options: &StoreOptions,
) -> Result<Option<OpenRepository>, Error> {
    let Ok(location) = location(target) else { return Ok(None) };
    virtualize_icechunk::open_version(&location, version, store_options).await.map_err(failed(target))
}

pub(crate) fn failed(target: &str) -> impl Fn(IcechunkError) -> Error {
    let name = target.to_owned();
    move |error| match error {
        IcechunkError::Chunks { source } => match source.downcast_ref::<Error>() {
            Some(error) => error.clone(),
            None => Error::Chunks { source },
        },
        IcechunkError::Store(error) => error.into(),
        source => Error::Icechunk { name: name.clone(), source },
    }
}

fn location(target: &str) -> Result<RepositoryLocation, Error> {
    RepositoryLocation::parse(&absolute(target)).map_err(failed(target))
}

/// Returns an absolute path, which stays valid if Python runs in another folder.
fn absolute(target: &str) -> String {
    let is_url = target.contains("://");
    let path = std::path::absolute(target).ok().filter(|_| !is_url);
    path.map_or_else(|| target.to_owned(), |path| path.display().to_string())
}
