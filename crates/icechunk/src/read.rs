//! Reads a repository into a hierarchy: virtual chunks become references, native chunks become inline bytes.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::{
        ByteRange, ChunkIndices, SnapshotId,
        manifest::{Checksum, ChunkPayload, VirtualChunkRef},
        snapshot::NodeSnapshot,
    },
    repository::VersionInfo,
    session::{Session, get_chunk},
};
use serde_json::Value;
use virtualize_zarr::{
    Array, ArrayDocument, Group, Hierarchy, Node, ReferencesBuilder, Source, SourceId, ZarrFormat,
    chunk_position, node,
};

use crate::{
    IcechunkError, RepositoryLocation, Result, StorageOptions,
    chunks::decode_url,
    error::one_line,
    metadata::{document_of, node_error, node_path},
    repository::open,
};

/// Limit on the total size of native chunks, in bytes. They are held in memory.
const MAX_NATIVE_BYTES: u64 = 1 << 30;

/// A version of a repository.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadRepository {
    /// The hierarchy. Its sources have the entity tag or modification time that their chunks record.
    pub hierarchy: Hierarchy,
    /// Paths of arrays whose data type, codecs or chunk grid are not supported, with the reason.
    pub left_out: BTreeMap<String, String>,
}

/// Reads a version of a repository: the name of a branch or tag, or a snapshot id. Returns `None` if the repository does not
/// exist.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn read(
    location: &RepositoryLocation,
    version: &str,
    options: &StorageOptions,
) -> Result<Option<ReadRepository>> {
    let Some(repository) = open(location, options).await? else { return Ok(None) };
    let found = resolve_version(&repository, version).await?;
    let session = repository.readonly_session(&found).await;
    let session = session.map_err(IcechunkError::of("opening the snapshot"))?;
    let reader =
        Reader { session: &session, sources: Vec::new(), ids: HashMap::new(), native_left: MAX_NATIVE_BYTES };
    reader.read().await.map(Some)
}

/// Resolves the name of a branch, else of a tag, else a snapshot id.
async fn resolve_version(repository: &Repository, version: &str) -> Result<VersionInfo> {
    if repository.lookup_branch(version).await.is_ok() {
        return Ok(VersionInfo::BranchTipRef(version.to_owned()));
    }
    if repository.lookup_tag(version).await.is_ok() {
        return Ok(VersionInfo::TagRef(version.to_owned()));
    }
    if let Ok(snapshot) = SnapshotId::try_from(version) {
        return Ok(VersionInfo::SnapshotId(snapshot));
    }
    let known = repository.list_branches().await.map_err(IcechunkError::of("listing the branches"))?;
    Err(IcechunkError::NoBranch { branch: version.to_owned(), known })
}

struct Reader<'a> {
    session: &'a Session,
    sources: Vec<Source>,
    ids: HashMap<(String, Option<Checksum>), u32>,
    /// Bytes of native chunks that may still be read.
    native_left: u64,
}

impl Reader<'_> {
    async fn read(mut self) -> Result<ReadRepository> {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        let mut left_out = BTreeMap::new();
        let nodes = self.session.list_nodes(&node_path("")?).await;
        let nodes = nodes.map_err(IcechunkError::of("listing the nodes"))?.collect::<Result<Vec<_>, _>>();
        let mut nodes = nodes.map_err(IcechunkError::of("listing the nodes"))?;
        nodes.sort_by_key(|node| node.path.to_string());
        for node in nodes {
            let path = node.path.to_string().trim_matches('/').to_owned();
            let document = document_of(&path, &node)?;
            let node = match document.get("node_type").and_then(Value::as_str) {
                Some("group") => Node::Group(Group::from_document(&document, ZarrFormat::V3)),
                _ => match Array::from_zarr_json(&document) {
                    Ok(document) => Node::Array(Box::new(self.array(&path, &node, document).await?)),
                    Err(error) => {
                        left_out.insert(path, error.to_string());
                        continue;
                    }
                },
            };
            insert(&mut hierarchy.root, &path, node)?;
        }
        hierarchy.sources = self.sources;
        Ok(ReadRepository { hierarchy, left_out })
    }

    async fn array(&mut self, path: &str, node: &NodeSnapshot, document: ArrayDocument) -> Result<Array> {
        let mut array = document.array;
        let counts = array.chunk_grid.counts(&array.shape);
        let (mut columns, mut inline) = (BTreeMap::<u32, ReferencesBuilder>::new(), BTreeMap::new());
        let session = self.session;
        let listed = session.array_chunk_iterator(&node.path).await;
        let mut listed = std::pin::pin!(listed);
        loop {
            let next = listed.try_next().await;
            let Some(chunk) = next.map_err(|error| node_error(path, one_line(&error)))? else { break };
            // A resize can leave chunks outside of the grid. No reader sees them.
            let indices = chunk.coord.0.iter().map(|index| u64::from(*index));
            let Some(position) = chunk_position(indices, &counts) else { continue };
            match &chunk.payload {
                ChunkPayload::Virtual(place) => {
                    let source = self.source(path, place)?;
                    columns.entry(source).or_default().push(position, place.offset, place.length);
                }
                ChunkPayload::Inline(bytes) => drop(inline.insert(position, bytes.clone())),
                other => {
                    let bytes = self.native_bytes(path, node, &chunk.coord, other.length()).await?;
                    inline.insert(position, bytes);
                }
            }
        }
        for (source, column) in columns {
            array.chunks.references.extend(column.finish(SourceId(source)));
        }
        array.chunks.inline = inline;
        Ok(array)
    }

    /// Fetches a native chunk: one that is stored in the repository itself.
    async fn native_bytes(
        &mut self,
        path: &str,
        node: &NodeSnapshot,
        indices: &ChunkIndices,
        length: u64,
    ) -> Result<Bytes> {
        self.native_left = self.native_left.checked_sub(length).ok_or_else(|| {
            let reason = format!("native chunks of more than {MAX_NATIVE_BYTES} bytes, too many to inline");
            node_error(path, reason)
        })?;
        let failed = |error| node_error(path, one_line(&error));
        let reader =
            self.session.get_chunk_reader(&node.path, indices, &ByteRange::ALL).await.map_err(failed)?;
        let bytes = get_chunk(reader).await.map_err(failed)?;
        bytes.ok_or_else(|| node_error(path, "a native chunk is missing"))
    }

    fn source(&mut self, path: &str, place: &VirtualChunkRef) -> Result<u32> {
        let key = (place.location.url().to_owned(), place.checksum.clone());
        if let Some(id) = self.ids.get(&key) {
            return Ok(*id);
        }
        if key.0.starts_with("vcc://") {
            return Err(node_error(
                path,
                format!("{}: locations in named containers are not supported", key.0),
            ));
        }
        let id =
            u32::try_from(self.sources.len()).map_err(|_| node_error(path, "more than 2^32 source files"))?;
        let mut source = Source { url: decode_url(&key.0), ..Source::default() };
        match &place.checksum {
            Some(Checksum::ETag(etag)) => source.etag = Some(etag.0.clone()),
            Some(Checksum::LastModified(seconds)) => source.modified = Some(i64::from(seconds.0) * 1000),
            None => {}
        }
        self.sources.push(source);
        self.ids.insert(key, id);
        Ok(id)
    }
}

/// Inserts a node at its path, and the groups above it.
fn insert(root: &mut Group, path: &str, node: Node) -> Result<()> {
    let (parent, name) = node::split(path);
    if name.is_empty() {
        if let Node::Group(group) = node {
            root.attributes = group.attributes;
            return Ok(());
        }
        return Err(node_error(path, "the root is an array, expected a group"));
    }
    let group = root
        .make_group(parent)
        .ok_or_else(|| node_error(path, "its parent is an array, expected a group"))?;
    match (group.children.get_mut(name), node) {
        (Some(Node::Group(known)), Node::Group(new)) => known.attributes = new.attributes,
        (_, node) => drop(group.children.insert(name.to_owned(), node)),
    }
    Ok(())
}
