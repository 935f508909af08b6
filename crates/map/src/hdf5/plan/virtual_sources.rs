//! Sources of a virtual dataset, and their chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use virtualize_hdf5::model::{Dataset, Layout, Object, VirtualMapping};
use virtualize_zarr::{ChunkGrid, Codec, FillValue, Reference, SourceId, chunk_position};

use super::planner::{ChunkPlan, ChunkPlanner, is_reference};
use super::spans::{Axis, Span, axes};
use crate::hdf5::header_fill::DatasetFill;
use crate::hdf5::others::{FileContext, no_dataset};
use crate::hdf5::source_table::SourceTable;
use crate::{ChunkContent, Error, MapOptions, Result};

/// Most chunks of a virtual dataset.
pub(super) const CHUNKS: u64 = 10_000_000;

pub(super) fn too_many() -> Error {
    Error::Limit { what: "chunks in a virtual dataset", limit: CHUNKS }
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
        let chunks = chunks_of(&mut plan, &context.here.source.url, sources)?;
        Ok(Part { chunk_shape: plan.chunk_shape, codecs: plan.codecs, chunks, missing, cut, shape })
    }
}

pub(super) fn unsupported(problem: &'static str) -> Error {
    Error::unsupported("a virtual source", problem)
}

/// Returns the chunks of a source by position, with sources renumbered to those of the virtual dataset.
fn chunks_of(plan: &mut ChunkPlan, own: &str, sources: &mut SourceTable) -> Result<BTreeMap<u64, Chunk>> {
    let ids: Result<Vec<SourceId>> = std::iter::once(own)
        .chain(plan.external_files.iter().map(String::as_str))
        .map(|url| sources.id(url))
        .collect();
    let ids = ids?;
    let id = |source: SourceId| {
        ids.get(source.index()).copied().ok_or(Error::Overflow("the list of source files"))
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
    Ok(chunks)
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
