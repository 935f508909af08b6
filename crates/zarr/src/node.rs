//! Groups, arrays, and the hierarchy that holds them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{ChunkManifest, Codec, DataType, FillValue, SourceId, ZarrFormat};

/// Path of a node from the root, without a leading slash: "" is the root, "a/b" an array or group in group "a".
pub type NodePath = String;

/// Returns the path of a node in a group.
pub fn join(group: &str, name: &str) -> NodePath {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Splits a path into the path of the node's group and the node's name, which is "" for the root.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
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
    /// The format that the mapping made it for; attributes and fill values follow its conventions.
    pub format: ZarrFormat,
    /// The root: a group.
    pub root: Group,
    /// The files that chunks refer to, by [`SourceId`].
    pub sources: Vec<Source>,
}

/// A file that chunks lie in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// Absolute url, as readers are to open it; local files have the scheme `file`.
    pub url: String,
    /// Entity tag when it was read.
    pub etag: Option<String>,
    /// Size in bytes when it was read.
    pub size: u64,
    /// Modification time when it was read, in milliseconds since 1970-01-01T00:00:00Z.
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

/// An array: its metadata, and where its chunks lie.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Size along each axis, in elements.
    pub shape: Vec<u64>,
    /// Type of an element.
    pub data_type: DataType,
    /// How the array is cut into chunks.
    pub chunk_grid: ChunkGrid,
    /// What a missing chunk reads as. `None` only for Zarr v2, where it is written `null`.
    pub fill_value: Option<FillValue>,
    /// Codecs in the order of encoding; exactly one is array → bytes ([`Codec::Bytes`] or one that says so).
    pub codecs: Vec<Codec>,
    /// Name of each axis; `None` where an axis, or the array, has none.
    pub dimension_names: Vec<Option<String>>,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// Where the chunks lie.
    pub chunks: ChunkManifest,
}

/// A chunk grid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChunkGrid {
    /// All chunks have this shape; those at the edges stick out of the array.
    Regular(Vec<u64>),
    /// Chunk sizes along each axis, which add up to the array's shape (Zarr v3 extension `rectilinear`).
    Rectilinear(Vec<Vec<u64>>),
}

impl ChunkGrid {
    /// Number of chunks along each axis of an array of the given shape. An array of no elements has no chunks.
    pub fn counts(&self, shape: &[u64]) -> Vec<u64> {
        match self {
            Self::Regular(chunk) => shape.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect(),
            Self::Rectilinear(edges) => edges.iter().map(|sizes| sizes.len() as u64).collect(),
        }
    }
}

impl Hierarchy {
    /// An empty hierarchy.
    pub fn new(format: ZarrFormat) -> Self {
        Self { format, root: Group::default(), sources: Vec::new() }
    }

    /// The source with this id.
    pub fn source(&self, id: SourceId) -> Option<&Source> {
        self.sources.get(id.index())
    }

    /// The node at a path.
    pub fn node(&self, path: &str) -> Option<&Node> {
        let (parent, name) = split(path);
        self.group(parent)?.children.get(name)
    }

    /// The group at a path; the root at "".
    pub fn group(&self, path: &str) -> Option<&Group> {
        steps(path).try_fold(&self.root, |group, name| match group.children.get(name) {
            Some(Node::Group(child)) => Some(child),
            _ => None,
        })
    }

    /// The array at a path.
    pub fn array(&self, path: &str) -> Option<&Array> {
        match self.node(path) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// The array at a path, to be changed.
    pub fn array_mut(&mut self, path: &str) -> Option<&mut Array> {
        let (parent, name) = split(path);
        match self.root.group_mut(parent)?.children.get_mut(name) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// All arrays with their paths, in order of path within each group.
    pub fn arrays(&self) -> Vec<(NodePath, &Array)> {
        let mut found = Vec::new();
        self.root.collect_arrays("", &mut found);
        found
    }
}

impl Group {
    /// The group at a path below this one, to be changed; this one at "".
    pub fn group_mut(&mut self, path: &str) -> Option<&mut Self> {
        steps(path).try_fold(self, |group, step| match group.children.get_mut(step) {
            Some(Node::Group(child)) => Some(child),
            _ => None,
        })
    }

    /// The group at a path below this one, made with those above it where it is missing; nothing where an array is in
    /// the way.
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

/// The names of a path.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}
