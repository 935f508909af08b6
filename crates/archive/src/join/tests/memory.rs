//! Files in memory.

use std::{collections::BTreeMap, sync::Arc};

use virtualize::zarr::{Node, NodePath, Source, node};

use crate::{
    Member,
    error::{CombineError, Error},
    file::{FileChunks, Head, HeadNode, Members, ParsedNode},
};

/// Files in memory. Their rows count from 0.
pub(crate) struct MemoryMembers {
    heads: Vec<Head>,
    chunks: Vec<BTreeMap<NodePath, FileChunks>>,
}

impl MemoryMembers {
    /// Takes the files in the order of their rows.
    pub(crate) fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let (heads, chunks) = members.into_iter().map(split).unzip();
        Self { heads, chunks }
    }
}

impl Members for MemoryMembers {
    fn head(&mut self, row: u64) -> Result<Head, Error> {
        usize::try_from(row)
            .ok()
            .and_then(|row| self.heads.get(row))
            .cloned()
            .ok_or_else(|| CombineError::Nothing.into())
    }

    fn chunks(&mut self, row: u64, path: &str) -> Result<FileChunks, Error> {
        let chunks = usize::try_from(row).ok().and_then(|row| self.chunks.get(row));
        chunks.and_then(|chunks| chunks.get(path)).cloned().ok_or_else(|| CombineError::Nothing.into())
    }
}

/// Separates the metadata of a file from its chunks.
fn split(member: Member) -> (Head, BTreeMap<NodePath, FileChunks>) {
    let Member { item, hierarchy, values, digests, given, .. } = member;
    let sources: Arc<[Arc<Source>]> = hierarchy.sources.into_iter().map(Arc::new).collect();
    let (mut nodes, mut chunks) = (Vec::new(), BTreeMap::new());
    let mut rest = vec![(NodePath::new(), Node::Group(hierarchy.root))];
    while let Some((path, own)) = rest.pop() {
        let (parsed, count) = match own {
            Node::Group(group) => {
                let children = group.children.into_iter();
                rest.extend(children.map(|(name, child)| (node::join(&path, &name), child)));
                (ParsedNode::Group(group.attributes), 0)
            }
            Node::Array(mut array) => {
                let manifest = std::mem::take(&mut array.chunks);
                let count = manifest.len();
                chunks.insert(path.clone(), FileChunks { chunks: manifest, sources: Arc::clone(&sources) });
                (ParsedNode::Array(array), count)
            }
        };
        nodes.push(HeadNode { path: path.into(), node: Arc::new(parsed), count });
    }
    let values = values.into_iter().map(|(path, values)| (path, values.bytes)).collect();
    (Head { item, format: hierarchy.format, nodes, values, digests, given }, chunks)
}
