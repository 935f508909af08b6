//! Groups, arrays, and the hierarchy that holds them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{ChunkManifest, Codec, DataType, FillValue, SourceId, ZarrFormat};

/// Path of a node from the root, without a leading slash: "" is the root, "a/b" the node "b" in group "a".
pub type NodePath = String;

/// Path of an array at the root of a store, as the root of a [`Hierarchy`] is a group.
pub const ROOT_ARRAY: &str = "data";

/// Returns the path of a node in a group.
pub fn join(group: &str, name: &str) -> NodePath {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Splits a path into the path of the node's group and the node's name, which is "" for the root.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Returns the path of the group to open first: of the groups that contain arrays, the first of those nearest to the root.
pub fn first_group<'a>(arrays: impl IntoIterator<Item = &'a str>) -> &'a str {
    let groups = arrays.into_iter().map(|array| split(array).0);
    groups.min_by_key(|group| group.split_terminator('/').count()).unwrap_or_default()
}

/// Returns the path of the group that a node is in; "" for the root too.
pub fn parent(path: &str) -> &str {
    split(path).0
}

/// Returns the last name of a path; "" for the root.
pub fn name(path: &str) -> &str {
    split(path).1
}

/// Returns a path and those of all groups above it, up to the root.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| (!path.is_empty()).then(|| parent(path)))
}

/// A whole virtual store.
#[derive(Clone, PartialEq, Debug)]
pub struct Hierarchy {
    /// Target format. Attributes and fill values follow its conventions.
    pub format: ZarrFormat,
    /// The root group.
    pub root: Group,
    /// Referenced files, indexed by [`SourceId`].
    pub sources: Vec<Source>,
}

/// A file that contains chunks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// Absolute URL for readers; local files have the scheme `file`.
    pub url: String,
    /// Entity tag at the time of reading.
    pub etag: Option<String>,
    /// Size in bytes at the time of reading.
    pub size: u64,
    /// Modification time at the time of reading, in milliseconds since 1970-01-01T00:00:00Z.
    pub modified: Option<i64>,
}

/// A group or an array.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    /// A group.
    Group(Group),
    /// An array.
    Array(Box<Array>),
}

/// A group.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Group {
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// Children by name.
    pub children: BTreeMap<String, Node>,
}

/// An array: its metadata and its chunk manifest.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Length of each axis in elements, slowest axis first.
    pub shape: Vec<u64>,
    /// Type of an element.
    pub data_type: DataType,
    /// Division of the array into chunks.
    pub chunk_grid: ChunkGrid,
    /// Value of missing chunks. `None` only in Zarr v2, which encodes it as `null`.
    pub fill_value: Option<FillValue>,
    /// Codecs in the order of encoding. Exactly one is array → bytes ([`Codec::is_array_to_bytes`]).
    pub codecs: Vec<Codec>,
    /// Name of each axis, if it has one.
    pub dimension_names: Vec<Option<String>>,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// Location of each chunk.
    pub chunks: ChunkManifest,
}

/// A chunk grid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkGrid {
    /// Shape of all chunks, in elements. Chunks at the edges extend beyond the array.
    Regular(Vec<u64>),
    /// Chunk lengths along each axis, which add up to the array's shape (Zarr v3 extension `rectilinear`).
    Rectilinear(Vec<Vec<u64>>),
}

impl ChunkGrid {
    /// Returns the number of chunks along each axis of an array of the given shape: 0 along an axis of length 0.
    pub fn counts(&self, shape: &[u64]) -> Vec<u64> {
        match self {
            Self::Regular(chunk) => shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect(),
            Self::Rectilinear(edges) => edges.iter().map(|sizes| sizes.len() as u64).collect(),
        }
    }
}

impl Hierarchy {
    /// Creates an empty hierarchy.
    pub fn new(format: ZarrFormat) -> Self {
        Self { format, root: Group::default(), sources: Vec::new() }
    }

    /// Returns the source with an id.
    pub fn source(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.index())
    }

    /// Returns the node at a path.
    pub fn node(&self, path: &str) -> Option<&Node> {
        let (parent, name) = split(path);
        self.group(parent)?.children.get(name)
    }

    /// Returns the group at a path; the root at "".
    pub fn group(&self, path: &str) -> Option<&Group> {
        steps(path).try_fold(&self.root, |group, name| match group.children.get(name) {
            Some(Node::Group(child)) => Some(child),
            _ => None,
        })
    }

    /// Returns the array at a path.
    pub fn array(&self, path: &str) -> Option<&Array> {
        match self.node(path) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Returns the array at a path, for changes.
    pub fn array_mut(&mut self, path: &str) -> Option<&mut Array> {
        let (parent, name) = split(path);
        match self.root.group_mut(parent)?.children.get_mut(name) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Returns all arrays with their paths, sorted by name within each group.
    pub fn arrays(&self) -> Vec<(NodePath, &Array)> {
        let mut found = Vec::new();
        self.root.collect_arrays("", &mut found);
        found
    }
}

impl Group {
    /// Returns the group at a path below this one, for changes; this one at "".
    pub fn group_mut(&mut self, path: &str) -> Option<&mut Self> {
        steps(path).try_fold(self, |group, step| match group.children.get_mut(step) {
            Some(Node::Group(child)) => Some(child),
            _ => None,
        })
    }

    /// Returns the group at a path below this one, and creates it with its ancestors if it is missing; `None` if an
    /// array is in the path.
    pub fn make_group(&mut self, path: &str) -> Option<&mut Self> {
        steps(path).try_fold(self, |group, step| {
            match group.children.entry(step.to_owned()).or_insert_with(|| Node::Group(Self::default())) {
                Node::Group(child) => Some(child),
                Node::Array(_) => None,
            }
        })
    }

    fn collect_arrays<'a>(&'a self, prefix: &str, found: &mut Vec<(NodePath, &'a Array)>) {
        for (name, node) in &self.children {
            let path = join(prefix, name);
            match node {
                Node::Group(group) => group.collect_arrays(&path, found),
                Node::Array(array) => found.push((path, array)),
            }
        }
    }
}

/// Returns the names in a path.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}

/// A version of a repository of hierarchies, such as those of Icechunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// The newest commit of a branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// The id of a snapshot.
    Snapshot(String),
    /// The name of a branch, else of a tag, else the id of a snapshot.
    Any(String),
}

impl Default for Version {
    fn default() -> Self {
        Self::Branch("main".to_owned())
    }
}
