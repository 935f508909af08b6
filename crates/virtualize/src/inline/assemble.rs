//! Assembly of chunks from pieces, and of streams of bits.

use bytes::Bytes;
use virtualize_bytes::Limits;
use virtualize_map::{ElementTransform, Piece, PieceBytes};
use virtualize_zarr::Codec;

use super::Fetched;
use crate::decode::{self, Region, copy_region};
use crate::error::Failure;

/// Returns the elements of a chunk in stored order: pieces on a background.
pub(super) fn chunk(
    limits: &Limits,
    shape: &[u64],
    background: &Bytes,
    pieces: &[Piece],
    fetched: &Fetched,
) -> Result<Vec<u8>, Failure> {
    let element = background.len();
    let mut whole = background.repeat(count(shape, element, limits)?);
    let mut before: Option<(&Piece, Vec<u8>)> = None;
    for piece in pieces {
        let elements = match before.take() {
            Some((one, elements))
                if (one.source, &one.bytes, &one.shape, &one.transform, &one.codecs)
                    == (piece.source, &piece.bytes, &piece.shape, &piece.transform, &piece.codecs) =>
            {
                elements
            }
            _ => elements(limits, piece, fetched, element)?,
        };
        place(&mut whole, shape, &elements, piece, element)?;
        before = Some((piece, elements));
    }
    Ok(whole)
}

/// Returns all elements of a piece, `element` bytes each.
pub(super) fn elements(
    limits: &Limits,
    piece: &Piece,
    fetched: &Fetched,
    element: usize,
) -> Result<Vec<u8>, Failure> {
    let stored = decoded(limits, piece, fetched.piece(piece)?, element)?;
    match &piece.transform {
        ElementTransform::None => Ok(stored),
        transform => transform
            .apply(&stored, element)
            .ok_or_else(|| Failure::chunk("the array's data type cannot represent a stored number exactly")),
    }
}

/// Copies the used part of a piece into a chunk, both in C order, `element` bytes an element.
pub(super) fn place(
    chunk: &mut [u8],
    chunk_shape: &[u64],
    elements: &[u8],
    piece: &Piece,
    element: usize,
) -> Result<(), Failure> {
    let ranks = [&piece.shape, &piece.from, &piece.to, &piece.extent].map(Vec::len);
    let is_within = |shape: &[u64], start: &[u64]| {
        let mut axes = shape.iter().zip(start).zip(&piece.extent);
        axes.all(|((size, start), extent)| start.checked_add(*extent).is_some_and(|end| end <= *size))
    };
    let fits = ranks == [chunk_shape.len(); 4]
        && is_within(&piece.shape, &piece.from)
        && is_within(chunk_shape, &piece.to);
    let misfit = || Failure::chunk("a piece does not fit its chunk");
    if !fits {
        return Err(misfit());
    }
    let (to, from) = (Region::new(chunk_shape, &piece.to), Region::new(&piece.shape, &piece.from));
    copy_region((chunk, &to), (elements, &from), &piece.extent, element).ok_or_else(misfit)
}

/// Returns the number of elements of a shape, if they fit the memory limit.
pub(super) fn count(shape: &[u64], element: usize, limits: &Limits) -> Result<usize, Failure> {
    let fits =
        |count: &u64| count.checked_mul(element as u64).is_some_and(|bytes| bytes <= limits.structure_bytes);
    let count = decode::count(shape).filter(fits).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| too_large(&format!("{shape:?}")))
}

pub(super) fn too_large(shape: &str) -> Failure {
    Failure::Chunk(format!("a chunk of {shape} elements is too large to be inlined"))
}

/// Returns the decoded elements of a piece, as many as its shape needs. Unused ones at the end may be missing from the file.
fn decoded(limits: &Limits, piece: &Piece, bytes: &Bytes, element: usize) -> Result<Vec<u8>, Failure> {
    let stored = match piece.transform.stored_size() {
        None => element,
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    let expected = count(&piece.shape, stored, limits)?.saturating_mul(stored);
    let mut decoded = virtualize_codec::decode_up_to(&piece.codecs, bytes, expected)
        .map_err(|error| format!("{}: {error}", place_of(piece)))?;
    if decoded.len() < used_elements(piece).saturating_mul(stored).min(expected) {
        let (place, found) = (place_of(piece), decoded.len());
        return Err(format!("{place}: {found} bytes decoded, expected {expected}").into());
    }
    decoded.resize(expected, 0);
    Ok(decoded)
}

/// Returns the number of elements up to the last used one.
fn used_elements(piece: &Piece) -> usize {
    let axes = piece.shape.iter().zip(&piece.from).zip(&piece.extent);
    let last = axes.fold(0_u64, |index, ((size, from), extent)| {
        index.saturating_mul(*size).saturating_add(from.saturating_add(*extent).saturating_sub(1))
    });
    usize::try_from(last.saturating_add(1)).unwrap_or(usize::MAX)
}

fn place_of(piece: &Piece) -> String {
    match &piece.bytes {
        PieceBytes::At(range) => range.to_string(),
        PieceBytes::Here(_) => "elements in the metadata".to_owned(),
    }
}

/// Encodes a buffer in stored order with the array's codecs. Skips codecs that only order elements, and those that
/// calculate, since the pieces of a file are stored numbers.
pub(super) fn encode(codecs: &[Codec], raw: Vec<u8>) -> Result<Bytes, Failure> {
    let applies = |codec: &&Codec| {
        !codec.is_arithmetic()
            && !matches!(
                codec,
                Codec::Transpose { .. } | Codec::Bytes { .. } | Codec::VlenUtf8 | Codec::VlenBytes
            )
    };
    let rest: Vec<Codec> = codecs.iter().filter(applies).cloned().collect();
    match rest.as_slice() {
        [] => Ok(raw.into()),
        rest => Ok(virtualize_codec::encode(rest, &raw)?.into()),
    }
}

/// Returns one stream of bits, the least significant bit of a byte first: `prefix_bits` of the prefix, the rest, and
/// zero bits up to a whole word of `word` bytes.
pub(super) fn joined_bits(prefix: &[u8], prefix_bits: u32, rest: &[u8], word: u32) -> Vec<u8> {
    let whole = usize::try_from(prefix_bits / 8).unwrap_or(usize::MAX);
    let shift = prefix_bits % 8;
    let mut joined: Vec<u8> = prefix.iter().copied().take(whole).collect();
    let mut carry = match shift {
        0 => 0,
        _ => prefix.get(whole).copied().unwrap_or(0) & !(u8::MAX << shift),
    };
    for byte in rest {
        let [low, high] = (u16::from(*byte) << shift).to_le_bytes();
        joined.push(carry | low);
        carry = high;
    }
    if shift > 0 {
        joined.push(carry);
    }
    let word = usize::try_from(word.max(1)).unwrap_or(1);
    joined.resize(joined.len().next_multiple_of(word), 0);
    joined
}

#[cfg(test)]
mod tests {
    use virtualize_bytes::ByteRange;
    use virtualize_zarr::SourceId;

    use super::*;

    fn piece(shape: &[u64], from: &[u64], to: &[u64], extent: &[u64]) -> Piece {
        Piece {
            source: SourceId(0),
            bytes: PieceBytes::At(ByteRange::new(0, 1)),
            codecs: vec![],
            shape: shape.to_vec(),
            from: from.to_vec(),
            to: to.to_vec(),
            extent: extent.to_vec(),
            transform: ElementTransform::None,
        }
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let mut chunk = *b"....";
        for part in [
            piece(&[2], &[1], &[0], &[2]),
            piece(&[2], &[0], &[3], &[2]),
            piece(&[2], &[u64::MAX], &[0], &[2]),
            piece(&[2, 1], &[0, 0], &[0, 0], &[1, 1]),
        ] {
            assert!(place(&mut chunk, &[4], b"ab", &part, 1).is_err(), "{part:?}");
        }
        place(&mut chunk, &[4], b"ab", &piece(&[2], &[0], &[2], &[2]), 1).unwrap();
        assert_eq!(&chunk, b"..ab");
    }

    #[test]
    fn whole_bytes_are_adjacent() {
        assert_eq!(
            joined_bits(&[1, 2], 16, &[3, 4, 5, 6, 7, 8, 9], 8),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    /// The 12 bits 0x321, followed by 0x54 and 0x76, are 0x7654321.
    #[test]
    fn bits_follow_bits() {
        assert_eq!(joined_bits(&[0x21, 0xf3], 12, &[0x54, 0x76], 8), [0x21, 0x43, 0x65, 0x07, 0, 0, 0, 0]);
    }
}
