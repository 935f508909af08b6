//! Nodes of a hierarchy as Icechunk stores them: a path and a metadata document each.

use icechunk::format::{Path, snapshot::NodeSnapshot};
use serde_json::Value;
use virtualize_zarr::{Array, Group, Hierarchy, Node, node::join};

use crate::{IcechunkError, Result};

/// A node to be written.
pub(crate) struct Document<'a> {
    /// Path in the repository, without a leading slash.
    pub(crate) path: String,
    /// Path in the hierarchy.
    pub(crate) inner: String,
    pub(crate) metadata: Value,
    /// The array; `None` for a group.
    pub(crate) array: Option<&'a Array>,
}

/// Returns all nodes of a hierarchy, parents first. Its root is at `prefix`, a path without leading and trailing slashes.
pub(crate) fn documents<'a>(hierarchy: &'a Hierarchy, prefix: &str) -> Result<Vec<Document<'a>>> {
    let mut all = Vec::new();
    group((prefix, ""), &hierarchy.root, &mut all)?;
    Ok(all)
}

/// Adds the nodes of a group at a path in the repository and a path in the hierarchy.
fn group<'a>((path, inner): (&str, &str), group: &'a Group, all: &mut Vec<Document<'a>>) -> Result<()> {
    all.push(Document {
        path: path.to_owned(),
        inner: inner.to_owned(),
        metadata: group.to_zarr_json(),
        array: None,
    });
    for (name, node) in &group.children {
        let (path, inner) = (join(path, name), join(inner, name));
        match node {
            Node::Group(child) => self::group((&path, &inner), child, all)?,
            Node::Array(array) => {
                let metadata = array.to_zarr_json(name);
                let metadata = metadata.map_err(|error| node_error(&path, error.to_string()))?;
                all.push(Document { path, inner, metadata, array: Some(array) });
            }
        }
    }
    Ok(())
}

/// Parses the document of a node.
pub(crate) fn document_of(path: &str, node: &NodeSnapshot) -> Result<Value> {
    serde_json::from_slice(&node.user_data)
        .map_err(|error| node_error(path, format!("invalid metadata in the repository: {error}")))
}

pub(crate) fn node_error(path: &str, reason: impl Into<String>) -> IcechunkError {
    IcechunkError::Node { path: path.to_owned(), reason: reason.into() }
}

/// Converts a path to that of Icechunk, which rejects empty names and names of dots only.
pub(crate) fn node_path(path: &str) -> Result<Path> {
    Path::new(&format!("/{path}")).map_err(|error| node_error(path, error.to_string()))
}
