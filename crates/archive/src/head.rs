//! Metadata of a file, without its chunks: what a combined dataset is planned and joined from.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value};
use virtualize::zarr::{
    Array, ChunkManifest, Hierarchy, Lengths, Node, NodePath, References, Source, SourceId, ZarrFormat, node,
};

use crate::{Item, values::variable::is_variable};

/// Metadata of a file, without its chunks. Documents of the same text share one [`ParsedNode`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Head {
    /// The file.
    pub(crate) item: Item,
    /// Zarr format of its documents.
    pub(crate) format: ZarrFormat,
    /// Its groups and arrays, parents before children; the first is the root.
    pub(crate) nodes: Vec<HeadNode>,
    /// Decoded values of the arrays in [`crate::Wanted::values`].
    pub(crate) values: BTreeMap<NodePath, Bytes>,
    /// SHA-256 of type, shape and decoded values, in hexadecimal, of the arrays in [`crate::Wanted::digests`].
    pub(crate) digests: BTreeMap<NodePath, String>,
    /// Coordinates along dimensions from names, paths or catalogues, by dimension.
    pub(crate) given: BTreeMap<String, Value>,
}

impl Head {
    /// Returns the groups and arrays without chunks. The values of arrays with elements of variable length are inline if
    /// they were read, and otherwise in some file, as far as [`crate::wanted`] can tell.
    pub(crate) fn hierarchy(&self) -> Hierarchy {
        let mut hierarchy = Hierarchy::new(self.format);
        for HeadNode { path, node, .. } in &self.nodes {
            match &**node {
                ParsedNode::Group(attributes) => {
                    if let Some(group) = hierarchy.root.make_group(path) {
                        group.attributes.clone_from(attributes);
                    }
                }
                ParsedNode::Array(array) => {
                    let mut array = array.clone();
                    if is_variable(&array.data_type) {
                        array.chunks = stand_in(self.values.get(&**path));
                    }
                    let (parent, name) = node::split(path);
                    if let Some(group) = hierarchy.root.make_group(parent) {
                        group.children.insert(name.to_owned(), Node::Array(array));
                    }
                }
            }
        }
        hierarchy
    }

    /// Returns the attributes of the root.
    pub(crate) fn root_attributes(&self) -> Option<&Map<String, Value>> {
        match &*self.nodes.first()?.node {
            ParsedNode::Group(attributes) => Some(attributes),
            ParsedNode::Array(_) => None,
        }
    }
}

/// Returns chunks that are inline if values were read, and in a file otherwise.
fn stand_in(values: Option<&Bytes>) -> ChunkManifest {
    match values {
        Some(values) => ChunkManifest { references: Vec::new(), inline: [(0, values.clone())].into() },
        None => ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: vec![0].into(),
            lengths: Lengths::Uniform(1),
        }),
    }
}

/// A group or array of a file.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HeadNode {
    /// Its path.
    pub(crate) path: Arc<str>,
    /// Its metadata.
    pub(crate) node: Arc<ParsedNode>,
    /// Number of its chunks, inline ones included.
    pub(crate) count: u64,
}

/// A metadata document.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParsedNode {
    /// The attributes of a group.
    Group(Map<String, Value>),
    /// An array, with an empty manifest.
    Array(Box<Array>),
}

/// Chunks of an array of a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct FileChunks {
    /// The chunks. Their source IDs are indices into `sources`.
    pub(crate) chunks: ChunkManifest,
    /// The sources of all chunks of the file.
    pub(crate) sources: Arc<[Arc<Source>]>,
}

/// Supplies the files of a combined dataset, by row.
pub(crate) trait Members: Send {
    /// Why a file's record cannot be read.
    type Error;

    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// A record that cannot be read.
    fn head(&mut self, row: u64) -> Result<Head, Self::Error>;

    /// Returns the chunks of an array of a file.
    ///
    /// # Errors
    /// A record that cannot be read.
    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, Self::Error>;
}
