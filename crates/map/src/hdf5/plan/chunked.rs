//! Chunked layouts: the chunk table becomes the manifest. Chunks whose filters differ from those of the rest are inlined in
//! the codecs of the array.

use std::collections::BTreeMap;
use std::sync::Arc;

use virtualize_hdf5::model::{ChunkSizes, ChunkTable, Chunked};
use virtualize_zarr::{
    ChunkGrid, ChunkManifest, Codec, Endian, Lengths, References, SourceId, StoredInteger, chunk_indices,
};

use super::chunk_table::{check_table, entries, furthest_end, malformed};
use super::filters::Pipeline;
use super::lzo::LZO;
use super::planner::{ChunkPlan, ChunkPlanner, can_encode};
use super::zfp::ZFP;
use crate::{ChunkContent, ElementTransform, Error, Result};

/// Chunks that are made in the codecs of the array, by position.
type Mismatched = Vec<(u64, ChunkContent)>;

/// The chunks of a dataset.
pub(super) struct Chunks<'a> {
    pub(super) chunked: &'a Chunked,
    pub(super) pipeline: Pipeline,
    /// Shape of a chunk, with the axes of an array type.
    shape: Vec<u64>,
    /// Chunks along each axis.
    grid: Vec<u64>,
    /// Shape of the array.
    extent: &'a [u64],
    /// Decoded bytes of a chunk.
    bytes: u64,
}

impl ChunkPlanner<'_> {
    /// Plans a chunked layout.
    ///
    /// # Errors
    /// The chunk table is malformed, a filter has no codec, or chunks that have to be made exceed the inline limit.
    pub(super) fn chunked(&self, chunked: &Chunked) -> Result<ChunkPlan> {
        match self.dataset.filters.as_slice() {
            _ if self.options.own_codecs => {}
            filters @ [filter, ..] if filter.id == ZFP => return self.zfp(chunked, filters),
            [before @ .., filter] if filter.id == LZO => return self.lzo(chunked, before),
            _ => {}
        }
        let chunks = self.chunks(chunked)?;
        let mut plan = ChunkPlan { chunk_shape: chunks.shape.clone(), ..self.one_missing_chunk() };
        if self.is_empty() || chunked.chunks.addresses.is_empty() {
            return Ok(self.with_codecs(plan, chunks.pipeline.applied(0), chunks.bytes));
        }
        let table = &chunked.chunks;
        check_table(table, &chunks.grid)?;
        self.check_end(furthest_end(table))?;
        let mask = common_mask(table);
        let codecs = chunks.pipeline.applied(mask);
        let integers = self.own_integers();
        let reason = match self.must_be_made() {
            Some(why) if integers.is_none() => Some(why.into()),
            _ => {
                self.clients_decode(&codecs, &chunks.shape, chunks.bytes).err().map(|error| error.to_string())
            }
        };
        if let Some(why) = reason {
            return self.inline_all(plan, &chunks, why);
        }
        let (codecs, mismatched) = self.mismatches(&chunks, mask, codecs);
        if mismatched.is_empty() {
            if codecs.is_empty() {
                check_uniform(table, chunks.bytes)?;
            }
        } else {
            let why = format!("{} chunks went through other filters than the rest", mismatched.len());
            if !codecs.iter().all(can_encode) {
                return self.inline_all(plan, &chunks, why);
            }
            self.check_limit(mismatched.len() as u64, &chunks.shape, &why)?;
            plan.inline_reason = Some(why);
            plan.inline = mismatched;
        }
        plan.codecs = self.chain(integers.into_iter().chain(codecs).collect());
        plan.chunks = ChunkManifest::of(references(table));
        Ok(plan)
    }

    fn chunks<'a>(&'a self, chunked: &'a Chunked) -> Result<Chunks<'a>> {
        let shape = self.chunk_shape(chunked)?;
        let bytes = self.stored_bytes(&shape).ok_or(Error::Overflow("a chunk"))?;
        let grid = ChunkGrid::Regular(shape.clone()).counts(self.shape);
        let filters = &self.dataset.filters;
        let pipeline = match self.options.own_codecs {
            true => Pipeline::own(filters, bytes)?,
            false => Pipeline::new(filters)?,
        };
        if self.options.own_codecs {
            self.check_zfp(filters, &shape)?;
        }
        Ok(Chunks { chunked, pipeline, shape, grid, extent: self.shape, bytes })
    }

    /// Returns the shape of a chunk, with the axes of an array type.
    ///
    /// # Errors
    /// It does not fit the extent.
    pub(super) fn chunk_shape(&self, chunked: &Chunked) -> Result<Vec<u64>> {
        let shape: Vec<u64> = chunked.chunk_shape.iter().chain(&self.element.axes).copied().collect();
        match shape.len() == self.shape.len() && !shape.contains(&0) {
            true => Ok(shape),
            false => Err(malformed(format!("chunks of {shape:?} in an extent of {:?}", self.shape))),
        }
    }

    /// Sets the codecs of an array without allocated chunks, in which constant chunks may be encoded.
    fn with_codecs(&self, mut plan: ChunkPlan, codecs: Vec<Codec>, bytes: u64) -> ChunkPlan {
        if self.must_be_made().is_none()
            && codecs.iter().all(can_encode)
            && self.clients_decode(&codecs, &plan.chunk_shape.clone(), bytes).is_ok()
        {
            plan.codecs = self.chain(codecs);
        }
        plan
    }

    /// Returns the codec of integers with unused bits, if codecs may have our own names.
    fn own_integers(&self) -> Option<Codec> {
        let ElementTransform::Integer {
            stored_size, stored_big_endian, bit_offset, precision, signed, ..
        } = self.element.transform
        else {
            return None;
        };
        let is_own = self.options.own_codecs && self.element.data_type.is_integer();
        let endian = if stored_big_endian { Endian::Big } else { Endian::Little };
        let stored = StoredInteger { size: stored_size, endian, offset: bit_offset, precision, signed };
        let size = u32::try_from(self.element.data_type.size()?).ok().filter(|_| is_own)?;
        Codec::Integers { size, endian: self.element.endian, stored }.own()
    }

    /// Plans to make every allocated chunk.
    fn inline_all(&self, mut plan: ChunkPlan, chunks: &Chunks<'_>, why: String) -> Result<ChunkPlan> {
        let table = &chunks.chunked.chunks;
        self.check_limit(table.addresses.len() as u64, &chunks.shape, &why)?;
        for (position, range) in entries(table) {
            let codecs = chunks.pipeline.applied(chunks.mask(position, table));
            let content = chunks.inside(position, self.content(&chunks.shape, range, codecs));
            plan.inline.push((position, content));
        }
        plan.inline_reason = Some(why);
        Ok(plan)
    }

    /// Returns the codecs of the array, and the chunks that they do not decode as they are stored. Given are the codecs of
    /// most chunks.
    fn mismatches(&self, chunks: &Chunks<'_>, mask: u32, codecs: Vec<Codec>) -> (Vec<Codec>, Mismatched) {
        let mismatched = self.mismatched_chunks(chunks, mask, &codecs);
        let optional = if mismatched.is_empty() { None } else { chunks.optional_codecs() };
        match optional {
            Some(optional) if optional.exceptions.len() <= mismatched.len() => {
                let content = |(position, range, mask): (u64, _, _)| {
                    (position, self.content(&chunks.shape, range, chunks.pipeline.applied(mask)))
                };
                (optional.codecs, optional.exceptions.into_iter().map(content).collect())
            }
            _ => (codecs, mismatched),
        }
    }

    /// Returns the chunks that the codecs of the array do not decode as they are stored, with their content.
    fn mismatched_chunks(&self, chunks: &Chunks<'_>, mask: u32, codecs: &[Codec]) -> Mismatched {
        let table = &chunks.chunked.chunks;
        let bounded = codecs.iter().any(|codec| matches!(codec, Codec::Lzf));
        let same_filters = table.filter_masks.is_empty() || table.filter_masks.values().all(|m| *m == mask);
        if same_filters && !chunks.chunked.unfiltered_edges && !bounded {
            return Vec::new();
        }
        let mut by_mask: BTreeMap<u32, Vec<Codec>> = BTreeMap::new();
        let mut mismatched = Vec::new();
        for (position, range) in entries(table) {
            let mask = chunks.mask(position, table);
            let applied = by_mask.entry(mask).or_insert_with(|| chunks.pipeline.applied(mask));
            let is_decodable = codecs.iter().all(|codec| codec.client_decodes(range.length, chunks.bytes));
            if applied != codecs || !is_decodable {
                let content = self.content(&chunks.shape, range, applied.clone());
                mismatched.push((position, chunks.inside(position, content)));
            }
        }
        mismatched
    }
}

impl Chunks<'_> {
    /// Returns the filter mask of a chunk: bit *n* is set if filter *n* was skipped. Partial edge chunks may skip all
    /// filters, by a flag of the layout.
    pub(super) fn mask(&self, position: u64, table: &ChunkTable) -> u32 {
        if self.chunked.unfiltered_edges && self.is_partial(position) {
            return u32::MAX;
        }
        table.filter_masks.get(&position).copied().unwrap_or(0)
    }

    /// Restricts a chunk to its elements inside the array: some writers end chunks with the last of them.
    fn inside(&self, position: u64, mut content: ChunkContent) -> ChunkContent {
        if let ChunkContent::Assemble { pieces, .. } | ChunkContent::Variable { pieces, .. } = &mut content
            && let Some(indices) = chunk_indices(position, &self.grid)
        {
            for piece in pieces {
                let axes = piece.extent.iter_mut().zip(indices.iter().zip(&self.shape).zip(self.extent));
                for (extent, ((index, chunk), size)) in axes {
                    *extent = (*extent).min(size.saturating_sub(index.saturating_mul(*chunk)));
                }
            }
        }
        content
    }

    /// Whether a chunk extends beyond the array.
    fn is_partial(&self, position: u64) -> bool {
        let Some(indices) = chunk_indices(position, &self.grid) else { return false };
        indices
            .iter()
            .zip(&self.shape)
            .zip(self.extent)
            .any(|((index, chunk), extent)| index.saturating_add(1).saturating_mul(*chunk) > *extent)
    }
}

fn references(table: &ChunkTable) -> References {
    References {
        source: SourceId(0),
        positions: table.positions.clone(),
        offsets: Arc::clone(&table.addresses),
        lengths: match &table.sizes {
            ChunkSizes::Uniform(size) => Lengths::Uniform(*size),
            ChunkSizes::Each(sizes) => Lengths::Each(Arc::clone(sizes)),
        },
    }
}

/// Returns the filter mask that all chunks share; 0 (no filter skipped) if they differ.
fn common_mask(table: &ChunkTable) -> u32 {
    let mut masks = table.filter_masks.values();
    match masks.next() {
        Some(first)
            if table.filter_masks.len() == table.addresses.len() && masks.all(|mask| mask == first) =>
        {
            *first
        }
        _ => 0,
    }
}

/// Refuses unfiltered chunks that are not of their full size.
fn check_uniform(table: &ChunkTable, bytes: u64) -> Result<()> {
    match entries(table).find(|(_, range)| range.length != bytes) {
        Some((position, range)) => {
            Err(malformed(format!("chunk {position} ({range}) is unfiltered, but not of {bytes} bytes")))
        }
        None => Ok(()),
    }
}
