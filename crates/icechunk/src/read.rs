//! Reads a repository back into a hierarchy: virtual chunks as references, the repository's own as inline bytes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

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
    chunk_position,
};

use crate::{
    IcechunkError, RepositoryLocation, StorageOptions,
    error::one_line,
    location::raw,
    metadata::{node_error, node_path},
};

/// Most bytes of native chunks that are held.
const NATIVE: u64 = 1 << 30;

/// A repository that was read.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadRepository {
    /// What it says. Sources have the entity tag or the time that their chunks were recorded with.
    pub hierarchy: Hierarchy,
    /// Paths of arrays whose type, codecs or grid have no place here, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// The documents of all nodes that were read, by their paths in the repository.
    pub documents: BTreeMap<String, Value>,
    /// Id of the snapshot.
    pub snapshot: String,
}

/// What is read of a repository.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    /// A branch, tag or snapshot.
    pub name: &'a str,
    /// Path of the group that becomes the root.
    pub group: &'a str,
    /// Which arrays are read, by their paths below the group and their documents.
    pub wanted: &'a (dyn Fn(&str, &Value) -> bool + Sync),
}

/// Reads a branch, tag or snapshot. `None` where there is no repository.
///
/// # Errors
/// See [`IcechunkError`].
pub async fn read(
    location: &RepositoryLocation,
    version: Version<'_>,
    options: &StorageOptions,
) -> Result<Option<ReadRepository>, IcechunkError> {
    let Some(repository) = open(location, options).await? else { return Ok(None) };
    let found = find(&repository, version.name).await?;
    let session = repository.readonly_session(&found).await;
    let session = session.map_err(IcechunkError::of("opening the snapshot"))?;
    let reader = Reader {
        session: &session,
        sources: Vec::new(),
        ids: HashMap::new(),
        native: NATIVE,
        group: version.group.trim_matches('/'),
        wanted: version.wanted,
    };
    reader.read().await.map(Some)
}

/// Opens a repository; `None` where there is none.
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

/// A branch of this name, else a tag, else a snapshot.
async fn find(repository: &Repository, version: &str) -> Result<VersionInfo, IcechunkError> {
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
    let known = known.into_iter().collect::<Vec<_>>().join(", ");
    Err(IcechunkError::NoBranch { branch: version.to_owned(), known })
}

struct Reader<'a> {
    session: &'a Session,
    sources: Vec<Source>,
    ids: HashMap<(String, Option<Checksum>), u32>,
    /// Bytes of native chunks that may still be read.
    native: u64,
    group: &'a str,
    wanted: &'a (dyn Fn(&str, &Value) -> bool + Sync),
}

/// Chunks of an array, column by column.
#[derive(Default)]
struct Chunks {
    columns: BTreeMap<u32, ReferencesBuilder>,
    inline: BTreeMap<u64, Bytes>,
}

impl Reader<'_> {
    async fn read(mut self) -> Result<ReadRepository, IcechunkError> {
        let mut hierarchy = Hierarchy::new(ZarrFormat::V3);
        let mut left_out = BTreeMap::new();
        let mut documents = BTreeMap::new();
        let nodes = self.session.list_nodes(&node_path(self.group)?).await;
        let nodes = nodes.map_err(IcechunkError::of("listing the nodes"))?.collect::<Result<Vec<_>, _>>();
        let mut nodes = nodes.map_err(IcechunkError::of("listing the nodes"))?;
        nodes.sort_by_key(|node| node.path.to_string());
        for node in nodes {
            let whole = node.path.to_string().trim_matches('/').to_owned();
            let Some(path) = below(self.group, &whole) else { continue };
            let document: Value = serde_json::from_slice(&node.user_data)
                .map_err(|error| node_error(&path, format!("its metadata: {error}")))?;
            let is_group = document.get("node_type").and_then(Value::as_str) == Some("group");
            if !is_group && !(self.wanted)(&path, &document) {
                continue;
            }
            documents.insert(whole, document.clone());
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
            put(&mut hierarchy.root, &path, node)?;
        }
        hierarchy.sources = self.sources;
        let snapshot = self.session.snapshot_id().to_string();
        Ok(ReadRepository { hierarchy, left_out, documents, snapshot })
    }

    async fn array(
        &mut self,
        path: &str,
        node: &NodeSnapshot,
        document: ArrayDocument,
    ) -> Result<Array, IcechunkError> {
        let mut array = document.array;
        let counts = array.chunk_grid.counts(&array.shape);
        let mut chunks = Chunks::default();
        let session = self.session;
        let listed = session.array_chunk_iterator(&node.path).await;
        let mut listed = std::pin::pin!(listed);
        loop {
            let next = listed.try_next().await;
            let Some(chunk) = next.map_err(|error| node_error(path, one_line(&error)))? else { break };
            // What lies outside the grid, as after a resize, is no chunk.
            let indices = chunk.coord.0.iter().map(|index| u64::from(*index));
            let Some(position) = chunk_position(indices, &counts) else { continue };
            match &chunk.payload {
                ChunkPayload::Virtual(place) => {
                    let source = self.source(path, place)?;
                    chunks.columns.entry(source).or_default().push(position, place.offset, place.length);
                }
                ChunkPayload::Inline(bytes) => drop(chunks.inline.insert(position, bytes.clone())),
                other => {
                    let bytes = self.native(path, node, &chunk.coord, other.length()).await?;
                    chunks.inline.insert(position, bytes);
                }
            }
        }
        for (source, column) in chunks.columns {
            array.chunks.references.extend(column.finish(SourceId(source)));
        }
        array.chunks.inline = chunks.inline;
        Ok(array)
    }

    /// A chunk that lies in the repository itself.
    async fn native(
        &mut self,
        path: &str,
        node: &NodeSnapshot,
        indices: &ChunkIndices,
        length: u64,
    ) -> Result<Bytes, IcechunkError> {
        self.native = self.native.checked_sub(length).ok_or_else(|| {
            node_error(
                path,
                format!("the repository's own chunks have more than {NATIVE} bytes: they are no references"),
            )
        })?;
        let failed = |error| node_error(path, one_line(&error));
        let reader =
            self.session.get_chunk_reader(&node.path, indices, &ByteRange::ALL).await.map_err(failed)?;
        let bytes = get_chunk(reader).await.map_err(failed)?;
        bytes.ok_or_else(|| node_error(path, "one of its chunks is not there"))
    }

    fn source(&mut self, path: &str, place: &VirtualChunkRef) -> Result<u32, IcechunkError> {
        let key = (place.location.url().to_owned(), place.checksum.clone());
        if let Some(id) = self.ids.get(&key) {
            return Ok(*id);
        }
        if key.0.starts_with("vcc://") {
            return Err(node_error(path, format!("{}: places in named containers are not read", key.0)));
        }
        let id = u32::try_from(self.sources.len()).map_err(|_| node_error(path, "too many files"))?;
        let mut source = Source { url: raw(&key.0), ..Source::default() };
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

/// The path of a node below a group; nothing for nodes elsewhere.
fn below(group: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(group)?;
    (group.is_empty() || rest.is_empty() || rest.starts_with('/'))
        .then(|| rest.trim_start_matches('/').to_owned())
}

/// Puts a node at its path; groups above it come first.
fn put(root: &mut Group, path: &str, node: Node) -> Result<(), IcechunkError> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name.is_empty() {
        if let Node::Group(group) = node {
            root.attributes = group.attributes;
            return Ok(());
        }
        return Err(node_error(path, "the root is an array"));
    }
    let group = root.make_group(parent).ok_or_else(|| node_error(path, "it lies in an array"))?;
    match (group.children.get_mut(name), node) {
        (Some(Node::Group(known)), Node::Group(new)) => known.attributes = new.attributes,
        (_, node) => drop(group.children.insert(name.to_owned(), node)),
    }
    Ok(())
}
