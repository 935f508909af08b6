//! Memory for the nodes of a hierarchy, as it is charged to the budget.

use virtualize_zarr::Node;

/// Most groups and arrays of a hierarchy.
pub(super) const NODES: u64 = 1_000_000;

/// Bytes of memory for a group or an array, without names, attributes and chunks.
const NODE: u64 = 1 << 10;

/// Bytes of memory for a link, without its names.
pub(super) const LINK: u64 = 96;

/// Returns the memory for a node, whose path appears in the hierarchy and in the report.
pub(super) fn node_bytes(path: &str, name: &str) -> u64 {
    let names = path.len().saturating_add(name.len()) as u64;
    names.saturating_mul(4).saturating_add(NODE)
}

/// Returns the memory for a copy of a node at a path, without its children.
pub(super) fn weight(node: &Node, path: &str) -> u64 {
    let (attributes, chunks) = match node {
        Node::Group(group) => (&group.attributes, 0),
        Node::Array(array) => (&array.attributes, array.chunks.len()),
    };
    let chunks = chunks.saturating_mul((path.len() as u64 / 4).saturating_add(32));
    let attributes =
        attributes.iter().map(|(name, value)| json_bytes(value).saturating_add(name.len() as u64));
    attributes.fold(node_bytes(path, ""), u64::saturating_add).saturating_add(chunks)
}

fn json_bytes(value: &serde_json::Value) -> u64 {
    use serde_json::Value;
    match value {
        Value::String(text) => (text.len() as u64).saturating_add(LINK),
        Value::Array(items) => items.iter().map(json_bytes).fold(LINK, u64::saturating_add),
        Value::Object(items) => {
            let all = items.iter().map(|(name, value)| json_bytes(value).saturating_add(name.len() as u64));
            all.fold(LINK, u64::saturating_add)
        }
        _ => LINK,
    }
}
