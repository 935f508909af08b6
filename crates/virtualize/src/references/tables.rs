//! Chunk tables that are read in parts: record files of kerchunk's Parquet layout, manifests of Icechunk, objects and shards
//! of a Zarr store.

#[cfg(feature = "full")]
use std::{collections::HashMap, ops::Range};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde_json::Value;
#[cfg(feature = "full")]
use virtualize_icechunk::{ChunkTable, Native, OpenRepository};
#[cfg(feature = "full")]
use virtualize_references::ParquetReferences;
use virtualize_references::{NativeStore, ReferenceSet, ReferencesError};
use virtualize_remedy::Code;
use virtualize_store::{Object, StoreError, list_folder};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkManifest, Codec, Reference, ReferencesBuilder, Sharding, Source, SourceId, node,
};
#[cfg(feature = "full")]
use virtualize_zarr::{Hierarchy, Node, chunk_indices};

use super::{OpenReferences, ZMETADATA, check_size, convert::remove, resolved, whole};
#[cfg(feature = "full")]
use crate::commit::failed;
use crate::{
    chunks::fetch,
    error::{ArrayError, Error, warning},
    options::ReadOptions,
    sources::source_of,
    store::VirtualStore,
};

/// The chunk tables of all arrays.
pub(crate) enum Tables {
    /// One object per chunk. Looking it up tells whether the chunk exists, and its size.
    Native(NativeStore),
    #[cfg(feature = "full")]
    Parquet {
        references: ParquetReferences,
        /// Number of record files, by path of the array.
        files: HashMap<String, u64>,
    },
    #[cfg(feature = "full")]
    Repository(Box<OpenRepository>),
}

/// Files that are fetched concurrently.
#[cfg(feature = "full")]
const CONCURRENCY: usize = 16;

impl Tables {
    /// Opens a Zarr store. Returns `None` if the location has none.
    pub(super) async fn native(
        location: &str,
        options: &ReadOptions,
    ) -> Result<Option<OpenReferences>, Error> {
        let Some((key, documents)) = documents(location, options).await? else { return Ok(None) };
        let failed = |error: ReferencesError| unreadable(location, key, &error);
        let store = NativeStore::new(documents).map_err(failed)?;
        let (name, set) = (location.to_owned(), store.metadata().map_err(failed)?);
        let version = Source { url: virtualize_store::url_of(location)?, ..Source::default() };
        Ok(Some(OpenReferences { name, set, tables: Some(Self::Native(store)), version }))
    }

    /// Opens kerchunk's Parquet layout.
    #[cfg(feature = "full")]
    pub(super) fn parquet(location: &str, zmetadata: &Object, text: &[u8]) -> Result<OpenReferences, Error> {
        let failed = |error: ReferencesError| unreadable(location, ZMETADATA, &error);
        let references = ParquetReferences::new(text).map_err(failed)?;
        let files: HashMap<String, u64> = references.arrays().into_iter().collect();
        let set = references.metadata().map_err(failed)?;
        let (name, version) = (location.to_owned(), source_of(zmetadata));
        Ok(OpenReferences { name, set, tables: Some(Self::Parquet { references, files }), version })
    }

    /// Opens a version of an Icechunk repository.
    #[cfg(feature = "full")]
    pub(super) fn repository(location: &str, repository: Box<OpenRepository>) -> OpenReferences {
        let OpenRepository { hierarchy, omitted, .. } = repository.as_ref();
        let set = ReferenceSet {
            hierarchy: hierarchy.clone(),
            omitted: omitted.clone(),
            whole_files: Vec::new(),
            ignored: Vec::new(),
        };
        let version =
            Source { url: location.to_owned(), etag: Some(repository.snapshot()), ..Source::default() };
        OpenReferences { name: location.to_owned(), set, tables: Some(Self::Repository(repository)), version }
    }

    /// Returns the number of references of all tables, or an upper bound.
    #[cfg_attr(not(feature = "full"), expect(clippy::unused_async, reason = "the full build waits"))]
    async fn count(&self, metadata: &VirtualStore) -> Result<u64, Error> {
        match self {
            Self::Native(_) => {
                let arrays = metadata.hierarchy.arrays();
                Ok(arrays.iter().map(|(_, array)| positions(array)).fold(0, u64::saturating_add))
            }
            #[cfg(feature = "full")]
            Self::Parquet { references, files } => {
                let rows = |count: &u64| count.saturating_mul(references.record_size());
                Ok(files.values().map(rows).fold(0, u64::saturating_add))
            }
            #[cfg(feature = "full")]
            Self::Repository(repository) => repository.references().await.map_err(failed("")),
        }
    }

    /// Returns whether chunks are objects of a Zarr store.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, Self::Native(_))
    }

    /// Returns whether these are the tables of an Icechunk repository.
    pub(crate) fn is_repository(&self) -> bool {
        match self {
            #[cfg(feature = "full")]
            Self::Repository(_) => true,
            _ => false,
        }
    }

    /// Returns an array whose chunks may be shards, as its metadata describes it.
    fn array(&self, path: &str) -> Option<&Array> {
        match self {
            Self::Native(store) => store.array(path),
            #[cfg(feature = "full")]
            Self::Parquet { references, .. } => references.array(path),
            #[cfg(feature = "full")]
            Self::Repository(repository) => repository.hierarchy.array(path),
        }
    }

    /// Returns the parts of an array's table that may have chunks at these positions, in ascending order; all parts
    /// without positions.
    pub(crate) fn parts(&self, path: &str, positions: Option<&[u64]>) -> Vec<usize> {
        let Some(array) = self.array(path) else { return Vec::new() };
        let positions = positions.map(|positions| shards(array, positions));
        // Each part has so many positions.
        let divided = |count: u64, length: u64| -> Vec<usize> {
            let parts: BTreeSet<u64> = match &positions {
                None => return (0..usize::try_from(count).unwrap_or(usize::MAX)).collect(),
                Some(positions) => positions.iter().map(|position| position / length.max(1)).collect(),
            };
            parts.into_iter().filter_map(|part| usize::try_from(part).ok()).collect()
        };
        match self {
            Self::Native(_) => divided(self::positions(array), 1),
            #[cfg(feature = "full")]
            Self::Parquet { references, files } => {
                divided(files.get(path).copied().unwrap_or(0), references.record_size())
            }
            #[cfg(feature = "full")]
            Self::Repository(repository) => {
                let counts = array.chunk_grid.counts(&array.shape);
                let ranges = positions.map(|positions| bounds(&positions, &counts));
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
        let set = self.set(wanted, false, location, options).await?;
        resolved(set, name, location, options).await
    }

    /// Reads parts of the tables of some arrays. Native chunks of a repository are inlined if `inline` is set.
    #[cfg_attr(not(feature = "full"), expect(unused_variables, reason = "there are no repositories"))]
    async fn set(
        &self,
        wanted: &[(String, Vec<usize>)],
        inline: bool,
        location: &str,
        options: &ReadOptions,
    ) -> Result<ReferenceSet, Error> {
        match self {
            Self::Native(store) => objects(store, wanted, location, options).await,
            #[cfg(feature = "full")]
            Self::Parquet { references, .. } => records(references, wanted, location, options).await,
            #[cfg(feature = "full")]
            Self::Repository(repository) => {
                let native = if inline { Native::Inline } else { Native::Reference };
                manifests(repository, wanted, native, location).await
            }
        }
    }

    /// Adds all chunks to a store without chunks. Native chunks of a repository are inlined if `inline` is set.
    pub(crate) async fn complete(
        &self,
        metadata: VirtualStore,
        inline: bool,
        location: &str,
        options: &ReadOptions,
    ) -> Result<VirtualStore, Error> {
        check_size(location, self.count(&metadata).await?.saturating_mul(REFERENCE), options)?;
        let arrays = metadata.hierarchy.arrays().into_iter();
        let wanted: Vec<_> = arrays.map(|(path, _)| (path.clone(), self.parts(&path, None))).collect();
        let set = self.set(&wanted, inline, location, options).await?;
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

/// Returns the number of positions in the grid of an array.
fn positions(array: &Array) -> u64 {
    array.chunk_grid.counts(&array.shape).iter().fold(1, |all, count| all.saturating_mul(*count))
}

/// Looks up the objects of chunks. A chunk without an object is missing.
async fn objects(
    store: &NativeStore,
    wanted: &[(String, Vec<usize>)],
    location: &str,
    options: &ReadOptions,
) -> Result<ReferenceSet, Error> {
    let mut found = store.of_arrays(wanted.iter().map(|(path, _)| path.as_str()));
    let mut versions = BTreeMap::new();
    for (path, positions) in wanted {
        let look = |position: &usize| {
            let position = *position as u64;
            let key = store.key(path, position)?;
            Some(async move { Ok::<_, Error>((position, existing(location, &key, options).await?)) }.boxed())
        };
        let looks: Vec<_> = positions.iter().filter_map(look).collect();
        let mut objects = stream::iter(looks).buffered(options.store.concurrency.max(1));
        while let Some((position, object)) = objects.try_next().await? {
            if let Some(version) = object.map(|object| source_of(&object)) {
                found
                    .add(path, position, &version.url, version.size)
                    .map_err(|error| unreadable(location, path, &error))?;
                versions.insert(version.url.clone(), version);
            }
        }
    }
    let mut set = found.finish().map_err(|error| unreadable(location, "", &error))?;
    // A rewritten chunk may have another length.
    for source in &mut set.hierarchy.sources {
        if let Some(version) = versions.remove(&source.url) {
            *source = version;
        }
    }
    Ok(set)
}

/// Returns the name of the first metadata document of a Zarr store, and all of them by key; `None` if there is no store.
async fn documents(
    location: &str,
    options: &ReadOptions,
) -> Result<Option<(&'static str, BTreeMap<String, Value>)>, Error> {
    for (first, others) in [
        ("zarr.json", &[][..]),
        (ZMETADATA, &[]),
        (".zgroup", &[".zattrs", ".zarray"]),
        (".zarray", &[".zattrs"]),
    ] {
        let Some(root) = document(location, first, options).await? else { continue };
        let mut all = BTreeMap::new();
        let consolidated = root.pointer("/consolidated_metadata/metadata").and_then(Value::as_object);
        match (first, consolidated) {
            (ZMETADATA, _) => {
                let members = root.get("metadata").and_then(Value::as_object).into_iter().flatten();
                all.extend(members.map(|(key, document)| (key.clone(), document.clone())));
            }
            (_, Some(members)) => {
                let key = |path: &str| node::join(path, first);
                all.extend(members.iter().map(|(path, document)| (key(path), document.clone())));
                all.insert(first.to_owned(), root);
            }
            (_, None) if first == ".zarray" || root.get("node_type").is_some_and(|kind| kind == "array") => {
                for other in others {
                    all.extend(document(location, other, options).await?.map(|it| ((*other).to_owned(), it)));
                }
                all.insert(first.to_owned(), root);
            }
            (_, None) => nodes(location, (first, others), root, &mut all, options).await?,
        }
        return Ok(Some((first, all)));
    }
    Ok(None)
}

/// Lists the nodes of a store without consolidated metadata, and reads their documents.
async fn nodes(
    location: &str,
    (first, others): (&str, &[&str]),
    root: Value,
    all: &mut BTreeMap<String, Value>,
    options: &ReadOptions,
) -> Result<(), Error> {
    let mut groups = vec![String::new()];
    all.insert(first.to_owned(), root);
    while let Some(group) = groups.pop() {
        let mut after = None;
        loop {
            let folder = virtualize_store::below(location, &group);
            let page = list_folder(&folder, 1000, after.as_deref(), true, &options.store).await?;
            for folder in &page.folders {
                let name = folder.url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let path = node::join(&group, name);
                for name in [first].iter().chain(others) {
                    let key = node::join(&path, name);
                    let Some(found) = document(location, &key, options).await? else { continue };
                    let kind = found.get("node_type").and_then(Value::as_str);
                    if *name == ".zgroup" || kind == Some("group") {
                        groups.push(path.clone());
                    }
                    all.insert(key, found);
                }
            }
            check_size(location, all.len() as u64 * (4 << 10), options)?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        if let (".zgroup", Some(found)) =
            (first, document(location, &node::join(&group, ".zattrs"), options).await?)
        {
            all.insert(node::join(&group, ".zattrs"), found);
        }
    }
    Ok(())
}

/// Opens a file of a store; `None` if it does not exist.
async fn existing(location: &str, key: &str, options: &ReadOptions) -> Result<Option<Arc<Object>>, Error> {
    match virtualize_store::open(&virtualize_store::below(location, key), &options.store).await {
        Ok(object) => Ok(Some(object)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a metadata document; `None` if it does not exist.
async fn document(location: &str, key: &str, options: &ReadOptions) -> Result<Option<Value>, Error> {
    let object = match existing(location, key, options).await {
        Err(Error::Store(StoreError::NotAFile { .. })) | Ok(None) => return Ok(None),
        Ok(Some(object)) => object,
        Err(error) => return Err(error),
    };
    let document = virtualize_references::parse_document(&whole(&object, options).await?);
    let failed = |reason: String| Error::References { name: virtualize_store::below(location, key), reason };
    document.map(Some).map_err(failed)
}

fn unreadable(location: &str, key: &str, error: &ReferencesError) -> Error {
    Error::References { name: virtualize_store::below(location, key), reason: error.to_string() }
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
        keys.extend(files.iter().map(|number| references.key(path, *number)));
    }
    let read_file = |key: String| async move {
        let bytes = match existing(location, &key, options).await? {
            Some(object) => Some(whole(&object, options).await?),
            None => None,
        };
        Ok::<_, Error>((key, bytes))
    };
    let fetches: Vec<_> = keys.into_iter().map(|key| read_file(key).boxed()).collect();
    let mut fetched = stream::iter(fetches).buffered(CONCURRENCY);
    while let Some((key, bytes)) = fetched.try_next().await? {
        if let Some(bytes) = bytes {
            read.add(&key, bytes).map_err(|error| unreadable(location, &key, &error))?;
        }
    }
    read.finish().map_err(|error| unreadable(location, ZMETADATA, &error))
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
    let (omitted, ignored) = (BTreeMap::new(), Vec::new());
    Ok(ReferenceSet { hierarchy, omitted, whole_files: Vec::new(), ignored })
}

/// Returns the range of the indices of some positions along each axis of a grid.
#[cfg(feature = "full")]
fn bounds(positions: &[u64], counts: &[u64]) -> Vec<Range<u64>> {
    let mut bounds: Option<Vec<Range<u64>>> = None;
    for position in positions {
        let Some(indices) = chunk_indices(*position, counts) else { continue };
        match &mut bounds {
            None => bounds = Some(indices.iter().map(|index| *index..index.saturating_add(1)).collect()),
            Some(bounds) => {
                for (range, index) in bounds.iter_mut().zip(indices) {
                    *range = range.start.min(index)..range.end.max(index.saturating_add(1));
                }
            }
        }
    }
    bounds.unwrap_or_else(|| vec![0..0; counts.len()])
}

/// Bytes of a reference in memory, at most.
const REFERENCE: u64 = 40;
/// Maximum number of shards within each other.
const MAX_DEPTH: usize = 4;

/// Returns the position in the outermost grid of shards for each row-major position in the grid of the chunks.
fn shards(array: &Array, positions: &[u64]) -> Vec<u64> {
    fn outermost(array: &Array, positions: &[u64], depth: usize) -> Option<Vec<u64>> {
        let sharding = Sharding::of(array).ok().flatten().filter(|_| depth < MAX_DEPTH)?;
        let inner = outermost(&sharding.array, positions, depth + 1);
        Some(inner.as_deref().unwrap_or(positions).iter().filter_map(|at| sharding.shard(*at)).collect())
    }
    outermost(array, positions, 0).unwrap_or_else(|| positions.to_vec())
}

/// Replaces all arrays of shards of a store. Arrays whose shards are not supported are omitted with a warning.
///
/// # Errors
/// An index cannot be read, or is damaged; more references than the limit.
pub(super) async fn expand_shards(store: &mut VirtualStore, options: &ReadOptions) -> Result<(), Error> {
    let arrays = store.hierarchy.arrays();
    let mut work: Vec<_> = arrays
        .iter()
        .filter_map(|(path, array)| Some((path.clone(), Sharding::of(array).transpose()?, 0)))
        .collect();
    while let Some((path, sharding, depth)) = work.pop() {
        let sharding = match sharding {
            Ok(sharding) if depth < MAX_DEPTH => sharding,
            refused => {
                let reason = refused
                    .err()
                    .map_or("shards are nested too deeply".to_owned(), |error| error.to_string());
                remove(&mut store.hierarchy, &path);
                store.report.diagnostics.push(warning(Code::ArrayOmitted, &path, reason));
                continue;
            }
        };
        let array = chunks_of_shards(store, &path, sharding, options).await?;
        if let Some(inner) = Sharding::of(&array).transpose() {
            work.push((path.clone(), inner, depth + 1));
        }
        if let Some(slot) = store.hierarchy.array_mut(&path) {
            *slot = array;
        }
    }
    Ok(())
}

/// Returns the array of the chunks in the shards of an array.
async fn chunks_of_shards(
    store: &VirtualStore,
    path: &str,
    sharding: Sharding,
    options: &ReadOptions,
) -> Result<Array, Error> {
    let name = store.name();
    let failed = |error: ArrayError| Error::of_array(name, path, error);
    let Some(array) = store.hierarchy.array(path) else { return Ok(sharding.array) };
    let short = |position: u64| {
        failed(ArrayError::invalid(format!(
            "shard {position} has no valid index: it is damaged, or was replaced"
        )))
    };
    let mut indices: Vec<(SourceId, ReferencesBuilder)> = Vec::new();
    for (position, entry) in array.chunks.iter() {
        let ChunkEntry::Reference(shard) = entry else { continue };
        let index = sharding.index(shard).ok_or_else(|| short(position))?;
        if indices.last().is_none_or(|(source, _)| *source != index.source) {
            indices.push((index.source, ReferencesBuilder::default()));
        }
        if let Some((_, column)) = indices.last_mut() {
            column.push(position, index.offset, index.length);
        }
    }
    let references = indices.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    let manifest = ChunkManifest { references, ..ChunkManifest::default() };
    let located = Array { chunks: manifest, ..sharding.array.clone() };
    let indices =
        fetch(store, &located, options.limits.metadata_bytes, &options.store).await.map_err(failed)?;
    let mut count = 0_u64;
    let mut found = sharding.array.clone();
    let mut columns = BTreeMap::<SourceId, ReferencesBuilder>::new();
    for (position, entry) in array.chunks.iter() {
        let shard = match &entry {
            ChunkEntry::Reference(shard) => *shard,
            ChunkEntry::Inline(bytes) => {
                Reference { source: SourceId(0), offset: 0, length: bytes.len() as u64 }
            }
        };
        let index = match &entry {
            ChunkEntry::Reference(_) => indices.get(&position).cloned(),
            ChunkEntry::Inline(bytes) => sharding.index(shard).and_then(|index| slice(bytes, index)),
        };
        let listed = index.and_then(|index| {
            let length = index.len().checked_sub(if sharding.has_checksum() { 4 } else { 0 })?;
            let checksum = Codec::Checksum { name: "crc32c", is_at_end: true };
            let codecs: &[Codec] = if sharding.has_checksum() { &[checksum] } else { &[] };
            let entries = virtualize_codec::decode_exact(codecs, &index, length).ok()?;
            sharding.chunks(position, shard, &entries)
        });
        for (at, reference) in listed.ok_or_else(|| short(position))? {
            count = count.saturating_add(1);
            match &entry {
                ChunkEntry::Reference(_) => {
                    columns.entry(reference.source).or_default().push(at, reference.offset, reference.length);
                }
                ChunkEntry::Inline(bytes) => {
                    found.chunks.inline.extend(slice(bytes, reference).map(|bytes| (at, bytes)));
                }
            }
        }
        check_size(name, count.saturating_mul(REFERENCE), options)?;
    }
    found.chunks.references =
        columns.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    Ok(found)
}

fn slice(bytes: &Bytes, within: Reference) -> Option<Bytes> {
    let start = usize::try_from(within.offset).ok()?;
    let end = start.checked_add(usize::try_from(within.length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}
