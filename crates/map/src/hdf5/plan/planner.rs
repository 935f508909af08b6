//! The planner of a dataset's chunks, and the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_hdf5::model::{Dataset, Datatype, Filter};
use virtualize_zarr::{
    ChunkGrid, ChunkManifest, Codec, DataType, Endian, FillValue, Implementation, SourceId, in_byte_order,
};

use super::filters::{BLOSC2, clients_decode};
use crate::hdf5::element::ElementType;
use crate::hdf5::heap::holds_pointers;
use crate::hdf5::names::{HeapPointers, ObjectNames};
use crate::hdf5::others::FileContext;
use crate::{ChunkContent, ElementTransform, Error, MapOptions, Piece, PieceBytes, ReferenceText, Result};

/// Most chunks of one array that are made inline one by one.
pub(in crate::hdf5) const INLINE_CHUNKS: u64 = 100_000;

/// What planner the chunks looks at.
#[derive(Clone, Copy)]
pub(in crate::hdf5) struct ChunkPlanner<'a> {
    /// The dataset.
    pub(in crate::hdf5) dataset: &'a Dataset,
    /// Type of its elements.
    pub(in crate::hdf5) element: &'a ElementType,
    /// Shape of the array, with the axes of an array type.
    pub(in crate::hdf5) shape: &'a [u64],
    /// What missing elements read as; `None` if no scalar equals it.
    pub(in crate::hdf5) background: Option<&'a FillValue>,
    /// Paths of the file's objects.
    pub(in crate::hdf5) objects: &'a Arc<ObjectNames>,
    /// The user's choices.
    pub(in crate::hdf5) options: &'a MapOptions,
    /// Size of the file in bytes; 0 if it is not known.
    pub(in crate::hdf5) file_size: u64,
    /// The file, and the others that it names.
    pub(in crate::hdf5) context: FileContext<'a>,
}

/// The chunks of an array.
#[derive(Clone, Debug)]
pub(in crate::hdf5) struct ChunkPlan {
    /// Shape of a chunk.
    pub(in crate::hdf5) chunk_shape: Vec<u64>,
    /// Codecs of the array, in the order of encoding.
    pub(in crate::hdf5) codecs: Vec<Codec>,
    /// Chunks that are stored in files, or inlined already.
    pub(in crate::hdf5) chunks: ChunkManifest,
    /// Chunks that have to be made, as (row-major position, content).
    pub(in crate::hdf5) inline: Vec<(u64, ChunkContent)>,
    /// Why chunks have to be made, if any do.
    pub(in crate::hdf5) inline_reason: Option<String>,
    /// Urls of other files that chunks refer to: [`SourceId`] 1 and so on.
    pub(in crate::hdf5) external_files: Vec<String>,
    /// Names of other files that do not exist.
    pub(in crate::hdf5) missing_files: Vec<String>,
}

impl ChunkPlanner<'_> {
    /// Returns the codec that encodes elements as bytes.
    pub(in crate::hdf5) fn array_to_bytes(&self) -> Codec {
        match &self.element.data_type {
            DataType::String => Codec::VlenUtf8,
            data_type if has_order(data_type) => Codec::Bytes { endian: Some(self.element.endian) },
            _ => Codec::Bytes { endian: None },
        }
    }

    /// Returns the stored bytes of an unfiltered chunk of this shape; `None` past 64 bits.
    pub(in crate::hdf5) fn stored_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        chunk_shape.iter().try_fold(self.element.stored_size, |product, n| product.checked_mul(*n))
    }

    /// Returns the decoded bytes of a chunk of this shape that is made; `None` past 64 bits.
    pub(in crate::hdf5) fn made_bytes(&self, chunk_shape: &[u64]) -> Option<u64> {
        let size = self.element.data_type.size().unwrap_or(self.element.stored_size);
        chunk_shape.iter().try_fold(size, |product, n| product.checked_mul(*n))
    }

    /// Returns the plan of an array of one chunk, which is missing.
    pub(in crate::hdf5) fn one_missing_chunk(&self) -> ChunkPlan {
        ChunkPlan {
            chunk_shape: self.shape.iter().map(|n| (*n).max(1)).collect(),
            codecs: vec![self.array_to_bytes()],
            chunks: ChunkManifest::default(),
            inline: Vec::new(),
            inline_reason: None,
            external_files: Vec::new(),
            missing_files: Vec::new(),
        }
    }

    /// Whether the array has no elements.
    pub(in crate::hdf5) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns why chunks cannot be referenced as they are stored, whatever their filters; `None` if they can.
    pub(in crate::hdf5) fn must_be_made(&self) -> Option<&'static str> {
        match &self.element.transform {
            _ if is_reference(&self.dataset.datatype) => Some("references become the paths of their targets"),
            _ if self.element.data_type == DataType::String => {
                Some("text of variable length lies in the global heap")
            }
            _ if holds_pointers(&self.dataset.datatype) => {
                Some("values of variable length lie in the global heap")
            }
            ElementTransform::None => None,
            ElementTransform::Repack { strings, .. } if !strings.is_empty() => {
                Some("its strings are null-terminated or space-padded, and those of Zarr null-padded")
            }
            ElementTransform::Repack { converted, .. } if !converted.is_empty() => {
                Some("members of the compound are converted")
            }
            ElementTransform::Repack { reversed, .. } if !reversed.is_empty() => {
                Some("members of the compound differ in byte order")
            }
            ElementTransform::Repack { .. } => Some("members of the compound leave gaps"),
            ElementTransform::Integer { .. } if self.element.data_type == DataType::Bool => {
                Some("booleans have more than one byte")
            }
            ElementTransform::Integer { .. } => Some("integers have unused bits"),
            ElementTransform::Float { stored, .. } if stored.size > 8 => {
                Some("floats have more than 64 bits")
            }
            ElementTransform::Float { .. } => Some("floats are in no IEEE 754 format"),
            ElementTransform::Time { .. } => Some("times of PyTables are counts of seconds and microseconds"),
        }
    }

    /// Refuses to inline more than the inline limit, in bytes decoded. `why` is the reason for inlining.
    pub(in crate::hdf5) fn check_limit(&self, chunks: u64, chunk_shape: &[u64], why: &str) -> Result<()> {
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

    /// Returns the content of a chunk that is decoded from one range of the file.
    pub(in crate::hdf5) fn content(
        &self,
        chunk_shape: &[u64],
        range: ByteRange,
        codecs: Vec<Codec>,
    ) -> ChunkContent {
        self.content_of(chunk_shape, PieceBytes::At(range), codecs)
    }

    /// Returns the content of a chunk that is decoded from one run of encoded bytes.
    pub(super) fn content_of(
        &self,
        chunk_shape: &[u64],
        bytes: PieceBytes,
        codecs: Vec<Codec>,
    ) -> ChunkContent {
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

    /// Returns the content of a chunk that is assembled from pieces, on a background.
    pub(in crate::hdf5) fn made_of_pieces(&self, chunk_shape: &[u64], pieces: Vec<Piece>) -> ChunkContent {
        match self.element.data_type {
            DataType::String => ChunkContent::Variable {
                shape: chunk_shape.to_vec(),
                pointer_size: pointer_size(&self.dataset.datatype),
                pieces,
                pointers: Arc::new(HeapPointers {
                    datatype: item_type(&self.dataset.datatype).clone(),
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
    pub(in crate::hdf5) fn background_bytes(&self) -> Bytes {
        let size = self.element.data_type.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        match self.background {
            Some(FillValue::Fixed(bytes)) => {
                in_byte_order(bytes, &self.element.data_type, self.element.endian).unwrap_or_default().into()
            }
            _ => vec![0; size].into(),
        }
    }

    /// Refuses storage past the end of the file.
    pub(in crate::hdf5) fn check_end(&self, end: u64) -> Result<()> {
        match self.file_size {
            size if size > 0 && end > size => {
                Err(Error::Truncated { structure: "storage".into(), end, size })
            }
            _ => Ok(()),
        }
    }

    /// Checks that released clients decode chunks of this shape, of `chunk_bytes` decoded bytes.
    ///
    /// # Errors
    /// They do not, or decode them differently.
    pub(in crate::hdf5) fn clients_decode(
        &self,
        codecs: &[Codec],
        chunk_shape: &[u64],
        chunk_bytes: u64,
    ) -> Result<()> {
        // imagecodecs puts several components along the last axis, FCIDECOMP along the first. A chunk that skipped the filter
        // has no such codec, so the codecs are checked, not the filters.
        let planes = chunk_shape.iter().rev().skip(2).any(|n| *n > 1);
        if planes && codecs.iter().any(|codec| matches!(codec, Codec::JpegLs { .. })) {
            return Err(Error::undecodable(
                "FCIDECOMP (32018)",
                "chunks of several components decode with their axes in another order",
            ));
        }
        // Only with more client data do frames have the n-dimensional layer that imagecodecs needs.
        let is_flat = |filter: &Filter| filter.id == BLOSC2 && filter.parameters.len() <= 7;
        if codecs.contains(&Codec::Blosc2) && self.dataset.filters.iter().any(is_flat) {
            return Err(Error::undecodable(
                "Blosc2 (32026)",
                "readers decode frames of two axes and more only",
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

    /// Returns all codecs of the array, given those of its filters.
    pub(in crate::hdf5) fn chain(&self, applied: Vec<Codec>) -> Vec<Codec> {
        match applied.first() {
            Some(first) if first.is_array_to_bytes() => applied,
            _ => std::iter::once(self.array_to_bytes()).chain(applied).collect(),
        }
    }
}

impl ChunkPlan {
    /// Returns the number of chunks that are neither stored nor made.
    pub(in crate::hdf5) fn missing_count(&self, shape: &[u64]) -> u64 {
        let is_extra = |at: &u64| self.chunks.get(*at).is_none();
        let made = self.inline.iter().filter(|(at, _)| is_extra(at)).count() as u64;
        self.chunk_count(shape).saturating_sub(self.chunks.len().saturating_add(made))
    }

    /// Returns the positions of the chunks that are neither stored nor made, in order.
    pub(in crate::hdf5) fn missing_positions(&self, shape: &[u64]) -> Vec<u64> {
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
pub(in crate::hdf5) fn is_reference(datatype: &Datatype) -> bool {
    matches!(item_type(datatype), Datatype::Reference { .. })
}

/// Returns the size in bytes of an element that points into the global heap; 0 for other types.
fn pointer_size(datatype: &Datatype) -> u32 {
    match item_type(datatype) {
        Datatype::VariableString { size, .. }
        | Datatype::Sequence { size, .. }
        | Datatype::Reference { size, .. } => *size,
        _ => 0,
    }
}

/// Returns the type of the items of an array type, or the type itself.
pub(in crate::hdf5) fn item_type(datatype: &Datatype) -> &Datatype {
    match datatype {
        Datatype::Array { base, .. } => item_type(base),
        other => other,
    }
}

/// Whether this library encodes with the codec, in a way that clients decode.
pub(in crate::hdf5) fn can_encode(codec: &Codec) -> bool {
    let is_implemented = codec.implementation() == Implementation::Complete;
    matches!(codec, Codec::Bytes { .. }) || codec.is_bytes_to_bytes() && is_implemented
}
