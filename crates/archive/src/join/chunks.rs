//! The chunks of a combined dataset.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use virtualize::zarr::{
    Chunk, ChunkEntry, ChunkManifest, ChunkReadError, ChunkReader, Chunks, NodePath, Source, SourceRef,
    chunk_indices, chunk_position,
};

use super::{
    Result,
    metadata::Growing,
    regions::{RegionSizes, Regions, Slicing, first_chunks, read_part},
    values::{Form, Place},
};
use crate::{
    compat::{
        DimRole,
        roles::{Axis, Geometry},
        signature::Storage,
    },
    error::{CombineError, Problem},
    file::{FileChunks, Members},
    plan::Block,
};

/// Where the chunks of a combined array are.
#[derive(Debug)]
pub(crate) enum ArrayChunks<'a> {
    /// Inline.
    Inline(BTreeMap<u64, Bytes>),
    /// Those of one file.
    OfFile {
        /// The file's row.
        row: u64,
        /// Path of the array in the file.
        path: NodePath,
        /// Their number.
        count: u64,
    },
    /// Those of all files.
    Placed(Box<Placing<'a>>),
}

/// Where the chunks of a combined hierarchy are, by array.
pub(crate) type ChunkPlaces<'a> = BTreeMap<NodePath, ArrayChunks<'a>>;

/// Reads the chunks of a combined hierarchy from its files.
pub(crate) struct JoinedChunks<'a, M> {
    members: M,
    places: ChunkPlaces<'a>,
    sizes: RegionSizes,
}

impl<'a, M> JoinedChunks<'a, M> {
    /// Creates a reader of chunks at the places that [`super::combine`] returned for the same files.
    pub(crate) fn new(members: M, places: ChunkPlaces<'a>) -> Self {
        Self { members, places, sizes: RegionSizes::DEFAULT }
    }

    /// Sets the sizes of regions.
    #[cfg(test)]
    pub(super) fn with_sizes(self, sizes: RegionSizes) -> Self {
        Self { sizes, ..self }
    }
}

impl<M: Members> ChunkReader for JoinedChunks<'_, M> {
    fn chunks<'a>(&'a mut self, path: &str, start: u64) -> Result<Chunks<'a>, ChunkReadError> {
        let Self { members, places, sizes } = self;
        match places.get(path).ok_or_else(|| absent(path))? {
            ArrayChunks::Inline(chunks) => {
                let chunks = chunks.range(start..);
                Ok(Box::new(chunks.map(|(position, bytes)| Ok((*position, Chunk::Inline(bytes.clone()))))))
            }
            ArrayChunks::OfFile { row, path, .. } => {
                let FileChunks { chunks, sources } = members.chunks(*row, path)?;
                let chunks = chunks.iter_from(start);
                let all = chunks.map(|(position, entry)| Ok((position, chunk_of(&entry, &sources)?)));
                match all.collect::<Result<Vec<_>>>() {
                    Ok(all) => Ok(Box::new(all.into_iter().map(Ok))),
                    Err(problem) => {
                        let url = members.head(*row)?.item.url;
                        Err(CombineError::array(url, path, problem).into())
                    }
                }
            }
            ArrayChunks::Placed(placing) => Ok(Box::new(Regions::new(members, placing, start, *sizes))),
        }
    }

    fn count(&mut self, path: &str) -> Result<u64, ChunkReadError> {
        match self.places.get(path).ok_or_else(|| absent(path))? {
            ArrayChunks::Inline(chunks) => Ok(chunks.len() as u64),
            ArrayChunks::OfFile { count, .. } => Ok(*count),
            ArrayChunks::Placed(placing) => match placing.count() {
                Some(count) => Ok(count),
                // Some chunks are missing.
                None => {
                    let mut all = 0_u64;
                    for part in (0..).map_while(|n| placing.part(n)) {
                        let count = match placing.count_of(part) {
                            Some(count) => count,
                            None => {
                                let read = read_part(&mut self.members, placing, part)?;
                                placing.count_slices(part, &read.chunks)
                            }
                        };
                        all = all.saturating_add(count);
                    }
                    Ok(all)
                }
            },
        }
    }
}

fn absent(path: &str) -> ChunkReadError {
    format!("there is no array {path:?}").into()
}

/// Where the chunks of the files are in a combined array.
#[derive(Debug)]
pub(crate) struct Placing<'a> {
    /// Path of the array in the files.
    pub(super) path: NodePath,
    blocks: &'a [Block],
    /// The parts of the array that have chunks, in order of their first position.
    parts: Vec<Part>,
    forms: Vec<PlacedForm>,
    axes: Vec<PlacedAxis>,
    /// Number of chunks along each axis of the combined grid.
    counts: Vec<u64>,
    /// Number of chunks in the files, before slicing.
    stored: u64,
}

/// The part of an array in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    block: u32,
    form: u32,
}

/// An axis of a combined array.
#[derive(Debug)]
struct PlacedAxis {
    /// Axis of the array in the files; `None` for a new one.
    own: Option<usize>,
    /// The dimension of the layout along which it grows.
    dimension: Option<usize>,
    firsts: Firsts,
}

/// Index of the first chunk of each place along an axis.
#[derive(Debug)]
enum Firsts {
    /// All places have this number of chunks.
    Even(u64),
    Each(Vec<u64>),
}

/// Where the chunks of files of one form are, relative to the first.
#[derive(Debug)]
struct PlacedForm {
    is_complete: bool,
    /// Number of chunks along each axis, in slices if they are sliced.
    counts: Vec<u64>,
    /// Number of all chunks, in slices if they are sliced.
    total: u64,
    /// How chunks are sliced, if they are.
    slicing: Option<Slicing>,
    /// Number of chunks along each axis of the combined array.
    extent: Vec<u64>,
    /// Whether the positions of the chunks follow each other in the combined grid without gaps.
    is_run: bool,
}

/// Chunks of a file, with their positions in the combined grid.
pub(super) type Placed = Vec<(u64, Chunk<'static>)>;

impl<'a> Placing<'a> {
    /// Returns where the chunks of an array are in a grid of `counts` chunks along each axis.
    ///
    /// # Errors
    /// [`Problem::CHUNK_LENGTH`] if a number overflows, or a part exceeds the grid.
    pub(super) fn new(
        path: &str,
        (growing, blocks): (&Growing<'_>, &'a [Block]),
        geometry: &Geometry,
        storage: &Storage,
        counts: Vec<u64>,
    ) -> Result<Self> {
        let axis = |axis: &Axis| {
            let (own, dimension) = (axis.own, axis.dimension);
            Some(PlacedAxis { own, dimension, firsts: Firsts::of(first_chunks(storage, growing, axis)?) })
        };
        let axes = geometry.axes.iter().map(axis).collect::<Option<Vec<_>>>().ok_or(Problem::CHUNK_LENGTH)?;
        let size = growing.first.data_type.size();
        let forms = growing.pieces.all_forms();
        let forms = forms.map(|form| PlacedForm::of(form, storage, size, &axes, &counts));
        let forms = forms.collect::<Option<_>>().ok_or(Problem::CHUNK_LENGTH)?;
        let stored = growing.pieces.chunks();
        let mut placing =
            Self { path: path.to_owned(), blocks, parts: Vec::new(), forms, axes, counts, stored };
        placing.add_parts(growing)?;
        Ok(placing)
    }

    /// Lists the parts in order of their first position.
    fn add_parts(&mut self, growing: &Growing<'_>) -> Result<()> {
        let (mut last, mut is_sorted) = (0, true);
        self.parts.reserve_exact(growing.pieces.len());
        for piece in growing.pieces.iter().filter_map(|n| growing.pieces.get(n)) {
            let part = Part { block: piece.block, form: piece.form };
            if self.form(part).is_some_and(|form| form.extent.contains(&0)) {
                continue;
            }
            let (first, _) = self.range(part).ok_or(Problem::CHUNK_LENGTH)?;
            is_sorted &= last <= first;
            last = first;
            self.parts.push(part);
        }
        if !is_sorted {
            let mut parts = std::mem::take(&mut self.parts);
            parts.sort_by_cached_key(|part| self.range(*part));
            self.parts = parts;
        }
        Ok(())
    }

    /// Returns a part, in order of their first position.
    pub(super) fn part(&self, n: usize) -> Option<Part> {
        self.parts.get(n).copied()
    }

    /// Returns the average number of chunks in a file, at least 1.
    pub(super) fn average(&self) -> u64 {
        self.stored.checked_div(self.parts.len() as u64).unwrap_or(1).max(1)
    }

    /// Returns the file of a part.
    pub(super) fn block(&self, part: Part) -> Option<&'a Block> {
        self.blocks.get(usize::try_from(part.block).ok()?)
    }

    /// Returns the number of chunks, if no chunk table has to be read for it.
    pub(super) fn count(&self) -> Option<u64> {
        if self.forms.iter().all(|form| form.slicing.is_none()) {
            return Some(self.stored);
        }
        let counts = self.parts.iter().map(|part| self.count_of(*part));
        counts.sum()
    }

    /// Returns the number of chunks of a part, if it lacks none.
    pub(super) fn count_of(&self, part: Part) -> Option<u64> {
        self.form(part).filter(|form| form.is_complete).map(|form| form.total)
    }

    /// Returns the number of slices of a part's chunks.
    pub(super) fn count_slices(&self, part: Part, chunks: &ChunkManifest) -> u64 {
        let slicing = self.form(part).and_then(|form| form.slicing.as_ref());
        let slices =
            |position| slicing.and_then(|slicing| slicing.of_chunk(position)).map_or(0, |all| all.len());
        chunks.iter().map(|(position, _)| slices(position) as u64).sum()
    }

    /// Returns the axis of the files' array that grows along a dimension of the layout.
    pub(super) fn axis_along(&self, dimension: usize) -> Option<usize> {
        self.axes.iter().find(|axis| axis.dimension == Some(dimension))?.own
    }

    fn form(&self, part: Part) -> Option<&PlacedForm> {
        self.forms.get(usize::try_from(part.form).ok()?)
    }

    /// Returns the index of the first chunk of a part along each axis.
    fn start(&self, part: Part) -> Option<impl Iterator<Item = Option<u64>>> {
        let at = &self.block(part)?.at;
        Some(self.axes.iter().map(move |axis| {
            axis.firsts.get(axis.dimension.map_or(Some(0), |dimension| at.get(dimension).copied())?)
        }))
    }

    /// Returns the first and the last position of a part in the combined grid; `None` if it exceeds the grid.
    pub(super) fn range(&self, part: Part) -> Option<(u64, u64)> {
        let form = self.form(part)?;
        let (mut first, mut last) = (0_u64, 0_u64);
        for ((at, extent), count) in self.start(part)?.zip(&form.extent).zip(&self.counts) {
            let at = at?;
            let end = at.checked_add(*extent)?.checked_sub(1).filter(|end| end < count)?;
            first = first.checked_mul(*count)?.checked_add(at)?;
            last = last.checked_mul(*count)?.checked_add(end)?;
        }
        Some((first, last))
    }

    /// Places the chunks of a part, and adds those whose positions are in a range.
    ///
    /// # Errors
    /// Chunks outside the file's grid, of an unexpected length, or in a file that is not listed.
    pub(super) fn place(
        &self,
        part: Part,
        (chunks, sources): (&ChunkManifest, &[Arc<Source>]),
        range: &std::ops::Range<u64>,
        found: &mut Placed,
    ) -> Result<()> {
        let wrong = || Problem::CHUNK_LENGTH;
        let form = self.form(part).ok_or_else(wrong)?;
        let start: Vec<u64> = self.start(part).and_then(Iterator::collect).ok_or_else(wrong)?;
        let (first, _) = self.range(part).ok_or_else(wrong)?;
        let mut add = |local: u64, chunk: Chunk<'static>| {
            let position = if form.is_run {
                first.checked_add(local).filter(|_| local < form.total)
            } else {
                self.position(&start, local, &form.counts)
            };
            if range.contains(&position?) {
                found.push((position?, chunk));
            }
            Some(())
        };
        for (local, entry) in chunks.iter() {
            let chunk = chunk_of(&entry, sources)?;
            let added = match &form.slicing {
                None => add(local, chunk),
                Some(slicing) => slicing.of_chunk(local).and_then(|slices| {
                    slices.into_iter().try_for_each(|slice| add(slice.position, slicing.cut(&chunk, slice)?))
                }),
            };
            added.ok_or_else(wrong)?;
        }
        Ok(())
    }

    /// Returns the position in the combined grid of a chunk of a part.
    fn position(&self, start: &[u64], local: u64, counts: &[u64]) -> Option<u64> {
        let local = chunk_indices(local, counts)?;
        let index = self.axes.iter().zip(start).map(|(axis, start)| match axis.own {
            Some(own) => local.get(own)?.checked_add(*start),
            None => Some(*start),
        });
        chunk_position(index.collect::<Option<Vec<_>>>()?, &self.counts)
    }
}

/// Returns an entry of a manifest with its source.
pub(super) fn chunk_of(entry: &ChunkEntry<'_>, sources: &[Arc<Source>]) -> Result<Chunk<'static>> {
    Ok(match entry {
        ChunkEntry::Inline(bytes) => Chunk::Inline((*bytes).clone()),
        ChunkEntry::Reference(reference) => Chunk::Reference {
            source: sources
                .get(reference.source.index())
                .map(|source| SourceRef::Shared(Arc::clone(source)))
                .ok_or(Problem::of("the chunks are in a file that is not listed"))?,
            offset: reference.offset,
            length: reference.length,
        },
    })
}

impl Firsts {
    fn of(firsts: Vec<u64>) -> Self {
        let step = firsts.get(1).copied().unwrap_or(0);
        let is_even = (0_u64..).zip(&firsts).all(|(n, first)| n.checked_mul(step) == Some(*first));
        if is_even { Self::Even(step) } else { Self::Each(firsts) }
    }

    fn get(&self, place: u32) -> Option<u64> {
        match self {
            Self::Even(step) => step.checked_mul(place.into()),
            Self::Each(firsts) => firsts.get(usize::try_from(place).ok()?).copied(),
        }
    }
}

impl PlacedForm {
    fn of(
        form: &Form,
        storage: &Storage,
        size: Option<u64>,
        axes: &[PlacedAxis],
        combined: &[u64],
    ) -> Option<Self> {
        let stored = form.counts();
        let slicing = Slicing::new(storage, &form.layout, size, &stored)?;
        let counts = slicing.as_ref().map_or(stored, |slicing| slicing.sliced().to_vec());
        let extent = axes.iter().map(|axis| axis.own.map_or(Some(1), |own| counts.get(own).copied()));
        let extent: Vec<u64> = extent.collect::<Option<_>>()?;
        // All axes but the slowest of several chunks are whole.
        let several = extent.iter().position(|n| *n != 1).unwrap_or(extent.len());
        let is_run = extent.iter().zip(combined).skip(several + 1).all(|(own, all)| own == all);
        let total = counts.iter().try_fold(1_u64, |all, n| all.checked_mul(*n))?;
        Some(Self { is_complete: form.is_complete, counts, total, slicing, extent, is_run })
    }
}

/// The files of a set, by their index among its blocks.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) blocks: &'a [Block],
    /// Returns the url of a file by its row, for messages.
    pub(super) url_of: &'a dyn Fn(u64) -> String,
}

impl<'a> Files<'a> {
    /// Returns a block.
    pub(super) fn block(&self, n: u32) -> Option<&'a Block> {
        self.blocks.get(usize::try_from(n).ok()?)
    }

    /// Returns the url of a file.
    pub(super) fn url(&self, n: u32) -> String {
        self.block(n).map(|block| (self.url_of)(block.row)).unwrap_or_default()
    }

    /// Returns the place that the part of an array in a file has among the array's parts.
    pub(super) fn place(&self, n: u32, roles: &[DimRole]) -> Place {
        let at = self.block(n).map(|block| block.at.as_slice()).unwrap_or_default();
        let place = |(role, n): (&DimRole, &u32)| if *role == DimRole::Invariant { 0 } else { *n };
        roles.iter().zip(at).map(place).collect()
    }
}
