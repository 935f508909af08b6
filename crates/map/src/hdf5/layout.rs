//! Where the chunks of a dataset lie, and what must be made inline for it.

use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Dataset, Datatype, Layout};
use virtualize_zarr::{
    ChunkManifest, Codec, DataType, Endian, FillValue, Lengths, References, SourceId, in_byte_order,
};

use super::filters::clients_decode;
use super::names::ObjectNames;
use super::others::FileContext;
use super::types::ElementType;
use crate::{ChunkContent, ElementTransform, Error, MapOptions, Piece, PieceBytes, ReferenceText, Result};

/// Most chunks of one array that are made inline one by one.
pub(super) const INLINE_CHUNKS: u64 = 100_000;

/// What planner the chunks looks at.
#[derive(Clone, Copy)]
pub(super) struct ChunkPlanner<'a> {
    /// The dataset.
    pub(super) dataset: &'a Dataset,
    /// Its elements.
    pub(super) element: &'a ElementType,
    /// Shape of the array, appended axes included.
    pub(super) shape: &'a [u64],
    /// What missing elements read as; `None` where no scalar says it.
    pub(super) background: Option<&'a FillValue>,
    /// Paths of the file's objects.
    pub(super) objects: &'a Arc<ObjectNames>,
    /// The user's choices.
    pub(super) options: &'a MapOptions,
    /// Size of the file in bytes, 0 where it is not known.
    pub(super) file_size: u64,
    /// The file and those beside it.
    pub(super) context: FileContext<'a>,
}

/// The chunks of an array.
#[derive(Clone, Debug)]
pub(super) struct ChunkPlan {
    /// Shape of a chunk.
    pub(super) chunk_shape: Vec<u64>,
    /// Codecs of the array, in the order of encoding.
    pub(super) codecs: Vec<Codec>,
    /// Chunks that lie in files, or are here already.
    pub(super) chunks: ChunkManifest,
    /// Chunks to be made: position and content.
    pub(super) inline: Vec<(u64, ChunkContent)>,
    /// Why chunks are made inline, where they are.
    pub(super) inline_reason: Option<String>,
    /// Urls of other files that chunks refer to; [`SourceId`] 1 and on.
    pub(super) external_files: Vec<String>,
    /// Names of other files that do not exist.
    pub(super) missing_files: Vec<String>,
}

impl ChunkPlanner<'_> {
    /// Places all chunks, or says why the array must be left out.
    pub(super) fn place(&self) -> Result<ChunkPlan> {
        match &self.dataset.layout {
            Layout::Compact(bytes) => self.compact(bytes),
            Layout::Contiguous(None) => self.one_chunk(),
            Layout::Contiguous(Some(range)) => self.contiguous(*range),
            Layout::External(segments) => self.external(segments),
            Layout::Chunked(chunked) => self.chunked(chunked),
            Layout::Virtual(mappings) => self.virtual_sources(mappings),
            Layout::Unreadable(error) => Err(error.clone().into()),
        }
    }

    /// The codec that turns the array into bytes.
    pub(super) fn array_to_bytes(&self) -> Codec {
        match &self.element.data_type {
            DataType::String => Codec::VlenUtf8,
            data_type if has_order(data_type) => Codec::Bytes { endian: Some(self.element.endian) },
            _ => Codec::Bytes { endian: None },
        }
    }

    /// Stored bytes of a chunk of this shape; `None` past 64 bits.
    pub(super) fn stored_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        chunk_shape.iter().try_fold(self.element.stored_size, |product, n| product.checked_mul(*n))
    }

    /// Bytes of a made chunk of this shape.
    pub(super) fn made_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        let size = self.element.data_type.size().unwrap_or(self.element.stored_size);
        chunk_shape.iter().try_fold(size, |product, n| product.checked_mul(*n))
    }

    /// An array of one chunk, which is missing.
    pub(super) fn one_chunk(&self) -> Result<ChunkPlan> {
        Ok(ChunkPlan {
            chunk_shape: self.shape.iter().map(|n| (*n).max(1)).collect(),
            codecs: vec![self.array_to_bytes()],
            chunks: ChunkManifest::default(),
            inline: Vec::new(),
            inline_reason: None,
            external_files: Vec::new(),
            missing_files: Vec::new(),
        })
    }

    /// Whether the array has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether chunks cannot be referred to as they are stored, whatever their filters.
    pub(super) fn must_be_made(&self) -> Option<&'static str> {
        match &self.element.transform {
            _ if is_reference(&self.dataset.datatype) => Some("references become the paths of their targets"),
            _ if self.element.data_type == DataType::String => {
                Some("text of variable length lies in the global heap")
            }
            ElementTransform::None => None,
            ElementTransform::Repack { strings, .. } if !strings.is_empty() => {
                Some("its strings are null-terminated or space-padded, and those of Zarr null-padded")
            }
            ElementTransform::Repack { reversed, .. } if !reversed.is_empty() => {
                Some("members of the compound differ in byte order")
            }
            ElementTransform::Repack { .. } => Some("members of the compound leave gaps"),
            ElementTransform::Integer { .. } if self.element.data_type == DataType::Bool => {
                Some("booleans have more than one byte")
            }
            ElementTransform::Integer { .. } => Some("integers have unused bits"),
            ElementTransform::Float { .. } => Some("floats are in no IEEE 754 format"),
            ElementTransform::ComplexInteger { .. } => Some("complex integers become floats"),
        }
    }

    /// Refuses what is too much to be inlined.
    pub(super) fn check_limit(&self, chunks: u64, chunk_shape: &[u64], why: &str) -> Result<()> {
        let bytes = self.made_bytes(chunk_shape).and_then(|bytes| bytes.checked_mul(chunks));
        match bytes {
            Some(bytes) if bytes <= self.options.inline_limit && chunks <= INLINE_CHUNKS => Ok(()),
            _ => Err(Error::InlineLimit {
                reason: why.to_owned().into(),
                content: format!("{chunks} chunks of {chunk_shape:?}"),
                limit: self.options.inline_limit,
            }),
        }
    }

    /// The content of a chunk made from one stretch of the file.
    pub(super) fn content(&self, chunk_shape: &[u64], range: ByteRange, codecs: Vec<Codec>) -> ChunkContent {
        self.content_of(chunk_shape, PieceBytes::At(range), codecs)
    }

    /// The content of a chunk made from one run of encoded bytes.
    fn content_of(&self, chunk_shape: &[u64], bytes: PieceBytes, codecs: Vec<Codec>) -> ChunkContent {
        let origin = vec![0; chunk_shape.len()];
        let piece = Piece {
            source: SourceId(0),
            bytes,
            codecs,
            shape: chunk_shape.to_vec(),
            from: origin.clone(),
            to: origin,
            extent: chunk_shape.to_vec(),
            transform: self.element.transform.clone(),
        };
        self.made_of_pieces(chunk_shape, vec![piece])
    }

    /// A chunk of pieces, on a background.
    pub(super) fn made_of_pieces(&self, chunk_shape: &[u64], pieces: Vec<Piece>) -> ChunkContent {
        match self.element.data_type {
            DataType::String => ChunkContent::Variable {
                shape: chunk_shape.to_vec(),
                datatype: item_type(&self.dataset.datatype).clone(),
                pieces,
                objects: Arc::clone(self.objects),
                text: ReferenceText::Path,
            },
            _ => ChunkContent::Assemble {
                shape: chunk_shape.to_vec(),
                background: self.background_bytes(),
                pieces,
            },
        }
    }

    /// One missing element in stored order; zero where no scalar says it.
    pub(super) fn background_bytes(&self) -> Bytes {
        let size = self.element.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        match self.background {
            Some(FillValue::Fixed(bytes)) => {
                in_byte_order(bytes, &self.element.data_type, self.element.endian).unwrap_or_default().into()
            }
            _ => vec![0; size].into(),
        }
    }

    fn compact(&self, bytes: &Bytes) -> Result<ChunkPlan> {
        let mut plan = self.one_chunk()?;
        if self.is_empty() {
            return Ok(plan);
        }
        let needed = self.stored_bytes(&plan.chunk_shape).and_then(|n| usize::try_from(n).ok());
        let stored = needed.and_then(|needed| bytes.get(..needed)).ok_or_else(|| {
            let (found, needed) = (bytes.len(), needed.unwrap_or(usize::MAX));
            Error::malformed("compact layout", format!("{found} bytes, its extent needs {needed}"))
        })?;
        if self.element.data_type == DataType::String {
            plan.inline_reason = self.must_be_made().map(str::to_owned);
            let here = PieceBytes::Here(bytes.slice_ref(stored));
            plan.inline.push((0, self.content_of(&plan.chunk_shape, here, Vec::new())));
            return Ok(plan);
        }
        let size = self.element.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let chunk = match self.element.is_stored_as_it_is() {
            true => bytes.slice_ref(stored),
            false => {
                let converted = self.element.transform.apply(stored, size);
                let problem = || Error::malformed("compact layout", "elements that cannot be converted");
                converted.ok_or_else(problem)?.into()
            }
        };
        plan.chunks.inline.insert(0, chunk);
        Ok(plan)
    }

    fn contiguous(&self, range: ByteRange) -> Result<ChunkPlan> {
        let mut plan = self.one_chunk()?;
        if self.is_empty() {
            return Ok(plan);
        }
        let needed = self.stored_bytes(&plan.chunk_shape).ok_or(Error::Overflow("the extent"))?;
        if range.length < needed {
            let problem = format!("{range} is shorter than the {needed} bytes of its extent");
            return Err(Error::malformed("contiguous layout", problem));
        }
        let range = ByteRange::new(range.start, needed);
        self.check_end(range.end())?;
        if let Some(why) = self.must_be_made() {
            self.check_limit(1, &plan.chunk_shape, why)?;
            plan.inline.push((0, self.content(&plan.chunk_shape, range, Vec::new())));
            plan.inline_reason = Some(why.to_owned());
            return Ok(plan);
        }
        if let Some(split) = self.options.split_contiguous.and_then(|most| self.split(range, most)) {
            return Ok(split);
        }
        plan.chunks = ChunkManifest::of(References {
            source: SourceId(0),
            positions: None,
            offsets: vec![range.start],
            lengths: Lengths::Uniform(needed),
        });
        Ok(plan)
    }

    /// Refuses storage past the end of the file.
    pub(super) fn check_end(&self, end: u64) -> Result<()> {
        match self.file_size {
            size if size > 0 && end > size => {
                Err(Error::Truncated { structure: "storage".into(), end, size })
            }
            _ => Ok(()),
        }
    }

    /// Whether released clients decode chunks of this shape that went through these codecs.
    pub(super) fn clients_decode(
        &self,
        codecs: &[Codec],
        chunk_shape: &[u64],
        chunk_bytes: u64,
    ) -> Result<()> {
        // Of several components imagecodecs makes the last axis, whereas FCIDECOMP has them first. A chunk that skipped
        // the filter has no such codec, so that this is asked here and not of the filter.
        let planes = chunk_shape.iter().rev().skip(2).any(|n| *n > 1);
        if planes && codecs.iter().any(|codec| matches!(codec, Codec::Image { .. })) {
            return Err(Error::undecodable(
                "FCIDECOMP (32018)",
                "chunks of several components decode with their axes in another order",
            ));
        }
        if self.element.endian == Endian::Big
            && has_order(&self.element.data_type)
            && codecs.iter().any(Codec::is_array_to_bytes)
        {
            return Err(Error::undecodable(
                "image codec",
                "big-endian numbers decode to the reader's byte order",
            ));
        }
        clients_decode(codecs, chunk_bytes, self.options.format)
    }

    /// All codecs of the array, `applied` being those that the filters stand for.
    pub(super) fn chain(&self, applied: Vec<Codec>) -> Vec<Codec> {
        match applied.first() {
            Some(first) if first.is_array_to_bytes() => applied,
            _ => std::iter::once(self.array_to_bytes()).chain(applied).collect(),
        }
    }
}

/// Whether the byte order matters for elements of this type.
fn has_order(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_order(&field.data_type)),
        other => other.number_size() > 1,
    }
}

/// Whether elements refer to objects.
pub(super) fn is_reference(datatype: &Datatype) -> bool {
    matches!(item_type(datatype), Datatype::Reference { .. })
}

/// The type of an item of an array type, else the type itself.
pub(super) fn item_type(datatype: &Datatype) -> &Datatype {
    match datatype {
        Datatype::Array { base, .. } => item_type(base),
        other => other,
    }
}
