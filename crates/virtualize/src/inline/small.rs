//! Inlining of chunks that references could express, so that readers need fewer requests: small chunks, and those of
//! coordinates. The encoded bytes stay unchanged.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, stream::FuturesOrdered};
use serde_json::{Map, Value};
use virtualize_bytes::{ByteRange, ReadError};
use virtualize_map::{Diagnostic, Mapped};
use virtualize_remedy::{Code, OptionName, Remedy};
use virtualize_zarr::{
    ChunkEntry, Group, Hierarchy, Node, NodePath, Reference,
    node::{self, join},
};

use super::{ChunkMaker, Fetched, batches};
use crate::{error::warning, options::InlineOptions};

/// Number of bytes that are fetched together. Two such batches are in memory.
const BATCH: u64 = 32 << 20;
/// Memory overhead of a chunk besides its bytes, which counts towards the total.
const OVERHEAD: u64 = 128;

/// A chunk to inline.
struct Chosen {
    /// Index of its array in the list of paths.
    array: usize,
    position: u64,
    place: Reference,
}

/// Fetches the chunks to inline and adds them to the hierarchy. Chunks that cannot be read remain references, with a
/// warning.
pub(crate) async fn run(
    maker: &ChunkMaker<'_>,
    mapped: &mut Mapped,
    options: &InlineOptions,
) -> Result<(), ReadError> {
    if options.below == 0 && !options.coordinates {
        return Ok(());
    }
    let paths: Vec<NodePath> = mapped.hierarchy.arrays().into_iter().map(|(path, _)| path).collect();
    let (mut chosen, refused) = choose(&mapped.hierarchy, &paths, options);
    mapped.report.diagnostics.extend(refused);
    chosen.sort_by_key(|chunk| chunk.place.source);
    let mut unread: BTreeMap<&NodePath, String> = BTreeMap::new();
    let mut batches = batches(chosen, BATCH, |chunk| chunk.place.length);
    let mut fetches = FuturesOrdered::new();
    loop {
        while fetches.len() < 2
            && let Some(batch) = batches.next()
        {
            fetches.push_back(fetch(maker, batch));
        }
        let Some(batch) = fetches.next().await else { break };
        let (batch, fetched) = batch?;
        for chunk in batch {
            let Some(path) = paths.get(chunk.array) else { continue };
            match (chunk.bytes(&fetched), mapped.hierarchy.array_mut(path)) {
                (Ok(bytes), Some(array)) => drop(array.chunks.inline.insert(chunk.position, bytes)),
                (Err(why), _) => drop(unread.insert(path, why)),
                (_, None) => {}
            }
        }
    }
    mapped.report.diagnostics.extend(unread.into_iter().map(|(path, why)| {
        let message = format!("chunks selected for inlining stay references: {why}");
        warning(Code::InlineFailed, path, message)
    }));
    Ok(())
}

async fn fetch(maker: &ChunkMaker<'_>, batch: Vec<Chosen>) -> Result<(Vec<Chosen>, Fetched), ReadError> {
    let fetched = maker.fetch(batch.iter().map(|chunk| (chunk.place.source, chunk.range()))).await?;
    Ok((batch, fetched))
}

impl Chosen {
    fn range(&self) -> ByteRange {
        ByteRange::new(self.place.offset, self.place.length)
    }

    /// Returns a copy of the bytes, since the fetched ones may be a small part of a large page.
    fn bytes(&self, fetched: &Fetched) -> Result<Bytes, String> {
        fetched.range(self.place.source, self.range()).map(|bytes| Bytes::copy_from_slice(bytes))
    }
}

/// Returns the chunks to inline, and a diagnostic for each array that would exceed the total. Smaller arrays that follow
/// are still inlined.
fn choose(
    hierarchy: &Hierarchy,
    paths: &[NodePath],
    options: &InlineOptions,
) -> (Vec<Chosen>, Vec<Diagnostic>) {
    let always = match options.coordinates {
        true => of(hierarchy),
        false => Default::default(),
    };
    let (mut chosen, mut refused, mut left) = (Vec::new(), Vec::new(), options.total);
    for (at, path) in paths.iter().enumerate() {
        let Some(array) = hierarchy.array(path) else { continue };
        let below = if always.contains(path) { u64::MAX } else { options.below };
        let entries = array.chunks.iter().filter_map(|(position, entry)| match entry {
            ChunkEntry::Reference(place) if place.length < below => {
                Some(Chosen { array: at, position, place })
            }
            _ => None,
        });
        let mut cost = 0_u64;
        let within = entries.take_while(|chunk| {
            cost = cost.saturating_add(chunk.place.length).saturating_add(OVERHEAD);
            cost <= left
        });
        let chunks: Vec<_> = within.collect();
        if cost <= left {
            left -= cost;
            chosen.extend(chunks);
        } else {
            let total = options.total;
            let message = format!(
                "chunks stay references: inlined, they would exceed the total of {total} bytes for all arrays"
            );
            let remedy = Remedy::turn_on(OptionName::InlineTotal, "raise the limit")
                .or(Remedy::turn_on(OptionName::Inline, "inline fewer chunks"));
            let remedy = Some(remedy);
            refused.push(Diagnostic { remedy, ..warning(Code::InlineTotal, path, message) });
        }
    }
    (chosen, refused)
}

/// Returns the arrays that have the name of their only dimension, and those that the attribute `coordinates` of an array or
/// group names. A plain name is looked up in the group and its ancestors; a path starts at the group or the root (CF
/// conventions, 2.7 and 5).
pub(crate) fn of(hierarchy: &Hierarchy) -> BTreeSet<NodePath> {
    let mut found = BTreeSet::new();
    group("", &hierarchy.root, hierarchy, &mut found);
    found
}

fn group(path: &str, group_: &Group, hierarchy: &Hierarchy, found: &mut BTreeSet<NodePath>) {
    named(&group_.attributes, path, hierarchy, found);
    for (name, node) in &group_.children {
        let child = join(path, name);
        match node {
            Node::Group(inner) => group(&child, inner, hierarchy, found),
            Node::Array(array) => {
                named(&array.attributes, path, hierarchy, found);
                let is_dimension = array.shape.len() == 1
                    && matches!(array.dimension_names.as_slice(), [Some(only)] if only == name);
                if is_dimension {
                    found.insert(child);
                }
            }
        }
    }
}

/// Adds the arrays that the attribute `coordinates` names.
fn named(
    attributes: &Map<String, Value>,
    group: &str,
    hierarchy: &Hierarchy,
    found: &mut BTreeSet<NodePath>,
) {
    let names = attributes.get("coordinates").and_then(Value::as_str).unwrap_or_default();
    found.extend(names.split_whitespace().filter_map(|name| resolve(name, group, hierarchy)));
}

fn resolve(name: &str, group: &str, hierarchy: &Hierarchy) -> Option<NodePath> {
    let is_array = |path: &NodePath| hierarchy.array(path).is_some();
    match name.strip_prefix('/') {
        Some(absolute) => Some(absolute.to_owned()).filter(is_array),
        None if name.contains('/') => Some(join(group, name)).filter(is_array),
        None => node::ancestors(group).map(|group| node::join(group, name)).find(is_array),
    }
}
