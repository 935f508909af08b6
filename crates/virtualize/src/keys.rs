//! The keys of a virtual hierarchy in a Zarr v3 store: metadata documents such as `a/zarr.json`, and chunks such as
//! `a/c/0/1`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;
use virtualize_references::EmitError;
use virtualize_zarr::node::{join, split};
use virtualize_zarr::{
    Array, ChunkEntry, ChunkManifest, Codec, DataType, Group, Hierarchy, Node, NodePath, ZarrFormat,
    chunk_indices, chunk_position,
};

use crate::error::Error;
use crate::output::failed;
use crate::read::{ChunkAddress, little_endian};

/// Name of a metadata document.
const DOCUMENT: &str = "zarr.json";
/// Name that separates the path of an array from the indices of a chunk.
const CHUNKS: &str = "c";

/// How a store serves chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkEncoding {
    /// As they are stored.
    Stored,
    /// With all codecs undone: elements in row-major order and little-endian byte order, or in the layout of
    /// `vlen-utf8` or `vlen-bytes` if they have variable length.
    Decoded,
}

/// A stored chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// Path of the array.
    pub path: NodePath,
    /// Row-major position in the chunk grid.
    pub position: u64,
    /// Location or content.
    pub entry: ChunkEntry<'a>,
}

/// Returns the metadata documents of a hierarchy by key; `name` appears in errors. The root's document contains all others as consolidated metadata.
///
/// # Errors
/// [`Error::Emit`] if the hierarchy was mapped for Zarr v2, or the format cannot express a name or an array.
pub fn documents(
    name: &str,
    hierarchy: &Hierarchy,
    encoding: ChunkEncoding,
) -> Result<BTreeMap<String, Bytes>, Error> {
    let documents = match (hierarchy.format, encoding) {
        (ZarrFormat::V2, _) => Err(EmitError::Format { expected: ZarrFormat::V3, found: hierarchy.format }),
        (ZarrFormat::V3, ChunkEncoding::Stored) => virtualize_references::metadata(hierarchy),
        (ZarrFormat::V3, ChunkEncoding::Decoded) => virtualize_references::metadata(&Hierarchy {
            root: with_arrays(&hierarchy.root, &decoded_array),
            ..Hierarchy::new(hierarchy.format)
        }),
    };
    let documents = documents.map_err(|error| failed(name, error))?;
    Ok(documents.into_iter().map(|(key, document)| (key, document.to_string().into())).collect())
}

/// Returns a group with other arrays in the place of all its own.
pub(crate) fn with_arrays(group: &Group, change: &dyn Fn(&Array) -> Array) -> Group {
    let changed = |node: &Node| match node {
        Node::Group(group) => Node::Group(with_arrays(group, change)),
        Node::Array(array) => Node::Array(Box::new(change(array))),
    };
    Group {
        attributes: group.attributes.clone(),
        children: group.children.iter().map(|(name, node)| (name.clone(), changed(node))).collect(),
    }
}

/// Returns the metadata of an array as [`ChunkEncoding::Decoded`] serves it. It has no chunks.
pub fn decoded_array(array: &Array) -> Array {
    let codec = match array.data_type {
        DataType::String => Codec::VlenUtf8,
        DataType::VariableBytes => Codec::VlenBytes,
        // The document declares the byte order of types that have one.
        _ => Codec::Bytes { endian: None },
    };
    let data_type = little_endian(&array.data_type);
    Array { data_type, codecs: vec![codec], chunks: ChunkManifest::default(), ..array.clone() }
}

/// Returns the position in a grid that a key names, even if its chunk is missing; `None` for other keys.
pub fn address(hierarchy: &Hierarchy, key: &str) -> Option<ChunkAddress> {
    let (path, indices) = chunk_steps(key)?;
    chunk_position(indices.iter().copied(), &counts(array(hierarchy, path)?))?;
    Some(ChunkAddress { path: path.to_owned(), indices })
}

/// Returns the chunk that a key names. Returns `None` for other keys, and for missing chunks.
pub fn chunk<'a>(hierarchy: &'a Hierarchy, key: &str) -> Option<Chunk<'a>> {
    let (path, indices) = chunk_steps(key)?;
    let array = array(hierarchy, path)?;
    let position = chunk_position(indices, &counts(array))?;
    Some(Chunk { path: path.to_owned(), position, entry: array.chunks.get(position)? })
}

/// Returns at most `most` keys that start with `prefix`, in an order that never changes. `after` is the last key of the
/// previous call, if the keys are listed in several calls.
pub fn list(hierarchy: &Hierarchy, prefix: &str, after: Option<&str>, most: usize) -> Vec<String> {
    let after = match after.map(|key| place(hierarchy, key)) {
        Some(None) => return Vec::new(),
        Some(Some(place)) => Some(place),
        None => None,
    };
    let mut nodes = vec![(NodePath::new(), None)];
    collect("", &hierarchy.root, prefix, &mut nodes);
    let is_before = |path: &str| after.as_ref().is_some_and(|(last, _)| last != path);
    let nodes = nodes.iter().skip_while(|(path, _)| is_before(path));
    let keys = nodes.flat_map(|(path, array)| {
        let last = after.as_ref().filter(|(last, _)| last == path).map(|(_, position)| *position);
        let document = last.is_none().then(|| join(path, DOCUMENT));
        let start = last.map_or(0, |position| position.map_or(0, |position| position.saturating_add(1)));
        document.into_iter().chain(array.iter().flat_map(move |array| chunk_keys(path, array, start, prefix)))
    });
    keys.filter(|key| key.starts_with(prefix)).take(most).collect()
}

/// Returns at most `most` names of the keys and folders that a folder contains, in an order that never changes. `after`
/// is the last name of the previous call, if the names are listed in several calls.
pub fn list_dir(hierarchy: &Hierarchy, folder: &str, after: Option<&str>, most: usize) -> Vec<String> {
    let folder = folder.trim_end_matches('/');
    let names: Vec<&str> = if let Some(group) = group(hierarchy, folder) {
        std::iter::once(DOCUMENT).chain(group.children.keys().map(String::as_str)).collect()
    } else if let Some(array) = array(hierarchy, folder) {
        std::iter::once(DOCUMENT).chain((!array.chunks.is_empty()).then_some(CHUNKS)).collect()
    } else {
        let below = chunk_steps(folder)
            .and_then(|(path, indices)| Some(indices_below(array(hierarchy, path)?, &indices, after, most)));
        return below.unwrap_or_default();
    };
    let mut names = names.into_iter();
    if let Some(last) = after {
        names.by_ref().find(|name| *name == last);
    }
    names.take(most).map(str::to_owned).collect()
}

fn group<'a>(hierarchy: &'a Hierarchy, path: &str) -> Option<&'a Group> {
    hierarchy.group(path).filter(|_| is_path(path))
}

fn array<'a>(hierarchy: &'a Hierarchy, path: &str) -> Option<&'a Array> {
    hierarchy.array(path).filter(|_| is_path(path))
}

/// Whether a path has no empty names, which [`Hierarchy`] ignores.
fn is_path(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|name| !name.is_empty())
}

/// Returns the node and, for a chunk, the position that a key names.
fn place(hierarchy: &Hierarchy, key: &str) -> Option<(NodePath, Option<u64>)> {
    match split(key) {
        (path, DOCUMENT) => {
            let is_node = group(hierarchy, path).is_some() || array(hierarchy, path).is_some();
            is_node.then(|| (path.to_owned(), None))
        }
        _ => chunk(hierarchy, key).map(|chunk| (chunk.path, Some(chunk.position))),
    }
}

/// Appends the nodes below a group that may have keys with the prefix, parents first.
fn collect<'a>(path: &str, group: &'a Group, prefix: &str, nodes: &mut Vec<(NodePath, Option<&'a Array>)>) {
    for (name, node) in &group.children {
        let path = join(path, name);
        let folder = format!("{path}/");
        if !folder.starts_with(prefix) && !prefix.starts_with(&folder) {
            continue;
        }
        match node {
            Node::Array(array) => nodes.push((path, Some(array))),
            Node::Group(group) => {
                nodes.push((path.clone(), None));
                collect(&path, group, prefix, nodes);
            }
        }
    }
}

/// Returns the keys of an array's chunks from a position on. Omits chunks of which the prefix excludes a complete index.
fn chunk_keys<'a>(
    path: &'a str,
    array: &'a Array,
    start: u64,
    prefix: &str,
) -> impl Iterator<Item = String> + 'a {
    let counts = counts(array);
    let folder = prefix.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
    let complete = folder.and_then(|rest| rest.rsplit_once('/')).map(|(complete, _)| complete);
    let range = match complete.map(chunk_steps) {
        None => Some(0..u64::MAX),
        Some(Some(("", indices))) => range(&indices, &counts),
        Some(_) => None,
    };
    let range = range.unwrap_or(0..0);
    let chunks = array.chunks.iter_from(start.max(range.start));
    chunks.take_while(move |(position, _)| *position < range.end).filter_map(move |(position, _)| {
        let indices = chunk_indices(position, &counts)?;
        let mut key = join(path, CHUNKS);
        indices.iter().try_for_each(|index| write!(key, "/{index}")).ok()?;
        Some(key)
    })
}

/// Returns the next index of the chunks whose first indices are given, for each that has a chunk, in ascending order.
fn indices_below(array: &Array, indices: &[u64], after: Option<&str>, most: usize) -> Vec<String> {
    let counts = counts(array);
    let (Some(all), Some(below)) = (range(indices, &counts), counts.get(indices.len() + 1..)) else {
        return Vec::new();
    };
    let Some(step) = below.iter().try_fold(1_u64, |all, count| all.checked_mul(*count)) else {
        return Vec::new();
    };
    let mut next = match after.map(number) {
        None => all.start,
        Some(Some(index)) => start_of(&all, index.saturating_add(1), step),
        Some(None) => return Vec::new(),
    };
    let names = std::iter::from_fn(|| {
        let (position, _) =
            array.chunks.iter_from(next).next().filter(|(position, _)| *position < all.end)?;
        let index = (position - all.start).checked_div(step)?;
        next = start_of(&all, index.saturating_add(1), step);
        Some(index.to_string())
    });
    names.take(most).collect()
}

/// Returns the first position with an index, where each index covers `step` positions of the range.
fn start_of(range: &Range<u64>, index: u64, step: u64) -> u64 {
    index.checked_mul(step).and_then(|offset| range.start.checked_add(offset)).unwrap_or(u64::MAX)
}

/// Returns the positions of the chunks whose first indices are given.
fn range(indices: &[u64], counts: &[u64]) -> Option<Range<u64>> {
    let (along, below) = counts.split_at_checked(indices.len())?;
    let first = chunk_position(indices.iter().copied(), along)?;
    let step = below.iter().try_fold(1_u64, |all, count| all.checked_mul(*count))?;
    Some(first.checked_mul(step)?..first.checked_add(1)?.checked_mul(step)?)
}

/// Splits a key or folder into the path before the last `c`, and the indices after it. Indices must have the form that
/// Zarr writes.
fn chunk_steps(key: &str) -> Option<(&str, Vec<u64>)> {
    let mut indices = Vec::new();
    let mut rest = key;
    loop {
        let (before, step) = split(rest);
        if step == CHUNKS {
            indices.reverse();
            return Some((before, indices));
        }
        indices.push(number(step)?);
        rest = before;
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}

fn counts(array: &Array) -> Vec<u64> {
    array.chunk_grid.counts(&array.shape)
}
