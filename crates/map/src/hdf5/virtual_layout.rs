//! Virtual datasets: where the blocks that they are made of lie on one chunk grid, references are those of the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use virtualize_hdf5::model::{Dataset, FillTime, Layout, Object, VirtualMapping};
use virtualize_zarr::{ChunkGrid, Codec, FillValue, Lengths, Reference, References, SourceId};

use super::chunked::can_encode;
use super::header_fill::{HeaderFill, header_fill};
use super::layout::{Placed, Placing};
use super::names::resolve;
use super::others::World;
use super::spans::{Axis, Span, axes, is_unlimited};
use super::types::ElementType;
use crate::{ChunkContent, MapOptions};

/// Most chunks of a virtual dataset.
const CHUNKS: u64 = 10_000_000;

/// A source dataset. Where it holds nothing, it reads as its fill value.
struct Part {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    codecs: Vec<Codec>,
    chunks: BTreeMap<u64, Chunk>,
    /// What its missing chunks read as.
    missing: Option<FillValue>,
    /// The axis along which its one run of bytes may be cut, and how many bytes a slice has.
    cut: Option<(usize, u64)>,
}

/// A chunk of a source.
#[derive(Clone)]
enum Chunk {
    /// In the file of this url.
    There(Rc<str>, Reference),
    Here(Bytes),
}

/// The chunks so far.
#[derive(Default)]
struct Laid {
    chunks: BTreeMap<u64, Chunk>,
    /// Positions that a mapping touches; true: with nothing.
    touched: BTreeMap<u64, bool>,
    /// How often one was touched.
    steps: u64,
}

/// A part and where it goes.
struct Block {
    part: Rc<Part>,
    axes: Vec<Axis>,
}

/// What missing elements of a dataset read as; `None` where no scalar says it. Virtual datasets know no "never".
pub(super) fn missing_reads(dataset: &Dataset, element: &ElementType) -> Result<Option<FillValue>, String> {
    let is_virtual = matches!(dataset.layout, Layout::Virtual(_));
    Ok(match header_fill(&dataset.fill, element)? {
        HeaderFill::Inexpressible(_) => None,
        HeaderFill::Scalar(_) if dataset.fill.write_time == FillTime::Never && !is_virtual => {
            Some(FillValue::zero(&element.data_type))
        }
        HeaderFill::Scalar(value) => Some(value),
    })
}

impl Placing<'_> {
    /// Puts the chunks of all sources on the grid of the virtual dataset.
    pub(super) fn virtual_sources(&self, mappings: &[VirtualMapping]) -> Result<Placed, String> {
        // The extent of such a dataset follows from its sources: what the file says is not to be trusted.
        if mappings.iter().any(|mapping| is_unlimited(&mapping.destination) || is_unlimited(&mapping.source))
        {
            return Err("unlimited selections of virtual datasets are not mapped".to_owned());
        }
        let mut placed = self.one_chunk()?;
        if self.is_empty() {
            return Ok(placed);
        }
        let (blocks, missing_files) = self.blocks(mappings)?;
        placed.missing_files = missing_files;
        let holding = || blocks.iter().filter(|block| !block.part.chunks.is_empty());
        if let Some(first) = holding().next() {
            placed.codecs.clone_from(&first.part.codecs);
            if holding().any(|block| block.part.codecs != placed.codecs) {
                return Err("its sources differ in their filters".to_owned());
            }
            placed.chunk_shape = grid(holding(), self.shape)?;
        }
        let mut laid = Laid::default();
        for block in &blocks {
            self.lay(block, &mut placed, &mut laid)?;
        }
        if !placed.inline.is_empty() {
            let why = "the fill value of a source is not that of the virtual dataset";
            self.check_limit(placed.inline.len() as u64, &placed.chunk_shape, why)?;
            placed.inline_reason = Some(why.to_owned());
        }
        self.gather(laid.chunks, &mut placed)?;
        Ok(placed)
    }

    /// The blocks, in the order of their mappings, and the names of the files that do not exist.
    fn blocks(&self, mappings: &[VirtualMapping]) -> Result<(Vec<Block>, Vec<String>), String> {
        let mut known: BTreeMap<(&str, &str), Option<Rc<Part>>> = BTreeMap::new();
        let (mut blocks, mut missing) = (Vec::new(), BTreeSet::new());
        for mapping in mappings {
            if mapping.file.contains('%') || mapping.dataset.contains('%') {
                let name = if mapping.file.contains('%') { &mapping.file } else { &mapping.dataset };
                return Err(format!(
                    "its sources have a pattern for a name (\"{name}\"), which is not mapped"
                ));
            }
            let key = (mapping.file.as_str(), mapping.dataset.as_str());
            let part = match known.get(&key) {
                Some(part) => part.clone(),
                None => {
                    let part = self.part(mapping)?.map(Rc::new);
                    known.insert(key, part.clone());
                    part
                }
            };
            let Some(part) = part else {
                // A place that two mappings claim is refused, also where one of them has no file.
                let part = self.nothing();
                let axes = axes(&mapping.destination, self.shape, &mapping.destination, self.shape)?;
                blocks.push(Block { part: Rc::new(part), axes });
                missing.insert(mapping.file.clone());
                continue;
            };
            let axes = axes(&mapping.destination, self.shape, &mapping.source, &part.shape)?;
            blocks.push(Block { part, axes });
        }
        Ok((blocks, missing.into_iter().collect()))
    }

    /// A source that does not exist: what is not mapped reads as this dataset's fill value.
    fn nothing(&self) -> Part {
        Part {
            shape: self.shape.to_vec(),
            chunk_shape: self.shape.to_vec(),
            codecs: Vec::new(),
            chunks: BTreeMap::new(),
            missing: self.background.cloned(),
            cut: None,
        }
    }

    /// The source of a mapping; `None` where its file does not exist.
    fn part(&self, mapping: &VirtualMapping) -> Result<Option<Part>, String> {
        let Some(world) = self.world.of_source(&mapping.file)? else { return Ok(None) };
        let name = || format!("its source \"{}\" in \"{}\"", mapping.dataset, mapping.file);
        let file = world.here.file;
        let object = resolve(file, file.root, &mapping.dataset).and_then(|at| file.objects.get(&at));
        let Some(Object::Dataset(dataset)) = object else { return Err(format!("{} is no dataset", name())) };
        if dataset.datatype != self.dataset.datatype {
            return Err(format!("{} has another type", name()));
        }
        self.part_of(dataset, world).map(Some).map_err(|why| match why.starts_with("its source") {
            true => why,
            false => format!("{}: {why}", name()),
        })
    }

    fn part_of(&self, dataset: &Dataset, world: World<'_>) -> Result<Part, String> {
        let extent = dataset.dataspace.shape().ok_or("it has no extent")?;
        let shape: Vec<u64> = extent.iter().chain(&self.element.axes).copied().collect();
        let missing = missing_reads(dataset, self.element)?;
        let options = MapOptions { split_contiguous: None, ..self.options.clone() };
        let placing = Placing {
            dataset,
            element: self.element,
            shape: &shape,
            background: missing.as_ref(),
            objects: self.objects,
            options: &options,
            file_size: world.here.source.size,
            world,
        };
        let placed = placing.place()?;
        if !placed.inline.is_empty() {
            let why = placed.inline_reason.unwrap_or_default();
            return Err(format!("its chunks would have to be made anew: {why}"));
        }
        let cut = match dataset.layout {
            Layout::Contiguous(Some(_)) => shape.iter().position(|n| *n > 1).map(|axis| {
                (axis, placing.stored_bytes(shape.get(axis + 1..).unwrap_or_default()).unwrap_or(0))
            }),
            _ => None,
        };
        let chunks = chunks_of(&placed, &world.here.source.url)?;
        Ok(Part { chunk_shape: placed.chunk_shape, codecs: placed.codecs, chunks, missing, cut, shape })
    }

    /// Puts the chunks of a block in their places.
    fn lay(&self, block: &Block, placed: &mut Placed, laid: &mut Laid) -> Result<(), String> {
        let same_fill = self.background.is_some() && block.part.missing.as_ref() == self.background;
        let counts = ChunkGrid::Regular(placed.chunk_shape.clone()).counts(self.shape);
        if block.part.chunks.is_empty() && same_fill {
            let whole: Vec<_> = block.axes.iter().map(|axis| touching(axis, &placed.chunk_shape)).collect();
            return product(&block.axes, &whole, &counts, 0, &mut |at, _| laid.claim(at, true));
        }
        let shape = cut_shape(block, &placed.chunk_shape);
        let steps = aligned(block, &placed.chunk_shape, self.shape, &shape)?;
        product(&block.axes, &steps, &counts, shape.len(), &mut |at, from| {
            laid.claim(at, false)?;
            match chunk_at(&block.part, &shape, from)? {
                Some(chunk) => drop(laid.chunks.insert(at, chunk)),
                None if same_fill => {}
                None => placed.inline.push((at, self.constant(block, placed)?)),
            }
            Ok(())
        })
    }

    /// A chunk of a source's fill value.
    fn constant(&self, block: &Block, placed: &Placed) -> Result<ChunkContent, String> {
        let value = match &block.part.missing {
            Some(value @ FillValue::Fixed(_)) if placed.codecs.iter().all(can_encode) => value,
            _ => return Err("the fill value of a source cannot be written".to_owned()),
        };
        let background = Placing { background: Some(value), ..*self }.background_bytes();
        Ok(ChunkContent::Assemble { shape: placed.chunk_shape.clone(), background, pieces: Vec::new() })
    }

    /// Chunks as columns, one a file.
    fn gather(&self, chunks: BTreeMap<u64, Chunk>, placed: &mut Placed) -> Result<(), String> {
        let mut ids: BTreeMap<Rc<str>, usize> = BTreeMap::new();
        let mut columns: Vec<(SourceId, Vec<(u64, Reference)>)> = Vec::new();
        for (position, chunk) in chunks {
            let (url, reference) = match chunk {
                Chunk::There(url, reference) => (url, reference),
                Chunk::Here(bytes) => {
                    placed.chunks.inline.insert(position, bytes);
                    continue;
                }
            };
            let column = match ids.get(&url) {
                Some(column) => *column,
                None => {
                    columns.push((self.source_id(&url, placed)?, Vec::new()));
                    ids.insert(url, columns.len() - 1);
                    columns.len() - 1
                }
            };
            if let Some((_, column)) = columns.get_mut(column) {
                column.push((position, reference));
            }
        }
        let inline: u64 = placed.chunks.inline.values().map(|bytes| bytes.len() as u64).sum();
        if inline > self.options.inline_limit {
            return Err(format!("{inline} bytes of compact sources are too much to inline"));
        }
        let columns: Result<Vec<_>, _> =
            columns.into_iter().map(|(id, column)| references(id, &column)).collect();
        placed.chunks.references = columns?;
        Ok(())
    }

    fn source_id(&self, url: &str, placed: &mut Placed) -> Result<SourceId, String> {
        if url == self.world.here.source.url {
            return Ok(SourceId(0));
        }
        placed.external_files.push(url.to_owned());
        u32::try_from(placed.external_files.len())
            .map(SourceId)
            .map_err(|_| "too many source files".to_owned())
    }
}

/// The chunks of a source by position.
fn chunks_of(placed: &Placed, own: &str) -> Result<BTreeMap<u64, Chunk>, String> {
    let mut chunks = BTreeMap::new();
    for column in &placed.chunks.references {
        let url: Rc<str> = match column.source.index().checked_sub(1) {
            None => own.into(),
            Some(at) => placed.external_files.get(at).ok_or("a chunk lies in no known file")?.as_str().into(),
        };
        let there = |(position, reference)| (position, Chunk::There(Rc::clone(&url), reference));
        chunks.extend(column.iter().map(there));
    }
    let here = placed.chunks.inline.iter();
    chunks.extend(here.map(|(position, bytes)| (*position, Chunk::Here(bytes.clone()))));
    Ok(chunks)
}

fn references(source: SourceId, chunks: &[(u64, Reference)]) -> Result<References, String> {
    let length = chunks.first().map_or(0, |(_, reference)| reference.length);
    let lengths = match chunks.iter().all(|(_, reference)| reference.length == length) {
        true => Lengths::Uniform(length),
        false => {
            let each = chunks.iter().map(|(_, reference)| u32::try_from(reference.length));
            Lengths::Each(each.collect::<Result<_, _>>().map_err(|_| "a chunk passes 32 bits")?)
        }
    };
    let positions = chunks.iter().map(|(position, _)| *position).collect();
    let offsets = chunks.iter().map(|(_, reference)| reference.offset).collect();
    Ok(References { source, positions: Some(positions), offsets, lengths })
}

/// The chunk shape that all blocks share: that of a source which cannot be cut, else the largest into which all can.
fn grid<'a>(blocks: impl Iterator<Item = &'a Block> + Clone, shape: &[u64]) -> Result<Vec<u64>, String> {
    let fixed = blocks.clone().find(|block| block.part.cut.is_none());
    let mut grid = vec![1; shape.len()];
    for (to, size) in grid.iter_mut().enumerate() {
        let mut sizes = match fixed {
            Some(fixed) => vec![size_along(fixed, to)],
            None => blocks.clone().map(|block| size_along(block, to)).collect(),
        };
        let first = sizes.pop().unwrap_or(1);
        *size = sizes.into_iter().fold(first, gcd).max(1);
    }
    Ok(grid)
}

/// The chunks of a block along an axis of the destination: of its source, or the largest into which its run can be cut.
fn size_along(block: &Block, to: usize) -> u64 {
    let Some(axis) = block.axes.iter().find(|axis| axis.to == Some(to)) else { return 1 };
    let Some(from) = axis.from else { return 1 };
    match block.part.cut {
        Some((cut, _)) if cut == from => {
            axis.spans.iter().fold(0, |size, span| gcd(gcd(size, span.to), gcd(span.from, span.length)))
        }
        _ => block.part.chunk_shape.get(from).copied().unwrap_or(1),
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// The chunk shape of a source, its run cut to fit the grid.
fn cut_shape(block: &Block, grid: &[u64]) -> Vec<u64> {
    let mut shape = block.part.chunk_shape.clone();
    if let Some((cut, _)) = block.part.cut
        && let Some(size) = shape.get_mut(cut)
    {
        let axis = block.axes.iter().find(|axis| axis.from == Some(cut));
        *size = axis.and_then(|axis| axis.to).and_then(|to| grid.get(to)).copied().unwrap_or(1);
    }
    shape
}

/// For each axis, which chunk of the destination is which of the source, where their borders agree.
fn aligned(
    block: &Block,
    grid: &[u64],
    extent: &[u64],
    shape: &[u64],
) -> Result<Vec<Vec<(u64, u64)>>, String> {
    let misaligned = || "its blocks do not lie on one grid of the sources' chunks".to_owned();
    let is_empty = block.part.chunks.is_empty();
    let is_flat = matches!(block.part.codecs.first(), Some(Codec::Bytes { .. }));
    let mut steps = Vec::new();
    for axis in &block.axes {
        let size = axis.to.and_then(|to| grid.get(to)).copied().unwrap_or(1);
        let end = axis.to.and_then(|to| extent.get(to)).copied();
        let source = axis.from.and_then(|from| shape.get(from)).copied().unwrap_or(1);
        let is_paired = axis.to.is_some() && axis.from.is_some();
        if !is_empty && (source != size || (!is_paired && !is_flat)) {
            return Err(misaligned());
        }
        let mut along = Vec::new();
        for span in &axis.spans {
            let ends_well = span.length.is_multiple_of(size) || Some(span.to + span.length) == end;
            let begins_well = span.to.is_multiple_of(size) && (is_empty || span.from.is_multiple_of(size));
            if !ends_well || !begins_well {
                return Err(misaligned());
            }
            let count = span.length.div_ceil(size);
            if count > CHUNKS {
                return Err(too_many());
            }
            along.extend((0..count).map(|n| (span.to / size + n, span.from / size + n)));
        }
        steps.push(along);
    }
    Ok(steps)
}

/// The chunks of the destination that an axis touches.
fn touching(axis: &Axis, grid: &[u64]) -> Vec<(u64, u64)> {
    let Some(size) = axis.to.and_then(|to| grid.get(to)).copied() else { return vec![(0, 0)] };
    let chunks = |span: &Span| span.to / size..(span.to + span.length).div_ceil(size);
    let all: BTreeSet<u64> = axis.spans.iter().flat_map(chunks).collect();
    all.into_iter().map(|to| (to, 0)).collect()
}

/// What is done with a chunk: its position in the destination, its index in the source.
type Visit<'a> = dyn FnMut(u64, &[u64]) -> Result<(), String> + 'a;

/// Calls `each` with the row-major position in the destination and the index in the source of each chunk.
fn product(
    axes: &[Axis],
    steps: &[Vec<(u64, u64)>],
    counts: &[u64],
    rank: usize,
    each: &mut Visit<'_>,
) -> Result<(), String> {
    let total = steps.iter().try_fold(1_u64, |n, along| n.checked_mul(along.len() as u64));
    let total = total.filter(|total| *total <= CHUNKS).ok_or_else(too_many)?;
    for mut n in 0..total {
        let (mut to, mut from) = (vec![0; counts.len()], vec![0; rank]);
        for (axis, along) in axes.iter().zip(steps).rev() {
            let at = usize::try_from(n % along.len() as u64).unwrap_or(usize::MAX);
            n /= along.len() as u64;
            let Some((there, here)) = along.get(at) else { continue };
            if let Some(place) = axis.to.and_then(|to_axis| to.get_mut(to_axis)) {
                *place = *there;
            }
            if let Some(place) = axis.from.and_then(|from_axis| from.get_mut(from_axis)) {
                *place = *here;
            }
        }
        each(row_major(&to, counts).ok_or_else(too_many)?, &from)?;
    }
    Ok(())
}

fn row_major(index: &[u64], counts: &[u64]) -> Option<u64> {
    index.iter().zip(counts).try_fold(0_u64, |at, (n, count)| at.checked_mul(*count)?.checked_add(*n))
}

/// A chunk of a source by its index in the grid of `shape`.
fn chunk_at(part: &Part, shape: &[u64], index: &[u64]) -> Result<Option<Chunk>, String> {
    let Some((axis, slice)) = part.cut else {
        let counts = ChunkGrid::Regular(shape.to_vec()).counts(&part.shape);
        let position = row_major(index, &counts).ok_or_else(too_many)?;
        return Ok(part.chunks.get(&position).cloned());
    };
    let Some(Chunk::There(url, whole)) = part.chunks.get(&0) else { return Ok(None) };
    let height = shape.get(axis).copied().unwrap_or(1);
    let length = height.saturating_mul(slice);
    let start = index.get(axis).copied().unwrap_or(0).saturating_mul(length);
    if start.saturating_add(length) > whole.length {
        return Err("its last block is shorter than a chunk".to_owned());
    }
    let reference = Reference { offset: whole.offset.saturating_add(start), length, ..*whole };
    Ok(Some(Chunk::There(Rc::clone(url), reference)))
}

impl Laid {
    /// Notes that a mapping touches a chunk, which only one may fill.
    fn claim(&mut self, position: u64, with_nothing: bool) -> Result<(), String> {
        self.steps += 1;
        if self.steps > CHUNKS {
            return Err(too_many());
        }
        match self.touched.insert(position, with_nothing) {
            Some(before) if !(before && with_nothing) => {
                Err("its mappings overlap, or one fills a chunk only in part".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn too_many() -> String {
    format!("it has more than {CHUNKS} chunks")
}
