use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use icechunk::{
    Repository,
    format::{SnapshotId, snapshot::SnapshotProperties},
};
use serde_json::{Value, json};
use virtualize_zarr::{Hierarchy, ZarrFormat, node::join};

use crate::{
    IcechunkError, RepositoryLocation, StorageOptions, Update,
    location::{Place, place},
    lock,
    metadata::{Document, documents, node_path},
    python,
    repository::{Needs, open_or_create, tip},
    update::{Updating, has_snapshot},
    write::{Selection, Writer},
};

/// How often a commit is begun anew where others committed at the same time.
const ATTEMPTS: u32 = 5;
/// The property of a commit that names the arrays into which others have written chunks.
pub(crate) const TOUCHED: &str = "virtualize-chunks-of-others";

/// What happens to nodes that are in the repository already.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Mode {
    /// There must be none but empty groups.
    #[default]
    Add,
    /// The group and all below it is removed first.
    Replace,
    /// Arrays become longer along this dimension. `virtualize_archive::commit` makes an update of it: the dataset that is
    /// there has to be read and joined with the new one.
    Append(String),
    /// What an earlier commit wrote is changed.
    Update(Update),
}

/// How a hierarchy is committed.
#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// The branch, which must exist, unless nothing was ever committed to the repository.
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
    /// Chunks that it added or replaced.
    pub chunks: u64,
    /// Lines of Python that open it.
    pub python: String,
    /// Arrays of an update into which others have written chunks.
    pub touched: BTreeSet<String>,
}

/// Commits a hierarchy of Zarr v3. The repository is made where there is none. Needs a tokio runtime with time.
///
/// # Errors
/// See [`IcechunkError`]. The branch is then as it was; a new repository may stay behind, empty.
pub async fn commit(
    hierarchy: &Hierarchy,
    location: &RepositoryLocation,
    options: &CommitOptions,
) -> Result<Committed, IcechunkError> {
    if hierarchy.format != ZarrFormat::V3 {
        let reason = "the hierarchy was mapped for Zarr v2, and Icechunk holds Zarr v3".to_owned();
        return Err(IcechunkError::Node { path: options.group.clone(), reason });
    }
    let group = options.group.trim_matches('/');
    let documents = documents(hierarchy, group)?;
    let places: Vec<Place> = hierarchy.sources.iter().map(place).collect::<Result<_, _>>()?;
    let needs = Needs {
        sources: &hierarchy.sources,
        storage: &options.storage,
        arrays: counts(&documents),
        references_per_manifest: options.references_per_manifest,
    };
    let _lock = lock::hold(location).await?;
    let mut attempt = 1;
    loop {
        let repository = open_or_create(location.connect(&options.storage).await?, &needs).await?;
        let known: Vec<_> = repository.config().virtual_chunk_containers().cloned().collect();
        let work = Work { repository: &repository, documents: &documents, places: &places, options, group };
        match work.run(location).await {
            Ok(done) => {
                let Done { snapshot, chunks, touched } = done;
                let python = python::lines(location, options, &known);
                return Ok(Committed { snapshot: snapshot.to_string(), chunks, python, touched });
            }
            Err(IcechunkError::Conflict { .. }) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(100) * attempt).await;
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
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
}

struct Done {
    snapshot: SnapshotId,
    chunks: u64,
    touched: BTreeSet<String>,
}

impl Work<'_> {
    async fn run(&self, location: &RepositoryLocation) -> Result<Done, IcechunkError> {
        let branch = &self.options.branch;
        let tip = tip(self.repository, branch).await?;
        let done = match &self.options.mode {
            Mode::Update(update) => self.update(update, tip).await?,
            Mode::Append(dimension) => {
                let reason = format!("how it grows along {dimension:?} was not planned");
                return Err(IcechunkError::Append { path: self.group.to_owned(), reason });
            }
            Mode::Add | Mode::Replace => self.put(tip).await?,
        };
        // A local disk has no conditional writes: another program's commit may have taken the place of this one.
        let is_local = matches!(location, RepositoryLocation::Local(_));
        match is_local && !has_snapshot(self.repository, branch, &done.snapshot).await? {
            true => Err(IcechunkError::Conflict {
                branch: branch.clone(),
                reason: "the commit was lost, since others committed at the same time".to_owned(),
            }),
            false => Ok(done),
        }
    }

    /// Changes what an earlier commit wrote.
    async fn update(&self, update: &Update, tip: SnapshotId) -> Result<Done, IcechunkError> {
        let on = (self.options.branch.as_str(), &tip);
        let mut updating = Updating::open(self.repository, update, on, self.documents, self.places).await?;
        let plan = updating.plan().await?;
        let touched = updating.touched().clone();
        let mut writer = self.writer(tip, plan.chunks(), &touched).await?;
        let written = match plan.write(&mut writer, self.places).await {
            Ok(()) => self.parents(&writer).await,
            failed => failed,
        };
        finish(writer, written, touched).await
    }

    /// Writes all of it.
    async fn put(&self, tip: SnapshotId) -> Result<Done, IcechunkError> {
        let chunks = self.documents.iter().filter_map(|d| d.array).map(|array| array.chunks.len()).sum();
        let mut writer = self.writer(tip, chunks, &BTreeSet::new()).await?;
        let written = self.write(&mut writer).await;
        finish(writer, written, BTreeSet::new()).await
    }

    async fn writer(
        &self,
        tip: SnapshotId,
        chunks: u64,
        touched: &BTreeSet<String>,
    ) -> Result<Writer<'_>, IcechunkError> {
        let given = self.options.properties.iter().map(|(key, value)| (key.clone(), json!(value)));
        let touched = Some((TOUCHED.to_owned(), json!(touched))).filter(|_| !touched.is_empty());
        let properties: SnapshotProperties = given.chain(touched).collect();
        let commit = (self.options.message.clone(), properties);
        let step = self.options.chunks_in_memory.max(1);
        Writer::start(self.repository, &self.options.branch, tip, commit, (chunks, step)).await
    }

    async fn write(&self, writer: &mut Writer<'_>) -> Result<(), IcechunkError> {
        match &self.options.mode {
            Mode::Replace => self.clear(writer).await?,
            _ => self.refuse_what_is_there(writer).await?,
        }
        self.parents(writer).await?;
        for document in self.documents {
            writer.document(&document.path, &document.metadata).await?;
        }
        for document in self.documents {
            if let Some(array) = document.array {
                writer.chunks(&document.path, array, self.places, &Selection::default()).await?;
            }
        }
        Ok(())
    }

    async fn clear(&self, writer: &Writer<'_>) -> Result<(), IcechunkError> {
        if !self.group.is_empty() {
            return writer.remove(self.group).await;
        }
        let mut session = writer.session().write().await;
        session.clear().await.map_err(IcechunkError::of("removing the group"))
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

/// Ends a commit, or leaves the branch as it was.
async fn finish(
    writer: Writer<'_>,
    written: Result<(), IcechunkError>,
    touched: BTreeSet<String>,
) -> Result<Done, IcechunkError> {
    if let Err(error) = written {
        writer.give_up().await;
        return Err(error);
    }
    let chunks = writer.written();
    Ok(Done { snapshot: writer.finish().await?, chunks, touched })
}
