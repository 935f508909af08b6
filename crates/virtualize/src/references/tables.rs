//! Chunk tables that are stored in parts: record files of kerchunk's Parquet layout, manifests of Icechunk. Any of them can be
//! read alone.

#[cfg(feature = "full")]
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

#[cfg(feature = "full")]
use bytes::Bytes;
#[cfg(feature = "full")]
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
#[cfg(feature = "full")]
use virtualize_icechunk::{ChunkTable, Native, OpenRepository};
#[cfg(feature = "full")]
use virtualize_references::{ParquetReferences, ReferenceSet, ReferencesError};
use virtualize_store::Object;
#[cfg(feature = "full")]
use virtualize_store::StoreError;
#[cfg(feature = "full")]
use virtualize_zarr::{Hierarchy, Node, Source, SourceId, chunk_indices, node};

use super::read::OpenReferences;
#[cfg(not(feature = "full"))]
use super::read::needs_full;
#[cfg(feature = "full")]
use super::read::{ZMETADATA, below_of, check_size, resolved, whole};
use crate::{error::Error, options::ReadOptions, store::VirtualStore};
#[cfg(feature = "full")]
use crate::{commit::failed, sources::source_of};

#[cfg(not(feature = "full"))]
pub(crate) enum Tables {}

#[cfg(not(feature = "full"))]
#[expect(clippy::unused_async, reason = "those of the full build wait")]
impl Tables {
    pub(super) async fn parquet(location: &str, _: &Object, _: &ReadOptions) -> Result<OpenReferences, Error> {
        Err(needs_full(location, "kerchunk-parquet"))
    }

    pub(crate) fn is_repository(&self) -> bool {
        match *self {}
    }

    pub(crate) fn parts(&self, _: &VirtualStore, _: &str, _: Option<&[u64]>) -> Vec<usize> {
        match *self {}
    }

    pub(crate) async fn read(
        &self,
        _: &[(String, Vec<usize>)],
        _: &str,
        _: &str,
        _: &ReadOptions,
    ) -> Result<VirtualStore, Error> {
        match *self {}
    }

    pub(crate) async fn complete(
        &self,
        _: VirtualStore,
        _: bool,
        _: &str,
        _: &ReadOptions,
    ) -> Result<VirtualStore, Error> {
        match *self {}
    }
}

/// The chunk tables of all arrays.
#[cfg(feature = "full")]
pub(crate) enum Tables {
    Parquet {
        references: ParquetReferences,
        /// Number of record files, by path of the array.
        files: HashMap<String, u64>,
    },
    Repository(Box<OpenRepository>),
}

/// Bytes of a reference in memory, at most.
#[cfg(feature = "full")]
const REFERENCE: u64 = 40;
/// Files that are fetched concurrently.
#[cfg(feature = "full")]
const CONCURRENCY: usize = 16;

#[cfg(feature = "full")]
impl Tables {
    /// Opens kerchunk's Parquet layout.
    pub(super) async fn parquet(
        location: &str,
        zmetadata: &Object,
        options: &ReadOptions,
    ) -> Result<OpenReferences, Error> {
        let failed = |error: ReferencesError| unreadable(location, ZMETADATA, &error);
        let references = ParquetReferences::new(&whole(zmetadata, options).await?).map_err(failed)?;
        let files: HashMap<String, u64> = references.arrays().into_iter().collect();
        let set = references.metadata().map_err(failed)?;
        let (name, version) = (location.to_owned(), source_of(zmetadata));
        Ok(OpenReferences { name, set, tables: Some(Self::Parquet { references, files }), version })
    }

    /// Opens a version of an Icechunk repository.
    pub(super) fn repository(location: &str, repository: Box<OpenRepository>) -> OpenReferences {
        let OpenRepository { hierarchy, left_out, .. } = repository.as_ref();
        let set = ReferenceSet {
            hierarchy: hierarchy.clone(),
            left_out: left_out.clone(),
            whole_files: Vec::new(),
            ignored: Vec::new(),
        };
        let version =
            Source { url: location.to_owned(), etag: Some(repository.snapshot()), ..Source::default() };
        OpenReferences { name: location.to_owned(), set, tables: Some(Self::Repository(repository)), version }
    }

    /// Returns the number of references of all tables, or an upper bound.
    async fn count(&self) -> Result<u64, Error> {
        match self {
            Self::Parquet { references, files } => {
                let rows = |count: &u64| count.saturating_mul(references.record_size());
                Ok(files.values().map(rows).fold(0, u64::saturating_add))
            }
            Self::Repository(repository) => repository.references().await.map_err(failed("")),
        }
    }

    /// Returns whether these are the tables of an Icechunk repository.
    pub(crate) fn is_repository(&self) -> bool {
        matches!(self, Self::Repository(_))
    }

    /// Returns the parts of an array's table that may have chunks at these positions, in ascending order; all parts
    /// without positions.
    pub(crate) fn parts(&self, store: &VirtualStore, path: &str, positions: Option<&[u64]>) -> Vec<usize> {
        match (self, positions) {
            (Self::Parquet { files, .. }, None) => {
                let count = files.get(path).copied().unwrap_or(0);
                (0..usize::try_from(count).unwrap_or(0)).collect()
            }
            (Self::Parquet { references, .. }, Some(positions)) => {
                let file = |position: &u64| usize::try_from(position / references.record_size()).ok();
                let mut files: Vec<usize> = positions.iter().filter_map(file).collect();
                files.sort_unstable();
                files.dedup();
                files
            }
            (Self::Repository(repository), None) => repository.manifests_within(path, None),
            (Self::Repository(repository), Some(positions)) => {
                let ranges = store.hierarchy.array(path).map(|array| {
                    let counts = array.chunk_grid.counts(&array.shape);
                    bounds(positions, &counts)
                });
                repository.manifests_within(path, ranges.as_deref())
            }
        }
    }

    /// Reads parts of the tables of some arrays. Returns a store with these arrays only.
    pub(crate) async fn read(
        &self,
        wanted: &[(String, Vec<usize>)],
        name: &str,
        location: &str,
        options: &ReadOptions,
    ) -> Result<VirtualStore, Error> {
        let set = match self {
            Self::Parquet { references, .. } => records(references, wanted, location, options).await?,
            Self::Repository(repository) => {
                manifests(repository, wanted, Native::Reference, location).await?
            }
        };
        resolved(set, name, location, options).await
    }

    /// Adds all chunks to a store without chunks. Native chunks of a repository are inlined if `inline` is set.
    pub(crate) async fn complete(
        &self,
        metadata: VirtualStore,
        inline: bool,
        location: &str,
        options: &ReadOptions,
    ) -> Result<VirtualStore, Error> {
        check_size(location, self.count().await?.saturating_mul(REFERENCE), options)?;
        let arrays = metadata.hierarchy.arrays().into_iter();
        let wanted: Vec<_> =
            arrays.map(|(path, _)| (path.clone(), self.parts(&metadata, &path, None))).collect();
        let set = match self {
            Self::Parquet { references, .. } => records(references, &wanted, location, options).await?,
            Self::Repository(repository) => {
                let native = if inline { Native::Inline } else { Native::Reference };
                manifests(repository, &wanted, native, location).await?
            }
        };
        let read = resolved(set, metadata.name(), location, options).await?;
        let mut hierarchy = metadata.hierarchy.clone();
        let mut from = read.hierarchy;
        for (path, _) in &wanted {
            if let (Some(array), Some(read)) = (hierarchy.array_mut(path), from.array_mut(path)) {
                array.chunks = std::mem::take(&mut read.chunks);
            }
        }
        hierarchy.sources = from.sources;
        let mut store = VirtualStore::of(hierarchy, metadata.name());
        store.report = metadata.report;
        for diagnostic in read.report.diagnostics {
            if !store.report.diagnostics.contains(&diagnostic) {
                store.report.diagnostics.push(diagnostic);
            }
        }
        Ok(store)
    }
}

#[cfg(feature = "full")]
fn unreadable(location: &str, key: &str, error: &ReferencesError) -> Error {
    Error::References { name: below_of(location, key), reason: error.to_string() }
}

/// Reads record files. A file whose chunks are all missing may be missing itself.
#[cfg(feature = "full")]
async fn records(
    references: &ParquetReferences,
    wanted: &[(String, Vec<usize>)],
    location: &str,
    options: &ReadOptions,
) -> Result<ReferenceSet, Error> {
    let mut read = references.of_arrays(wanted.iter().map(|(path, _)| path.as_str()));
    let mut keys = Vec::new();
    for (path, files) in wanted {
        keys.extend(files.iter().map(|number| format!("{path}/refs.{number}.parq")));
    }
    let fetches = keys.into_iter().map(|key| fetch(key, location, options).boxed());
    let mut fetched = stream::iter(fetches.collect::<Vec<_>>()).buffered(CONCURRENCY);
    while let Some(file) = fetched.try_next().await? {
        if let Some((key, bytes)) = file {
            read.add(&key, bytes).map_err(|error| unreadable(location, &key, &error))?;
        }
    }
    read.finish().map_err(|error| unreadable(location, ZMETADATA, &error))
}

#[cfg(feature = "full")]
async fn fetch(key: String, location: &str, options: &ReadOptions) -> Result<Option<(String, Bytes)>, Error> {
    match virtualize_store::open(&below_of(location, &key), &options.store).await {
        Ok(object) => Ok(Some((key, whole(&object, options).await?))),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads manifests of a repository.
#[cfg(feature = "full")]
async fn manifests(
    repository: &OpenRepository,
    wanted: &[(String, Vec<usize>)],
    native: Native,
    location: &str,
) -> Result<ReferenceSet, Error> {
    let mut hierarchy = Hierarchy::new(repository.hierarchy.format);
    let mut ids = BTreeMap::new();
    for (path, numbers) in wanted {
        let table = repository.chunks(path, numbers, native).await.map_err(failed(location))?;
        let (parent, name) = node::split(path);
        let (Some(array), Some(group)) =
            (repository.hierarchy.array(path), hierarchy.root.make_group(parent))
        else {
            continue;
        };
        let mut array = array.clone();
        let ChunkTable { chunks, sources } = table;
        array.chunks = chunks;
        let mut known = Vec::with_capacity(sources.len());
        for source in sources {
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            let key = (source.url.clone(), source.etag.clone(), source.modified);
            let id = *ids.entry(key).or_insert(next);
            if id == next {
                hierarchy.sources.push(source);
            }
            known.push(SourceId(id));
        }
        for column in &mut array.chunks.references {
            column.source = known.get(column.source.index()).copied().unwrap_or(column.source);
        }
        group.children.insert(name.to_owned(), Node::Array(Box::new(array)));
    }
    let (left_out, ignored) = (BTreeMap::new(), Vec::new());
    Ok(ReferenceSet { hierarchy, left_out, whole_files: Vec::new(), ignored })
}

/// Returns the range of the indices of some positions along each axis of a grid.
#[cfg(feature = "full")]
fn bounds(positions: &[u64], counts: &[u64]) -> Vec<Range<u64>> {
    let mut ranges = vec![u64::MAX..0; counts.len()];
    for position in positions {
        let Some(indices) = chunk_indices(*position, counts) else { continue };
        for (range, index) in ranges.iter_mut().zip(indices) {
            *range = range.start.min(index)..range.end.max(index.saturating_add(1));
        }
    }
    ranges
}
