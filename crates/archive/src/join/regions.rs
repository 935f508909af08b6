//! Reads the chunks of a combined array region by region, in order of position.

use std::{collections::BTreeMap, ops::Range, vec};

use bytes::Bytes;
use virtualize::{
    OptionName, Remedy,
    zarr::{
        Array, Chunk, ChunkGrid, ChunkManifest, ChunkReadError, ReferencesBuilder, chunk_indices,
        chunk_position,
    },
};

use super::{
    Result,
    chunks::{Part, Placed, Placing},
    metadata::Growing,
};
use crate::{
    compat::{
        is_plain,
        roles::{Axis, Geometry},
        signature::{ChunkLayout, Storage},
    },
    error::{CombineError, Problem, var},
    file::{FileChunks, Members, ParsedNode},
    plan::Selection,
    values::variable::{self, Table, is_variable},
};

/// Sizes of regions, in chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionSizes {
    /// Number of chunks after which a region ends between two files.
    pub(super) enough: usize,
    /// Number of chunks of a region of files that interleave. Twice as many are in memory, about 100 bytes each.
    pub(super) most: usize,
}

impl RegionSizes {
    pub(super) const DEFAULT: Self = Self { enough: 1 << 16, most: 1 << 20 };
}

/// The chunks of a combined array from a position on.
pub(super) struct Regions<'a> {
    members: &'a mut dyn Members,
    placing: &'a Placing<'a>,
    /// Number of parts that were reached.
    reached: usize,
    /// Those of them that may have chunks in the regions that follow.
    open: Vec<Part>,
    /// First position that was not read yet; `None` at the end.
    from: Option<u64>,
    ready: vec::IntoIter<(u64, Chunk<'static>)>,
    sizes: RegionSizes,
}

impl<'a> Regions<'a> {
    pub(super) fn new(
        members: &'a mut dyn Members,
        placing: &'a Placing<'a>,
        start: u64,
        sizes: RegionSizes,
    ) -> Self {
        // A reference takes about 50 bytes, and a source a few hundred.
        let average = usize::try_from(placing.average()).unwrap_or(sizes.most);
        let most = average.saturating_mul(sizes.most / 8).clamp(1, sizes.most.max(1));
        Self {
            members,
            placing,
            reached: 0,
            open: Vec::new(),
            from: Some(start),
            ready: Vec::new().into_iter(),
            sizes: RegionSizes { most, ..sizes },
        }
    }

    /// Reads the next region. Returns `None` if nothing is left.
    fn read(&mut self) -> Result<Option<Placed>, ChunkReadError> {
        let Some(from) = self.from else { return Ok(None) };
        let mut region = Region { range: from..u64::MAX, found: Vec::new(), most: self.sizes.most };
        let mut last_of_all = 0;
        for part in self.open.clone() {
            last_of_all = self.add(part, &mut region)?.max(last_of_all);
        }
        while let Some(part) = self.placing.part(self.reached) {
            let (first, last) = self.range(part)?;
            if first >= region.range.end {
                break;
            }
            if region.found.len() >= self.sizes.enough && first > last_of_all {
                region.range.end = first;
                break;
            }
            self.reached += 1;
            if last >= from {
                self.open.push(part);
                last_of_all = self.add(part, &mut region)?.max(last_of_all);
            }
        }
        let Region { range: Range { end, .. }, found, .. } = region;
        let placing = self.placing;
        self.open.retain(|part| placing.range(*part).is_some_and(|(_, last)| last >= end));
        self.from = (end < u64::MAX).then_some(end);
        sorted(found).map(Some)
    }

    fn range(&self, part: Part) -> Result<(u64, u64), ChunkReadError> {
        Ok(self.placing.range(part).ok_or(CombineError::Nothing)?)
    }

    /// Adds the chunks of a part to a region. Returns the part's last position.
    fn add(&mut self, part: Part, region: &mut Region) -> Result<u64, ChunkReadError> {
        let (first, last) = self.range(part)?;
        if first >= region.range.end || last < region.range.start {
            return Ok(last);
        }
        let FileChunks { chunks, sources } = read_part(self.members, self.placing, part)?;
        let placed = self.placing.place(part, (&chunks, &sources), &region.range, &mut region.found);
        if let Err(problem) = placed {
            let row = self.placing.block(part).map_or(0, |block| block.row);
            let url = self.members.head(row)?.item.url;
            return Err(wrong(&url, self.placing, problem));
        }
        region.shrink()?;
        Ok(last)
    }
}

impl<'a> Iterator for Regions<'a> {
    type Item = Result<(u64, Chunk<'a>), ChunkReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(chunk) = self.ready.next() {
                return Some(Ok(chunk));
            }
            match self.read() {
                Ok(region) => self.ready = region?.into_iter(),
                Err(error) => {
                    self.from = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Chunks in a range of positions.
struct Region {
    range: Range<u64>,
    found: Placed,
    /// Number of chunks to which it shrinks.
    most: usize,
}

impl Region {
    /// Ends the region earlier if it has too many chunks.
    fn shrink(&mut self) -> Result<(), ChunkReadError> {
        if self.found.len() / 2 <= self.most {
            return Ok(());
        }
        let (_, (end, _), _) = self.found.select_nth_unstable_by_key(self.most, |(position, _)| *position);
        let end = *end;
        if end == self.range.start {
            return Err(twice(end));
        }
        self.range.end = end;
        self.found.retain(|(position, _)| *position < end);
        Ok(())
    }
}

fn twice(position: u64) -> ChunkReadError {
    format!("the files have several chunks at position {position}").into()
}

/// Sorts chunks by position.
fn sorted(mut found: Placed) -> Result<Placed, ChunkReadError> {
    found.sort_unstable_by_key(|(position, _)| *position);
    let equal = found.windows(2).find_map(|pair| match pair {
        [(left, _), (right, _)] if left == right => Some(*left),
        _ => None,
    });
    equal.map_or(Ok(found), |position| Err(twice(position)))
}

/// Reads the chunks of a part from its file, reduced to the file's selection.
pub(super) fn read_part(
    members: &mut dyn Members,
    placing: &Placing<'_>,
    part: Part,
) -> Result<FileChunks, ChunkReadError> {
    let block = placing.block(part).ok_or(CombineError::Nothing)?;
    let mut read = members.chunks(block.row, &placing.path)?;
    let selected = |(dimension, selection): (usize, &Option<Selection>)| {
        Some((placing.axis_along(dimension)?, (*selection)?))
    };
    let selections = block.selection.as_deref().into_iter().flatten().enumerate();
    let selections: Vec<(usize, Selection)> = selections.filter_map(selected).collect();
    if !selections.is_empty() {
        let head = members.head(block.row)?;
        let node = head.nodes.iter().find(|node| *node.path == *placing.path);
        if let Some(ParsedNode::Array(array)) = node.map(|node| &*node.node) {
            let mut array = array.as_ref().clone();
            array.chunks = std::mem::take(&mut read.chunks);
            for (axis, selection) in selections {
                select(&mut array, None, axis, selection, &placing.path)
                    .map_err(|problem| wrong(&head.item.url, placing, problem))?;
            }
            read.chunks = array.chunks;
        }
    }
    Ok(read)
}

/// Returns the error of an array of a file.
fn wrong(url: &str, placing: &Placing<'_>, problem: Problem) -> ChunkReadError {
    CombineError::array(url, &placing.path, problem).into()
}

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
) -> Result<()> {
    let n = array.shape.get(axis).copied().unwrap_or(0);
    let Selection { start, end, of } = selection;
    if n != of || end < start || end > of {
        return Err(Problem::new(format!(
            "it has {n} elements along {name} where its file, of which a part is selected, has {of}"
        )));
    }
    let stored = chunks(array, axis, selection);
    if stored.is_none() && values.is_none() {
        let chunk = match &array.chunk_grid {
            ChunkGrid::Regular(chunk) => chunk.get(axis).copied().unwrap_or(0).to_string(),
            ChunkGrid::Rectilinear(_) => "several numbers of".to_owned(),
        };
        let last = end.saturating_sub(1);
        let text = format!(
            "elements {start} to {last} along {name} are selected, since other files have the others, but no chunk of \
             {chunk} elements begins there"
        );
        let remedy = Remedy::turn_on(OptionName::CopyLimit, "copy larger arrays");
        return Err(Problem::new(text).with(remedy.or(var("drop", "omit it"))));
    }
    if let Some(values) = values {
        *values = slice(array, values, axis, selection).ok_or(Problem::VALUE_SHAPE)?;
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
pub(super) fn slice(array: &Array, values: &Bytes, axis: usize, selection: Selection) -> Option<Bytes> {
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

/// Splits the chunks of a file into slices.
#[derive(Clone, Debug)]
pub(super) struct Slicing {
    axis: usize,
    /// Number of elements of a slice along the axis.
    step: u64,
    /// Number of elements of a stored chunk along the axis.
    chunk: u64,
    /// Number of elements of the array along the axis.
    extent: u64,
    /// Whether the last slice is shortened to the remaining elements; otherwise it is as long as the others.
    shortens: bool,
    /// Size in bytes of one element along the axis.
    row: u64,
    /// Size in bytes of a stored chunk.
    bytes: u64,
    /// Number of stored chunks along each axis.
    counts: Vec<u64>,
    /// Number of slices along each axis.
    sliced: Vec<u64>,
}

/// A slice of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    /// Position in the grid of slices.
    pub(super) position: u64,
    /// Offset in the chunk, in bytes.
    offset: u64,
    /// Length in bytes.
    length: u64,
}

impl Slicing {
    /// Returns how the chunks of files with a layout are sliced, if their storage requires it. `size` is that of an
    /// element, `counts` are the file's chunks along each axis.
    ///
    /// # Errors
    /// `Err(())` if a number overflows.
    pub(super) fn new(
        storage: &Storage,
        layout: &ChunkLayout,
        size: Option<u64>,
        counts: &[u64],
    ) -> Option<Option<Self>> {
        let (axis, step) = match storage {
            Storage::Sliced { axis, step } => (*axis, *step),
            Storage::Rectilinear => match ends_within(layout) {
                Some(cut) => cut,
                None => return Some(None),
            },
            Storage::Copied | Storage::Regular(_) => return Some(None),
        };
        let shape = layout.chunk.as_ref()?;
        let (chunk, extent) = (*shape.get(axis)?, *layout.shape.get(axis)?);
        let bytes = shape.iter().try_fold(size?, |product, n| product.checked_mul(*n))?;
        let (row, mut sliced) = (bytes.checked_div(chunk)?, counts.to_vec());
        *sliced.get_mut(axis)? = extent.div_ceil(step.max(1));
        let shortens = *storage == Storage::Rectilinear;
        let counts = counts.to_vec();
        Some(Some(Self { axis, step: step.max(1), chunk, extent, shortens, row, bytes, counts, sliced }))
    }

    /// Returns the number of slices along each axis.
    pub(super) fn sliced(&self) -> &[u64] {
        &self.sliced
    }

    /// Returns the slices of the chunk at a position; `None` if it is outside the grid.
    pub(super) fn of_chunk(&self, position: u64) -> Option<Vec<Slice>> {
        let index = chunk_indices(position, &self.counts)?;
        let first = index.get(self.axis)?.checked_mul(self.chunk)?;
        let rows = self.chunk.min(self.extent.checked_sub(first)?);
        let mut found = Vec::new();
        let mut row = 0;
        while row < rows {
            let mut at = index.clone();
            *at.get_mut(self.axis)? = (first + row) / self.step;
            let own = if self.shortens { self.step.min(rows - row) } else { self.step };
            found.push(Slice {
                position: chunk_position(at, &self.sliced)?,
                offset: row.checked_mul(self.row)?,
                length: own.checked_mul(self.row)?,
            });
            row += self.step;
        }
        Some(found)
    }

    /// Returns a slice of a chunk; `None` if the chunk has an unexpected length.
    pub(super) fn cut(&self, chunk: &Chunk<'static>, slice: Slice) -> Option<Chunk<'static>> {
        match chunk {
            Chunk::Inline(bytes) if bytes.len() as u64 == self.bytes => {
                let start = usize::try_from(slice.offset).ok()?;
                let end = start.checked_add(usize::try_from(slice.length).ok()?)?;
                (end <= bytes.len()).then(|| Chunk::Inline(bytes.slice(start..end)))
            }
            Chunk::Reference { source, offset, length } if *length == self.bytes => Some(Chunk::Reference {
                source: source.clone(),
                offset: offset.checked_add(slice.offset)?,
                length: slice.length,
            }),
            _ => None,
        }
    }
}

/// Returns the axis whose last chunk extends past the array, and the chunk's elements along it.
fn ends_within(layout: &ChunkLayout) -> Option<(usize, u64)> {
    let chunk = layout.chunk.as_ref()?;
    let axis = layout.shape.iter().zip(chunk).position(|(n, c)| *c > 0 && n % c != 0)?;
    Some((axis, *chunk.get(axis)?))
}

/// Returns the chunk grid of a combined array.
///
/// # Errors
/// [`Problem::GRID`] if files at the same place have chunks of different sizes, [`Problem::TOO_LARGE`] if a number overflows.
pub(super) fn grid(storage: &Storage, growing: &Growing<'_>, geometry: &Geometry) -> Result<ChunkGrid> {
    let chunk = match storage {
        Storage::Copied => None,
        Storage::Rectilinear => {
            let edges = geometry.axes.iter().map(|axis| edges(growing, axis));
            return edges.collect::<Result<_, _>>().map(ChunkGrid::Rectilinear);
        }
        Storage::Regular(chunk) => chunk_shape(geometry, chunk),
        Storage::Sliced { axis, step } => first_chunk(growing).and_then(|first| {
            let mut chunk = first.to_vec();
            *chunk.get_mut(*axis)? = *step;
            chunk_shape(geometry, &chunk)
        }),
    };
    chunk.map(ChunkGrid::Regular).ok_or(Problem::TOO_LARGE)
}

/// Returns the sizes of the chunks along an axis of a grid whose chunk sizes vary.
fn edges(growing: &Growing<'_>, axis: &Axis) -> Result<Vec<u64>> {
    let Some(own) = axis.own else {
        return Ok(vec![1; usize::try_from(axis.total).map_err(|_| Problem::TOO_LARGE)?]);
    };
    let Some(dimension) = axis.dimension else {
        let size = first_chunk(growing).and_then(|first| first.get(own)).ok_or(Problem::TOO_LARGE)?;
        return Ok(edges_of(axis.total, *size));
    };
    let chunks = chunk_sizes(growing, axis, own, dimension)?;
    Ok(axis.sizes.iter().zip(chunks).flat_map(|(size, chunk)| edges_of(*size, chunk)).collect())
}

/// Returns, for each place along an axis, the index of its first chunk in the combined grid.
pub(super) fn first_chunks(storage: &Storage, growing: &Growing<'_>, axis: &Axis) -> Option<Vec<u64>> {
    let Some(own) = axis.own else { return Some(axis.starts.clone()) };
    let Some(dimension) = axis.dimension else { return Some(vec![0]) };
    let size = match storage {
        Storage::Copied => return None,
        Storage::Regular(chunk) => *chunk.get(own)?,
        Storage::Sliced { axis, step } if *axis == own => *step,
        Storage::Sliced { .. } => *first_chunk(growing)?.get(own)?,
        Storage::Rectilinear => {
            let mut next = 0;
            let chunks = chunk_sizes(growing, axis, own, dimension).ok()?;
            let counts = axis.sizes.iter().zip(chunks).map(|(size, chunk)| size.div_ceil(chunk.max(1)));
            let starts = counts.map(|count| {
                next += count;
                next - count
            });
            return Some(starts.collect());
        }
    };
    Some(axis.starts.iter().map(|start| start / size.max(1)).collect())
}

/// Returns the chunk shape of the first part.
fn first_chunk<'a>(growing: &'a Growing<'_>) -> Option<&'a [u64]> {
    growing.pieces.form(growing.pieces.first()?)?.layout.chunk.as_deref()
}

/// Returns a chunk shape of the files with one element along each new axis.
fn chunk_shape(geometry: &Geometry, chunk: &[u64]) -> Option<Vec<u64>> {
    geometry.axes.iter().map(|axis| axis.own.map_or(Some(1), |own| chunk.get(own).copied())).collect()
}

/// Returns the sizes of chunks of `chunk` elements that cover `total` elements.
fn edges_of(total: u64, chunk: u64) -> Vec<u64> {
    let chunk = chunk.max(1);
    (0..total.div_ceil(chunk)).map(|n| chunk.min(total - n * chunk)).collect()
}

/// Returns the chunk size at each place along an axis; the whole place if no file is there.
fn chunk_sizes(growing: &Growing<'_>, axis: &Axis, own: usize, dimension: usize) -> Result<Vec<u64>> {
    let mut chunks = vec![None; axis.sizes.len()];
    for n in growing.pieces.iter() {
        let place = growing.place_of(n).get(dimension).and_then(|place| usize::try_from(*place).ok());
        let chunk = growing.pieces.form(n).and_then(|form| form.layout.chunk_along(own));
        if let (Some(slot), Some(chunk)) = (place.and_then(|place| chunks.get_mut(place)), chunk)
            && *slot.get_or_insert(chunk) != chunk
        {
            return Err(Problem::GRID);
        }
    }
    Ok(axis.sizes.iter().zip(chunks).map(|(size, chunk)| chunk.unwrap_or(*size)).collect())
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
