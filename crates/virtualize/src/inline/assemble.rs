use bytes::Bytes;
use virtualize_bytes::Limits;
use virtualize_map::{ElementTransform, Piece};
use virtualize_zarr::Codec;

use super::{Failure, is_here, place};

/// The elements of a chunk in stored order: pieces on a background.
pub(super) fn chunk(
    limits: &Limits,
    shape: &[u64],
    background: &Bytes,
    pieces: &[Piece],
    encoded: &[Bytes],
) -> Result<Vec<u8>, Failure> {
    let element = background.len();
    let mut whole = background.repeat(count(shape, element, limits)?);
    for (piece, bytes) in pieces.iter().zip(encoded) {
        is_here(piece)?;
        let stored = decoded(limits, piece, bytes, element)?;
        let elements = converted(&piece.transform, stored, element)?;
        place::lay(&mut whole, shape, &elements, piece, element)?;
    }
    Ok(whole)
}

/// How many elements a shape has, where that many may be held in memory.
fn count(shape: &[u64], element: usize, limits: &Limits) -> Result<usize, Failure> {
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
    if bytes.len() as u64 != piece.range.length {
        return Err(Failure::Chunk(format!("{} cannot be read: the file ends before", piece.range)));
    }
    let stored = match piece.transform.stored_size() {
        None => element,
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    let expected = count(&piece.shape, stored, limits)?.saturating_mul(stored);
    let mut decoded = virtualize_codec::decode(&piece.codecs, bytes, expected)
        .map_err(|reason| Failure::Chunk(format!("{}: {reason}", piece.range)))?;
    if decoded.len() < expected {
        let found = decoded.len();
        return Err(Failure::Chunk(format!("{}: {found} bytes decoded, expected {expected}", piece.range)));
    }
    decoded.truncate(expected);
    Ok(decoded)
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

/// Encodes a buffer in stored order: the array's codecs without those that only lay out its elements.
pub(super) fn encode(codecs: &[Codec], raw: Vec<u8>) -> Result<Bytes, Failure> {
    let laid_out = |codec: &&Codec| {
        !matches!(codec, Codec::Transpose { .. } | Codec::Bytes { .. } | Codec::VlenUtf8 | Codec::VlenBytes)
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
