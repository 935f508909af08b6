//! Pieces of a virtual dataset's chunks: parts of the chunks of its sources.

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_zarr::{Codec, DataType, FillValue, SourceId};

use super::planner::ChunkPlanner;
use super::virtual_sources::{Block, Chunk, unsupported};
use crate::{ChunkContent, ElementTransform, Error, Piece, PieceBytes, Result};

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
        let limit = || Error::InlineLimit {
            reason: "the fill value of a source differs".into(),
            content: format!("{:?} of its elements", window.extent),
            limit: self.options.inline_limit,
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
