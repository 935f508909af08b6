//! Joining of arrays that are alike into one, along new axes before their own.

use std::collections::BTreeMap;

use virtualize_tiff::model::Ifd;
use virtualize_zarr::{
    Array, ChunkGrid, ChunkManifest, Codec, Group, Node, NodePath, References, ReferencesBuilder, SourceId,
    cf::attributes,
    node::{self, join as join_path},
};

use super::{ARRAY, group_path};
use crate::{ChunkContent, InlineTask, Mapped};

/// A member of the joined array: its array, and the file that stores its chunks.
pub(super) type Member<'a> = (&'a Array, SourceId);

/// Returns the path of an image's array.
pub(super) fn path(ifd: &Ifd) -> NodePath {
    join_path(&group_path(ifd), ARRAY)
}

/// Whether one array can hold both: shape, data type, chunks, codecs, fill value and the attributes that give values their
/// meaning are equal.
pub(super) fn is_like(one: &Array, other: &Array) -> bool {
    let meaning = |array: &Array| attributes::of_array(&array.attributes, array.data_type.is_float());
    one.shape == other.shape
        && one.data_type == other.data_type
        && one.chunk_grid == other.chunk_grid
        && one.codecs == other.codecs
        && one.fill_value == other.fill_value
        && meaning(one) == meaning(other)
}

/// Returns the names of the attributes that differ between arrays, sorted.
pub(super) fn different_attributes(arrays: &[&Array]) -> Vec<String> {
    let Some((first, others)) = arrays.split_first() else { return Vec::new() };
    let names = first.attributes.keys().chain(others.iter().flat_map(|page| page.attributes.keys()));
    let mut different: Vec<String> = names
        .filter(|name| others.iter().any(|page| page.attributes.get(*name) != first.attributes.get(*name)))
        .cloned()
        .collect();
    different.sort();
    different.dedup();
    different
}

/// Returns the number of chunks of an array.
pub(super) fn chunk_count(array: &Array) -> u64 {
    array.chunk_grid.counts(&array.shape).iter().fold(1, |product: u64, count| product.saturating_mul(*count))
}

/// Joins members along `axes`, given as names and sizes, slowest first. Members are in row-major order; one that is missing
/// has no chunks. Everything else is as in `model`. `None` if the chunks cannot be counted.
pub(super) fn join(model: &Array, members: &[Option<Member<'_>>], axes: &[(String, u64)]) -> Option<Array> {
    let mut array = Array { chunks: join_chunks(members, chunk_count(model))?, ..model.clone() };
    add_axes(&mut array, axes)?;
    Some(array)
}

/// Adds axes before those of an array, given as names and sizes, slowest first, with chunks of length 1. `None` if the chunks
/// cannot be counted.
pub(super) fn add_axes(array: &mut Array, axes: &[(String, u64)]) -> Option<()> {
    for (name, size) in axes.iter().rev() {
        array.shape.insert(0, *size);
        array.dimension_names.insert(0, Some(name.clone()));
        match &mut array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.insert(0, 1),
            ChunkGrid::Rectilinear(edges) => edges.insert(0, vec![1; usize::try_from(*size).ok()?]),
        }
        array.codecs.iter_mut().for_each(add_leading_axis);
    }
    Some(())
}

fn join_chunks(members: &[Option<Member<'_>>], count: u64) -> Option<ChunkManifest> {
    let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
    let mut inline = BTreeMap::new();
    for (member, number) in members.iter().zip(0_u64..) {
        let Some((array, source)) = member else { continue };
        let start = number.checked_mul(count)?;
        let column = columns.entry(*source).or_default();
        for (position, place) in array.chunks.references.iter().flat_map(References::iter) {
            column.push(start.checked_add(position)?, place.offset, place.length);
        }
        for (position, content) in &array.chunks.inline {
            inline.insert(start.checked_add(*position)?, content.clone());
        }
    }
    let references = columns.into_iter().flat_map(|(source, column)| column.finish(source)).collect();
    Some(ChunkManifest { references, inline })
}

/// Adjusts a codec to chunks with a new first axis of length 1.
fn add_leading_axis(codec: &mut Codec) {
    if let Some(longer) = codec.with_leading_axes(1) {
        *codec = longer;
    }
}

/// Where the chunks of a member are in the joined array.
pub(super) struct Move {
    /// Path of the joined array.
    pub(super) target: NodePath,
    /// Position of the first chunk.
    pub(super) start: u64,
    /// Number of new axes.
    pub(super) axes: usize,
}

/// Moves the tasks of members to the joined arrays. `moves` are by the paths of the members' arrays.
pub(super) fn move_tasks(tasks: &mut [InlineTask], moves: &BTreeMap<NodePath, Move>) {
    for task in tasks {
        let Some(Move { target, start, axes }) = moves.get(&task.array) else { continue };
        target.clone_into(&mut task.array);
        task.positions.iter_mut().for_each(|position| *position = position.saturating_add(*start));
        add_axes_to_content(&mut task.content, *axes);
    }
}

/// Adds axes of length 1 before those of a chunk.
pub(super) fn add_axes_to_content(content: &mut ChunkContent, axes: usize) {
    let ChunkContent::Assemble { shape, pieces, .. } = content else { return };
    for _ in 0..axes {
        shape.insert(0, 1);
        for piece in pieces.iter_mut() {
            piece.shape.insert(0, 1);
            piece.extent.insert(0, 1);
            piece.from.insert(0, 0);
            piece.to.insert(0, 0);
            piece.codecs.iter_mut().for_each(add_leading_axis);
        }
    }
}

/// Replaces the array of one of the members by the joined one.
pub(super) fn put(array: Array, target: &Ifd, mapped: &mut Mapped) {
    if let Some(group) = mapped.hierarchy.root.make_group(&group_path(target)) {
        group.children.insert(ARRAY.to_owned(), Node::Array(Box::new(array)));
    }
}

/// Removes the array and attributes of a page. The groups of its SubIFDs stay; groups that are empty then are removed.
pub(super) fn remove(page: &Ifd, mapped: &mut Mapped) {
    mapped.report.arrays.remove(&path(page));
    let name = group_path(page);
    let Some(group) = mapped.hierarchy.root.make_group(&name) else { return };
    group.children.retain(|_, node| matches!(node, Node::Group(_)));
    group.attributes.clear();
    let mut name = name.as_str();
    while !name.is_empty() && mapped.hierarchy.root.make_group(name).is_some_and(|group| is_bare(group)) {
        let (parent, own) = node::split(name);
        if let Some(parent) = mapped.hierarchy.root.make_group(parent) {
            parent.children.remove(own);
        }
        name = parent;
    }
}

fn is_bare(group: &Group) -> bool {
    group.children.is_empty() && group.attributes.is_empty()
}
