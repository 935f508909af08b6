//! The chunks of arrays in one source, according to references and to a direct read.

use std::collections::BTreeMap;

use virtualize_zarr::{Array, ChunkEntry, Codec, Hierarchy, Reference, References};

/// The chunks of an array in one source.
pub(super) struct Part<'a> {
    /// Index of the array.
    pub(super) at: usize,
    /// Path of the array, without a leading slash.
    pub(super) path: &'a str,
    pub(super) array: &'a Array,
    columns: Vec<&'a References>,
    /// Whether the hierarchy has no other source.
    is_only: bool,
}

/// Returns the parts of arrays in each source. All arrays have a part in the only source.
pub(super) fn parts<'a>(arrays: &'a [(String, &'a Array)], sources: usize) -> Vec<Vec<Part<'a>>> {
    let mut all: Vec<Vec<Part<'a>>> = (0..sources).map(|_| Vec::new()).collect();
    let is_only = sources == 1;
    for (at, (path, array)) in arrays.iter().enumerate() {
        let part = || Part { at, path, array, columns: Vec::new(), is_only };
        if let [here] = all.as_mut_slice() {
            here.push(part());
        }
        for column in &array.chunks.references {
            let Some(here) = all.get_mut(column.source.index()) else { continue };
            if here.last().is_none_or(|last| last.at != at) {
                here.push(part());
            }
            here.last_mut().into_iter().for_each(|last| last.columns.push(column));
        }
    }
    all
}

impl Part<'_> {
    /// Returns the same part of another form of the array, if the whole array is in the source.
    pub(super) fn of_whole<'a>(&'a self, array: &'a Array) -> Part<'a> {
        Part { array, columns: array.chunks.references.iter().collect(), ..*self }
    }

    /// Returns the references of the part, except for those hidden by an inline chunk.
    pub(super) fn references(&self) -> impl Iterator<Item = (u64, Reference)> {
        let inline = &self.array.chunks.inline;
        self.columns.iter().flat_map(|column| column.iter()).filter(|(at, _)| !inline.contains_key(at))
    }

    /// Returns the number of chunks of the part.
    pub(super) fn count(&self) -> u64 {
        self.references().count() as u64
    }

    /// Returns whether all references of the array are to this source.
    pub(super) fn is_whole(&self) -> bool {
        let all = self.array.chunks.references.len();
        self.columns.len() == all && (self.is_only || all > 0)
    }
}

/// A chunk of a direct read.
pub(super) struct Place<'a> {
    pub(super) length: u64,
    pub(super) array: &'a Array,
    /// Row-major position in the array's grid.
    pub(super) position: u64,
}

/// Chunks of a direct read by offset.
pub(super) type Places<'a> = BTreeMap<u64, Place<'a>>;

/// Returns all chunks of a hierarchy of one source.
pub(super) fn places(direct: &Hierarchy) -> Places<'_> {
    let mut known = Places::new();
    for (_, array) in direct.arrays() {
        for (position, entry) in array.chunks.iter() {
            if let ChunkEntry::Reference(part) = entry {
                known.entry(part.offset).or_insert(Place { length: part.length, array, position });
            }
        }
    }
    known
}

/// Returns whether chunks are stored without compression or filters.
pub(super) fn is_plain(array: &Array) -> bool {
    array.codecs.iter().all(|codec| matches!(codec, Codec::Bytes { .. }))
}
