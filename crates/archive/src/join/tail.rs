//! Extends a combined dataset by further files without its earlier ones.
//!
//! A *tail* is the dataset without its chunks, except for the last chunk of each array whose values were copied. Joining the
//! first and the last file once alone and once with the new files shows what the new files add. The result is that of
//! joining all files, or `None` if it may differ.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use virtualize::zarr::{
    Array, Chunk, ChunkGrid, ChunkManifest, ChunkReadError, ChunkReader, Chunks, Hierarchy, NodePath,
    cf::attributes::decides_values,
};

use super::values::{padded_chunks, rows_per_chunk};
use crate::{compat::MAX_KEPT, file::groups};

/// Maximum number of chunks along the dimension; more may have to be stored in another way.
const MAX_ROWS: u64 = 20_000_000;

/// Removes all chunks from a dataset, except for the last of each array whose values were copied.
pub(crate) fn tail(hierarchy: &Hierarchy) -> Hierarchy {
    let mut tail = Hierarchy { sources: Vec::new(), ..hierarchy.clone() };
    for (path, array) in hierarchy.arrays() {
        let last = array.chunks.inline.last_key_value().map(|(position, chunk)| (*position, chunk.clone()));
        if let Some(own) = tail.array_mut(&path) {
            own.chunks = ChunkManifest { inline: last.into_iter().collect(), ..ChunkManifest::default() };
        }
    }
    tail
}

/// A dataset that was extended.
pub(crate) struct Extended {
    /// Its metadata.
    pub(crate) hierarchy: Hierarchy,
    /// Its arrays that grow.
    grown: BTreeMap<NodePath, Grown>,
}

/// Where the new chunks of an array are.
enum Grown {
    /// Inline, from the first chunk that changes.
    Copied(BTreeMap<u64, Bytes>),
    /// Those of the joined files, from the position `from` on, `shift` positions further than there.
    Placed { from: u64, shift: u64 },
}

/// Extends a dataset. `known` joins some of its files, `joined` the same files and all new ones.
pub(crate) fn extend(tail: &Hierarchy, known: &Hierarchy, joined: &Hierarchy) -> Option<Extended> {
    let paths = |hierarchy: &Hierarchy| -> BTreeSet<(NodePath, bool)> {
        let arrays = hierarchy.arrays().into_iter().map(|(path, _)| (path, true));
        arrays.chain(groups(hierarchy).into_iter().map(|(path, _)| (path, false))).collect()
    };
    if [known, joined].iter().any(|other| other.format != tail.format) || paths(tail) != paths(joined) {
        return None;
    }
    let mut extended = Extended { hierarchy: tail.clone(), grown: BTreeMap::new() };
    for (path, other) in groups(joined) {
        let own = extended.hierarchy.root.group_mut(&path)?;
        own.attributes = merge_attributes(&own.attributes, &other.attributes)?;
    }
    for (path, array) in tail.arrays() {
        let [known, joined] = [known.array(&path)?, joined.array(&path)?];
        let is_meaning = |(name, _): &(&String, &Value)| decides_values(name);
        if !array.attributes.iter().filter(is_meaning).eq(joined.attributes.iter().filter(is_meaning)) {
            return None;
        }
        let into = extended.hierarchy.array_mut(&path)?;
        into.attributes = merge_attributes(&array.attributes, &joined.attributes)?;
        into.chunks = ChunkManifest::default();
        let grown = extend_array([array, known, joined], into)?;
        extended.grown.extend(grown.map(|grown| (path, grown)));
    }
    Some(extended)
}

/// Keeps the attributes of which no file has another value. Both sides keep only values of the first file.
fn merge_attributes(tail: &Map<String, Value>, joined: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut kept = Map::new();
    for (name, value) in tail {
        match joined.get(name) {
            Some(other) if other != value => return None,
            Some(_) => drop(kept.insert(name.clone(), value.clone())),
            None => {}
        }
    }
    Some(kept)
}

/// Extends `into`, a copy of an array of the dataset, by what `joined` has more than `known`. Returns `Some(None)` for an array that
/// does not grow.
fn extend_array([tail, known, joined]: [&Array; 3], into: &mut Array) -> Option<Option<Grown>> {
    let is_same = [known, joined].iter().all(|other| {
        other.data_type == tail.data_type
            && other.codecs == tail.codecs
            && other.fill_value == tail.fill_value
            && other.dimension_names == tail.dimension_names
    });
    if !is_same {
        return None;
    }
    if known.shape == joined.shape {
        let is_fixed = tail.shape == joined.shape && tail.chunk_grid == joined.chunk_grid;
        return is_fixed.then_some(None);
    }
    let (before, rest) = tail.shape.split_first()?;
    let (known_rows, known_rest) = known.shape.split_first()?;
    let (joined_rows, joined_rest) = joined.shape.split_first()?;
    if rest != known_rest || rest != joined_rest || before < known_rows {
        return None;
    }
    let rows = before.checked_add(joined_rows.checked_sub(*known_rows)?)?;
    *into.shape.first_mut()? = rows;
    match (tail.chunks.inline.is_empty(), joined.chunks.inline.is_empty()) {
        (true, true) => place([tail, joined], *before, *known_rows, rows).map(Some),
        (false, false) => copy([tail, joined], into, *known_rows).map(Some),
        _ => None,
    }
}

/// Returns the place of the new chunks of an array whose chunks are those of the files.
fn place([tail, joined]: [&Array; 2], before: u64, known: u64, rows: u64) -> Option<Grown> {
    let ChunkGrid::Regular(chunk) = &tail.chunk_grid else { return None };
    if joined.chunk_grid != tail.chunk_grid {
        return None;
    }
    let length = *chunk.first().filter(|length| **length > 0)?;
    let is_whole = before.is_multiple_of(length) && known.is_multiple_of(length);
    if !is_whole || rows / length > MAX_ROWS {
        return None;
    }
    let others = tail.chunk_grid.counts(&tail.shape);
    let others = others.iter().skip(1).try_fold(1_u64, |product, n| product.checked_mul(*n))?;
    let from = (before / length).checked_mul(others)?;
    Some(Grown::Placed { from, shift: from.checked_sub((known / length).checked_mul(others)?)? })
}

/// Copies new values to the end of an array whose values are copied.
fn copy([tail, joined]: [&Array; 2], into: &mut Array, known: u64) -> Option<Grown> {
    let row = into.shape.iter().skip(1).try_fold(into.data_type.size()?, |size, n| size.checked_mul(*n))?;
    let rows = *into.shape.first()?;
    // Arrays of more values may have to be stored in another way.
    if row == 0 || rows.checked_mul(row)? > MAX_KEPT {
        return None;
    }
    let (position, last) = tail.chunks.inline.last_key_value()?;
    let (ChunkGrid::Regular(old), ChunkGrid::Regular(new)) = (&tail.chunk_grid, &mut into.chunk_grid) else {
        return None;
    };
    let length = rows_per_chunk(row, rows);
    let old = *old.first()?;
    // Chunks become longer only while there is one.
    if old != length && *position != 0 {
        return None;
    }
    *new.first_mut()? = length;
    let kept = tail.shape.first()?.checked_sub(position.checked_mul(old)?)?.checked_mul(row)?;
    let mut values = BytesMut::from(last.get(..usize::try_from(kept).ok()?)?);
    let all: BytesMut = joined.chunks.inline.values().flat_map(|chunk| chunk.iter()).collect();
    let [start, end] = [known, *joined.shape.first()?].map(|rows| rows.checked_mul(row));
    values.extend_from_slice(all.get(usize::try_from(start?).ok()?..usize::try_from(end?).ok()?)?);
    Some(Grown::Copied(padded_chunks(
        values.freeze(),
        usize::try_from(length.checked_mul(row)?).ok()?,
        *position,
    )))
}

impl Extended {
    /// Returns the tail of the extended dataset, from which it can be extended again.
    pub(crate) fn tail(&self) -> Hierarchy {
        let mut tail = tail(&self.hierarchy);
        for (path, grown) in &self.grown {
            if let (Grown::Copied(chunks), Some(array)) = (grown, tail.array_mut(path)) {
                array.chunks.inline.extend(chunks.last_key_value().map(|(n, chunk)| (*n, chunk.clone())));
            }
        }
        tail
    }

    /// Returns the position of the first chunk that is new or has changed, by array. Other arrays have no such chunk.
    #[cfg(test)]
    pub(crate) fn changed(&self) -> BTreeMap<NodePath, u64> {
        let first = |grown: &Grown| match grown {
            Grown::Copied(chunks) => chunks.keys().next().copied().unwrap_or(0),
            Grown::Placed { from, .. } => *from,
        };
        self.grown.iter().map(|(path, grown)| (path.clone(), first(grown))).collect()
    }

    /// Returns a reader of the new and changed chunks; `joined` reads those of the joined files.
    pub(crate) fn chunks<R: ChunkReader>(&self, joined: R) -> ExtendedChunks<'_, R> {
        ExtendedChunks { grown: &self.grown, joined }
    }
}

/// Reads the new and changed chunks of a dataset that was extended.
pub(crate) struct ExtendedChunks<'a, R> {
    grown: &'a BTreeMap<NodePath, Grown>,
    joined: R,
}

impl<R: ChunkReader> ChunkReader for ExtendedChunks<'_, R> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        match self.grown.get(path) {
            None => Ok(Box::new(std::iter::empty())),
            Some(Grown::Copied(chunks)) => {
                let chunks = chunks.range(start..);
                Ok(Box::new(chunks.map(|(position, bytes)| Ok((*position, Chunk::Inline(bytes.clone()))))))
            }
            Some(Grown::Placed { from, shift }) => {
                let chunks = self.joined.chunks(path, start.max(*from) - shift)?;
                Ok(Box::new(chunks.map(move |item| item.map(|(position, chunk)| (position + *shift, chunk)))))
            }
        }
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        self.chunks(path, 0)?.try_fold(0, |count, item| item.map(|_| count + 1))
    }
}
