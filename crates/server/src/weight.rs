//! Estimates of the memory that a mapped file takes.

use serde_json::{Map, Value};
use virtualize::{
    Object, VirtualStore,
    zarr::{
        Array, Group, Node,
        manifest::{ChunkManifest, Lengths},
    },
};

/// Fixed bytes per array and per group, including its documents; names, attributes and chunks are counted separately.
const ARRAY: u64 = 16 << 10;
const GROUP: u64 = 2 << 10;
/// Fixed bytes per attribute value and per diagnostic, excluding their text.
const VALUE: u64 = 48;
const DIAGNOSTIC: u64 = 256;
/// Copies of a text in memory: in the hierarchy, in the node's document, and in the consolidated document.
const TEXTS: u64 = 3;
/// Copies of a path in memory: those of a text, and those in the reports.
const PATHS: u64 = 5;
/// Maximum bytes of a source that are cached with the mapped file.
const PAGES: u64 = 36 << 20;

/// Estimates the bytes of a mapped file, including its documents.
pub(crate) fn weight(store: &VirtualStore) -> u64 {
    let arrays = store.hierarchy.arrays();
    let chunks = arrays.iter().map(|(_, array)| chunks(&array.chunks));
    let pages = store.object().map_or(0, |object| remembered(object).min(PAGES));
    chunks.fold(described(store), u64::saturating_add).saturating_add(pages)
}

/// Maximum bytes of a remedy.
const REMEDY: usize = 256;

/// Estimates the bytes of the description of a mapped file: nodes, attributes, diagnostics.
pub(crate) fn described(store: &VirtualStore) -> u64 {
    let diagnostics = store.report.diagnostics.iter().map(|each| {
        let remedy = each.remedy.as_ref().map_or(0, |_| REMEDY);
        ((each.path.len() + each.message.len() + remedy) as u64).saturating_add(DIAGNOSTIC)
    });
    diagnostics.fold(group(&store.hierarchy.root, 0), u64::saturating_add)
}

/// Estimates the bytes of a group and everything below it; `path` is the length of the group's path.
fn group(group: &Group, path: u64) -> u64 {
    let own = attributes(&group.attributes).saturating_add(GROUP);
    let children = group.children.iter().map(|(name, child)| {
        let path = path.saturating_add(name.len() as u64 + 1);
        let node = match child {
            Node::Group(child) => self::group(child, path),
            Node::Array(child) => array(child),
        };
        node.saturating_add(PATHS.saturating_mul(path))
    });
    children.fold(own, u64::saturating_add)
}

fn array(array: &Array) -> u64 {
    let names = array.dimension_names.iter().flatten().map(|name| TEXTS.saturating_mul(name.len() as u64));
    names.fold(attributes(&array.attributes), u64::saturating_add).saturating_add(ARRAY)
}

fn attributes(attributes: &Map<String, Value>) -> u64 {
    let each = attributes.iter().map(|(name, value)| text(name).saturating_add(json(value)));
    each.fold(0, u64::saturating_add)
}

fn text(text: &str) -> u64 {
    TEXTS.saturating_mul(text.len() as u64).saturating_add(VALUE)
}

fn json(value: &Value) -> u64 {
    match value {
        Value::String(value) => text(value),
        Value::Array(items) => items.iter().map(json).fold(VALUE, u64::saturating_add),
        Value::Object(members) => attributes(members).saturating_add(VALUE),
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE,
    }
}

/// Estimates the bytes of a chunk manifest, including inline chunks.
fn chunks(chunks: &ChunkManifest) -> u64 {
    let references = chunks.references.iter().map(|column| {
        let each = 8 + if column.positions.is_some() { 8 } else { 0 };
        let lengths = if matches!(column.lengths, Lengths::Each(_)) { 4 } else { 0 };
        (column.len() as u64).saturating_mul(each + lengths)
    });
    let inline = chunks.inline.values().map(|bytes| bytes.len() as u64 + 64);
    references.chain(inline).fold(0, u64::saturating_add)
}

/// Returns the maximum bytes of a source that are cached with the mapped file; none for a local file.
fn remembered(object: &Object) -> u64 {
    if object.path().is_some() { 0 } else { object.bytes() }
}
