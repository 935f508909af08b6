use bytes::Bytes;
use virtualize_bytes::Limits;
use virtualize_map::{ElementTransform, Piece, PieceBytes};
use virtualize_zarr::Codec;

use super::sources::Fetched;
use super::{Failure, place};

/// The elements of a chunk in stored order: pieces on a background.
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
            Some((other, elements)) if decodes_alike(other, piece) => elements,
            _ => elements(limits, piece, fetched, element)?,
        };
        place::lay(&mut whole, shape, &elements, piece, element)?;
        before = Some((piece, elements));
    }
    Ok(whole)
}

/// Whether two pieces are parts of the same decoded elements.
fn decodes_alike(one: &Piece, other: &Piece) -> bool {
    one.source == other.source
        && one.bytes == other.bytes
        && one.shape == other.shape
        && one.transform == other.transform
        && one.codecs == other.codecs
}

/// All elements of a piece, `element` bytes each.
pub(super) fn elements(
    limits: &Limits,
    piece: &Piece,
    fetched: &Fetched,
    element: usize,
) -> Result<Vec<u8>, Failure> {
    let stored = decoded(limits, piece, fetched.piece(piece)?, element)?;
    converted(&piece.transform, stored, element)
}

/// How many elements a shape has, where that many may be held in memory.
pub(super) fn count(shape: &[u64], element: usize, limits: &Limits) -> Result<usize, Failure> {
    let count = shape.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
    count
        .filter(|count| {
            count.checked_mul(element as u64).is_some_and(|bytes| bytes <= limits.structure_bytes)
        })
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| Failure::Chunk(format!("a chunk of {shape:?} elements is too large to be inlined")))
}

/// The decoded elements of a piece, as many as its shape needs.
fn decoded(limits: &Limits, piece: &Piece, bytes: &Bytes, element: usize) -> Result<Vec<u8>, Failure> {
    let stored = match piece.transform.stored_size() {
        None => element,
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    let expected = count(&piece.shape, stored, limits)?.saturating_mul(stored);
    let mut decoded = virtualize_codec::decode(&piece.codecs, bytes, expected)
        .map_err(|reason| Failure::Chunk(format!("{}: {reason}", place_of(piece))))?;
    if decoded.len() < expected {
        let found = decoded.len();
        return Err(Failure::Chunk(format!(
            "{}: {found} bytes decoded, expected {expected}",
            place_of(piece)
        )));
    }
    decoded.truncate(expected);
    Ok(decoded)
}

fn place_of(piece: &Piece) -> String {
    match &piece.bytes {
        PieceBytes::At(range) => range.to_string(),
        PieceBytes::Here(_) => "elements that lie in the metadata".to_owned(),
    }
}

/// Stored elements as the array's, `element` bytes each.
fn converted(transform: &ElementTransform, stored: Vec<u8>, element: usize) -> Result<Vec<u8>, Failure> {
    match transform {
        ElementTransform::None => Ok(stored),
        other => other
            .apply(&stored, element)
            .ok_or_else(|| Failure::Chunk("stored elements have no place in the array's type".to_owned())),
    }
}

/// Encodes a buffer in stored order: the array's codecs without those that only lay out its elements, and without those that
/// calculate, since pieces of a file are stored numbers.
pub(super) fn encode(codecs: &[Codec], raw: Vec<u8>) -> Result<Bytes, Failure> {
    let laid_out = |codec: &&Codec| {
        !codec.is_arithmetic()
            && !matches!(
                codec,
                Codec::Transpose { .. } | Codec::Bytes { .. } | Codec::VlenUtf8 | Codec::VlenBytes
            )
    };
    let rest: Vec<Codec> = codecs.iter().filter(laid_out).cloned().collect();
    match rest.as_slice() {
        [] => Ok(raw.into()),
        rest => match virtualize_codec::encode(rest, &raw) {
            Ok(encoded) => Ok(encoded.into()),
            Err(error) => Err(Failure::Chunk(error.to_string())),
        },
    }
}
