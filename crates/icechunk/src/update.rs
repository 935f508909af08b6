//! Changing what an earlier commit wrote, and nothing else.
//!
//! The new state is compared with the recorded one, node by node and chunk by chunk, and only what differs is written.
//! Nodes, attributes and chunks of other writers stay as they are on the branch; where they stand in the way, the commit
//! is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use futures::TryStreamExt;
use icechunk::{
    Repository,
    format::{
        ByteRange, ChunkIndices, SnapshotId,
        manifest::ChunkPayload,
        snapshot::{NodeData, NodeSnapshot},
    },
    repository::VersionInfo,
    session::{Session, get_chunk},
};
use serde_json::{Map, Value};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkGrid, Hierarchy, cf::attributes::decides_values, chunk_position,
};

use crate::{
    IcechunkError,
    error::one_line,
    location::Place,
    metadata::{Document, documents, node_error, node_path},
    write::{Selection, Writer},
};

/// Most bytes of a chunk of the repository's own that are compared; a larger one is written again.
const COMPARED: u64 = 16 << 20;

/// What an earlier commit wrote.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Update {
    /// The snapshot of that commit, which must be in the history of the branch. `None` takes the recorded nodes as they
    /// are on the branch now, whoever changed them.
    pub base: Option<String>,
    /// The documents (`zarr.json`) that it wrote, by path. Other nodes are never changed or removed.
    pub documents: BTreeMap<String, Value>,
    /// Dimension along which arrays only become longer: their chunks below the recorded length stay.
    pub grows: Option<String>,
    /// Arrays into which others have written chunks since.
    pub touched: BTreeSet<String>,
}

/// The documents of all nodes of a hierarchy whose root is the group at `prefix`, by path.
///
/// # Errors
/// [`IcechunkError::Node`] for an array that has no document of Zarr v3.
pub fn documents_of(hierarchy: &Hierarchy, prefix: &str) -> Result<BTreeMap<String, Value>, IcechunkError> {
    let documents = documents(hierarchy, prefix.trim_matches('/'))?;
    Ok(documents.into_iter().map(|document| (document.path, document.metadata)).collect())
}

/// What is done to a node.
struct Change<'a> {
    document: &'a Document<'a>,
    /// Whether the node is removed and made again.
    anew: bool,
    metadata: Option<Value>,
    /// Chunks that are written; `None` for groups, and for arrays of which none is.
    chunks: Option<Selection>,
    /// Chunks that are removed.
    gone: Vec<ChunkIndices>,
}

/// A commit that updates what is there.
pub(crate) struct Updating<'a> {
    update: &'a Update,
    documents: &'a [Document<'a>],
    places: &'a [Place],
    base: Session,
    tip: Session,
    /// Arrays into which others wrote chunks, those known before included.
    touched: BTreeSet<String>,
}

impl<'a> Updating<'a> {
    /// Opens both states.
    pub(crate) async fn open(
        repository: &Repository,
        update: &'a Update,
        (branch, tip): (&str, &SnapshotId),
        documents: &'a [Document<'a>],
        places: &'a [Place],
    ) -> Result<Self, IcechunkError> {
        let base = match &update.base {
            Some(base) => in_history(repository, branch, base).await?,
            None => tip.clone(),
        };
        let session = async |snapshot: &SnapshotId| {
            let opened = repository.readonly_session(&VersionInfo::SnapshotId(snapshot.clone())).await;
            opened.map_err(IcechunkError::of("opening the snapshot"))
        };
        let (base, tip) = (session(&base).await?, session(tip).await?);
        Ok(Self { update, documents, places, base, tip, touched: update.touched.clone() })
    }

    /// Arrays into which others have written chunks: what a later update has to know.
    pub(crate) fn touched(&self) -> &BTreeSet<String> {
        &self.touched
    }

    /// The first of the recorded nodes that is no longer what was written, with the reason.
    pub(crate) async fn changed(&mut self) -> Result<Option<IcechunkError>, IcechunkError> {
        for (path, recorded) in &self.update.documents {
            match self.tip_node(path, recorded).await {
                Ok(_) => {}
                Err(error @ IcechunkError::Foreign { .. }) => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Compares, and refuses what does not fit.
    pub(crate) async fn plan(&mut self) -> Result<Plan<'a>, IcechunkError> {
        let removed = self.removed().await?;
        let mut changes = Vec::new();
        let documents = self.documents;
        for document in documents {
            changes.extend(self.change(document).await?);
        }
        self.others_fit(&removed).await?;
        Ok(Plan { removed, changes })
    }

    async fn change(&mut self, document: &'a Document<'a>) -> Result<Option<Change<'a>>, IcechunkError> {
        let path = &document.path;
        let Some(recorded) = self.update.documents.get(path) else {
            return self.new_node(document).await;
        };
        let Some(node) = self.tip_node(path, recorded).await? else {
            return Ok(Some(Change::whole(document, false)));
        };
        let known = parsed(path, &node)?;
        let (was_array, is_array) = (is_array(recorded), document.array.is_some());
        let Some(array) = document.array.filter(|_| was_array) else {
            if was_array || is_array {
                return self.replaced(document, &known).await.map(Some);
            }
            let metadata = self.merged(recorded, &known, &document.metadata);
            let metadata = (metadata != known).then_some(metadata);
            return Ok(Some(Change { document, anew: false, metadata, chunks: None, gone: Vec::new() }));
        };
        let ranks = [&known, &document.metadata].map(|doc| shape_of(doc).map(|shape| shape.len()));
        if ranks.first() != ranks.last() {
            return self.replaced(document, &known).await.map(Some);
        }
        self.changed_array(document, array, recorded, &known).await.map(Some)
    }

    async fn changed_array(
        &mut self,
        document: &'a Document<'a>,
        array: &Array,
        recorded: &Value,
        known: &Value,
    ) -> Result<Change<'a>, IcechunkError> {
        let path = &document.path;
        let merged = self.merged(recorded, known, &document.metadata);
        let stays =
            same_state(known, &document.metadata) && merged.get("attributes") == known.get("attributes");
        let metadata = (!stays).then_some(merged);
        let kept = self.kept(recorded, document, array);
        if kept == Kept::All {
            self.note_touched(path).await?;
            return Ok(Change { document, anew: false, metadata, chunks: None, gone: Vec::new() });
        }
        let mut differences = Differences::default();
        self.compare((path, recorded), array, kept, &mut differences).await?;
        let Differences { same, changed, gone } = differences;
        let selection = Selection { same, kept: kept.along() };
        if selection.count(array) > 0 || !gone.is_empty() {
            self.not_touched(path, Some((array, &selection, &changed))).await?;
        }
        Ok(Change { document, anew: false, metadata, chunks: Some(selection), gone })
    }

    /// Removes a node of another kind or rank, and makes it again.
    async fn replaced(
        &mut self,
        document: &'a Document<'a>,
        known: &Value,
    ) -> Result<Change<'a>, IcechunkError> {
        let path = &document.path;
        if is_array(known) {
            self.not_touched(path, None).await?;
        } else if self.has_other_children(path, &[]).await? {
            return Err(IcechunkError::Exists { path: path.clone() });
        }
        Ok(Change::whole(document, true))
    }

    /// A node that no earlier commit wrote: there may be none but an empty group.
    async fn new_node(&self, document: &'a Document<'a>) -> Result<Option<Change<'a>>, IcechunkError> {
        match self.tip.get_node(&node_path(&document.path)?).await {
            Err(_) => Ok(Some(Change::whole(document, false))),
            Ok(node) if document.array.is_none() && matches!(node.node_data, NodeData::Group) => Ok(None),
            Ok(_) => Err(IcechunkError::Exists { path: document.path.clone() }),
        }
    }

    /// A recorded node as it is on the branch, which must be as it was recorded; without a base, `None` where it is gone.
    async fn tip_node(&self, path: &str, recorded: &Value) -> Result<Option<NodeSnapshot>, IcechunkError> {
        let foreign =
            |reason: &str| Err(IcechunkError::Foreign { path: path.to_owned(), reason: reason.to_owned() });
        let strict = self.update.base.is_some();
        let Ok(node) = self.tip.get_node(&node_path(path)?).await else {
            return if strict { foreign("it was removed") } else { Ok(None) };
        };
        if !strict {
            return Ok(Some(node));
        }
        let known = parsed(path, &node)?;
        match (is_array(recorded), is_array(&known)) {
            (true, true) => match difference(recorded, &known) {
                Some(reason) => foreign(&reason),
                None => Ok(Some(node)),
            },
            (false, false) => Ok(Some(node)),
            _ => foreign("it was replaced by another node"),
        }
    }

    /// Recorded nodes that the new state does not have, children first. Groups in which others have nodes stay.
    async fn removed(&mut self) -> Result<Vec<String>, IcechunkError> {
        let new: BTreeSet<&str> = self.documents.iter().map(|document| document.path.as_str()).collect();
        let mut removed = Vec::new();
        for (path, recorded) in self.update.documents.iter().rev() {
            if new.contains(path.as_str()) {
                continue;
            }
            if self.tip_node(path, recorded).await?.is_none() {
                continue;
            }
            if is_array(recorded) {
                self.not_touched(path, None).await?;
            } else if self.has_other_children(path, &removed).await? {
                continue;
            }
            removed.push(path.clone());
        }
        Ok(removed)
    }

    async fn has_other_children(&self, group: &str, removed: &[String]) -> Result<bool, IcechunkError> {
        let nodes = self.tip.list_nodes(&node_path(group)?).await;
        for node in nodes.map_err(IcechunkError::of("listing the group"))? {
            let node = node.map_err(IcechunkError::of("listing the group"))?;
            let path = node.path.as_str().trim_start_matches('/');
            let is_below =
                path.strip_prefix(group).is_some_and(|rest| group.is_empty() || rest.starts_with('/'));
            if is_below && path != group && !removed.iter().any(|gone| gone == path) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The new document with the attributes that others have set: an attribute is changed only where it is still what was
    /// recorded.
    fn merged(&self, recorded: &Value, known: &Value, new: &Value) -> Value {
        let nothing = Map::new();
        let (recorded, tip, ours) =
            (attributes(recorded, &nothing), attributes(known, &nothing), attributes(new, &nothing));
        let mut all = tip.clone();
        for name in ours.keys().chain(recorded.keys()).chain(tip.keys()) {
            let (before, now) = (recorded.get(name), ours.get(name));
            if !decides_values(name) && (before == now || tip.get(name) != before) {
                continue;
            }
            match now {
                Some(value) => all.insert(name.clone(), value.clone()),
                None => all.remove(name),
            };
        }
        let mut document = new.clone();
        if let Some(members) = document.as_object_mut() {
            members.insert("attributes".to_owned(), all.into());
        }
        document
    }

    /// Which chunks of an array stay without a look.
    fn kept(&self, recorded: &Value, document: &Document<'_>, array: &Array) -> Kept {
        let Some(dimension) = &self.update.grows else { return Kept::Nothing };
        let (Some(before), ChunkGrid::Regular(chunk)) = (shape_of(recorded), &array.chunk_grid) else {
            return Kept::Nothing;
        };
        let mut shorter = document.metadata.clone();
        if let Some(members) = shorter.as_object_mut() {
            members.insert("shape".to_owned(), before.clone().into());
        }
        if !same_state(recorded, &shorter) || before.len() != array.shape.len() {
            return Kept::Nothing;
        }
        let is_dimension = |name: &Option<String>| name.as_deref() == Some(dimension.as_str());
        let Some(axis) = array.dimension_names.iter().position(is_dimension) else {
            return if before == array.shape { Kept::All } else { Kept::Nothing };
        };
        let fits = before
            .iter()
            .zip(&array.shape)
            .enumerate()
            .all(|(n, (before, now))| if n == axis { before <= now } else { before == now });
        let (Some(length), Some(chunk)) = (before.get(axis), chunk.get(axis)) else { return Kept::Nothing };
        let chunk = (*chunk).max(1);
        match (fits, length % chunk) {
            (false, _) => Kept::Nothing,
            (true, rest) => Kept::Below { axis, index: length / chunk, whole: rest == 0 },
        }
    }

    /// Compares the chunks of an array with those of the base, whose document was recorded.
    async fn compare(
        &self,
        (path, recorded): (&str, &Value),
        array: &Array,
        kept: Kept,
        differences: &mut Differences,
    ) -> Result<(), IcechunkError> {
        if matches!(kept, Kept::Below { whole: true, .. }) {
            return Ok(());
        }
        let counts = array.chunk_grid.counts(&array.shape);
        let node = node_path(path)?;
        let (true, Ok(before)) = (self.base.get_array(&node).await.is_ok(), Array::from_zarr_json(recorded))
        else {
            return Ok(());
        };
        let counts_before = before.array.chunk_grid.counts(&before.array.shape);
        let chunks = self.base.array_chunk_iterator(&node).await;
        let mut chunks = std::pin::pin!(chunks);
        while let Some(chunk) = chunks.try_next().await.map_err(|error| node_error(path, one_line(&error)))? {
            let index = || chunk.coord.0.iter().map(|n| u64::from(*n));
            // What lies outside the grid, as after a resize, is no chunk.
            if kept.holds(&chunk.coord) || chunk_position(index(), &counts_before).is_none() {
                continue;
            }
            let position = chunk_position(index(), &counts);
            let entry = position.and_then(|position| Some((position, array.chunks.get(position)?)));
            match entry {
                Some((position, entry))
                    if self.is_same(path, &chunk.coord, &chunk.payload, &entry).await? =>
                {
                    differences.same.insert(position);
                    continue;
                }
                Some(_) => {}
                None => differences.gone.push(chunk.coord.clone()),
            }
            differences.changed.insert(chunk.coord, chunk.payload);
        }
        Ok(())
    }

    async fn is_same(
        &self,
        path: &str,
        indices: &ChunkIndices,
        known: &ChunkPayload,
        new: &ChunkEntry<'_>,
    ) -> Result<bool, IcechunkError> {
        Ok(match (known, new) {
            (ChunkPayload::Virtual(known), ChunkEntry::Reference(new)) => {
                let place = self.places.get(new.source.index());
                let same =
                    |place: &Place| place.location == known.location && place.checksum == known.checksum;
                place.is_some_and(same) && (known.offset, known.length) == (new.offset, new.length)
            }
            (ChunkPayload::Inline(known), ChunkEntry::Inline(new)) => known == *new,
            (ChunkPayload::Ref(_), ChunkEntry::Inline(new)) => {
                let length = known.length();
                length == new.len() as u64 && length <= COMPARED && self.native(path, indices).await? == **new
            }
            _ => false,
        })
    }

    async fn native(&self, path: &str, indices: &ChunkIndices) -> Result<Bytes, IcechunkError> {
        let failed = |error| node_error(path, one_line(&error));
        let reader = self.base.get_chunk_reader(&node_path(path)?, indices, &ByteRange::ALL).await;
        let bytes = get_chunk(reader.map_err(failed)?).await.map_err(failed)?;
        Ok(bytes.unwrap_or_default())
    }

    /// Notes whether others wrote chunks into an array since the base.
    async fn note_touched(&mut self, path: &str) -> Result<bool, IcechunkError> {
        let node = node_path(path)?;
        let manifests = async |session: &Session| match session.get_node(&node).await {
            Ok(NodeSnapshot { node_data: NodeData::Array { manifests, .. }, .. }) => manifests,
            _ => Vec::new(),
        };
        let is_touched = manifests(&self.base).await != manifests(&self.tip).await;
        if is_touched {
            self.touched.insert(path.to_owned());
        }
        Ok(is_touched)
    }

    /// Refuses to write over chunks that others wrote: those that are selected or changed; without a selection any.
    async fn not_touched(
        &mut self,
        path: &str,
        written: Option<(&Array, &Selection, &HashMap<ChunkIndices, ChunkPayload>)>,
    ) -> Result<(), IcechunkError> {
        if self.update.base.is_none() {
            return Ok(());
        }
        let before = self.update.touched.contains(path);
        let now = self.note_touched(path).await?;
        let foreign = || IcechunkError::Foreign {
            path: path.to_owned(),
            reason: "others wrote chunks into it that this commit would write over".to_owned(),
        };
        let Some((array, selection, changed)) = written else {
            return if before || now { Err(foreign()) } else { Ok(()) };
        };
        if before && !changed.is_empty() {
            return Err(foreign());
        }
        if !now {
            return Ok(());
        }
        let counts = array.chunk_grid.counts(&array.shape);
        let chunks = self.tip.array_chunk_iterator(&node_path(path)?).await;
        let mut chunks = std::pin::pin!(chunks);
        while let Some(chunk) = chunks.try_next().await.map_err(|error| node_error(path, one_line(&error)))? {
            let position = chunk_position(chunk.coord.0.iter().map(|n| u64::from(*n)), &counts);
            let is_written = changed.contains_key(&chunk.coord)
                || position.is_some_and(|position| {
                    selection.takes(position, &chunk.coord) && array.chunks.get(position).is_some()
                });
            if is_written && changed.get(&chunk.coord) != Some(&chunk.payload) {
                return Err(foreign());
            }
        }
        Ok(())
    }

    /// Arrays of others in the same groups keep dimensions of one length: else no client opens the group.
    async fn others_fit(&self, removed: &[String]) -> Result<(), IcechunkError> {
        let mut lengths: BTreeMap<&str, BTreeMap<&str, (u64, Option<u64>)>> = BTreeMap::new();
        for document in self.documents {
            let Some(array) = document.array else { continue };
            let before = self.update.documents.get(&document.path).and_then(shape_of);
            let group = document.path.rsplit_once('/').map_or("", |(group, _)| group);
            for (axis, name) in array.dimension_names.iter().enumerate() {
                let (Some(name), Some(now)) = (name, array.shape.get(axis)) else { continue };
                let before = before.as_ref().and_then(|shape| shape.get(axis).copied());
                lengths.entry(group).or_default().insert(name, (*now, before));
            }
        }
        let nodes = self.tip.list_nodes(&node_path("")?).await;
        for node in nodes.map_err(IcechunkError::of("listing the nodes"))? {
            let node = node.map_err(IcechunkError::of("listing the nodes"))?;
            let path = node.path.as_str().trim_start_matches('/').to_owned();
            let group = path.rsplit_once('/').map_or("", |(group, _)| group);
            let is_ours = self.update.documents.contains_key(&path) || removed.contains(&path);
            let (Some(lengths), false) = (lengths.get(group), is_ours) else { continue };
            if self.documents.iter().any(|document| document.path == path) {
                continue;
            }
            let document = parsed(&path, &node)?;
            for (name, length) in dimensions(&document) {
                let Some((now, before)) = lengths.get(name.as_str()) else { continue };
                if length != *now && Some(length) == *before {
                    let reason = format!(
                        "it is not of this dataset, has {length} elements along {name:?}, and would no longer open beside {now}: lengthen it first, or move it to another group"
                    );
                    return Err(IcechunkError::Append { path, reason });
                }
            }
        }
        Ok(())
    }
}

/// What an update does.
pub(crate) struct Plan<'a> {
    removed: Vec<String>,
    changes: Vec<Change<'a>>,
}

impl Plan<'_> {
    /// Chunks that are written.
    pub(crate) fn chunks(&self) -> u64 {
        let selected = |change: &Change<'_>| Some(change.chunks.as_ref()?.count(change.document.array?));
        self.changes.iter().filter_map(selected).sum()
    }

    /// Does it.
    pub(crate) async fn write(&self, writer: &mut Writer<'_>, places: &[Place]) -> Result<(), IcechunkError> {
        for path in &self.removed {
            writer.remove(path).await?;
        }
        for Change { document, anew, metadata, gone, .. } in &self.changes {
            if *anew {
                writer.remove(&document.path).await?;
            }
            // While the grid is still the one that has them.
            writer.delete_chunks(&document.path, gone).await?;
            if let Some(metadata) = metadata {
                writer.document(&document.path, metadata).await?;
            }
        }
        for Change { document, chunks, .. } in &self.changes {
            if let (Some(array), Some(selection)) = (document.array, chunks) {
                writer.chunks(&document.path, array, places, selection).await?;
            }
        }
        Ok(())
    }
}

impl<'a> Change<'a> {
    /// All of a node is written.
    fn whole(document: &'a Document<'a>, anew: bool) -> Self {
        let chunks = document.array.map(|_| Selection::default());
        Self { document, anew, metadata: Some(document.metadata.clone()), chunks, gone: Vec::new() }
    }
}

/// How the chunks of an array differ from those of the base.
#[derive(Default)]
struct Differences {
    /// Positions of chunks that are as they were.
    same: HashSet<u64>,
    /// Chunks of the base that are other ones now, or gone.
    changed: HashMap<ChunkIndices, ChunkPayload>,
    gone: Vec<ChunkIndices>,
}

/// Chunks that stay without a look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// Those whose index along the axis is below; `whole` where the base has no others.
    Below {
        axis: usize,
        index: u64,
        whole: bool,
    },
    All,
}

impl Kept {
    fn along(self) -> Option<(usize, u64)> {
        match self {
            Self::Below { axis, index, .. } => Some((axis, index)),
            _ => None,
        }
    }

    fn holds(self, indices: &ChunkIndices) -> bool {
        self.along().is_some_and(|(axis, end)| indices.0.get(axis).is_some_and(|n| u64::from(*n) < end))
    }
}

/// The id of a snapshot, if it is the tip of a branch or one of its ancestors.
async fn in_history(
    repository: &Repository,
    branch: &str,
    snapshot: &str,
) -> Result<SnapshotId, IcechunkError> {
    let lost = || IcechunkError::History { branch: branch.to_owned(), snapshot: snapshot.to_owned() };
    let id = SnapshotId::try_from(snapshot).map_err(|_| lost())?;
    match has_snapshot(repository, branch, &id).await? {
        true => Ok(id),
        false => Err(lost()),
    }
}

/// Whether a snapshot is the tip of a branch or one of its ancestors.
pub(crate) async fn has_snapshot(
    repository: &Repository,
    branch: &str,
    snapshot: &SnapshotId,
) -> Result<bool, IcechunkError> {
    let failed = IcechunkError::of("reading the log");
    let log = repository.ancestry(&VersionInfo::BranchTipRef(branch.to_owned())).await.map_err(&failed)?;
    let mut log = std::pin::pin!(log);
    while let Some(commit) = log.try_next().await.map_err(&failed)? {
        if commit.id == *snapshot {
            return Ok(true);
        }
    }
    Ok(false)
}

fn parsed(path: &str, node: &NodeSnapshot) -> Result<Value, IcechunkError> {
    serde_json::from_slice(&node.user_data)
        .map_err(|error| node_error(path, format!("its metadata in the repository: {error}")))
}

fn is_array(document: &Value) -> bool {
    document.get("node_type").and_then(Value::as_str) == Some("array")
}

fn attributes<'a>(document: &'a Value, nothing: &'a Map<String, Value>) -> &'a Map<String, Value> {
    document.get("attributes").and_then(Value::as_object).unwrap_or(nothing)
}

fn shape_of(document: &Value) -> Option<Vec<u64>> {
    document.get("shape")?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Names and lengths of an array's dimensions.
fn dimensions(document: &Value) -> Vec<(String, u64)> {
    let names = document.get("dimension_names").and_then(Value::as_array);
    let pairs = names.into_iter().flatten().zip(shape_of(document).unwrap_or_default());
    pairs.filter_map(|(name, length)| Some((name.as_str()?.to_owned(), length))).collect()
}

/// Whether two documents of arrays mean the same, however they are spelled; other attributes aside.
fn same_state(one: &Value, other: &Value) -> bool {
    difference(one, other).is_none()
}

/// In what two documents of arrays differ that gives values their meaning.
fn difference(before: &Value, now: &Value) -> Option<String> {
    let said = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), ToString::to_string);
    let parts = ["shape", "data_type", "chunk_grid", "fill_value", "codecs", "dimension_names"];
    if let Some(part) = parts.iter().find(|part| before.get(**part) != now.get(**part))
        && !means_the_same(before, now)
    {
        return Some(format!(
            "its {part} was {}, and is {} now",
            said(before.get(*part)),
            said(now.get(*part))
        ));
    }
    let nothing = Map::new();
    let (before, now) = (attributes(before, &nothing), attributes(now, &nothing));
    let differs = |name: &&String| decides_values(name) && before.get(*name) != now.get(*name);
    let name = before.keys().chain(now.keys()).find(differs)?;
    let (before, now) = (said(before.get(name)), said(now.get(name)));
    Some(format!("its attribute {name} was {before}, and is {now} now"))
}

/// Documents that another library has written are spelled otherwise.
fn means_the_same(one: &Value, other: &Value) -> bool {
    let bare = |document: &Value| {
        let mut array = Array::from_zarr_json(document).ok()?.array;
        array.attributes = Map::new();
        array.to_zarr_json("").ok()
    };
    match (bare(one), bare(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
