//! Planning of chunks: the file and range that store each chunk of an array, and the chunks that have to be created.
//!
//! [`ChunkPlanner`] holds what a plan depends on. This file plans chunked storage; other layouts are in [`super::contiguous`]
//! and [`super::virtual_dataset`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{ChunkSizes, ChunkTable, Chunked, Dataset, Dataspace, Datatype, Filter, Layout};
use virtualize_zarr::{
    ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Implementation, Lengths, References,
    SourceId, ZarrFormat, chunk_indices, in_byte_order,
};

use super::SourceTable;
use super::datatype::ElementType;
use super::filters::{BLOSC2, LZO, Pipeline, ZFP, head, splits_elements};
use super::heap::holds_pointers;
use super::links::FileContext;
use super::tree::{HeapPointers, ObjectNames};
use crate::report::chunk_count;
use crate::{
    ChunkContent, Diagnostic, ElementTransform, Error, MapOptions, Piece, PieceBytes, ReferenceText, Result,
};

/// Maximum number of chunks of one array that are made inline one by one.
pub(super) const INLINE_CHUNKS: u64 = 100_000;

/// Why strings that are not null-padded are converted.
const STRINGS: &str = "its strings are null-terminated or space-padded, and those of Zarr null-padded";

/// Inputs of chunk planning for one dataset.
#[derive(Clone, Copy)]
pub(super) struct ChunkPlanner<'a> {
    /// The dataset.
    pub(super) dataset: &'a Dataset,
    /// Type of its elements.
    pub(super) element: &'a ElementType,
    /// Shape of the array, with the axes of an array type.
    pub(super) shape: &'a [u64],
    /// What missing elements read as; `None` if no scalar equals it.
    pub(super) background: Option<&'a FillValue>,
    /// Paths of the file's objects.
    pub(super) objects: &'a Arc<ObjectNames>,
    /// The user's choices.
    pub(super) options: &'a MapOptions,
    /// Start of the records of a NetCDF classic file whose small records are inlined.
    pub(super) small_records: Option<u64>,
    /// The file, and the others that it names.
    pub(super) context: FileContext<'a>,
}

/// The chunks of an array.
#[derive(Clone, Debug)]
pub(super) struct ChunkPlan {
    /// Shape of a chunk.
    pub(super) chunk_shape: Vec<u64>,
    /// Codecs of the array, in the order of encoding.
    pub(super) codecs: Vec<Codec>,
    /// Chunks that are stored in files, or inlined already.
    pub(super) chunks: ChunkManifest,
    /// Chunks that have to be made, as (row-major position, content).
    pub(super) inline: Vec<(u64, ChunkContent)>,
    /// Why chunks have to be made, if any do.
    pub(super) inline_reason: Option<String>,
    /// Urls of other files that chunks refer to: [`SourceId`] 1 and so on.
    pub(super) external_files: Vec<String>,
    /// Names of other files that do not exist.
    pub(super) missing_files: Vec<String>,
    /// Diagnostic of the storage, without the path of the array.
    pub(super) note: Option<Diagnostic>,
}

impl ChunkPlanner<'_> {
    /// Returns the codec that encodes elements as bytes.
    pub(super) fn array_to_bytes(&self) -> Codec {
        match &self.element.data_type {
            DataType::String => Codec::VlenUtf8,
            data_type if has_order(data_type) => Codec::Bytes { endian: Some(self.element.endian) },
            _ => Codec::Bytes { endian: None },
        }
    }

    /// Returns the stored bytes of an unfiltered chunk of this shape; `None` past 64 bits.
    pub(super) fn stored_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        chunk_shape.iter().try_fold(self.element.stored_size, |product, n| product.checked_mul(*n))
    }

    /// Returns the decoded bytes of a chunk of this shape that is made; `None` past 64 bits.
    pub(super) fn made_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        let size = self.element.data_type.size().unwrap_or(self.element.stored_size);
        chunk_shape.iter().try_fold(size, |product, n| product.checked_mul(*n))
    }

    /// Returns the plan of an array of one chunk, which is missing.
    pub(super) fn one_missing_chunk(&self) -> ChunkPlan {
        ChunkPlan {
            chunk_shape: self.shape.iter().map(|n| (*n).max(1)).collect(),
            codecs: vec![self.array_to_bytes()],
            chunks: ChunkManifest::default(),
            inline: Vec::new(),
            inline_reason: None,
            external_files: Vec::new(),
            missing_files: Vec::new(),
            note: None,
        }
    }

    /// Whether the array has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns why chunks cannot be referenced as they are stored, whatever their filters; `None` if they can.
    pub(super) fn must_be_made(&self) -> Option<&'static str> {
        match &self.element.transform {
            _ if is_reference(&self.dataset.datatype) => Some("references become the paths of their targets"),
            _ if self.element.data_type == DataType::String => {
                Some("variable-length text is stored in the global heap")
            }
            _ if holds_pointers(&self.dataset.datatype) => {
                Some("values of variable length are stored in the global heap")
            }
            ElementTransform::None => None,
            ElementTransform::NullTerminated | ElementTransform::SpacePadded => Some(STRINGS),
            ElementTransform::Reversed => None,
            ElementTransform::Repack { parts, .. } => {
                let (mut text, mut converted, mut reversed) = (false, false, false);
                for part in parts.iter() {
                    match part.transform {
                        ElementTransform::None => {}
                        ElementTransform::NullTerminated | ElementTransform::SpacePadded => text = true,
                        ElementTransform::Reversed => reversed = true,
                        _ => converted = true,
                    }
                }
                Some(match (text, converted, reversed) {
                    (true, ..) => STRINGS,
                    (_, true, _) => "members of the compound are converted",
                    (.., true) => "members of the compound differ in byte order",
                    _ => "members of the compound leave gaps",
                })
            }
            ElementTransform::Integer { .. } if self.element.data_type == DataType::Bool => {
                Some("booleans have more than one byte")
            }
            ElementTransform::Integer { .. } => Some("integers have unused bits"),
            ElementTransform::Float { stored, .. } if stored.size > 8 => {
                Some("floats have more than 64 bits")
            }
            ElementTransform::Float { .. } => Some("floats are not in an IEEE 754 format"),
            ElementTransform::Time { .. } => Some("times of PyTables are counts of seconds and microseconds"),
        }
    }

    /// Refuses to inline more than the inline limit, in bytes decoded. `why` is the reason for inlining.
    pub(super) fn check_limit(&self, chunks: u64, chunk_shape: &[u64], why: &str) -> Result<()> {
        let bytes = self.made_bytes(chunk_shape).and_then(|bytes| bytes.checked_mul(chunks));
        match bytes {
            Some(bytes) if bytes <= self.options.inline_limit && chunks <= INLINE_CHUNKS => Ok(()),
            _ => Err(Error::inline_limit(
                why,
                &format!("{} of {chunk_shape:?}", chunk_count(chunks)),
                self.options.inline_limit,
            )),
        }
    }

    /// Returns the content of a chunk that is decoded from one run of encoded bytes.
    pub(super) fn content(&self, chunk_shape: &[u64], bytes: PieceBytes, codecs: Vec<Codec>) -> ChunkContent {
        let transform = self.element.transform.clone();
        let piece = Piece::whole(SourceId(0), bytes, codecs, chunk_shape.to_vec(), transform);
        self.made_of_pieces(chunk_shape, vec![piece])
    }

    /// Returns the content of a chunk that is assembled from pieces, on a background.
    pub(super) fn made_of_pieces(&self, chunk_shape: &[u64], pieces: Vec<Piece>) -> ChunkContent {
        let item = item_type(&self.dataset.datatype);
        match self.element.data_type {
            DataType::String => ChunkContent::Variable {
                shape: chunk_shape.to_vec(),
                pointer_size: match item {
                    Datatype::VariableString { size, .. }
                    | Datatype::Sequence { size, .. }
                    | Datatype::Reference { size, .. } => *size,
                    _ => 0,
                },
                pieces,
                pointers: Arc::new(HeapPointers {
                    datatype: item.clone(),
                    objects: Arc::clone(self.objects),
                }),
                references: is_reference(&self.dataset.datatype).then_some(ReferenceText::Path),
            },
            _ => ChunkContent::Assemble {
                shape: chunk_shape.to_vec(),
                background: self.background_bytes(),
                pieces,
            },
        }
    }

    /// Returns one missing element in the byte order of the array; zeros if no scalar equals it.
    pub(super) fn background_bytes(&self) -> Bytes {
        match self.background {
            Some(FillValue::Fixed(bytes)) => {
                in_byte_order(bytes, &self.element.data_type, self.element.endian).unwrap_or_default().into()
            }
            _ => vec![0; self.element.size()].into(),
        }
    }

    /// Returns the size of the file in bytes; 0 if it is not known.
    pub(super) fn file_size(&self) -> u64 {
        self.context.here.source.size
    }

    /// Refuses storage past the end of the file.
    pub(super) fn check_end(&self, end: u64) -> Result<()> {
        match self.file_size() {
            size if size > 0 && end > size => Err(Error::truncated("storage", end, size)),
            _ => Ok(()),
        }
    }

    /// Checks that released clients decode chunks of this shape, of `chunk_bytes` decoded bytes.
    ///
    /// # Errors
    /// They do not, or decode them differently. Of a shuffle, only uncompressed lengths are known here.
    pub(super) fn clients_decode(
        &self,
        codecs: &[Codec],
        chunk_shape: &[u64],
        chunk_bytes: u64,
    ) -> Result<()> {
        // imagecodecs puts several components along the last axis, FCIDECOMP along the first. A chunk that skipped the filter
        // has no such codec, so the codecs are checked, not the filters.
        let planes = chunk_shape.iter().rev().skip(2).any(|n| *n > 1);
        if planes && codecs.iter().any(|codec| matches!(codec, Codec::JpegLs { .. })) {
            return Err(Error::unsupported(
                "FCIDECOMP (32018)",
                "chunks of several components decode with their axes in another order",
            ));
        }
        // Only with more client data do frames have the n-dimensional layer that imagecodecs needs.
        let is_flat = |filter: &Filter| filter.id == BLOSC2 && filter.parameters.len() <= 7;
        if codecs.contains(&Codec::Blosc2) && self.dataset.filters.iter().any(is_flat) {
            return Err(Error::unsupported(
                "Blosc2 (32026)",
                "readers decode frames of two axes and more only",
            ));
        }
        if self.element.endian == Endian::Big
            && has_order(&self.element.data_type)
            && codecs.iter().any(Codec::is_array_to_bytes)
        {
            return Err(Error::unsupported(
                "image codec",
                "big-endian numbers decode to the reader's byte order",
            ));
        }
        let mut length = Some(chunk_bytes);
        for codec in codecs {
            let (named, in_v2) = match self.options.format {
                ZarrFormat::V2 => (codec.to_v2(), false),
                ZarrFormat::V3 => (codec.to_v3(), codec.to_v2().is_ok()),
            };
            let hint = if in_v2 { " (Zarr v2 has one)" } else { "" };
            named.map_err(|error| Error::refused(format!("{error}{hint}")))?;
            if let Codec::Shuffle { element_size } = codec
                && splits_elements(length, *element_size)
            {
                return Err(Error::unsupported(
                    format!("shuffle of {element_size}-byte elements"),
                    "numcodecs undoes it on whole elements only",
                ));
            }
            length = length.and_then(|length| codec.encoded_length(length));
        }
        Ok(())
    }

    /// Returns all codecs of the array, given those of its filters.
    pub(super) fn chain(&self, applied: Vec<Codec>) -> Vec<Codec> {
        match applied.first() {
            Some(first) if first.is_array_to_bytes() => applied,
            _ => std::iter::once(self.array_to_bytes()).chain(applied).collect(),
        }
    }
}

impl ChunkPlan {
    /// Renumbers the sources of all chunks: from 0, the file `own` of the dataset, and the external files of the plan, to the
    /// numbers of a table.
    pub(super) fn renumber(&mut self, own: &str, table: &mut SourceTable) -> Result<()> {
        let urls = std::iter::once(own).chain(self.external_files.iter().map(String::as_str));
        let ids = urls.map(|url| table.id(url)).collect::<Result<Vec<_>>>()?;
        let of_chunks = self.chunks.references.iter_mut().map(|column| &mut column.source);
        let of_pieces = self.inline.iter_mut().flat_map(|(_, content)| content.sources_mut());
        for source in of_chunks.chain(of_pieces) {
            *source = *ids.get(source.index()).ok_or_else(|| Error::overflow("the list of source files"))?;
        }
        Ok(())
    }

    /// Returns the number of chunks that are neither stored nor made.
    pub(super) fn missing_count(&self, shape: &[u64]) -> u64 {
        let is_extra = |at: &u64| self.chunks.get(*at).is_none();
        let made = self.inline.iter().filter(|(at, _)| is_extra(at)).count() as u64;
        self.chunk_count(shape).saturating_sub(self.chunks.len().saturating_add(made))
    }

    /// Returns the positions of the chunks that are neither stored nor made, in order.
    pub(super) fn missing_positions(&self, shape: &[u64]) -> Vec<u64> {
        let made: BTreeSet<u64> = self.inline.iter().map(|(at, _)| *at).collect();
        let mut stored = self.chunks.iter().map(|(at, _)| at).peekable();
        let is_missing = |at: &u64| {
            while stored.next_if(|next| next < at).is_some() {}
            stored.peek() != Some(at) && !made.contains(at)
        };
        (0..self.chunk_count(shape)).filter(is_missing).collect()
    }

    fn chunk_count(&self, shape: &[u64]) -> u64 {
        let counts = ChunkGrid::Regular(self.chunk_shape.clone()).counts(shape);
        counts.iter().fold(1, |product: u64, n| product.saturating_mul(*n))
    }
}

/// Whether elements of this type have a byte order.
fn has_order(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_order(&field.data_type)),
        other => other.number_size() > 1,
    }
}

/// Whether elements are references to objects.
pub(super) fn is_reference(datatype: &Datatype) -> bool {
    matches!(item_type(datatype), Datatype::Reference { .. })
}

/// Returns the type of the items of an array type, or the type itself.
pub(super) fn item_type(datatype: &Datatype) -> &Datatype {
    match datatype {
        Datatype::Array { base, .. } => item_type(base),
        other => other,
    }
}

/// Whether this library encodes with the codec, in a way that clients decode.
pub(super) fn can_encode(codec: &Codec) -> bool {
    let is_implemented = codec.implementation() == Implementation::Complete;
    matches!(codec, Codec::Bytes { .. }) || codec.is_bytes_to_bytes() && is_implemented
}

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
    /// Plans all chunks of the dataset.
    ///
    /// # Errors
    /// The array must be omitted.
    pub(super) fn plan(&self) -> Result<ChunkPlan> {
        match &self.dataset.layout {
            Layout::Unreadable(error) => Err(error.clone().into()),
            _ if matches!(self.dataset.dataspace, Dataspace::Null) => Ok(self.one_missing_chunk()),
            Layout::Compact(bytes) => self.compact(bytes),
            Layout::Contiguous(None) => Ok(self.one_missing_chunk()),
            Layout::Contiguous(Some(range)) => self.contiguous(*range),
            Layout::Records(first) => self.records(*first),
            Layout::External(segments) => self.external(segments),
            Layout::Chunked(chunked) => self.chunked(chunked),
            Layout::Virtual(mappings) => self.virtual_sources(mappings),
        }
    }

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
            // Constant chunks may be encoded.
            let codecs = chunks.pipeline.applied(0);
            if self.must_be_made().is_none()
                && codecs.iter().all(can_encode)
                && self.clients_decode(&codecs, &plan.chunk_shape, chunks.bytes).is_ok()
            {
                plan.codecs = self.chain(codecs);
            }
            return Ok(plan);
        }
        let table = &chunked.chunks;
        check_table(table, &chunks.grid)?;
        self.check_end(furthest_end(table))?;
        let mut masks = table.filter_masks.values();
        let mask = match masks.next() {
            Some(first)
                if table.filter_masks.len() == table.addresses.len() && masks.all(|mask| mask == first) =>
            {
                *first
            }
            _ => 0,
        };
        let codecs = chunks.pipeline.applied(mask);
        // The codec of integers with unused bits, if codecs may have our own names.
        let integers = match (&self.element.transform, self.element.data_type.size()) {
            (ElementTransform::Integer { stored, .. }, Some(size))
                if self.options.own_codecs && self.element.data_type.is_integer() =>
            {
                let (size, endian) = (u32::try_from(size).unwrap_or(u32::MAX), self.element.endian);
                Codec::Integers { size, endian, stored: *stored }.own()
            }
            _ => None,
        };
        let reason = match self.must_be_made() {
            Some(why) if integers.is_none() => Some(why.into()),
            _ => {
                self.clients_decode(&codecs, &chunks.shape, chunks.bytes).err().map(|error| error.to_string())
            }
        };
        if let Some(why) = reason {
            return self.inline_all(plan, &chunks, why);
        }
        // The chunks that the codecs of the array do not decode as they are stored.
        let bounded = codecs.iter().any(|codec| matches!(codec, Codec::Lzf));
        let same_filters = table.filter_masks.is_empty() || table.filter_masks.values().all(|m| *m == mask);
        let mismatched = if same_filters && !chunked.unfiltered_edges && !bounded {
            Vec::new()
        } else {
            self.made_chunks(&chunks, |applied, length| {
                applied != codecs || !Codec::clients_decode(&codecs, length, chunks.bytes)
            })
        };
        let optional = if mismatched.is_empty() { None } else { chunks.optional_codecs() };
        let (codecs, mismatched) = match optional {
            Some((optional, exceptions)) if exceptions.len() <= mismatched.len() => {
                let content = |(position, range, mask): (u64, _, _)| {
                    (
                        position,
                        self.content(&chunks.shape, PieceBytes::At(range), chunks.pipeline.applied(mask)),
                    )
                };
                (optional, exceptions.into_iter().map(content).collect())
            }
            _ => (codecs, mismatched),
        };
        if mismatched.is_empty() {
            if codecs.is_empty() {
                let bytes = chunks.bytes;
                if let Some((position, range)) = entries(table).find(|(_, range)| range.length != bytes) {
                    let problem =
                        format!("chunk {position} ({range}) is unfiltered, but not of {bytes} bytes");
                    return Err(malformed(problem));
                }
            }
        } else {
            let why = format!("{} skipped some of the filters", chunk_count(mismatched.len() as u64));
            if !codecs.iter().all(can_encode) {
                return self.inline_all(plan, &chunks, why);
            }
            self.check_limit(mismatched.len() as u64, &chunks.shape, &why)?;
            plan.inline_reason = Some(why);
            plan.inline = mismatched;
        }
        plan.codecs = self.chain(integers.into_iter().chain(codecs).collect());
        plan.chunks = ChunkManifest::of(References {
            source: SourceId(0),
            positions: table.positions.clone(),
            offsets: Arc::clone(&table.addresses),
            lengths: match &table.sizes {
                ChunkSizes::Uniform(size) => Lengths::Uniform(*size),
                ChunkSizes::Each(sizes) => Lengths::Each(Arc::clone(sizes)),
            },
        });
        Ok(plan)
    }

    fn chunks<'a>(&'a self, chunked: &'a Chunked) -> Result<Chunks<'a>> {
        let shape = self.chunk_shape(chunked)?;
        let bytes = self.stored_bytes(&shape).ok_or_else(|| Error::overflow("a chunk"))?;
        let grid = ChunkGrid::Regular(shape.clone()).counts(self.shape);
        let filters = &self.dataset.filters;
        let pipeline = Pipeline::new(filters, self.options.own_codecs.then_some(bytes))?;
        if self.options.own_codecs {
            for filter in filters.iter().filter(|filter| filter.id == ZFP) {
                self.fits(&head(&filter.parameters)?, &shape)?;
            }
        }
        Ok(Chunks { chunked, pipeline, shape, grid, extent: self.shape, bytes })
    }

    /// Returns the shape of a chunk, with the axes of an array type.
    ///
    /// # Errors
    /// It does not fit the extent.
    pub(super) fn chunk_shape(&self, chunked: &Chunked) -> Result<Vec<u64>> {
        let shape: Vec<u64> = chunked.chunk_shape.iter().chain(&self.element.axes).copied().collect();
        if shape.len() == self.shape.len() && !shape.contains(&0) {
            Ok(shape)
        } else {
            Err(malformed(format!("chunks of {shape:?} in an extent of {:?}", self.shape)))
        }
    }

    /// Plans to make every allocated chunk.
    fn inline_all(&self, mut plan: ChunkPlan, chunks: &Chunks<'_>, why: String) -> Result<ChunkPlan> {
        self.check_limit(chunks.chunked.chunks.addresses.len() as u64, &chunks.shape, &why)?;
        plan.inline = self.made_chunks(chunks, |_, _| true);
        plan.inline_reason = Some(why);
        Ok(plan)
    }

    /// Returns position and content of the chunks that `is_made` selects by their codecs and stored length.
    fn made_chunks(
        &self,
        chunks: &Chunks<'_>,
        is_made: impl Fn(&[Codec], u64) -> bool,
    ) -> Vec<(u64, ChunkContent)> {
        let mut by_mask: BTreeMap<u32, Vec<Codec>> = BTreeMap::new();
        let mut made = Vec::new();
        for (position, range) in entries(&chunks.chunked.chunks) {
            let mask = chunks.mask(position);
            let applied = by_mask.entry(mask).or_insert_with(|| chunks.pipeline.applied(mask));
            if is_made(applied, range.length) {
                let content = self.content(&chunks.shape, PieceBytes::At(range), applied.clone());
                made.push((position, chunks.inside(position, content)));
            }
        }
        made
    }
}

/// A chunk: position, stored range and filter mask.
type MaskedChunk = (u64, ByteRange, u32);

impl Chunks<'_> {
    /// Returns the filter mask of a chunk: bit *n* is set if filter *n* was skipped. Partial edge chunks may skip all
    /// filters, by a flag of the layout.
    fn mask(&self, position: u64) -> u32 {
        if self.chunked.unfiltered_edges
            && let Some(indices) = chunk_indices(position, &self.grid)
        {
            let mut ends = indices
                .iter()
                .zip(&self.shape)
                .map(|(index, chunk)| index.saturating_add(1).saturating_mul(*chunk))
                .zip(self.extent);
            if ends.any(|(end, extent)| end > *extent) {
                return u32::MAX;
            }
        }
        self.chunked.chunks.filter_masks.get(&position).copied().unwrap_or(0)
    }

    /// Restricts a chunk to its elements inside the array: some writers end chunks with the last of them.
    fn inside(&self, position: u64, mut content: ChunkContent) -> ChunkContent {
        let indices = chunk_indices(position, &self.grid).unwrap_or_default();
        for piece in content.pieces_mut().into_iter().flatten() {
            let axes = indices.iter().zip(&self.shape).zip(self.extent);
            piece.clip(axes.map(|((index, chunk), size)| size.saturating_sub(index.saturating_mul(*chunk))));
        }
        content
    }

    /// Returns codecs that tell chunks apart by their length, and position, range and filter mask of each chunk whose length or
    /// filters contradict them; `None` where filters that some chunks skipped are not next to each other, or where a length
    /// depends on content.
    fn optional_codecs(&self) -> Option<(Vec<Codec>, Vec<MaskedChunk>)> {
        let table = &self.chunked.chunks;
        let relevant = self.pipeline.relevant();
        let masks = || entries(table).map(|(position, _)| self.mask(position) & relevant);
        let (base, most) = masks().fold((relevant, 0), |(base, most), mask| (base & mask, most | mask));
        let (codecs, skipped_length) = self.pipeline.optional(base, most & !base)?;
        let chunks = entries(table).map(|(position, range)| (position, range, self.mask(position)));
        let exceptions = chunks.filter(|(_, range, mask)| {
            let mask = mask & relevant;
            let is_expected = if mask == most { mask } else { base };
            mask != is_expected || (mask == most) != (range.length == skipped_length)
        });
        Some((codecs, exceptions.collect()))
    }
}

/// Returns the row-major position and the stored range of each allocated chunk.
pub(super) fn entries(table: &ChunkTable) -> impl Iterator<Item = (u64, ByteRange)> + '_ {
    table.addresses.iter().enumerate().filter_map(|(n, address)| {
        let position =
            table.positions.as_ref().map_or(Some(n as u64), |positions| positions.get(n).copied())?;
        let size = match &table.sizes {
            ChunkSizes::Uniform(size) => *size,
            ChunkSizes::Each(sizes) => u64::from(*sizes.get(n)?),
        };
        Some((position, ByteRange::new(*address, size)))
    })
}

/// Returns the end of the chunk that is stored last, in bytes from the start of the file; 0 without chunks.
pub(super) fn furthest_end(table: &ChunkTable) -> u64 {
    entries(table).map(|(_, range)| range.end()).max().unwrap_or(0)
}

/// A table that contradicts itself or the dataset.
pub(super) fn malformed(problem: String) -> Error {
    Error::malformed("chunk table", problem)
}

/// Refuses tables with chunks outside of the grid, of 0 bytes, or with columns of different lengths. `grid` is the number of
/// chunks along each axis.
pub(super) fn check_table(table: &ChunkTable, grid: &[u64]) -> Result<()> {
    let count = grid
        .iter()
        .try_fold(1u64, |product, n| product.checked_mul(*n))
        .ok_or_else(|| Error::overflow("the chunk grid"))?;
    let allocated = table.addresses.len() as u64;
    let in_grid = match &table.positions {
        Some(positions) => {
            positions.len() == table.addresses.len() && positions.last().is_none_or(|last| *last < count)
        }
        None => allocated <= count,
    };
    let sized = match &table.sizes {
        ChunkSizes::Uniform(size) => *size > 0,
        ChunkSizes::Each(sizes) => sizes.len() == table.addresses.len() && !sizes.contains(&0),
    };
    match (in_grid, sized) {
        (false, _) => Err(malformed(format!("{allocated} chunks in a grid of {grid:?}"))),
        (_, false) => Err(malformed("a chunk of 0 bytes".to_owned())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::tests::chunked;

    #[test]
    fn tables_that_contradict_themselves_or_the_grid_are_refused() {
        let check = |positions: Option<Vec<u64>>, sizes: &[u32], grid: &[u64]| {
            check_table(&chunked(&[2], grid, positions, sizes).chunks, grid)
                .map_err(|error| error.to_string())
        };
        let sound = [
            (None, &[8, 8][..], [2]),
            (Some(vec![0, 1]), &[8, 8], [2]),
            (Some(vec![3]), &[1], [4]),
            (None, &[], [0]),
        ];
        for (positions, sizes, grid) in sound {
            assert_eq!(check(positions, sizes, &grid), Ok(()));
        }
        let outside = [
            (None, &[8, 8, 8][..], [2]),
            (Some(vec![0, 2]), &[8, 8], [2]),
            (Some(vec![0]), &[8, 8], [2]),
            (Some(vec![0, 1, 2]), &[8, 8], [9]),
        ];
        for (positions, sizes, grid) in outside {
            assert!(check(positions, sizes, &grid).unwrap_err().contains("chunks in a grid"), "{sizes:?}");
        }
        assert!(check(None, &[8, 0], &[2]).unwrap_err().contains("0 bytes"));
        assert!(check(None, &[8], &[u64::MAX, 2]).is_err(), "more chunks than 64 bits count");
        let mut uniform = chunked(&[2], &[2], None, &[8, 8]).chunks;
        for (sizes, is_sound) in [
            (ChunkSizes::Uniform(8), true),
            (ChunkSizes::Uniform(0), false),
            (ChunkSizes::Each(vec![8].into()), false),
            (ChunkSizes::Each(vec![8, 8].into()), true),
        ] {
            uniform.sizes = sizes;
            assert_eq!(check_table(&uniform, &[2]).is_ok(), is_sound, "{:?}", uniform.sizes);
        }
    }
}
