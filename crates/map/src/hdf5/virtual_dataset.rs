//! Virtual datasets: the chunks of their sources become chunks of the array, or pieces of inlined chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Dataset, Layout, Object, VirtualMapping};
use virtualize_zarr::{
    ChunkGrid, Codec, DataType, FillValue, Reference, ReferencesBuilder, SourceId, chunk_indices,
    chunk_position, greatest_common_divisor,
};

use super::SourceTable;
use super::chunks::{ChunkPlan, ChunkPlanner, can_encode, is_reference};
use super::fill::DatasetFill;
use super::links::{FileContext, no_dataset};
use super::selection::{Axis, Span, axes, is_unlimited};
use crate::{ChunkContent, ElementTransform, Error, MapOptions, Piece, PieceBytes, Result};

/// Most chunks of a virtual dataset.
pub(super) const CHUNKS: u64 = 10_000_000;

pub(super) fn too_many() -> Error {
    Error::limit("chunks in a virtual dataset", CHUNKS)
}

/// Bytes of memory for a chunk of a source.
const SOURCE_CHUNK: u64 = 64;

/// A source dataset. Its missing chunks read as its fill value.
pub(super) struct Part {
    pub(super) shape: Vec<u64>,
    pub(super) chunk_shape: Vec<u64>,
    pub(super) codecs: Vec<Codec>,
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// What missing chunks read as; `None` if no scalar equals it.
    pub(super) missing: Option<FillValue>,
    /// For contiguous data: the axis along which it can be cut, and the bytes of a slice.
    pub(super) cut: Option<(usize, u64)>,
}

/// A chunk of a source. Sources are numbered by the [`SourceTable`] of the virtual dataset.
#[derive(Clone)]
pub(super) enum Chunk {
    /// Stored in a file, in the codecs of its part.
    There(Reference),
    /// Carried by the plan, in the codecs of its part.
    Here(Bytes),
    /// To be made.
    Made(Rc<ChunkContent>),
}

/// A part, and its axes in the virtual dataset.
pub(super) struct Block {
    pub(super) part: Rc<Part>,
    pub(super) axes: Vec<Axis>,
}

impl ChunkPlanner<'_> {
    /// Returns the blocks in the order of their mappings, and the names of source files that do not exist.
    pub(super) fn blocks(
        &self,
        mappings: &[VirtualMapping],
        sources: &mut SourceTable,
    ) -> Result<(Vec<Block>, Vec<String>)> {
        let mut known: BTreeMap<(&str, &str), Option<Rc<Part>>> = BTreeMap::new();
        let (mut blocks, mut missing) = (Vec::new(), BTreeSet::new());
        for mapping in mappings {
            let key = (mapping.file.as_str(), mapping.dataset.as_str());
            let part = match known.get(&key) {
                Some(part) => part.clone(),
                None => {
                    let part = self.part(mapping, sources)?.map(Rc::new);
                    known.insert(key, part.clone());
                    part
                }
            };
            match part {
                // As in libhdf5, a missing source covers nothing: other mappings and the fill value show through.
                None => drop(missing.insert(mapping.file.clone())),
                Some(part) => {
                    let axes = axes(&mapping.destination, self.shape, &mapping.source, &part.shape)?;
                    let spans = axes.iter().map(|axis| axis.spans.len()).sum::<usize>();
                    let bytes = size_of::<Block>().saturating_add(spans.saturating_mul(size_of::<Span>()));
                    self.context.lookup.take("virtual mappings", bytes as u64)?;
                    blocks.push(Block { part, axes });
                }
            }
        }
        Ok((blocks, missing.into_iter().collect()))
    }

    /// Returns the source of a mapping; `None` if it does not exist.
    fn part(&self, mapping: &VirtualMapping, sources: &mut SourceTable) -> Result<Option<Part>> {
        let Some(context) = self.context.of_source(&mapping.file)? else { return Ok(None) };
        let name = |error: Error| error.of_source(&mapping.dataset, &mapping.file);
        let file = context.here.file;
        let Some(address) = context.lookup.find(file, file.root, &mapping.dataset).map_err(name)? else {
            return Ok(None);
        };
        let Some(Object::Dataset(dataset)) = file.objects.get(&address) else {
            return Err(name(no_dataset()));
        };
        context.check_extent(address).map_err(name)?;
        if dataset.datatype != self.dataset.datatype {
            return Err(name(unsupported("its datatype differs from that of the virtual dataset")));
        }
        self.part_of(dataset, context, sources).map(Some).map_err(name)
    }

    fn part_of(
        &self,
        dataset: &Dataset,
        context: FileContext<'_>,
        sources: &mut SourceTable,
    ) -> Result<Part> {
        let extent = dataset.dataspace.shape().ok_or_else(|| unsupported("it has no extent"))?;
        let shape: Vec<u64> = extent.iter().chain(&self.element.axes).copied().collect();
        let missing = DatasetFill::of(dataset, self.element)?.background().cloned();
        let options = MapOptions { split_contiguous: None, ..self.options.clone() };
        let planner = ChunkPlanner {
            dataset,
            element: self.element,
            shape: &shape,
            background: missing.as_ref(),
            objects: self.objects,
            options: &options,
            file_size: context.here.source.size,
            small_records: None,
            context,
        };
        if is_reference(&dataset.datatype) {
            return Err(unsupported("it holds references, whose targets lie in its own file"));
        }
        let mut plan = planner.plan()?;
        let chunks = plan.chunks.len().saturating_add(plan.inline.len() as u64);
        context.lookup.take("sources of virtual datasets", chunks.saturating_mul(SOURCE_CHUNK))?;
        let cut = match dataset.layout {
            Layout::Contiguous(Some(_)) if plan.inline.is_empty() => {
                shape.iter().position(|n| *n > 1).map(|axis| {
                    (axis, planner.stored_bytes(shape.get(axis + 1..).unwrap_or_default()).unwrap_or(0))
                })
            }
            _ => None,
        };
        let ids: Result<Vec<SourceId>> = std::iter::once(context.here.source.url.as_str())
            .chain(plan.external_files.iter().map(String::as_str))
            .map(|url| sources.id(url))
            .collect();
        let ids = ids?;
        let id = |source: SourceId| {
            ids.get(source.index()).copied().ok_or_else(|| Error::overflow("the list of source files"))
        };
        let mut chunks = BTreeMap::new();
        for column in &plan.chunks.references {
            let source = id(column.source)?;
            let there = |(at, reference)| (at, Chunk::There(Reference { source, ..reference }));
            chunks.extend(column.iter().map(there));
        }
        let here = std::mem::take(&mut plan.chunks.inline).into_iter();
        chunks.extend(here.map(|(position, bytes)| (position, Chunk::Here(bytes))));
        for (position, mut content) in plan.inline.drain(..) {
            for source in content.sources_mut() {
                *source = id(*source)?;
            }
            chunks.insert(position, Chunk::Made(Rc::new(content)));
        }
        Ok(Part { chunk_shape: plan.chunk_shape, codecs: plan.codecs, chunks, missing, cut, shape })
    }
}

pub(super) fn unsupported(problem: &'static str) -> Error {
    Error::unsupported("a virtual source", problem)
}

impl Part {
    /// Returns the chunk with this index in the grid of chunks of `shape`, into which contiguous data is cut.
    pub(super) fn chunk_at(&self, shape: &[u64], index: &[u64]) -> Result<Option<Chunk>> {
        let Some((axis, slice)) = self.cut else {
            let counts = ChunkGrid::Regular(shape.to_vec()).counts(&self.shape);
            let position = chunk_position(index.iter().copied(), &counts).ok_or_else(too_many)?;
            return Ok(self.chunks.get(&position).cloned());
        };
        let Some(Chunk::There(whole)) = self.chunks.get(&0) else { return Ok(None) };
        let height = shape.get(axis).copied().unwrap_or(1);
        let start = index.get(axis).copied().unwrap_or(0).saturating_mul(height.saturating_mul(slice));
        let offset = whole.offset.saturating_add(start);
        let length = height.saturating_mul(slice).min(whole.length.saturating_sub(start));
        Ok(Some(Chunk::There(Reference { offset, length, ..*whole })))
    }
}

/// Bytes of memory for a chunk of the virtual dataset.
const SLOT_BYTES: u64 = 96;

/// Most pieces in the assembled chunks of a virtual dataset.
const PIECES: usize = 500_000;

/// Number of chunks beyond which an array that fits the inline limit becomes one chunk.
const SMALL_CHUNKS: u64 = 10_000;

/// Bytes that may be decoded for inlined chunks, as a multiple of the inline limit.
const DECODED: u64 = 16;

/// The chunks of a virtual dataset so far.
#[derive(Default)]
struct VirtualGrid {
    slots: BTreeMap<u64, Slot>,
    /// Number of overlaps that were visited.
    steps: u64,
    /// Number of assembled chunks.
    made: u64,
    pieces: usize,
    /// Bytes that pieces carry themselves.
    here: u64,
}

/// A chunk of the virtual dataset.
enum Slot {
    /// A chunk of a source, with the number of its block and its position in the source's grid.
    Whole { chunk: Chunk, block: usize, from: u64 },
    /// Pieces with the numbers of their blocks. Later ones cover earlier ones.
    Made(Vec<(usize, Piece)>),
}

/// Chunk grid of a block's source.
struct BlockLayout<'a> {
    number: usize,
    block: &'a Block,
    /// Chunk shape of the source.
    shape: Vec<u64>,
    /// Number of chunks along each axis of the source.
    counts: Vec<u64>,
}

impl ChunkPlanner<'_> {
    /// Plans a virtual dataset.
    ///
    /// # Errors
    /// A source cannot be used, or assembled chunks exceed the inline limit.
    pub(super) fn virtual_sources(&self, mappings: &[VirtualMapping]) -> Result<ChunkPlan> {
        // The extent follows from the sources; the one that the file declares may be outdated.
        if mappings.iter().any(|mapping| is_unlimited(&mapping.destination) || is_unlimited(&mapping.source))
        {
            return Err(refused("the extent of its unlimited selections is not known"));
        }
        let mut plan = self.one_missing_chunk();
        if self.is_empty() {
            return Ok(plan);
        }
        let mut sources = SourceTable::new(&self.context.here.source.url);
        let (blocks, missing_files) = self.blocks(mappings, &mut sources)?;
        self.choose(&blocks, &mut plan)?;
        let mut grid = self.place_blocks(&blocks, &plan)?;
        if grid.made > 0 && !plan.codecs.iter().all(can_encode) {
            plan.codecs = vec![self.array_to_bytes()];
            grid = self.place_blocks(&blocks, &plan)?;
        }
        let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
        let mut decoded = 0_u64;
        for (position, slot) in grid.slots {
            match slot {
                Slot::Whole { chunk: Chunk::There(reference), .. } => {
                    let column = columns.entry(reference.source).or_default();
                    column.push(position, reference.offset, reference.length);
                }
                Slot::Whole { chunk: Chunk::Here(bytes), .. } => {
                    plan.chunks.inline.insert(position, bytes);
                }
                Slot::Whole { chunk: Chunk::Made(content), .. } => {
                    plan.inline.push((position, content.as_ref().clone()));
                }
                Slot::Made(mut pieces) => {
                    pieces.sort_by(|(block, one), (other_block, other)| {
                        let range = |piece: &Piece| match &piece.bytes {
                            PieceBytes::At(range) => Some(*range),
                            PieceBytes::Here(_) => None,
                        };
                        (block, one.source, range(one)).cmp(&(other_block, other.source, range(other)))
                    });
                    let pieces = pieces.into_iter().map(|(_, piece)| piece).collect();
                    let is_text = self.element.data_type == DataType::String;
                    if self.background.is_none() && !is_text {
                        return Err(refused("its chunks have to be made, and its fill value is no scalar"));
                    }
                    if is_text && !is_empty_text(self.background) {
                        return Err(refused("its missing text reads as other than the empty text"));
                    }
                    let content = self.made_of_pieces(&plan.chunk_shape, pieces);
                    decoded = decoded.saturating_add(self.decoded_bytes(content.pieces()));
                    plan.inline.push((position, content));
                }
            }
        }
        if decoded > self.options.inline_limit.saturating_mul(DECODED) {
            return Err(Error::inline_limit(
                MADE,
                &format!("what {decoded} bytes decode to"),
                self.options.inline_limit,
            ));
        }
        let inline: u64 = plan.chunks.inline.values().map(|bytes| bytes.len() as u64).sum();
        if inline > self.options.inline_limit {
            return Err(Error::inline_limit(
                "its compact sources are inlined",
                &format!("{inline} bytes"),
                self.options.inline_limit,
            ));
        }
        if !plan.inline.is_empty() {
            self.check_limit(plan.inline.len() as u64, &plan.chunk_shape, MADE)?;
            plan.inline_reason = Some(MADE.to_owned());
        }
        plan.chunks.references = columns.into_iter().flat_map(|(id, column)| column.finish(id)).collect();
        plan.missing_files = missing_files;
        plan.external_files = sources.into_others();
        Ok(plan)
    }

    /// Chooses codecs and chunk shape so that chunks of sources can be referenced if possible.
    fn choose(&self, blocks: &[Block], plan: &mut ChunkPlan) -> Result<()> {
        let is_stored = |chunk: &Chunk| !matches!(chunk, Chunk::Made(_));
        let stored = || blocks.iter().filter(|block| block.part.chunks.values().any(is_stored));
        let holding = || blocks.iter().filter(|block| !block.part.chunks.is_empty());
        if let Some(first) = stored().next() {
            plan.codecs.clone_from(&first.part.codecs);
        }
        let shape = match (stored().next(), holding().next()) {
            (Some(_), _) => shared_chunk_shape(stored(), self.shape),
            (None, Some(_)) => shared_chunk_shape(holding(), self.shape),
            (None, None) => return Ok(()),
        };
        let counts = ChunkGrid::Regular(shape.clone()).counts(self.shape);
        let chunks = counts.iter().fold(1_u64, |product, n| product.saturating_mul(*n));
        let all = self.made_bytes(self.shape);
        if chunks <= SMALL_CHUNKS || all.is_none_or(|bytes| bytes > self.options.inline_limit) {
            plan.chunk_shape = shape;
        }
        Ok(())
    }

    fn place_blocks(&self, blocks: &[Block], plan: &ChunkPlan) -> Result<VirtualGrid> {
        let mut grid = VirtualGrid::default();
        for (number, block) in blocks.iter().enumerate() {
            let shape = cut_shape(block, &plan.chunk_shape);
            let counts = ChunkGrid::Regular(shape.clone()).counts(&block.part.shape);
            self.place_block(&BlockLayout { number, block, shape, counts }, blocks, plan, &mut grid)?;
        }
        Ok(grid)
    }

    /// Places the chunks of a block on the grid.
    fn place_block(
        &self,
        layout: &BlockLayout<'_>,
        blocks: &[Block],
        plan: &ChunkPlan,
        grid: &mut VirtualGrid,
    ) -> Result<()> {
        let part = &layout.block.part;
        let same_fill = self.background.is_some() && part.missing.as_ref() == self.background;
        if part.chunks.is_empty() && same_fill && grid.slots.is_empty() {
            return Ok(());
        }
        let counts = ChunkGrid::Regular(plan.chunk_shape.clone()).counts(self.shape);
        let along = self.overlaps(layout, &plan.chunk_shape)?;
        let same_codecs = part.codecs == plan.codecs;
        product(&along, &mut |overlap| {
            grid.step()?;
            self.context.lookup.take("chunks of virtual datasets", SLOT_BYTES)?;
            let (to, from) = indices(layout.block, overlap, counts.len(), layout.shape.len());
            let at = chunk_position(to.iter().copied(), &counts).ok_or_else(too_many)?;
            let chunk = part.chunk_at(&layout.shape, &from)?;
            let is_whole = overlap.iter().all(|overlap| overlap.is_whole);
            match &chunk {
                Some(chunk) if is_whole && same_codecs && is_unbroken(chunk, layout, &from) => {
                    let from = chunk_position(from.iter().copied(), &layout.counts).ok_or_else(too_many)?;
                    grid.put(at, Slot::Whole { chunk: chunk.clone(), block: layout.number, from });
                    return Ok(());
                }
                None if same_fill && (is_whole || !grid.slots.contains_key(&at)) => {
                    grid.remove(at);
                    return Ok(());
                }
                _ => {}
            }
            if is_whole {
                grid.put(at, Slot::Made(Vec::new()));
            } else {
                self.open_slot(at, blocks, plan, grid)?;
            }
            let pieces = self.pieces(layout.block, &layout.shape, overlap, chunk.as_ref())?;
            grid.add(at, layout.number, pieces, self.options.inline_limit)?;
            self.check_limit(grid.made, &plan.chunk_shape, MADE)
        })
    }

    /// Returns the overlaps of chunks of the destination and of the source, for each axis of a block. There may be far more
    /// than the file has bytes, so memory is taken before they are kept.
    fn overlaps(&self, layout: &BlockLayout<'_>, grid: &[u64]) -> Result<Vec<Vec<ChunkOverlap>>> {
        let block = layout.block;
        let is_flat = matches!(block.part.codecs.first(), Some(Codec::Bytes { .. }));
        let mut all = Vec::new();
        for axis in &block.axes {
            let pick = |list: &[u64], axis: Option<usize>| axis.and_then(|axis| list.get(axis)).copied();
            let size = pick(grid, axis.to).unwrap_or(1).max(1);
            let source = pick(&layout.shape, axis.from).unwrap_or(1).max(1);
            let end = pick(self.shape, axis.to);
            let is_paired = axis.to.is_some() && axis.from.is_some();
            let mut along = Vec::new();
            for span in &axis.spans {
                let mut done = 0;
                while done < span.length {
                    let (to, from) = (span.to + done, span.from + done);
                    let (to_offset, from_offset) = (to % size, from % source);
                    let length = (span.length - done).min(size - to_offset).min(source - from_offset);
                    let is_whole = to_offset == 0
                        && from_offset == 0
                        && source == size
                        && (length == size || Some(to + length) == end)
                        && (is_paired || is_flat);
                    if along.len() == along.capacity() {
                        let more = (along.len() as u64).max(16);
                        if more > CHUNKS {
                            return Err(too_many());
                        }
                        let bytes = more.saturating_mul(size_of::<ChunkOverlap>() as u64);
                        self.context.lookup.take("chunks of virtual datasets", bytes)?;
                        along.reserve_exact(usize::try_from(more).map_err(|_| too_many())?);
                    }
                    let (to, from) = (to / size, from / source);
                    along.push(ChunkOverlap { to, to_offset, from, from_offset, length, is_whole });
                    done += length;
                }
            }
            all.push(along);
        }
        Ok(all)
    }

    /// Turns a chunk of the grid into pieces, which cover a whole chunk of a source that was there.
    fn open_slot(&self, at: u64, blocks: &[Block], plan: &ChunkPlan, grid: &mut VirtualGrid) -> Result<()> {
        let (chunk, number, from) = match grid.slots.get(&at) {
            Some(Slot::Made(_)) => return Ok(()),
            None => {
                grid.put(at, Slot::Made(Vec::new()));
                return Ok(());
            }
            Some(Slot::Whole { chunk, block, from }) => (chunk.clone(), *block, *from),
        };
        let block = blocks.get(number).ok_or_else(too_many)?;
        let shape = cut_shape(block, &plan.chunk_shape);
        let counts = ChunkGrid::Regular(shape.clone()).counts(&block.part.shape);
        let counts_of_grid = ChunkGrid::Regular(plan.chunk_shape.clone()).counts(self.shape);
        let (to, from) = (
            chunk_indices(at, &counts_of_grid).unwrap_or_default(),
            chunk_indices(from, &counts).unwrap_or_default(),
        );
        let all_of = |axis: &crate::hdf5::selection::Axis| {
            let pick = |list: &[u64], axis: Option<usize>| axis.and_then(|axis| list.get(axis)).copied();
            let size = pick(&plan.chunk_shape, axis.to).unwrap_or(1);
            let n = pick(&to, axis.to).unwrap_or(0);
            let left = pick(self.shape, axis.to).map_or(1, |end| end.saturating_sub(n.saturating_mul(size)));
            let from = pick(&from, axis.from).unwrap_or(0);
            ChunkOverlap { to: n, to_offset: 0, from, from_offset: 0, length: size.min(left), is_whole: true }
        };
        let overlap: Vec<ChunkOverlap> = block.axes.iter().map(all_of).collect();
        let pieces = self.pieces(block, &shape, &overlap, Some(&chunk))?;
        grid.put(at, Slot::Made(Vec::new()));
        grid.add(at, number, pieces, self.options.inline_limit)
    }

    /// Returns the bytes that are decoded for these pieces.
    fn decoded_bytes(&self, pieces: &[Piece]) -> u64 {
        let size = |piece: &Piece| {
            let element = piece.transform.stored_size().map_or(self.element.stored_size, u64::from);
            piece.shape.iter().fold(element, |bytes, n| bytes.saturating_mul(*n))
        };
        let mut before: Option<&Piece> = None;
        pieces.iter().fold(0, |sum, piece| {
            let again =
                before.is_none_or(|other| (other.source, &other.bytes) != (piece.source, &piece.bytes));
            before = Some(piece);
            if again { sum.saturating_add(size(piece)) } else { sum }
        })
    }
}

/// Why chunks are assembled.
const MADE: &str = "its chunks differ from those of its sources in grid, filters or fill value";

impl VirtualGrid {
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps > CHUNKS { Err(too_many()) } else { Ok(()) }
    }

    fn put(&mut self, at: u64, slot: Slot) {
        self.made += u64::from(matches!(slot, Slot::Made(_)));
        if let Some(Slot::Made(_)) = self.slots.insert(at, slot) {
            self.made -= 1;
        }
    }

    fn remove(&mut self, at: u64) {
        if let Some(Slot::Made(_)) = self.slots.remove(&at) {
            self.made -= 1;
        }
    }

    fn add(&mut self, at: u64, block: usize, pieces: Vec<Piece>, limit: u64) -> Result<()> {
        self.pieces += pieces.len();
        for piece in &pieces {
            if let PieceBytes::Here(bytes) = &piece.bytes {
                self.here = self.here.saturating_add(bytes.len() as u64);
            }
        }
        if self.here > limit.saturating_mul(DECODED) {
            let content = format!("pieces of {} bytes", self.here);
            return Err(Error::inline_limit(MADE, &content, limit));
        }
        if self.pieces > PIECES {
            return Err(Error::limit("pieces in the chunks of a virtual dataset", PIECES as u64));
        }
        if let Some(Slot::Made(all)) = self.slots.get_mut(&at) {
            all.extend(pieces.into_iter().map(|piece| (block, piece)));
        }
        Ok(())
    }
}

/// Whether a chunk of a source can be a chunk of the grid: it is not the shorter last part of contiguous data, and not
/// assembled itself.
fn is_unbroken(chunk: &Chunk, layout: &BlockLayout<'_>, index: &[u64]) -> bool {
    match (chunk, layout.block.part.cut) {
        (Chunk::There(_), Some((axis, _))) => {
            let pick = |list: &[u64]| list.get(axis).copied().unwrap_or(0);
            let end = (pick(index) + 1).saturating_mul(pick(&layout.shape));
            end <= pick(&layout.block.part.shape)
        }
        (Chunk::Made(content), _) => content.ranges().next().is_some() && content.pieces().is_empty(),
        _ => true,
    }
}

/// Returns the chunk shape of a source. Contiguous data is cut to fit the grid.
fn cut_shape(block: &Block, grid: &[u64]) -> Vec<u64> {
    let mut shape = block.part.chunk_shape.clone();
    if let Some((cut, _)) = block.part.cut
        && let Some(size) = shape.get_mut(cut)
    {
        let axis = block.axes.iter().find(|axis| axis.from == Some(cut));
        *size = axis.and_then(|axis| axis.to).and_then(|to| grid.get(to)).copied().unwrap_or(1).max(1);
    }
    shape
}

/// Returns the indices of the chunks that overlap, in the destination and in the source.
fn indices(
    block: &Block,
    overlap: &[ChunkOverlap],
    to_rank: usize,
    from_rank: usize,
) -> (Vec<u64>, Vec<u64>) {
    let (mut to, mut from) = (vec![0; to_rank], vec![0; from_rank]);
    for (axis, overlap) in block.axes.iter().zip(overlap) {
        if let Some(place) = axis.to.and_then(|axis| to.get_mut(axis)) {
            *place = overlap.to;
        }
        if let Some(place) = axis.from.and_then(|axis| from.get_mut(axis)) {
            *place = overlap.from;
        }
    }
    (to, from)
}

/// Visitor of a combination of overlaps, one for each axis.
type Visit<'a> = dyn FnMut(&[ChunkOverlap]) -> Result<()> + 'a;

/// Calls `each` with all combinations of the overlaps along the axes.
fn product(along: &[Vec<ChunkOverlap>], each: &mut Visit<'_>) -> Result<()> {
    let total = along.iter().try_fold(1_u64, |n, along| n.checked_mul(along.len() as u64));
    let total = total.filter(|total| *total <= CHUNKS).ok_or_else(too_many)?;
    let counts: Vec<u64> = along.iter().map(|along| along.len() as u64).collect();
    for n in 0..total {
        let at =
            |(index, along): (&u64, &Vec<ChunkOverlap>)| along.get(usize::try_from(*index).ok()?).copied();
        let index = chunk_indices(n, &counts).unwrap_or_default();
        let overlap: Option<Vec<ChunkOverlap>> = index.iter().zip(along).map(at).collect();
        each(&overlap.unwrap_or_default())?;
    }
    Ok(())
}

fn refused(problem: &'static str) -> Error {
    Error::unsupported("virtual dataset", problem)
}

/// Returns the chunk shape of the grid: that of a source that cannot be cut, else the largest into which all can be cut.
fn shared_chunk_shape<'a>(blocks: impl Iterator<Item = &'a Block> + Clone, shape: &[u64]) -> Vec<u64> {
    let fixed = blocks.clone().find(|block| block.part.cut.is_none());
    let mut grid = vec![1; shape.len()];
    for (to, size) in grid.iter_mut().enumerate() {
        let mut sizes = match fixed {
            Some(fixed) => vec![size_along(fixed, to)],
            None => blocks.clone().map(|block| size_along(block, to)).collect(),
        };
        let first = sizes.pop().unwrap_or(1);
        *size = sizes.into_iter().fold(first, greatest_common_divisor).max(1);
    }
    grid
}

/// Returns the chunk size of a block along an axis of the destination: that of its source, or the largest into which
/// contiguous data can be cut.
fn size_along(block: &Block, to: usize) -> u64 {
    let Some(axis) = block.axes.iter().find(|axis| axis.to == Some(to)) else { return 1 };
    let Some(from) = axis.from else { return 1 };
    match block.part.cut {
        Some((cut, _)) if cut == from => axis.spans.iter().fold(0, |size, span| {
            greatest_common_divisor(
                greatest_common_divisor(size, span.to),
                greatest_common_divisor(span.from, span.length),
            )
        }),
        _ => block.part.chunk_shape.get(from).copied().unwrap_or(1),
    }
}

/// Overlap of a chunk of the destination with a chunk of the source along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkOverlap {
    /// Index of the destination's chunk.
    pub(super) to: u64,
    /// First element in it.
    pub(super) to_offset: u64,
    /// Index of the source's chunk.
    pub(super) from: u64,
    /// First element in it.
    pub(super) from_offset: u64,
    /// Number of elements.
    pub(super) length: u64,
    /// Whether the chunks coincide, up to the end of the destination.
    pub(super) is_whole: bool,
}

/// Part of a source's chunk, along the axes of the source.
struct Window {
    from: Vec<u64>,
    extent: Vec<u64>,
}

impl ChunkPlanner<'_> {
    /// Returns the pieces that a combination of overlaps, one for each axis of the block, puts into a chunk of the destination.
    /// `chunk` is that of the source, of shape `shape`; `None` if it is missing.
    pub(super) fn pieces(
        &self,
        block: &Block,
        shape: &[u64],
        overlap: &[ChunkOverlap],
        chunk: Option<&Chunk>,
    ) -> Result<Vec<Piece>> {
        let rank = shape.len();
        let mut window = Window { from: vec![0; rank], extent: vec![1; rank] };
        for (axis, overlap) in block.axes.iter().zip(overlap) {
            let Some(from) = axis.from else { continue };
            set(&mut window.from, from, overlap.from_offset);
            set(&mut window.extent, from, overlap.length);
        }
        let layers = match chunk {
            Some(Chunk::There(part)) => {
                let range = ByteRange::new(part.offset, part.length);
                vec![self.layer(block, part.source, PieceBytes::At(range), shape, part.length)?]
            }
            Some(Chunk::Here(bytes)) => {
                let length = bytes.len() as u64;
                vec![self.layer(block, SourceId(0), PieceBytes::Here(bytes.clone()), shape, length)?]
            }
            Some(Chunk::Made(content)) => self.made(content, &window)?,
            None => vec![self.constant(block.part.missing.as_ref(), &window)?],
        };
        let cut = layers.into_iter().filter_map(|layer| cut_out(layer, &window));
        cut.map(|piece| self.in_destination(block, overlap, &window, piece)).collect()
    }

    /// Returns a stored chunk as one piece.
    fn layer(
        &self,
        block: &Block,
        source: SourceId,
        bytes: PieceBytes,
        shape: &[u64],
        length: u64,
    ) -> Result<Piece> {
        let mut shape = shape.to_vec();
        if let Some((axis, slice)) = block.part.cut
            && let Some(height) = length.checked_div(slice)
        {
            set(&mut shape, axis, height); // the last one of a run may be lower
        }
        let codecs: Vec<Codec> = block.part.codecs.clone();
        let transform = ElementTransform::None;
        Ok(whole(source, bytes, codecs, shape, transform))
    }

    /// Returns the layers of a chunk that is assembled of pieces itself: the background, if they do not cover the window, and
    /// the pieces.
    fn made(&self, content: &ChunkContent, window: &Window) -> Result<Vec<Piece>> {
        let background = match content {
            ChunkContent::Assemble { background, .. } => Some(background.clone()),
            ChunkContent::Variable { .. } => None,
            _ => return Err(unsupported("its chunks cannot be taken apart")),
        };
        let covers = |piece: &Piece| {
            let ends = piece.to.iter().zip(&piece.extent).map(|(to, extent)| to.saturating_add(*extent));
            let wanted = window.from.iter().zip(&window.extent).map(|(from, extent)| from + extent);
            piece.to.iter().zip(&window.from).all(|(to, from)| to <= from)
                && ends.zip(wanted).all(|(a, b)| a >= b)
        };
        let mut layers = Vec::new();
        if !content.pieces().iter().any(covers) {
            layers.push(match background {
                Some(element) => self.repeated(&element, window)?,
                None => self.constant(None, window)?,
            });
        }
        layers.extend_from_slice(content.pieces());
        Ok(layers)
    }

    /// Returns a piece that fills the window with one value.
    fn constant(&self, value: Option<&FillValue>, window: &Window) -> Result<Piece> {
        match value {
            Some(FillValue::Fixed(_)) => {
                self.repeated(&ChunkPlanner { background: value, ..*self }.background_bytes(), window)
            }
            // Null pointers are empty text.
            _ if self.element.data_type == DataType::String && is_empty_text(value) => {
                let size = usize::try_from(self.element.stored_size).unwrap_or(0);
                self.repeated(&vec![0; size].into(), window)
            }
            _ => Err(unsupported("its fill value is no scalar")),
        }
    }

    fn repeated(&self, element: &Bytes, window: &Window) -> Result<Piece> {
        let count = window.extent.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
        let bytes = count.and_then(|count| count.checked_mul(element.len() as u64));
        let count = count.filter(|_| bytes.is_some_and(|bytes| bytes <= self.options.inline_limit));
        let count = count.and_then(|count| usize::try_from(count).ok());
        let limit = || {
            Error::inline_limit(
                "the fill value of a source differs",
                &format!("{:?} of its elements", window.extent),
                self.options.inline_limit,
            )
        };
        let bytes = element.repeat(count.ok_or_else(limit)?);
        let here = PieceBytes::Here(bytes.into());
        let mut piece = whole(SourceId(0), here, Vec::new(), window.extent.clone(), ElementTransform::None);
        piece.to.clone_from(&window.from);
        Ok(piece)
    }

    /// Converts a piece to the axes of the destination. Axes of the source without a counterpart are joined with the next.
    fn in_destination(
        &self,
        block: &Block,
        overlap: &[ChunkOverlap],
        window: &Window,
        piece: Piece,
    ) -> Result<Piece> {
        let rank = self.shape.len();
        let mut placed = Piece {
            shape: vec![1; rank],
            from: vec![0; rank],
            to: vec![0; rank],
            extent: vec![1; rank],
            ..piece
        };
        let (mut joined, mut index) = (1_u64, 0_u64);
        for (axis, overlap) in block.axes.iter().zip(overlap) {
            let at = |list: &[u64]| axis.from.and_then(|from| list.get(from)).copied().unwrap_or(0);
            let size = at(&piece.shape);
            match (axis.to, axis.from) {
                (Some(to), Some(_)) => {
                    set(&mut placed.shape, to, joined.saturating_mul(size));
                    set(&mut placed.from, to, index.saturating_mul(size).saturating_add(at(&piece.from)));
                    let moved = at(&piece.to).saturating_sub(at(&window.from));
                    set(&mut placed.to, to, overlap.to_offset.saturating_add(moved));
                    set(&mut placed.extent, to, at(&piece.extent));
                    (joined, index) = (1, 0);
                }
                (Some(to), None) => set(&mut placed.to, to, overlap.to_offset),
                (None, Some(_)) => {
                    index = index.saturating_mul(size).saturating_add(at(&piece.from));
                    joined = joined.saturating_mul(size);
                }
                (None, None) => {}
            }
        }
        placed.transform = self.one_of(joined, index, placed.transform)?;
        Ok(placed)
    }

    /// Restricts a transform to the `index`-th of each run of `joined` elements.
    fn one_of(&self, joined: u64, index: u64, transform: ElementTransform) -> Result<ElementTransform> {
        if joined == 1 {
            return Ok(transform);
        }
        let refused = || unsupported("one element of its last axis cannot be taken from such elements");
        let (stored_size, parts, strings, mut converted, reversed) = match transform {
            ElementTransform::None => {
                let size = self.element.data_type.size().and_then(|size| u32::try_from(size).ok());
                let size = size.ok_or_else(refused)?;
                (size, vec![(0, 0, size)], Vec::new(), Vec::new(), Vec::new())
            }
            ElementTransform::Repack { stored_size, parts, strings, converted, reversed } => {
                (stored_size, parts, strings, converted, reversed)
            }
            ElementTransform::Integer { .. }
            | ElementTransform::Float { .. }
            | ElementTransform::Time { .. } => return Err(refused()),
        };
        let times = |n: u64| u32::try_from(n.checked_mul(stored_size.into())?).ok();
        let (Some(stored_size), Some(passed)) = (times(joined), times(index)) else { return Err(refused()) };
        let parts = parts.into_iter().map(|(at, to, size)| Some((at.checked_add(passed)?, to, size)));
        let parts = parts.collect::<Option<_>>().ok_or_else(refused)?;
        for part in &mut converted {
            part.from = part.from.checked_add(passed).ok_or_else(refused)?;
        }
        Ok(ElementTransform::Repack { stored_size, parts, strings, converted, reversed })
    }
}

fn whole(
    source: SourceId,
    bytes: PieceBytes,
    codecs: Vec<Codec>,
    shape: Vec<u64>,
    transform: ElementTransform,
) -> Piece {
    let origin = vec![0; shape.len()];
    Piece { source, bytes, codecs, from: origin.clone(), to: origin, extent: shape.clone(), shape, transform }
}

/// Clips a piece to a window. Its position remains that in the source's chunk. `None` if it is outside.
fn cut_out(mut piece: Piece, window: &Window) -> Option<Piece> {
    let wanted = window.from.iter().zip(&window.extent);
    let has = piece.from.iter_mut().zip(piece.to.iter_mut()).zip(piece.extent.iter_mut());
    for ((start, size), ((from, to), extent)) in wanted.zip(has) {
        let low = (*start).max(*to);
        let high = start.saturating_add(*size).min(to.saturating_add(*extent));
        *extent = high.checked_sub(low).filter(|n| *n > 0)?;
        *from = from.saturating_add(low - *to);
        *to = low;
    }
    Some(piece)
}

pub(super) fn is_empty_text(value: Option<&FillValue>) -> bool {
    match value {
        None => true,
        Some(FillValue::Text(text)) => text.is_empty(),
        Some(FillValue::Variable(bytes)) => bytes.is_empty(),
        Some(FillValue::Fixed(_)) => false,
    }
}

fn set(list: &mut [u64], at: usize, value: u64) {
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}
