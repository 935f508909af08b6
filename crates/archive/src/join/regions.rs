//! Reads the chunks of a combined array region by region, in order of position.

use std::{ops::Range, vec};

use virtualize::zarr::{Chunk, ChunkReadError};

use super::{
    placing::{Part, Placed, Placing},
    selection,
};
use crate::{
    error::{CombineError, Problem},
    file::{FileChunks, Members, ParsedNode},
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
pub(super) struct Regions<'a, M> {
    members: &'a mut M,
    placing: &'a Placing<'a>,
    /// Number of parts that were reached.
    reached: usize,
    /// Those of them that may have chunks in the regions that follow.
    open: Vec<Part>,
    /// First position that was not read yet; `None` at the end.
    from: Option<u64>,
    ready: vec::IntoIter<(u64, Chunk)>,
    sizes: RegionSizes,
}

impl<'a, M: Members> Regions<'a, M>
where
    M::Error: Into<ChunkReadError>,
{
    pub(super) fn new(members: &'a mut M, placing: &'a Placing<'a>, start: u64, sizes: RegionSizes) -> Self {
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
            let url = self.members.head(row).map_err(Into::into)?.item.url;
            return Err(wrong(&url, self.placing, problem));
        }
        region.shrink()?;
        Ok(last)
    }
}

impl<M: Members> Iterator for Regions<'_, M>
where
    M::Error: Into<ChunkReadError>,
{
    type Item = Result<(u64, Chunk), ChunkReadError>;

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
pub(super) fn read_part<M: Members>(
    members: &mut M,
    placing: &Placing<'_>,
    part: Part,
) -> Result<FileChunks, ChunkReadError>
where
    M::Error: Into<ChunkReadError>,
{
    let block = placing.block(part).ok_or(CombineError::Nothing)?;
    let mut read = members.chunks(block.row, &placing.path).map_err(Into::into)?;
    if let Some((axis, selection)) = placing.selected_axis().zip(block.selection.as_deref()) {
        let head = members.head(block.row).map_err(Into::into)?;
        let node = head.nodes.iter().find(|node| *node.path == *placing.path);
        if let Some(ParsedNode::Array(array)) = node.map(|node| &*node.node) {
            let mut array = array.as_ref().clone();
            array.chunks = std::mem::take(&mut read.chunks);
            let selected = selection::chunks(&array, axis, *selection);
            let (_, chunks) = selected.ok_or_else(|| wrong(&head.item.url, placing, Problem::ChunkLength))?;
            read.chunks = chunks;
        }
    }
    Ok(read)
}

/// Returns the error of an array of a file.
fn wrong(url: &str, placing: &Placing<'_>, problem: Problem) -> ChunkReadError {
    CombineError::array(url, &placing.path, problem).into()
}
