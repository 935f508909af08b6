//! Virtual datasets: the chunks of their sources become chunks of the array, or pieces of inlined chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Layout, Object, VirtualMapping};
use virtualize_zarr::{
    ChunkGrid, Codec, DataType, FillValue, Reference, ReferencesBuilder, SourceId, chunk_indices,
    chunk_position, greatest_common_divisor,
};

use super::SourceTable;
use super::chunks::{ChunkPlan, ChunkPlanner, can_encode, is_reference};
use super::fill::DatasetFill;
use super::links::{FileContext, grown, no_dataset};
use super::selection::{Axis, Span, axes, endless};
use crate::{ChunkContent, ElementPart, ElementTransform, Error, MapOptions, Piece, PieceBytes, Result};

/// Maximum number of chunks of a virtual dataset.
const CHUNKS: u64 = 10_000_000;

fn too_many() -> Error {
    Error::limit("chunks in a virtual dataset", CHUNKS)
}

/// Bytes of memory for a chunk of a source.
const SOURCE_CHUNK: u64 = 64;

/// A source dataset. Its missing chunks read as its fill value.
struct Part {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    codecs: Vec<Codec>,
    chunks: BTreeMap<u64, Chunk>,
    /// What missing chunks read as; `None` if no scalar equals it.
    missing: Option<FillValue>,
    /// For contiguous data: the axis along which it can be cut, and the bytes of a slice.
    cut: Option<(usize, u64)>,
}

/// A chunk of a source. Sources are numbered by the [`SourceTable`] of the virtual dataset.
#[derive(Clone)]
enum Chunk {
    /// Stored in a file, in the codecs of its part.
    There(Reference),
    /// Carried by the plan, in the codecs of its part.
    Here(Bytes),
    /// To be made.
    Made(Rc<ChunkContent>),
}

/// A part, and its axes in the virtual dataset.
struct Block {
    part: Rc<Part>,
    axes: Vec<Axis>,
    /// Chunk shape of the source. Contiguous data is cut to fit the grid of the virtual dataset.
    shape: Vec<u64>,
    /// For each axis, the overlaps of chunks of the source with chunks of the virtual dataset.
    along: Vec<Vec<AxisOverlap>>,
}

impl Block {
    /// Returns a combination of overlaps, one for each axis.
    fn overlap(&self, combination: u64) -> Vec<AxisOverlap> {
        let counts: Vec<u64> = self.along.iter().map(|along| along.len() as u64).collect();
        let indices = chunk_indices(combination, &counts).unwrap_or_default();
        let at = |(index, along): (u64, &Vec<AxisOverlap>)| along.get(usize::try_from(index).ok()?).copied();
        indices.into_iter().zip(&self.along).filter_map(at).collect()
    }
}

impl ChunkPlanner<'_> {
    /// Returns the blocks in the order of their mappings, and the names of source files that do not exist.
    fn blocks(
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
                    let part = match self.context.of_source(&mapping.file)? {
                        Some(context) => self.part(&mapping.dataset, context, sources),
                        None => Ok(None),
                    };
                    let part = part.map_err(|error| error.of_source(&mapping.dataset, &mapping.file))?;
                    let part = part.map(Rc::new);
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
                    let (shape, along) = (part.chunk_shape.clone(), Vec::new());
                    blocks.push(Block { part, axes, shape, along });
                }
            }
        }
        Ok((blocks, missing.into_iter().collect()))
    }

    /// Returns the dataset at a path of a source file; `None` if it does not exist.
    fn part(&self, path: &str, context: FileContext<'_>, sources: &mut SourceTable) -> Result<Option<Part>> {
        let file = context.here.file;
        let Some(address) = context.lookup.find(file, file.root, path)? else { return Ok(None) };
        let Some(Object::Dataset(dataset)) = file.objects.get(&address) else { return Err(no_dataset()) };
        // Through another virtual dataset, libhdf5 shows the extent that the file declares.
        if context.others.grown.contains(&(context.here.source.url.clone(), address)) {
            return Err(grown());
        }
        if dataset.datatype != self.dataset.datatype {
            return Err(unsupported("its datatype differs from that of the virtual dataset"));
        }
        let extent = dataset.dataspace.shape().ok_or_else(|| unsupported("it has no extent"))?;
        let shape: Vec<u64> = extent.iter().chain(&self.element.axes).copied().collect();
        let missing = DatasetFill::of(dataset, self.element)?.background().cloned();
        let options = MapOptions { split_contiguous: None, ..self.options.clone() };
        let planner = ChunkPlanner {
            dataset,
            shape: &shape,
            background: missing.as_ref(),
            options: &options,
            small_records: None,
            context,
            ..*self
        };
        if is_reference(&dataset.datatype) {
            return Err(unsupported("it contains references, whose targets are in its own file"));
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
        plan.renumber(&context.here.source.url, sources)?;
        let stored = plan.chunks.references.iter().flat_map(|column| column.iter());
        let mut chunks: BTreeMap<u64, Chunk> =
            stored.map(|(at, reference)| (at, Chunk::There(reference))).collect();
        let here = std::mem::take(&mut plan.chunks.inline).into_iter();
        chunks.extend(here.map(|(position, bytes)| (position, Chunk::Here(bytes))));
        let made = plan.inline.drain(..);
        chunks.extend(made.map(|(position, content)| (position, Chunk::Made(Rc::new(content)))));
        Ok(Some(Part { chunk_shape: plan.chunk_shape, codecs: plan.codecs, chunks, missing, cut, shape }))
    }

    /// Plans a virtual dataset.
    ///
    /// # Errors
    /// A source cannot be used, or assembled chunks exceed the inline limit.
    pub(super) fn virtual_sources(&self, mappings: &[VirtualMapping]) -> Result<ChunkPlan> {
        // The extent follows from the sources; the one that the file declares may be outdated.
        let is_open =
            |mapping: &VirtualMapping| endless(&mapping.destination).or(endless(&mapping.source)).is_some();
        if mappings.iter().any(is_open) {
            return Err(refused("the extent of its unlimited selections is not known"));
        }
        let mut plan = self.one_missing_chunk();
        if self.is_empty() {
            return Ok(plan);
        }
        let mut sources = SourceTable::new(&self.context.here.source.url);
        let (mut blocks, missing_files) = self.blocks(mappings, &mut sources)?;
        self.choose(&blocks, &mut plan);
        let overlaps = self.overlaps(&mut blocks, &plan.chunk_shape)?;
        let chunks = || overlaps.chunk_by(|one, other| one.at == other.at);
        if !plan.codecs.iter().all(can_encode)
            && chunks().any(|all| matches!(self.slot(&blocks, all, &plan.codecs), Slot::Made(_)))
        {
            plan.codecs = vec![self.array_to_bytes()];
        }
        let mut columns: BTreeMap<SourceId, ReferencesBuilder> = BTreeMap::new();
        let mut assembled = Assembled::default();
        for all in chunks() {
            let Some(position) = all.first().map(|overlap| overlap.at) else { continue };
            match self.slot(&blocks, all, &plan.codecs) {
                Slot::Missing => {}
                Slot::Whole(Chunk::There(reference)) => {
                    let column = columns.entry(reference.source).or_default();
                    column.push(position, reference.offset, reference.length);
                }
                Slot::Whole(Chunk::Here(bytes)) => {
                    plan.chunks.inline.insert(position, bytes.clone());
                }
                Slot::Whole(Chunk::Made(content)) => plan.inline.push((position, content.as_ref().clone())),
                Slot::Made(visible) => {
                    assembled.chunks += 1;
                    self.check_limit(assembled.chunks, &plan.chunk_shape, MADE)?;
                    let is_text = self.element.data_type == DataType::String;
                    if self.background.is_none() && !is_text {
                        return Err(refused(
                            "its chunks must be inlined, but its fill value is not a scalar",
                        ));
                    }
                    if is_text && !is_empty_text(self.background) {
                        return Err(refused("its missing text reads as other than the empty text"));
                    }
                    let pieces = self.assemble(&blocks, visible, &mut assembled)?;
                    plan.inline.push((position, self.made_of_pieces(&plan.chunk_shape, pieces)));
                }
            }
        }
        let limit = self.options.inline_limit;
        if assembled.decoded > limit.saturating_mul(DECODED) {
            let content = format!("what {} bytes decode to", assembled.decoded);
            return Err(Error::inline_limit(MADE, &content, limit));
        }
        let inline: u64 = plan.chunks.inline.values().map(|bytes| bytes.len() as u64).sum();
        if inline > limit {
            let content = format!("{inline} bytes");
            return Err(Error::inline_limit("its compact sources are inlined", &content, limit));
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
    fn choose(&self, blocks: &[Block], plan: &mut ChunkPlan) {
        let is_stored = |chunk: &Chunk| !matches!(chunk, Chunk::Made(_));
        let stored = || blocks.iter().filter(|block| block.part.chunks.values().any(is_stored));
        let holding = || blocks.iter().filter(|block| !block.part.chunks.is_empty());
        if let Some(first) = stored().next() {
            plan.codecs.clone_from(&first.part.codecs);
        }
        let shape = match (stored().next(), holding().next()) {
            (Some(_), _) => shared_chunk_shape(stored(), self.shape),
            (None, Some(_)) => shared_chunk_shape(holding(), self.shape),
            (None, None) => return,
        };
        let counts = ChunkGrid::Regular(shape.clone()).counts(self.shape);
        let chunks = counts.iter().fold(1_u64, |product, n| product.saturating_mul(*n));
        let all = self.made_bytes(self.shape);
        if chunks <= SMALL_CHUNKS || all.is_none_or(|bytes| bytes > self.options.inline_limit) {
            plan.chunk_shape = shape;
        }
    }

    /// Whether missing chunks of a source read as those of the virtual dataset.
    fn has_fill_of(&self, part: &Part) -> bool {
        self.background.is_some() && part.missing.as_ref() == self.background
    }

    /// Returns the overlaps of the chunks of all blocks with those of the virtual dataset, by position and in the order of
    /// blocks.
    fn overlaps(&self, blocks: &mut [Block], chunk_shape: &[u64]) -> Result<Vec<Overlap>> {
        let counts = ChunkGrid::Regular(chunk_shape.to_vec()).counts(self.shape);
        let mut overlaps = Vec::new();
        for (number, block) in blocks.iter_mut().enumerate() {
            let part = Rc::clone(&block.part);
            if part.chunks.is_empty() && overlaps.is_empty() && self.has_fill_of(&part) {
                continue;
            }
            if let Some((cut, _)) = part.cut
                && let Some(size) = block.shape.get_mut(cut)
            {
                let axis = block.axes.iter().find(|axis| axis.from == Some(cut));
                let of_grid = axis.and_then(|axis| axis.to).and_then(|to| chunk_shape.get(to));
                *size = of_grid.copied().unwrap_or(1).max(1);
            }
            block.along = self.overlaps_along(block, chunk_shape)?;
            let total = block.along.iter().try_fold(1_u64, |n, along| n.checked_mul(along.len() as u64));
            for combination in 0..total.filter(|total| *total <= CHUNKS).ok_or_else(too_many)? {
                if overlaps.len() as u64 >= CHUNKS {
                    return Err(too_many());
                }
                self.context.lookup.take("chunks of virtual datasets", SLOT_BYTES)?;
                let of_axes = block.overlap(combination);
                let (mut to, mut from) = (vec![0; counts.len()], vec![0; block.shape.len()]);
                for (axis, overlap) in block.axes.iter().zip(&of_axes) {
                    axis.to.into_iter().for_each(|axis| set(&mut to, axis, overlap.to));
                    axis.from.into_iter().for_each(|axis| set(&mut from, axis, overlap.from));
                }
                let (chunk, is_unbroken) = if let Some((axis, slice)) = part.cut {
                    let pick = |list: &[u64]| list.get(axis).copied().unwrap_or(0);
                    let (at, height) = (pick(&from), pick(&block.shape));
                    let start = at.saturating_mul(height.saturating_mul(slice));
                    let segment = |whole: &Reference| {
                        let offset = whole.offset.saturating_add(start);
                        let length = height.saturating_mul(slice).min(whole.length.saturating_sub(start));
                        Chunk::There(Reference { offset, length, ..*whole })
                    };
                    match part.chunks.get(&0) {
                        Some(Chunk::There(whole)) => {
                            (Some(segment(whole)), (at + 1).saturating_mul(height) <= pick(&part.shape))
                        }
                        _ => (None, true),
                    }
                } else {
                    let grid = ChunkGrid::Regular(block.shape.clone()).counts(&part.shape);
                    let chunk = part.chunks.get(&chunk_position(from, &grid).ok_or_else(too_many)?).cloned();
                    let is_made_of_pieces = |content: &ChunkContent| {
                        content.ranges().next().is_none() || !content.pieces().is_empty()
                    };
                    let is_broken =
                        matches!(&chunk, Some(Chunk::Made(content)) if is_made_of_pieces(content));
                    (chunk, !is_broken)
                };
                overlaps.push(Overlap {
                    at: chunk_position(to, &counts).ok_or_else(too_many)?,
                    block: number,
                    combination,
                    chunk,
                    is_whole: of_axes.iter().all(|overlap| overlap.is_whole),
                    is_unbroken,
                });
            }
        }
        overlaps.sort_by_key(|overlap| overlap.at);
        Ok(overlaps)
    }

    /// Returns the overlaps of chunks of the destination and of the source, for each axis of a block. There may be far more
    /// than the file has bytes, so memory is taken before they are kept.
    fn overlaps_along(&self, block: &Block, grid: &[u64]) -> Result<Vec<Vec<AxisOverlap>>> {
        let is_flat = matches!(block.part.codecs.first(), Some(Codec::Bytes { .. }));
        let mut all = Vec::new();
        for axis in &block.axes {
            let pick = |list: &[u64], axis: Option<usize>| axis.and_then(|axis| list.get(axis)).copied();
            let size = pick(grid, axis.to).unwrap_or(1).max(1);
            let source = pick(&block.shape, axis.from).unwrap_or(1).max(1);
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
                        let bytes = more.saturating_mul(size_of::<AxisOverlap>() as u64);
                        self.context.lookup.take("chunks of virtual datasets", bytes)?;
                        along.reserve_exact(usize::try_from(more).map_err(|_| too_many())?);
                    }
                    let (to, from) = (to / size, from / source);
                    along.push(AxisOverlap { to, to_offset, from, from_offset, length, is_whole });
                    done += length;
                }
            }
            all.push(along);
        }
        Ok(all)
    }

    /// Returns the content of a chunk, given the overlaps at its position and the codecs of the array.
    fn slot<'o>(&self, blocks: &[Block], overlaps: &'o [Overlap], codecs: &[Codec]) -> Slot<'o> {
        let part = |overlap: &Overlap| blocks.get(overlap.block).map(|block| &block.part);
        let is_fill = |overlap: &&Overlap| {
            overlap.chunk.is_none() && part(overlap).is_some_and(|part| self.has_fill_of(part))
        };
        let covering = overlaps.iter().rposition(|overlap| overlap.is_whole).unwrap_or(0);
        let visible = overlaps.get(covering..).unwrap_or_default();
        let first = visible.iter().take_while(is_fill).count();
        match visible.get(first..).unwrap_or_default() {
            [] => Slot::Missing,
            [one @ Overlap { chunk: Some(chunk), is_whole: true, is_unbroken: true, .. }]
                if part(one).is_some_and(|part| part.codecs == codecs) =>
            {
                Slot::Whole(chunk)
            }
            visible => Slot::Made(visible),
        }
    }

    /// Returns the pieces of a chunk that is assembled. Those of one block are in the order in which they are stored.
    fn assemble(
        &self,
        blocks: &[Block],
        overlaps: &[Overlap],
        assembled: &mut Assembled,
    ) -> Result<Vec<Piece>> {
        let limit = self.options.inline_limit;
        let mut all = Vec::new();
        for Overlap { block: number, combination, chunk, .. } in overlaps {
            let Some(block) = blocks.get(*number) else { continue };
            let pieces = self.pieces(block, &block.overlap(*combination), chunk.as_ref())?;
            assembled.pieces += pieces.len();
            for piece in pieces {
                let range = match &piece.bytes {
                    PieceBytes::At(range) => Some(*range),
                    PieceBytes::Here(bytes) => {
                        assembled.here = assembled.here.saturating_add(bytes.len() as u64);
                        None
                    }
                };
                all.push(((*number, piece.source, range), piece));
            }
            if assembled.here > limit.saturating_mul(DECODED) {
                let content = format!("pieces of {} bytes", assembled.here);
                return Err(Error::inline_limit(MADE, &content, limit));
            }
            if assembled.pieces > PIECES {
                return Err(Error::limit("pieces in the chunks of a virtual dataset", PIECES as u64));
            }
        }
        all.sort_by_key(|(key, _)| *key);
        let pieces: Vec<Piece> = all.into_iter().map(|(_, piece)| piece).collect();
        let is_same = |one: &Piece, next: &Piece| (one.source, &one.bytes) == (next.source, &next.bytes);
        for piece in pieces.chunk_by(is_same).filter_map(<[Piece]>::first) {
            let element = piece.transform.stored_size().map_or(self.element.stored_size, u64::from);
            let bytes = piece.shape.iter().fold(element, |bytes, n| bytes.saturating_mul(*n));
            assembled.decoded = assembled.decoded.saturating_add(bytes);
        }
        Ok(pieces)
    }

    /// Returns the pieces that a combination of overlaps, one for each axis of the block, puts into a chunk of the destination.
    /// `chunk` is that of the source; `None` if it is missing.
    fn pieces(&self, block: &Block, overlap: &[AxisOverlap], chunk: Option<&Chunk>) -> Result<Vec<Piece>> {
        let rank = block.shape.len();
        let mut window = Window { from: vec![0; rank], extent: vec![1; rank] };
        for (axis, overlap) in block.axes.iter().zip(overlap) {
            let Some(from) = axis.from else { continue };
            set(&mut window.from, from, overlap.from_offset);
            set(&mut window.extent, from, overlap.length);
        }
        let stored = |source, bytes, length: u64| {
            let mut shape = block.shape.clone();
            if let Some((axis, slice)) = block.part.cut
                && let Some(height) = length.checked_div(slice)
            {
                set(&mut shape, axis, height); // the last one of a run may be lower
            }
            vec![Piece::whole(source, bytes, block.part.codecs.clone(), shape, ElementTransform::None)]
        };
        let layers = match chunk {
            Some(Chunk::There(part)) => {
                let range = ByteRange::new(part.offset, part.length);
                stored(part.source, PieceBytes::At(range), part.length)
            }
            Some(Chunk::Here(bytes)) => {
                stored(SourceId(0), PieceBytes::Here(bytes.clone()), bytes.len() as u64)
            }
            Some(Chunk::Made(content)) => self.made(content, &window)?,
            None => vec![self.constant(block.part.missing.as_ref(), &window)?],
        };
        let placed = layers.into_iter().map(|piece| self.in_destination(block, overlap, &window, piece));
        placed.filter_map(Result::transpose).collect()
    }

    /// Returns the layers of a chunk that is assembled of pieces itself: the background, if they do not cover the window, and
    /// the pieces.
    fn made(&self, content: &ChunkContent, window: &Window) -> Result<Vec<Piece>> {
        let background = match content {
            ChunkContent::Assemble { background, .. } => Some(background.clone()),
            ChunkContent::Variable { .. } => None,
            _ => return Err(unsupported("its chunks cannot be divided")),
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
            _ => Err(unsupported("its fill value is not a scalar")),
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
        let (here, shape) = (PieceBytes::Here(bytes.into()), window.extent.clone());
        let piece = Piece::whole(SourceId(0), here, Vec::new(), shape, ElementTransform::None);
        Ok(Piece { to: window.from.clone(), ..piece })
    }

    /// Clips a piece to a window, and converts it to the axes of the destination; `None` if it is outside. Axes of the source
    /// without a counterpart are joined with the next.
    fn in_destination(
        &self,
        block: &Block,
        overlap: &[AxisOverlap],
        window: &Window,
        mut piece: Piece,
    ) -> Result<Option<Piece>> {
        let wanted = window.from.iter().zip(&window.extent);
        let has = piece.from.iter_mut().zip(piece.to.iter_mut()).zip(piece.extent.iter_mut());
        for ((start, size), ((from, to), extent)) in wanted.zip(has) {
            let low = (*start).max(*to);
            let high = start.saturating_add(*size).min(to.saturating_add(*extent));
            *extent = high.saturating_sub(low);
            *from = from.saturating_add(low - *to);
            *to = low;
        }
        if piece.extent.contains(&0) {
            return Ok(None);
        }
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
        if joined == 1 {
            return Ok(Some(placed));
        }
        // The `index`-th of each run of `joined` elements.
        let refused = || unsupported("single elements of its last axis cannot be extracted");
        let size = self.element.data_type.size().and_then(|size| u32::try_from(size).ok());
        let size = size.ok_or_else(refused)?;
        let (stored_size, parts) = match placed.transform {
            ElementTransform::Repack { stored_size, parts } => (stored_size, parts),
            transform => {
                let stored_size = transform.stored_size().unwrap_or(size);
                (stored_size, [ElementPart { from: 0, to: 0, size, transform }].into())
            }
        };
        let times = |n: u64| u32::try_from(n.checked_mul(stored_size.into())?).ok();
        let (Some(stored_size), Some(passed)) = (times(joined), times(index)) else { return Err(refused()) };
        let moved =
            |part: &ElementPart| Some(ElementPart { from: part.from.checked_add(passed)?, ..part.clone() });
        let parts = parts.iter().map(moved).collect::<Option<_>>().ok_or_else(refused)?;
        placed.transform = ElementTransform::Repack { stored_size, parts };
        Ok(Some(placed))
    }
}

fn unsupported(problem: &'static str) -> Error {
    Error::unsupported("a virtual source", problem)
}

/// Bytes of memory for a chunk of the virtual dataset.
const SLOT_BYTES: u64 = 96;

/// Maximum number of pieces in the assembled chunks of a virtual dataset.
const PIECES: usize = 500_000;

/// Number of chunks beyond which an array that fits the inline limit becomes one chunk.
const SMALL_CHUNKS: u64 = 10_000;

/// Bytes that may be decoded for inlined chunks, as a multiple of the inline limit.
const DECODED: u64 = 16;

/// Overlap of a chunk of a source with a chunk of the virtual dataset.
struct Overlap {
    /// Position of the chunk of the virtual dataset.
    at: u64,
    /// Number of the block.
    block: usize,
    /// Number of the combination of overlaps along the axes.
    combination: u64,
    /// The chunk of the source; `None` if it is missing.
    chunk: Option<Chunk>,
    /// Whether it covers the chunk of the virtual dataset.
    is_whole: bool,
    /// Whether the chunk of the source can be a chunk of the grid: it is not the shorter last part of contiguous data, and not
    /// assembled itself.
    is_unbroken: bool,
}

/// Content of a chunk of the virtual dataset.
enum Slot<'a> {
    Missing,
    /// A chunk of a source.
    Whole(&'a Chunk),
    /// Pieces of these overlaps. Later ones cover earlier ones.
    Made(&'a [Overlap]),
}

/// Size of the chunks that are assembled.
#[derive(Default)]
struct Assembled {
    chunks: u64,
    pieces: usize,
    /// Bytes that pieces carry themselves.
    here: u64,
    /// Bytes that are decoded for the pieces.
    decoded: u64,
}

/// Why chunks are assembled.
const MADE: &str = "its chunks differ from those of its sources in grid, filters or fill value";

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
struct AxisOverlap {
    /// Index of the destination's chunk.
    to: u64,
    /// First element in it.
    to_offset: u64,
    /// Index of the source's chunk.
    from: u64,
    /// First element in it.
    from_offset: u64,
    /// Number of elements.
    length: u64,
    /// Whether the chunks coincide, up to the end of the destination.
    is_whole: bool,
}

/// Part of a source's chunk, along the axes of the source.
struct Window {
    from: Vec<u64>,
    extent: Vec<u64>,
}

fn is_empty_text(value: Option<&FillValue>) -> bool {
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
