//! Selects a range of an array along one axis.

use std::collections::BTreeMap;

use bytes::Bytes;
use virtualize::zarr::{Array, ChunkGrid, ChunkManifest, ReferencesBuilder, chunk_indices, chunk_position};

use crate::{
    compat::is_plain,
    error::Problem,
    plan::Selection,
    values::variable::{self, Table, is_variable},
};

/// Reduces an array, and its values if they were read, to a selection along an axis.
///
/// # Errors
/// A selection that does not start at a chunk boundary, of an array whose values were not read.
pub(super) fn select(
    array: &mut Array,
    values: Option<&mut Bytes>,
    axis: usize,
    selection: Selection,
    name: &str,
) -> Result<(), Problem> {
    let n = array.shape.get(axis).copied().unwrap_or(0);
    let Selection { start, end, of } = selection;
    if n != of || end < start || end > of {
        return Err(Problem::SelectionLength { name: name.to_owned(), length: n, of });
    }
    let stored = chunks(array, axis, selection);
    if stored.is_none() && values.is_none() {
        let chunk = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.get(axis).copied().unwrap_or(0).to_string(),
            ChunkGrid::Rectilinear(_) => "several numbers of".to_owned(),
        };
        let (name, last) = (name.to_owned(), end.saturating_sub(1));
        return Err(Problem::SelectionStart { name, start, last, chunk });
    }
    if let Some(values) = values {
        *values = slice(array, values, axis, selection).ok_or(Problem::ValueShape)?;
    }
    // Without a chunk boundary at the start, the values are copied, and no chunk grid applies.
    let (grid, chunks) = stored.map_or_else(
        || (ChunkGrid::Rectilinear(Vec::new()), ChunkManifest::default()),
        |(chunk, chunks)| (ChunkGrid::Regular(chunk), chunks),
    );
    (array.chunk_grid, array.chunks) = (grid, chunks);
    if let Some(n) = array.shape.get_mut(axis) {
        *n = end - start;
    }
    Ok(())
}

/// Returns chunk shape and chunks of a selection; `None` if it does not start at a chunk boundary.
pub(super) fn chunks(array: &Array, axis: usize, selection: Selection) -> Option<(Vec<u64>, ChunkManifest)> {
    let ChunkGrid::Regular(chunk) = &array.chunk_grid else { return None };
    let counts = array.chunk_grid.counts(&array.shape);
    let size = chunk.get(axis).copied().filter(|size| *size > 0)?;
    let is_run = is_plain(array) && chunk.iter().take(axis).all(|n| *n == 1);
    if is_run && counts.get(axis) == Some(&1) {
        return shifted(array, chunk, axis, selection);
    }
    if !selection.start.is_multiple_of(size) {
        return None;
    }
    let (first, after) = (selection.start / size, selection.end.div_ceil(size));
    let mut left = counts.clone();
    *left.get_mut(axis)? = after.saturating_sub(first);
    let place = |position| {
        let mut index = chunk_indices(position, &counts)?;
        let at = index.get_mut(axis)?;
        *at = at.checked_sub(first)?;
        chunk_position(index, &left)
    };
    let mut whole = ChunkManifest::default();
    for column in &array.chunks.references {
        let mut found = ReferencesBuilder::default();
        for (position, reference) in column.iter() {
            if let Some(position) = place(position) {
                found.push(position, reference.offset, reference.length);
            }
        }
        whole.references.extend(found.finish(column.source));
    }
    let inline = array.chunks.inline.iter();
    whole.inline = inline.filter_map(|(at, bytes)| Some((place(*at)?, bytes.clone()))).collect();
    Some((chunk.clone(), whole))
}

/// Selects from uncompressed elements that are contiguous along an axis, within a single chunk.
fn shifted(
    array: &Array,
    chunk: &[u64],
    axis: usize,
    selection: Selection,
) -> Option<(Vec<u64>, ChunkManifest)> {
    let element = array.data_type.size()?;
    let mut inner = chunk.iter().skip(axis + 1);
    let row = inner.try_fold(element, |all, n| all.checked_mul(*n))?;
    let bytes = row.checked_mul(*chunk.get(axis)?)?;
    let (from, length) =
        (row.checked_mul(selection.start)?, row.checked_mul(selection.end - selection.start)?);
    let mut whole = ChunkManifest::default();
    for column in &array.chunks.references {
        let mut found = ReferencesBuilder::default();
        for (position, reference) in column.iter() {
            if reference.length != bytes {
                return None;
            }
            found.push(position, reference.offset.checked_add(from)?, length);
        }
        whole.references.extend(found.finish(column.source));
    }
    let (from, length) = (usize::try_from(from).ok()?, usize::try_from(length).ok()?);
    let inline: Option<BTreeMap<u64, Bytes>> = array
        .chunks
        .inline
        .iter()
        .map(|(at, chunk)| {
            let end = from.checked_add(length)?;
            (chunk.len() as u64 == bytes && end <= chunk.len()).then(|| (*at, chunk.slice(from..end)))
        })
        .collect();
    whole.inline = inline?;
    let mut chunk = chunk.to_vec();
    *chunk.get_mut(axis)? = selection.end - selection.start;
    Some((chunk, whole))
}

/// Returns the selected values, row-major.
fn slice(array: &Array, values: &Bytes, axis: usize, selection: Selection) -> Option<Bytes> {
    if !is_variable(&array.data_type) {
        return elements(array, values, axis, selection, array.data_type.size()?);
    }
    let mut table = Table::default();
    let numbers = table.numbers(values);
    let selected = elements(array, &numbers, axis, selection, 8)?;
    variable::join(table.elements(&selected)?).map(Bytes::from)
}

/// Selects from elements of a fixed size.
fn elements(array: &Array, values: &Bytes, axis: usize, selection: Selection, size: u64) -> Option<Bytes> {
    let product = |sizes: &[u64], first: u64| sizes.iter().try_fold(first, |all, n| all.checked_mul(*n));
    let row = product(array.shape.get(axis + 1..)?, size)?;
    let outer = product(array.shape.get(..axis)?, 1)?;
    let all = usize::try_from(row.checked_mul(selection.of)?).ok()?;
    let (from, to) = (row.checked_mul(selection.start)?, row.checked_mul(selection.end)?);
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    if u64::try_from(values.len()).ok()? != outer.checked_mul(all as u64)? {
        return None;
    }
    if outer == 1 {
        return Some(values.slice(from..to));
    }
    if all == 0 {
        return Some(Bytes::new());
    }
    let parts: Vec<&[u8]> = values.chunks_exact(all).map(|one| one.get(from..to)).collect::<Option<_>>()?;
    Some(parts.concat().into())
}

#[cfg(test)]
mod tests {
    use virtualize::zarr::{Codec, DataType, Endian, References, SourceId};

    use super::*;

    fn array(codecs: Vec<Codec>, shape: [u64; 2], chunk: [u64; 2], chunks: &[(u64, u64, u64)]) -> Array {
        let mut found = ReferencesBuilder::default();
        for (at, offset, length) in chunks {
            found.push(*at, *offset, *length);
        }
        let chunks = ChunkManifest { references: found.finish(SourceId(0)), ..ChunkManifest::default() };
        Array {
            shape: shape.to_vec(),
            data_type: DataType::Int16,
            chunk_grid: ChunkGrid::Regular(chunk.to_vec()),
            fill_value: None,
            codecs,
            dimension_names: vec![None, None],
            attributes: serde_json::Map::new(),
            chunks,
        }
    }

    fn places(array: &Array) -> Vec<(u64, u64, u64)> {
        let chunks = array.chunks.references.iter().flat_map(References::iter);
        chunks.map(|(at, one)| (at, one.offset, one.length)).collect()
    }

    #[test]
    fn whole_chunks_are_taken() {
        let stored = || array(Vec::new(), [6, 4], [2, 4], &[(0, 10, 5), (1, 20, 6), (2, 30, 7)]);
        let mut one = stored();
        select(&mut one, None, 0, Selection { start: 2, end: 6, of: 6 }, "time").unwrap();
        assert_eq!((one.shape.as_slice(), places(&one)), ([4, 4].as_slice(), vec![(0, 20, 6), (1, 30, 7)]));
        let mut other = stored();
        select(&mut other, None, 0, Selection { start: 0, end: 3, of: 6 }, "time").unwrap();
        assert_eq!(
            (other.shape.as_slice(), places(&other)),
            ([3, 4].as_slice(), vec![(0, 10, 5), (1, 20, 6)])
        );
        let error = select(&mut stored(), None, 0, Selection { start: 1, end: 6, of: 6 }, "time")
            .unwrap_err()
            .to_string();
        assert!(error.contains("elements 1 to 5 along time") && error.contains("no chunk of 2"), "{error}");
    }

    #[test]
    fn plain_elements_are_taken_anywhere() {
        let plain = vec![Codec::Bytes { endian: Some(Endian::Little) }];
        let mut one = array(plain, [6, 4], [6, 4], &[(0, 100, 48)]);
        select(&mut one, None, 0, Selection { start: 1, end: 3, of: 6 }, "time").unwrap();
        assert_eq!(places(&one), [(0, 108, 16)]);
        assert_eq!(one.chunk_grid, ChunkGrid::Regular(vec![2, 4]));
    }

    #[test]
    fn values_are_taken_along_any_axis() {
        let stored = array(Vec::new(), [2, 3], [2, 3], &[]);
        let values = Bytes::from((0..12).collect::<Vec<u8>>());
        let taken = slice(&stored, &values, 1, Selection { start: 1, end: 2, of: 3 }).unwrap();
        assert_eq!(taken.as_ref(), [2, 3, 8, 9]);
        let taken = slice(&stored, &values, 0, Selection { start: 1, end: 2, of: 2 }).unwrap();
        assert_eq!(taken.as_ref(), [6, 7, 8, 9, 10, 11]);
    }
}
