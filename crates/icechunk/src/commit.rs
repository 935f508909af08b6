use std::collections::BTreeMap;

use icechunk::{Repository, format::snapshot::SnapshotProperties};
use serde_json::{Value, json};
use virtualize_zarr::{Hierarchy, ZarrFormat, node::join};

use crate::{
    IcechunkError, ReadChunk, RepositoryLocation, StorageOptions,
    append::Append,
    container::containers,
    location::{Place, place},
    metadata::{Document, documents, node_path},
    python,
    repository::{Needs, open_or_create, tip},
    write::Writer,
};

/// What happens to nodes that are in the repository already.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// There must be none but empty groups.
    #[default]
    Add,
    /// The group and all below it is removed first.
    Replace,
    /// Arrays become longer along this dimension.
    Append(String),
}

/// How a hierarchy is committed.
#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// The branch, which must exist.
    pub branch: String,
    /// What the log says.
    pub message: String,
    /// What else it says, such as (`author`, a name).
    pub properties: BTreeMap<String, String>,
    /// Path of the group that becomes the hierarchy's root; "" for the root of the repository.
    pub group: String,
    /// What happens to what is there.
    pub mode: Mode,
    /// Most references of a manifest: bigger arrays are split.
    pub references_per_manifest: u64,
    /// Most chunks that are held in memory: more are committed in parts on a branch of their own, which become
    /// visible together.
    pub chunks_in_memory: u64,
    /// How the repository and its containers are reached.
    pub storage: StorageOptions,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            branch: "main".to_owned(),
            message: "virtual references".to_owned(),
            properties: BTreeMap::new(),
            group: String::new(),
            mode: Mode::Add,
            references_per_manifest: 50_000,
            chunks_in_memory: 250_000,
            storage: StorageOptions::default(),
        }
    }
}

/// A commit that is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The snapshot's id.
    pub snapshot: String,
    /// Chunks that it refers to or holds.
    pub chunks: u64,
    /// Lines of Python that open it.
    pub python: String,
}

/// Commits a hierarchy of Zarr v3. The repository is made where there is none. `read` is asked for chunks when something
/// is appended, to compare what must not differ.
///
/// # Errors
/// See [`IcechunkError`]. The branch is then as it was; a new repository may stay behind, empty.
pub async fn commit(
    hierarchy: &Hierarchy,
    location: &RepositoryLocation,
    options: &CommitOptions,
    read: &dyn ReadChunk,
) -> Result<Committed, IcechunkError> {
    if hierarchy.format != ZarrFormat::V3 {
        let reason = "the hierarchy was mapped for Zarr v2, and Icechunk holds Zarr v3".to_owned();
        return Err(IcechunkError::Node { path: options.group.clone(), reason });
    }
    let group = options.group.trim_matches('/');
    let documents = documents(hierarchy, group)?;
    let places: Vec<Place> = hierarchy.sources.iter().map(place).collect::<Result<_, _>>()?;
    let containers = containers(&hierarchy.sources, &options.storage)?;
    let needs = Needs {
        containers,
        arrays: counts(&documents),
        references_per_manifest: options.references_per_manifest,
    };
    let repository = open_or_create(location.connect(&options.storage).await?, &needs).await?;
    let known: Vec<_> = repository.config().virtual_chunk_containers().cloned().collect();
    let python = python::lines(location, options, &known);
    let work = Work { repository: &repository, documents: &documents, places: &places, options, group, read };
    let (snapshot, chunks) = work.run().await?;
    Ok(Committed { snapshot, chunks, python })
}

fn counts(documents: &[Document<'_>]) -> Vec<(String, Vec<u64>)> {
    let arrays = documents.iter().filter_map(|document| Some((document, document.array?)));
    arrays
        .map(|(document, array)| (format!("/{}", document.path), array.chunk_grid.counts(&array.shape)))
        .collect()
}

struct Work<'a> {
    repository: &'a Repository,
    documents: &'a [Document<'a>],
    places: &'a [Place],
    options: &'a CommitOptions,
    group: &'a str,
    read: &'a dyn ReadChunk,
}

impl Work<'_> {
    /// The snapshot, and how many chunks it has new.
    async fn run(&self) -> Result<(String, u64), IcechunkError> {
        let tip = tip(self.repository, &self.options.branch).await?;
        let chunks = self.documents.iter().filter_map(|d| d.array).map(|array| array.chunks.len()).sum();
        let properties: SnapshotProperties =
            self.options.properties.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let commit = (self.options.message.clone(), properties);
        let step = self.options.chunks_in_memory.max(1);
        let mut writer =
            Writer::start(self.repository, &self.options.branch, tip, commit, (chunks, step)).await?;
        match self.write(&mut writer).await {
            Ok(()) => Ok((writer.finish().await?.to_string(), chunks)),
            Err(error) => {
                writer.give_up().await;
                Err(error)
            }
        }
    }

    async fn write(&self, writer: &mut Writer<'_>) -> Result<(), IcechunkError> {
        match &self.options.mode {
            Mode::Append(dimension) => {
                let append = Append { dimension, group: self.group, places: self.places, read: self.read };
                return append.write(writer, self.documents).await;
            }
            Mode::Replace => self.clear(writer).await?,
            Mode::Add => self.refuse_what_is_there(writer).await?,
        }
        self.parents(writer).await?;
        for document in self.documents {
            writer.document(&document.path, &document.metadata).await?;
        }
        for document in self.documents {
            if let Some(array) = document.array {
                writer.chunks(&document.path, array, self.places, &[]).await?;
            }
        }
        Ok(())
    }

    async fn clear(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        let mut session = writer.session().write().await;
        let removed = match self.group {
            "" => session.clear().await,
            group => match session.get_node(&node_path(group)?).await {
                Ok(node) => session.delete_node(node).await,
                Err(_) => Ok(()),
            },
        };
        removed.map_err(IcechunkError::of("removing the group"))
    }

    /// New nodes may go beside others, but not over them. Attributes of groups that are there would be lost as well.
    async fn refuse_what_is_there(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        let session = writer.session().read().await;
        for document in self.documents {
            let Ok(node) = session.get_node(&node_path(&document.path)?).await else { continue };
            let is_bare = || {
                let known: Option<Value> = serde_json::from_slice(&node.user_data).ok();
                let attributes = known.as_ref().and_then(|known| known.get("attributes")?.as_object());
                attributes.is_none_or(serde_json::Map::is_empty)
            };
            let is_group = matches!(node.node_data, icechunk::format::snapshot::NodeData::Group);
            if !(is_group && document.array.is_none() && is_bare()) {
                return Err(IcechunkError::Exists { path: document.path.clone() });
            }
        }
        Ok(())
    }

    /// Groups above the one that is written.
    async fn parents(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        let Some((above, _)) =
            self.group.rsplit_once('/').or(Some(("", "")).filter(|_| !self.group.is_empty()))
        else {
            return Ok(());
        };
        let mut paths = vec![String::new()];
        for step in above.split('/').filter(|step| !step.is_empty()) {
            paths.push(join(paths.last().map_or("", String::as_str), step));
        }
        for path in paths {
            let known = writer.session().read().await.get_node(&node_path(&path)?).await.is_ok();
            if !known {
                let group = json!({"attributes": {}, "node_type": "group", "zarr_format": 3});
                writer.document(&path, &group).await?;
            }
        }
        Ok(())
    }
}
