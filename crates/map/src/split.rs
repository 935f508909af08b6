//! Splitting of contiguous data along their slowest axis ([`MapOptions::split_contiguous`](crate::MapOptions)).
//!
//! The chunks of a regular grid all have the same number of bytes. The last one must therefore be whole, or is inlined and
//! padded beyond the end of the array.

use bytes::Bytes;
use virtualize_bytes::ByteRange;
use virtualize_zarr::{Lengths, References, SourceId};

use crate::{ChunkContent, ElementTransform, Piece, PieceBytes};

/// Most chunks that one array is split into.
const CHUNKS: u64 = 1_000_000;

/// An array that is stored contiguously.
#[derive(Clone, Debug)]
pub(crate) struct Contiguous<'a> {
    /// All stored elements.
    pub(crate) range: ByteRange,
    /// Shape of the array.
    pub(crate) shape: &'a [u64],
    /// Bytes of a stored element.
    pub(crate) element: u64,
    /// Conversion of a stored element.
    pub(crate) transform: &'a ElementTransform,
    /// One element of the array, which pads the last chunk.
    pub(crate) background: Bytes,
}

/// Chunks of contiguous data.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// Shape of a chunk.
    pub(crate) chunk_shape: Vec<u64>,
    /// The whole chunks.
    pub(crate) references: References,
    /// Position and content of the last chunk, if it is padded.
    pub(crate) last: Option<(u64, ChunkContent)>,
}

/// Why the last chunk is inlined.
pub(crate) const SHORTER: &str = "the last part of contiguous data is shorter than a chunk";

/// Split of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    /// The axis.
    axis: usize,
    /// Size of the axis, in slices.
    size: u64,
    /// Slices of a chunk.
    height: u64,
    /// Bytes of a slice.
    slice: u64,
}

impl Contiguous<'_> {
    /// Splits the data into chunks of at most `most` bytes, but at least one slice. At most `inline` bytes are inlined.
    /// Returns `None` if there is nothing to split.
    pub(crate) fn split(&self, most: u64, inline: u64) -> Option<Split> {
        let cut = self.cut(most, inline)?;
        let mut chunk_shape: Vec<u64> = self.shape.iter().map(|n| (*n).max(1)).collect();
        *chunk_shape.get_mut(cut.axis)? = cut.height;
        let length = cut.height.checked_mul(cut.slice)?;
        let starts = (0..cut.size / cut.height).map(|chunk| self.range.start.saturating_add(chunk * length));
        let references = References {
            source: SourceId(0),
            positions: None,
            offsets: starts.collect::<Vec<_>>().into(),
            lengths: Lengths::Uniform(length),
        };
        let last = (!cut.size.is_multiple_of(cut.height))
            .then(|| (cut.size / cut.height, self.last(&cut, &chunk_shape)));
        Some(Split { chunk_shape, references, last })
    }

    fn cut(&self, most: u64, inline: u64) -> Option<Cut> {
        let axis = self.shape.iter().position(|n| *n > 1)?;
        let size = *self.shape.get(axis)?;
        let inner = self.shape.get(axis + 1..)?;
        let slice = inner.iter().try_fold(self.element, |product, n| product.checked_mul(*n))?;
        let height = height(size, most.checked_div(slice)?, inline.checked_div(slice)?)?;
        Some(Cut { axis, size, height, slice })
    }

    /// Returns the content of the last chunk: the rest of the array, padded with the background.
    fn last(&self, cut: &Cut, chunk_shape: &[u64]) -> ChunkContent {
        let rest = cut.size % cut.height;
        let length = rest.saturating_mul(cut.slice);
        let mut extent = chunk_shape.to_vec();
        if let Some(n) = extent.get_mut(cut.axis) {
            *n = rest;
        }
        let origin = vec![0; extent.len()];
        let piece = Piece {
            source: SourceId(0),
            bytes: PieceBytes::At(ByteRange::new(self.range.end().saturating_sub(length), length)),
            codecs: Vec::new(),
            shape: extent.clone(),
            from: origin.clone(),
            to: origin,
            extent,
            transform: self.transform.clone(),
        };
        ChunkContent::Assemble {
            shape: chunk_shape.to_vec(),
            background: self.background.clone(),
            pieces: vec![piece],
        }
    }
}

/// Returns the slices of a chunk, of which at most `most` are wanted: the largest divisor of `size` if it is at least half of
/// `most`; else `most`, if a chunk of it may be inlined (at most `inline` slices); else the largest divisor. `None` if the
/// axis is not split.
fn height(size: u64, most: u64, inline: u64) -> Option<u64> {
    let most = most.max(1);
    if most >= size || size.div_ceil(most) > CHUNKS {
        return None;
    }
    let divisor = largest_divisor(size, most);
    if divisor.is_none_or(|height| height < most.div_ceil(2)) && most <= inline {
        return Some(most);
    }
    divisor
}

/// Returns the largest divisor of `size` up to `most` that makes at most [`CHUNKS`] chunks.
fn largest_divisor(size: u64, most: u64) -> Option<u64> {
    (size.div_ceil(most)..=CHUNKS.min(size))
        .find(|chunks| size.is_multiple_of(*chunks))
        .map(|chunks| size / chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors() {
        assert_eq!(largest_divisor(12, 5), Some(4));
        assert_eq!(largest_divisor(12, 11), Some(6));
        assert_eq!(largest_divisor(36, 6), Some(6));
        assert_eq!(largest_divisor(7, 6), Some(1));
        assert_eq!(height(1_000_003, 2, 0), None);
        assert_eq!(height(1_000_003, 2, 2), Some(2));
        assert_eq!(height(u64::MAX, 1, 1), None);
        assert_eq!((height(CHUNKS, 1, 0), height(CHUNKS + 1, 1, 0)), (Some(1), None));
        assert_eq!(height(9, 6, 6), Some(3), "half of what is wanted");
        assert_eq!(height(7, 6, 6), Some(6));
    }
}
