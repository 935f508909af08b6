//! Reads a version of a repository: its hierarchy, and the chunk tables of its arrays manifest by manifest.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use icechunk::{
    Repository,
    format::{
        ByteRange, ManifestId, SnapshotId,
        manifest::{Checksum, ChunkPayload, Manifest, ManifestRef, VirtualChunkRef},
        snapshot::{NodeData, NodeSnapshot},
    },
    repository::{RepositoryError, VersionInfo},
    session::{Session, get_chunk},
};
use serde_json::Value;
use virtualize_store::StoreOptions;
use virtualize_zarr::{
    Array, ChunkManifest, Group, Hierarchy, Node, ReferencesBuilder, Source, SourceId, Version, ZarrFormat,
    chunk_position,
    node::{self, ROOT_ARRAY},
};

use crate::{
    IcechunkError, RepositoryLocation, Result,
    chunks::decode_url,
    error::{document_of, node_error, node_path, one_line},
    repository::open,
};

/// Limit on the total size of native chunks in memory, in bytes.
const MAX_NATIVE_BYTES: u64 = 1 << 30;
/// Manifests, or native chunks, that are fetched concurrently.
const CONCURRENCY: usize = 16;

/// A version of a repository, with its hierarchy but without chunk tables.
pub struct OpenRepository {
    /// Groups, and arrays without chunks.
    pub hierarchy: Hierarchy,
    /// Paths of arrays whose data type, codecs or chunk grid are not supported, with the reason.
    pub omitted: BTreeMap<String, String>,
    repository: Repository,
    session: Session,
    /// Nodes of the arrays, by path.
    nodes: HashMap<String, NodeSnapshot>,
    /// Url of the repository without a slash at its end.
    url: String,
}

/// Chunks of an array, and their sources.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChunkTable {
    /// The chunks.
    pub chunks: ChunkManifest,
    /// The sources, with the entity tag or modification time that the chunks record.
    pub sources: Vec<Source>,
}

/// How native chunks, which are stored in the repository itself, are returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Native {
    /// As references to the objects of the repository.
    Reference,
    /// As inline chunks, at most 1 GiB together.
    Inline,
}

/// Opens a version of a repository. Returns `None` if the repository does not exist.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn open_version(
    location: &RepositoryLocation,
    version: &Version,
    options: &StoreOptions,
) -> Result<Option<OpenRepository>> {
    let Some(repository) = open(location, options).await? else { return Ok(None) };
    let found = resolve_version(&repository, version).await?;
    let session = repository.readonly_session(&found).await;
    let session = session.map_err(IcechunkError::of("opening the snapshot"))?;
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
    let (mut omitted, mut nodes) = (BTreeMap::new(), HashMap::new());
    let listed = session.list_nodes(&node_path("")?).await;
    let listed = listed.map_err(IcechunkError::of("listing the nodes"))?.collect::<Result<Vec<_>, _>>();
    let mut listed = listed.map_err(IcechunkError::of("listing the nodes"))?;
    listed.sort_by_key(|node| node.path.to_string());
    for found in listed {
        let mut path = found.path.to_string().trim_matches('/').to_owned();
        let document = document_of(&path, &found)?;
        let kind = document.get("node_type").and_then(Value::as_str);
        if path.is_empty() && kind != Some("group") {
            ROOT_ARRAY.clone_into(&mut path);
        }
        let node = match kind {
            Some("group") => Node::Group(Group::from_document(&document, ZarrFormat::V3)),
            _ => match Array::from_zarr_json(&document) {
                Ok(document) => {
                    nodes.insert(path.clone(), found);
                    Node::Array(Box::new(document.array))
                }
                Err(error) => {
                    omitted.insert(path, error.to_string());
                    continue;
                }
            },
        };
        insert(&mut hierarchy.root, &path, node)?;
    }
    let url = location.url();
    Ok(Some(OpenRepository { hierarchy, omitted, repository, session, nodes, url }))
}

async fn resolve_version(repository: &Repository, version: &Version) -> Result<VersionInfo> {
    let name = match version {
        Version::Branch(name) | Version::Tag(name) | Version::Snapshot(name) | Version::Any(name) => name,
    };
    if matches!(version, Version::Branch(_) | Version::Any(_)) && repository.lookup_branch(name).await.is_ok()
    {
        return Ok(VersionInfo::BranchTipRef(name.clone()));
    }
    if matches!(version, Version::Tag(_) | Version::Any(_)) && repository.lookup_tag(name).await.is_ok() {
        return Ok(VersionInfo::TagRef(name.clone()));
    }
    if matches!(version, Version::Snapshot(_) | Version::Any(_))
        && let Ok(id) = SnapshotId::try_from(name.as_str())
    {
        return Ok(VersionInfo::SnapshotId(id));
    }
    let (what, known) = match version {
        Version::Tag(_) => {
            ("tag", repository.list_tags().await.map_err(IcechunkError::of("listing the tags"))?)
        }
        Version::Snapshot(_) => ("snapshot", Default::default()),
        Version::Branch(_) | Version::Any(_) => {
            let known = repository.list_branches().await;
            ("branch", known.map_err(IcechunkError::of("listing the branches"))?)
        }
    };
    Err(IcechunkError::NoVersion { what, name: name.clone(), known })
}

impl OpenRepository {
    /// Returns the id of the snapshot.
    pub fn snapshot(&self) -> String {
        self.session.snapshot_id().to_string()
    }

    /// Returns the number of chunks of all arrays.
    ///
    /// # Errors
    /// See [`IcechunkError`].
    pub async fn references(&self) -> Result<u64> {
        let snapshot = self.repository.asset_manager().fetch_snapshot(self.session.snapshot_id()).await;
        let snapshot = snapshot.map_err(IcechunkError::of("opening the snapshot"))?;
        let mut count = 0_u64;
        for manifest in snapshot.manifest_files() {
            let manifest = manifest.map_err(IcechunkError::of("opening the snapshot"))?;
            count = count.saturating_add(manifest.num_chunk_refs.into());
        }
        Ok(count)
    }

    fn manifests(&self, path: &str) -> &[ManifestRef] {
        match self.nodes.get(path).map(|node| &node.node_data) {
            Some(NodeData::Array { manifests, .. }) => manifests,
            Some(NodeData::Group) | None => &[],
        }
    }

    /// Returns the numbers of the manifests of an array that may have chunks within ranges of indices along each axis of
    /// its grid; all of them without ranges.
    pub fn manifests_within(&self, path: &str, ranges: Option<&[Range<u64>]>) -> Vec<usize> {
        let overlaps = |manifest: &ManifestRef| {
            ranges.is_none_or(|ranges| {
                manifest.extents.iter().zip(ranges).all(|(extent, range)| {
                    u64::from(extent.start) < range.end && range.start < u64::from(extent.end)
                })
            })
        };
        let all = self.manifests(path).iter().enumerate();
        all.filter(|(_, manifest)| overlaps(manifest)).map(|(number, _)| number).collect()
    }

    /// Returns the chunks of an array that are in some of its manifests.
    ///
    /// # Errors
    /// See [`IcechunkError`].
    pub async fn chunks(&self, path: &str, manifests: &[usize], native: Native) -> Result<ChunkTable> {
        let (Some(node), Some(array)) = (self.nodes.get(path), self.hierarchy.array(path)) else {
            return Ok(ChunkTable::default());
        };
        let counts = array.chunk_grid.counts(&array.shape);
        let mut table = TableBuilder { path, ..TableBuilder::default() };
        let wanted = manifests.iter().filter_map(|number| self.manifests(path).get(*number));
        let fetches = wanted.map(|manifest| self.manifest(manifest.object_id.clone()).boxed());
        let mut fetched = stream::iter(fetches.collect::<Vec<_>>()).buffered(CONCURRENCY);
        let mut stored = Vec::new();
        while let Some(manifest) = fetched.next().await {
            let manifest = manifest.map_err(|error| node_error(path, one_line(&error)))?;
            let chunks = manifest.iter(node.id.clone());
            for chunk in chunks.map_err(|error| node_error(path, one_line(&error)))? {
                let (indices, payload) = chunk.map_err(|error| node_error(path, one_line(&error)))?;
                // A resize can leave chunks outside of the grid. No reader sees them.
                let Some(position) = chunk_position(indices.0.iter().map(|at| u64::from(*at)), &counts)
                else {
                    continue;
                };
                match payload {
                    ChunkPayload::Virtual(place) => {
                        let source = match &table.last {
                            Some((last, id))
                                if last.location == place.location && last.checksum == place.checksum =>
                            {
                                *id
                            }
                            _ => {
                                let url = self.session.resolve_virtual_location(&place.location);
                                let url = url.map_err(|error| node_error(path, one_line(&error)))?;
                                let mut source = Source { url: decode_url(&url), ..Source::default() };
                                match &place.checksum {
                                    Some(Checksum::ETag(etag)) => source.etag = Some(etag.0.clone()),
                                    Some(Checksum::LastModified(seconds)) => {
                                        source.modified = Some(i64::from(seconds.0) * 1000);
                                    }
                                    None => {}
                                }
                                table.source(source)?
                            }
                        };
                        table.push(source, position, place.offset, place.length);
                        table.last = Some((place, source));
                    }
                    ChunkPayload::Inline(bytes) => drop(table.inline.insert(position, bytes)),
                    ChunkPayload::Ref(place) if native == Native::Reference => {
                        let url = format!("{}/chunks/{}", self.url, place.id);
                        let source = table.source(Source { url, ..Source::default() })?;
                        table.push(source, position, place.offset, place.length);
                    }
                    other => stored.push((position, indices, other.length())),
                }
            }
        }
        if stored.iter().fold(0_u64, |all, (_, _, length)| all.saturating_add(*length)) > MAX_NATIVE_BYTES {
            let reason = format!("native chunks of more than {MAX_NATIVE_BYTES} bytes, too many to inline");
            return Err(node_error(path, reason));
        }
        let mut reads = Vec::new();
        for (position, indices, _) in stored {
            let read = async move {
                let failed = |error| node_error(path, one_line(&error));
                let reader = self.session.get_chunk_reader(&node.path, &indices, &ByteRange::ALL).await;
                let bytes = get_chunk(reader.map_err(failed)?).await.map_err(failed)?;
                Ok((position, bytes.ok_or_else(|| node_error(path, "a native chunk is missing"))?))
            };
            reads.push(read.boxed());
        }
        let native: Result<Vec<_>> = stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await;
        table.inline.extend(native?);
        Ok(table.finish())
    }

    async fn manifest(&self, id: ManifestId) -> Result<Arc<Manifest>, RepositoryError> {
        self.repository.asset_manager().fetch_manifest_without_node(&id).await
    }
}

/// Collects the chunks of an array.
#[derive(Default)]
struct TableBuilder<'a> {
    path: &'a str,
    columns: BTreeMap<u32, ReferencesBuilder>,
    inline: BTreeMap<u64, Bytes>,
    sources: Vec<Source>,
    ids: HashMap<(String, Option<String>, Option<i64>), u32>,
    /// The last virtual chunk and its source.
    last: Option<(VirtualChunkRef, u32)>,
}

impl TableBuilder<'_> {
    fn source(&mut self, source: Source) -> Result<u32> {
        let key = (source.url.clone(), source.etag.clone(), source.modified);
        if let Some(id) = self.ids.get(&key) {
            return Ok(*id);
        }
        let id = u32::try_from(self.sources.len())
            .map_err(|_| node_error(self.path, "more than 2^32 source files"))?;
        self.sources.push(source);
        self.ids.insert(key, id);
        Ok(id)
    }

    fn push(&mut self, source: u32, position: u64, offset: u64, length: u64) {
        self.columns.entry(source).or_default().push(position, offset, length);
    }

    fn finish(self) -> ChunkTable {
        let columns = self.columns.into_iter();
        let references = columns.flat_map(|(source, column)| column.finish(SourceId(source))).collect();
        ChunkTable { chunks: ChunkManifest { references, inline: self.inline }, sources: self.sources }
    }
}

/// Inserts a node at its path, and the groups above it.
fn insert(root: &mut Group, path: &str, node: Node) -> Result<()> {
    let (parent, name) = node::split(path);
    let node = match node {
        Node::Group(group) if name.is_empty() => {
            root.attributes = group.attributes;
            return Ok(());
        }
        node => node,
    };
    let group = root
        .make_group(parent)
        .ok_or_else(|| node_error(path, "its parent is an array, expected a group"))?;
    match (group.children.get_mut(name), node) {
        (Some(Node::Group(known)), Node::Group(new)) => known.attributes = new.attributes,
        (_, node) => drop(group.children.insert(name.to_owned(), node)),
    }
    Ok(())
}
