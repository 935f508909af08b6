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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use virtualize_zarr::{ChunkManifest, Group, Lengths, References, SourceId, ZarrFormat};

    use super::*;
    use crate::hdf5::tests::{dataset, int, one};

    /// What a node holds needs so much memory at least.
    #[test]
    fn the_weight_of_a_node_is_not_less_than_its_memory() {
        const VALUE: u64 = size_of::<serde_json::Value>() as u64;
        let long = "x".repeat(10_000);
        for (value, needed) in [
            (json!(long), 10_000),
            (json!([long, [long]]), 20_000 + 4 * VALUE),
            (json!({"a": long, (long.clone()): 1}), 20_000 + 3 * VALUE),
            (json!([1, 2, 3, null]), 5 * VALUE),
        ] {
            let weight_of = |value: &serde_json::Value| {
                let attributes = [("a".to_owned(), value.clone())].into_iter().collect();
                weight(&Node::Group(Group { attributes, ..Group::default() }), "g")
            };
            let (weight, empty) = (weight_of(&value), weight(&Node::Group(Group::default()), "g"));
            assert!(weight - empty >= needed && weight - empty <= 8 * needed, "{weight} for {needed}");
        }
        let chunks = |count: usize| {
            let offsets = vec![0; count].into();
            let lengths = Lengths::Uniform(1);
            let references = References { source: SourceId(0), positions: None, offsets, lengths };
            let (mut array, _) = one(dataset(int(4, true), &[2]), ZarrFormat::V3);
            array.chunks = ChunkManifest::of(references);
            weight(&Node::Array(Box::new(array)), &"p".repeat(400))
        };
        let one = (chunks(1001) - chunks(1)) / 1000;
        assert!((100..=500).contains(&one), "{one} bytes for a chunk whose key has 400 bytes");
    }
}
